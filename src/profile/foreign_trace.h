/* foreign_trace.h - the trace that another profiler made of another program, one record at a time.
 *
 *   Nsight Systems   an .sqlite file, as `nsys export --type sqlite` writes it
 *   PyTorch          the JSON of torch.profiler's export_chrome_trace, also compressed by gzip
 *
 * Which one a file is, its first bytes say. It is read twice: what the host did first, which is kept in
 * short (host_timeline.h), then the work of devices, of which every record is attributed and handed on
 * at once. The file may be anybody's: all of it is checked. */
#ifndef PROFILE_FOREIGN_TRACE_H
#define PROFILE_FOREIGN_TRACE_H

#include "profile/host_attribution.h"
#include "profile/kernel_classes.h"
#include "profile/launch_record.h"

/* Of a file whose records say themselves what they are of. */
#define FOREIGN_FORMAT_OWN "dyno"

/* What the file holds besides its records. */
typedef struct foreign_trace {
    const char *format;         /* "Nsight Systems", "PyTorch", FOREIGN_FORMAT_OWN */
    bool is_of_host;            /* no device did anything: the records are the host's operations */
    int64_t records;            /* that were handed on, */
    int64_t joined[JOIN_COUNT]; /* how many of them in which way, */
    int64_t in_graphs;          /* and how many a launch of a CUDA graph caused */
    int64_t outside_steps;      /* records in no step, where there are steps */
    int64_t skipped;            /* events of a kind that is not read: counters, metadata, ... */
    int steps;                  /* 0: the program marks none */
} foreign_trace;

/* A stretch of the host's own time: a step, or a range that names a phase. */
typedef struct foreign_range {
    const char *phase; /* NULL: it is a step */
    int64_t process, begin_ns, end_ns;
} foreign_range;

/* Each function gets `caller`; a failure of one ends the reading with it. */
typedef struct foreign_visitor {
    void *caller;
    kernel_classes *classes;
    /* Texts of the record hold during the call only. share_ns is its whole duration. */
    dyno_status (*on_record)(void *caller, const launch_record *record);
    dyno_status (*on_range)(void *caller, const foreign_range *range);
    void (*on_progress)(void *caller, double done); /* of 1; may be NULL */
} foreign_visitor;

/* `out` is filled as far as the reading came. base/stop.h is asked now and then. */
NODISCARD dyno_status foreign_trace_read(const char *path, const foreign_visitor *visitor,
                                         foreign_trace *out);

/* ---- for the readers ---- */

/* What a kernel whose name is "" or not known is called. */
#define FOREIGN_KERNEL_WITHOUT_NAME "(kernel without a name)"

/* A kernel that may be the product that an operation's FLOPs are of. */
typedef struct foreign_product {
    int64_t correlation, id; /* of the call; of the op, 0: unknown */
    int64_t ns;
    const char *class_name; /* by the kernel's name; set by foreign_note_kernel */
} foreign_product;

typedef struct foreign_reading {
    const char *path;
    const foreign_visitor *visitor;
    foreign_trace *trace;
    host_timeline *timeline;
    host_attributor *attributor;
    foreign_product *products; /* until the host is sealed */
    int64_t product_count, product_capacity;
} foreign_reading;

NODISCARD dyno_status read_pytorch(foreign_reading *reading);
NODISCARD dyno_status read_nsys(foreign_reading *reading);

/* Tells of a kernel before the host is sealed, where the operations' FLOPs are known. */
NODISCARD dyno_status foreign_note_kernel(foreign_reading *reading, const char *name,
                                          foreign_product product);
/* Seals the timeline and hands on its steps and the ranges that name phases. */
NODISCARD dyno_status foreign_seal_host(foreign_reading *reading);
/* Attributes the work of a device, of which the times, the names, the extents, the device, the stream
 * and the correlation are set, and hands it on. A phase that is set stands, with scope, op and costs, and so
 * does a class. `id` is that of the op that launched it; 0: unknown. */
NODISCARD dyno_status foreign_hand_on(foreign_reading *reading, int64_t process, int64_t id,
                                      launch_record *record);
/* Hands on the operations of the host by the time that each takes itself. */
NODISCARD dyno_status foreign_hand_on_host(foreign_reading *reading);

#endif
