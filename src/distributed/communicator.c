/* communicator.c - what all kinds have in common: checks of the operands, names, costs, the order of
 * asynchronous collectives, and communicators of one rank. */
#define _GNU_SOURCE
#include "distributed/communicator.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "distributed/mpi.h"
#include "distributed/queue.h"
#include "distributed/shared.h"
#include "distributed/sums.h"
#include "distributed/world.h"

static const char *const KIND_NAMES[COMMUNICATOR_KIND_COUNT] = {"shared", "mpi", "nccl"};
static const char *const OP_NAMES[COLLECTIVE_OP_COUNT] = {"all-reduce", "reduce-scatter",
                                                          "all-gather", "broadcast", "barrier"};

const char *communicator_kind_name(communicator_kind kind) { return KIND_NAMES[kind]; }
const char *collective_op_name(collective_op op) { return OP_NAMES[op]; }

static int find_name(const char *name, const char *const *names, int count) {
    int i = 0;
    while (i < count && strcmp(names[i], name) != 0)
        i++;
    return i;
}

bool collective_op_parse(const char *name, collective_op *op) {
    *op = (collective_op)find_name(name, OP_NAMES, COLLECTIVE_OP_COUNT);
    return *op != COLLECTIVE_OP_COUNT;
}

bool communicator_kind_parse(const char *name, communicator_kind *kind) {
    *kind = (communicator_kind)find_name(name, KIND_NAMES, COMMUNICATOR_KIND_COUNT);
    return *kind != COMMUNICATOR_KIND_COUNT;
}

/* ---- costs ---- */

int64_t collective_from_count(const collective *what, int ranks) {
    return what->op == COLLECTIVE_REDUCE_SCATTER ? what->count * ranks
           : what->op == COLLECTIVE_BARRIER      ? 0
                                                 : what->count;
}

int64_t collective_to_count(const collective *what, int ranks) {
    return what->op == COLLECTIVE_ALL_GATHER ? what->count * ranks
           : what->op == COLLECTIVE_BARRIER  ? 0
                                             : what->count;
}

int64_t collective_bytes(const collective *what, int ranks) {
    int64_t from = collective_from_count(what, ranks), to = collective_to_count(what, ranks);
    return (from > to ? from : to) * dtype_bytes(what->type);
}

double collective_bus_factor(collective_op op, int ranks) {
    double part = (double)(ranks - 1) / ranks;
    return op == COLLECTIVE_ALL_REDUCE                                      ? 2 * part
           : op == COLLECTIVE_REDUCE_SCATTER || op == COLLECTIVE_ALL_GATHER ? part
                                                                            : 1;
}

/* ---- a single rank ---- */

static dyno_status run_alone(communicator *c, const collective *what, int threads) {
    (void)c;
    if (what->op != COLLECTIVE_BARRIER)
        shared_copy(what->to, what->from, what->count * dtype_bytes(what->type), threads);
    return DYNO_OK;
}

/* The size stands before the memory, a page of its own. */
enum { SIZE_PAGE = 4096 };

static dyno_status memory_create_alone(communicator *c, int64_t bytes, void **base) {
    (void)c;
    int64_t whole = bytes + SIZE_PAGE;
    void *at = memory_is_refused() ? MAP_FAILED
                                   : mmap(NULL, (size_t)whole, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "the system refuses %s of memory",
                         units_bytes(bytes).text);
    memcpy(at, &whole, sizeof whole);
    *base = (char *)at + SIZE_PAGE;
    return DYNO_OK;
}

static void memory_destroy_alone(communicator *c, void *base) {
    (void)c;
    char *at = (char *)base - SIZE_PAGE;
    int64_t whole;
    memcpy(&whole, at, sizeof whole);
    munmap(at, (size_t)whole);
}

static void destroy_alone(communicator *c) { free(c); }

static const communicator_functions ALONE = {.memory_create = memory_create_alone,
                                             .memory_destroy = memory_destroy_alone,
                                             .run = run_alone,
                                             .destroy = destroy_alone};

/* ---- making one ---- */

static dyno_status create_alone(struct world *w, communicator **out) {
    if (world_rank(w) > 0)
        return DYNO_OK;
    *out = memory_allocate(1, sizeof **out);
    (*out)->functions = &ALONE;
    return DYNO_OK;
}

static dyno_status create(struct world *w, const communicator_options *options, int ranks,
                          communicator **out) {
    switch (options->kind) {
    case COMMUNICATOR_SHARED:
        return ranks == 1 ? create_alone(w, out) : shared_create(w, ranks, out);
    case COMMUNICATOR_MPI:
        return ranks == 1 ? create_alone(w, out) : mpi_create(w, ranks, out);
    case COMMUNICATOR_NCCL:
    case COMMUNICATOR_KIND_COUNT:
        break;
    }
    return dyno_fail(DYNO_UNSUPPORTED,
                     "NCCL is for GPUs: device_create_communicator makes its communicators");
}

void communicator_complete(communicator *c, struct world *w, const communicator_options *options) {
    c->kind = options->kind;
    c->rank = world_rank(w);
    c->count = options->ranks ? options->ranks : world_count(w);
    c->threads = options->threads > 0 ? options->threads : threads_count();
    c->world = w;
}

dyno_status communicator_create(struct world *w, const communicator_options *options,
                                communicator **out) {
    *out = NULL;
    int ranks = options->ranks ? options->ranks : world_count(w);
    if (ranks < 1 || ranks > world_count(w))
        return dyno_fail(DYNO_INVALID, "a communicator of %d ranks: this job has %d", ranks,
                         world_count(w));
    RETURN_IF_FAILED(create(w, options, ranks, out));
    if (*out)
        communicator_complete(*out, w, options);
    return DYNO_OK;
}

void communicator_destroy(communicator *c) {
    if (!c)
        return;
    queue_destroy(c->queue);
    c->functions->destroy(c);
}

int communicator_rank(const communicator *c) { return c->rank; }
int communicator_count(const communicator *c) { return c->count; }
communicator_kind communicator_kind_of(const communicator *c) { return c->kind; }

/* ---- memory ---- */

dyno_status communicator_memory_create(communicator *c, int64_t bytes, void **base) {
    enum { MOST_BYTES_LOG2 = 46 };
    *base = NULL;
    if (bytes < 1 || bytes > (int64_t)1 << MOST_BYTES_LOG2)
        return dyno_fail(DYNO_INVALID,
                         "memory that ranks share: %lld bytes, it must be 1 to 2^%d bytes",
                         (long long)bytes, MOST_BYTES_LOG2);
    if (c->queue)
        RETURN_IF_FAILED(queue_wait(c->queue, INT64_MAX));
    return c->functions->memory_create(c, bytes, base);
}

void communicator_memory_destroy(communicator *c, void *base) {
    if (base)
        c->functions->memory_destroy(c, base);
}

/* ---- collectives ---- */

static dyno_status check(const communicator *c, const collective *what) {
    const char *name = collective_op_name(what->op);
    int64_t bytes;
    if (what->op == COLLECTIVE_BARRIER)
        return DYNO_OK;
    if (what->count < 0 || !checked_multiply(what->count, (int64_t)c->count * 8, &bytes))
        return dyno_fail(DYNO_INVALID, "%s of %lld elements", name, (long long)what->count);
    bool reduces = what->op == COLLECTIVE_ALL_REDUCE || what->op == COLLECTIVE_REDUCE_SCATTER;
    if (reduces && !sums_have_type(what->type))
        return dyno_fail(DYNO_UNSUPPORTED, "%s of %s: sums are of f32, bf16 and f16", name,
                         dtype_name(what->type));
    bool is_sender = what->op != COLLECTIVE_BROADCAST || what->root == c->rank;
    if (what->count > 0 && (!what->to || (is_sender && !what->from)))
        return dyno_fail(DYNO_INVALID, "%s: an operand is NULL", name);
    if (what->op == COLLECTIVE_BROADCAST && (what->root < 0 || what->root >= c->count))
        return dyno_fail(DYNO_INVALID, "broadcast from rank %d of %d", what->root, c->count);
    return DYNO_OK;
}

static bool does_nothing(const collective *what) {
    return what->op != COLLECTIVE_BARRIER && what->count == 0;
}

dyno_status communicator_run(communicator *c, const collective *what) {
    RETURN_IF_FAILED(check(c, what));
    if (does_nothing(what))
        return DYNO_OK;
    if (c->queue)
        RETURN_IF_FAILED(queue_wait(c->queue, INT64_MAX));
    world_set_collective(c->world, (int)what->op);
    int64_t begin = clock_now_ns();
    dyno_status status = c->functions->run(c, what, c->threads);
    if (c->kind != COMMUNICATOR_NCCL)
        c->busy_ns += clock_now_ns() - begin;
    if (status == DYNO_OK) /* a failure is reported as one of the collective */
        world_set_collective(c->world, -1);
    return status;
}

dyno_status communicator_start(communicator *c, const collective *what, collective_handle *handle) {
    *handle = 0;
    RETURN_IF_FAILED(check(c, what));
    if (does_nothing(what))
        return DYNO_OK;
    if (c->functions->start)
        return c->functions->start(c, what, handle);
    if (!c->queue)
        RETURN_IF_FAILED(queue_create(c, &c->queue));
    *handle = queue_add(c->queue, what);
    return DYNO_OK;
}

dyno_status communicator_wait(communicator *c, collective_handle handle) {
    if (handle == 0)
        return DYNO_OK;
    if (c->functions->wait)
        return c->functions->wait(c, handle);
    world_set_collective(c->world, COLLECTIVE_BARRIER);
    dyno_status status = queue_wait(c->queue, handle);
    if (status == DYNO_OK)
        world_set_collective(c->world, -1);
    return status;
}

bool communicator_is_complete(communicator *c, collective_handle handle) {
    if (handle == 0)
        return true;
    if (c->functions->is_complete)
        return c->functions->is_complete(c, handle);
    return queue_is_complete(c->queue, handle);
}

int64_t communicator_busy_ns(const communicator *c) { return c->busy_ns; }

dyno_status communicator_all_reduce(communicator *c, const void *from, void *to, int64_t count,
                                    dtype type) {
    collective what = {
        .op = COLLECTIVE_ALL_REDUCE, .type = type, .from = from, .to = to, .count = count};
    return communicator_run(c, &what);
}

dyno_status communicator_reduce_scatter(communicator *c, const void *from, void *to, int64_t count,
                                        dtype type) {
    collective what = {
        .op = COLLECTIVE_REDUCE_SCATTER, .type = type, .from = from, .to = to, .count = count};
    return communicator_run(c, &what);
}

dyno_status communicator_all_gather(communicator *c, const void *from, void *to, int64_t count,
                                    dtype type) {
    collective what = {
        .op = COLLECTIVE_ALL_GATHER, .type = type, .from = from, .to = to, .count = count};
    return communicator_run(c, &what);
}

dyno_status communicator_broadcast(communicator *c, void *data, int64_t count, dtype type,
                                   int root) {
    collective what = {.op = COLLECTIVE_BROADCAST,
                       .type = type,
                       .from = data,
                       .to = data,
                       .count = count,
                       .root = root};
    return communicator_run(c, &what);
}

dyno_status communicator_barrier(communicator *c) {
    return communicator_run(c, &(collective){.op = COLLECTIVE_BARRIER});
}
