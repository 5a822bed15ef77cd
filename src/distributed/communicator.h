/* communicator.h - ranks that compute together: sums and copies of tensors between them.
 *
 * A rank is a process. All ranks of a communicator call the same collectives with the same sizes in
 * the same order. Sums are taken in the order of ranks, ((r0 + r1) + r2) + ..., in fp32, and rounded
 * once: the result has the same bits on every run and on every rank, and is that of one process which
 * adds up the same tensors one after the other. (NCCL chooses its own order; it is the same on every run.)
 *
 *   kind     between                    memory
 *   shared   processes of one host      the host's; that of communicator_memory_create is not copied
 *   mpi      hosts                      the host's; inside a host it is `shared`
 *   nccl     GPUs                       a GPU's; collectives are enqueued on streams, also while a CUDA
 *                                       graph is captured
 *
 * A collective that cannot be completed, because a rank died, is stopped or failed, fails on every
 * other rank within world_options.timeout_s with a message that names the rank, its host and what it
 * was doing. After a failure a communicator can only be destroyed. */
#ifndef DISTRIBUTED_COMMUNICATOR_H
#define DISTRIBUTED_COMMUNICATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "tensor/dtype.h"

struct world; /* distributed/world.h: the ranks of this job */

typedef struct communicator communicator;

typedef enum communicator_kind {
    COMMUNICATOR_SHARED,
    COMMUNICATOR_MPI,
    COMMUNICATOR_NCCL,
    COMMUNICATOR_KIND_COUNT
} communicator_kind;

typedef enum collective_op {
    COLLECTIVE_ALL_REDUCE,     /* to[i] = sum over ranks of from[i], i < count */
    COLLECTIVE_REDUCE_SCATTER, /* to[i] = sum over ranks of from[rank * count + i] */
    COLLECTIVE_ALL_GATHER,     /* to[r * count + i] = from[i] of rank r */
    COLLECTIVE_BROADCAST,      /* to[i] = from[i] of rank `root` */
    COLLECTIVE_BARRIER,        /* no rank goes on before all are there */
    COLLECTIVE_OP_COUNT
} collective_op;

/* One collective, with the count of NCCL: the elements of the whole tensor for all-reduce and
 * broadcast, of one rank's part for reduce-scatter and all-gather. In place means: `to` is `from` for
 * all-reduce and broadcast, `to` is from + rank * count for reduce-scatter, `from` is to + rank * count
 * for all-gather. Other overlaps are not allowed. Types are f32, bf16 and f16; broadcast and all-gather
 * copy any type. A count of 0 does nothing. `from` of a broadcast may be NULL on ranks other than
 * `root`. */
typedef struct collective {
    collective_op op;
    dtype type;
    const void *from;
    void *to;
    int64_t count;
    int root;     /* of a broadcast */
    void *stream; /* NCCL: the cudaStream_t it is enqueued on; otherwise NULL */
} collective;

/* ---- making one ---- */

typedef struct communicator_options {
    communicator_kind kind;
    int ranks; /* the first so many of the world; 0: all */
    /* Threads that one rank's sums use (base/threads.h); 0: as many as threads_count says. Those of
     * asynchronous collectives use one, beside the threads that compute. */
    int threads;
} communicator_options;

/* Collective over the whole world: every rank calls it with the same options. *out is NULL on failure,
 * and, with DYNO_OK, on ranks that are not among the first options->ranks. A communicator of one rank
 * needs no MPI nor anything else: it copies where `to` is not `from`. Where a kind is not there,
 * DYNO_UNSUPPORTED says what is missing, the same on every rank. Those of kind nccl belong to a GPU:
 * device_create_communicator (runtime/device.h) makes them, and the others as well. */
NODISCARD dyno_status communicator_create(struct world *w, const communicator_options *options,
                                          communicator **out);
/* Waits for collectives that were started, unless one failed. NULL is allowed. */
void communicator_destroy(communicator *c);

int communicator_rank(const communicator *c);
int communicator_count(const communicator *c);
communicator_kind communicator_kind_of(const communicator *c);

/* "shared", "mpi", "nccl"; "all-reduce", ... */
const char *communicator_kind_name(communicator_kind kind);
const char *collective_op_name(collective_op op);
bool collective_op_parse(const char *name, collective_op *op);
bool communicator_kind_parse(const char *name, communicator_kind *kind);

/* ---- memory that need not be copied ---- */

/* Collective: every rank calls it with the same size. *base is zeroed, page-aligned memory of this
 * rank; with `shared` and `mpi` the other ranks of the host read and write it where it lies. Any part
 * of it may be an operand, on each rank at the same offset; an operand whose offset differs between
 * ranks, or which is elsewhere on some rank, is copied through the segment. On failure *base is NULL.
 * Lack of memory is DYNO_OUT_OF_MEMORY on all ranks. */
NODISCARD dyno_status communicator_memory_create(communicator *c, int64_t bytes, void **base);
/* Collective, in the same order on all ranks. `base` may be NULL. No collective may be under way. */
void communicator_memory_destroy(communicator *c, void *base);

/* ---- collectives ---- */

/* Completed when it returns; with NCCL it is enqueued on the stream. */
NODISCARD dyno_status communicator_run(communicator *c, const collective *what);

/* A collective under way: 0 is none. */
typedef int64_t collective_handle;

/* Asynchronous: begins it and returns. Operands may not be touched before communicator_wait of its
 * handle. Collectives are carried out in the order in which they were started; communicator_run waits
 * for its turn. With NCCL a handle stands for the work enqueued so far on the stream. What is wrong
 * with the operands is reported here, what goes wrong later by the wait. */
NODISCARD dyno_status communicator_start(communicator *c, const collective *what,
                                         collective_handle *handle);
/* Waits until it is completed; also a second time. With NCCL the host waits, which a capture does not
 * allow: order streams by events there. Handle 0 is complete. */
NODISCARD dyno_status communicator_wait(communicator *c, collective_handle handle);
/* Whether a wait would return at once. */
bool communicator_is_complete(communicator *c, collective_handle handle);
/* Nanoseconds that were spent in collectives so far, from when this rank began each of them to its
 * end. 0 with NCCL, whose collectives run on streams. */
int64_t communicator_busy_ns(const communicator *c);

/* The same in short, synchronous, and for the host's memory. */
NODISCARD dyno_status communicator_all_reduce(communicator *c, const void *from, void *to,
                                              int64_t count, dtype type);
NODISCARD dyno_status communicator_reduce_scatter(communicator *c, const void *from, void *to,
                                                  int64_t count, dtype type);
NODISCARD dyno_status communicator_all_gather(communicator *c, const void *from, void *to,
                                              int64_t count, dtype type);
NODISCARD dyno_status communicator_broadcast(communicator *c, void *data, int64_t count, dtype type,
                                             int root);
NODISCARD dyno_status communicator_barrier(communicator *c);

/* ---- what it costs, before anything runs ---- */

/* Elements of `from` and of `to`. */
int64_t collective_from_count(const collective *what, int ranks);
int64_t collective_to_count(const collective *what, int ranks);
/* Bytes as nccl-tests counts them: those of the larger operand. Algorithm bandwidth is bytes / time;
 * bus bandwidth is algorithm bandwidth x 2(n-1)/n for all-reduce, (n-1)/n for reduce-scatter and
 * all-gather, 1 for broadcast. */
int64_t collective_bytes(const collective *what, int ranks);
double collective_bus_factor(collective_op op, int ranks);

/* ---- for those who implement a kind ---- */

typedef struct communicator_functions {
    dyno_status (*memory_create)(communicator *c, int64_t bytes, void **base);
    void (*memory_destroy)(communicator *c, void *base);
    /* Carries it out, or enqueues it. The operands are checked, the count is not 0. `threads` is what
     * it may use. */
    dyno_status (*run)(communicator *c, const collective *what, int threads);
    /* NULL where a thread of the communicator carries out what was started (`shared`, `mpi`). */
    dyno_status (*start)(communicator *c, const collective *what, collective_handle *handle);
    dyno_status (*wait)(communicator *c, collective_handle handle);
    bool (*is_complete)(communicator *c, collective_handle handle);
    void (*destroy)(communicator *c);
} communicator_functions;

/* Fills in what communicator.h knows of every kind, after a kind has made one by itself. */
void communicator_complete(communicator *c, struct world *w, const communicator_options *options);

struct communicator_queue; /* distributed/queue.h: collectives that were started */

/* Implementations embed it as their first member. */
struct communicator {
    const communicator_functions *functions;
    communicator_kind kind;
    int rank, count;
    int threads;
    struct world *world;
    struct communicator_queue *queue; /* NULL: none was started yet */
    _Atomic int64_t busy_ns;          /* in collectives, of either kind; not of NCCL's */
};

#endif
