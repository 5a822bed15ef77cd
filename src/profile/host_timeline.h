/* host_timeline.h - what the host of a traced program did: its ranges, its operations and the calls
 * that launched work, by thread.
 *
 * A reader adds all of it in any order and seals it; then the work of devices is attributed to it
 * (host_attribution.h). Some 80 bytes are kept of each event, whatever its size in the file. What is
 * added is checked: a time that no clock could have is DYNO_CORRUPT, too many events are
 * DYNO_OUT_OF_MEMORY, both with a message. */
#ifndef PROFILE_HOST_TIMELINE_H
#define PROFILE_HOST_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/name_table.h"
#include "base/status.h"
#include "profile/range_names.h"

enum { HOST_NONE = -1, HOST_MOST_NESTING = 1024 };

/* A range or an operation. */
typedef struct host_span {
    int64_t begin_ns, end_ns;
    int64_t id;         /* "External id" of PyTorch's events; 0: none */
    int64_t sequence;   /* that an op of the backward shares with the forward's; HOST_NONE: none */
    double flops;       /* of a product; 0: not known */
    double bytes;       /* that it reads and writes at least, where its FLOPs are known */
    int64_t product_ns; /* how long the longest product that it launched ran */
    int thread, name;
    int around;       /* the first of the links to the spans around it; HOST_NONE: there is none */
    uint8_t kind;     /* a range_kind */
    bool is_backward; /* an op that says so itself */
    bool is_counted;  /* its FLOPs are those of a record already */
} host_span;

/* The spans that are open when a span begins are a list, the last to have begun first. A list may also have some that
 * have ended by then, but no more of them than are open. */
typedef struct host_link {
    int span, next; /* next: HOST_NONE at the end */
} host_link;

/* A call of the host that launched work. */
typedef struct host_call {
    int64_t process, correlation;
    int64_t begin_ns, end_ns;
    int64_t id; /* of the op it was made by; 0: not said */
    int thread;
} host_call;

typedef struct host_thread {
    int64_t process, id;
    int first_span, span_count; /* sorted by begin, those that begin together the longest first */
    int range_count;            /* of the program's own, steps among them */
    int64_t call_count;
} host_thread;

/* A step of one thread. Those of several threads of a process that have the same number and overlap are one step, and
 * so are the n-th with that number of several processes. Steps inside a step of their thread are parts of it, and
 * not here. */
typedef struct host_step {
    int64_t number, process, begin_ns, end_ns;
    int repetition; /* of its number in its process, from 0 */
    int index;      /* of the step, in the order in which they began */
    int thread;
} host_step;

typedef struct host_timeline {
    host_span *spans;
    int64_t span_count, span_capacity;
    host_link *links; /* of a sealed one */
    int64_t link_count, link_capacity;
    host_call *calls; /* sorted by process and correlation */
    int64_t call_count, call_capacity;
    host_thread *threads;
    int thread_count, thread_capacity;
    host_step *steps; /* sorted by begin */
    int64_t step_count, step_capacity;
    int step_numbers; /* different steps */
    int *by_sequence; /* op spans of the forward with a sequence number, by it and by begin */
    int64_t by_sequence_count;
    int *by_id; /* spans with an id, by it */
    int64_t by_id_count;
    name_table thread_names;
    name_table name_numbers;
    const char **names;
    const char **shown;      /* the names without numbers and arguments (range_names.h) */
    range_meaning *meanings; /* of the names */
    int name_count, name_capacity;
    int64_t name_bytes;
    bool has_program_ranges;
    arena *strings;
} host_timeline;

host_timeline *host_timeline_create(void);
void host_timeline_destroy(host_timeline *t);

/* The number of a name or thread, which is given one where it is new. */
NODISCARD dyno_status host_timeline_name(host_timeline *t, const char *name, int *out);
NODISCARD dyno_status host_timeline_thread(host_timeline *t, int64_t process, int64_t id, int *out);

/* `around` is not looked at. A kind other than RANGE_OF_PROGRAM stands; else the name says it. */
NODISCARD dyno_status host_timeline_add_span(host_timeline *t, host_span span);
NODISCARD dyno_status host_timeline_add_call(host_timeline *t, host_call call);

/* Sorts all of it and finds what is inside what. DYNO_CORRUPT where more than HOST_MOST_NESTING spans
 * of a thread are open at once. */
NODISCARD dyno_status host_timeline_seal(host_timeline *t);

/* The rest is for a sealed one. HOST_NONE or NULL when there is none. */
int host_timeline_innermost(const host_timeline *t, int thread, int64_t at_ns);
/* The next span around it that is still open at that time. */
int host_timeline_around(const host_timeline *t, int span, int64_t at_ns);
const host_call *host_timeline_find_call(const host_timeline *t, int64_t process,
                                         int64_t correlation);
int host_timeline_find_id(const host_timeline *t, int64_t id);
/* The op of the forward whose backward has this sequence number. Where several have it, the last to
 * begin is the one that made the backward; where they are of several threads, none is known. */
int host_timeline_find_forward(const host_timeline *t, int64_t sequence);
/* The index of the step that began on the thread at that time; HOST_NONE: none did. */
int host_timeline_step_of(const host_timeline *t, int thread, int64_t begin_ns);
/* The index of the step of the process that was under way; else of the last that began before, with
 * *is_inside false, and 0 before the first. `process` may be HOST_NONE: any. */
int host_timeline_find_step(const host_timeline *t, int64_t process, int64_t at_ns,
                            bool *is_inside);

#endif
