/* shared.c - collectives through shared memory.
 *
 * All-reduce: the tensor is cut into a part for each rank. A rank reads its part of every rank's
 * operand, adds them up in the order of ranks and writes the sum to every rank's result. Each byte is
 * read once and written once, wherever it lies.
 *
 * Operands in ordinary memory go through the slots of the group, a chunk at a time: chunks are small
 * enough to stay in the caches, so that the main memory sees little more than the operands
 * themselves. While a chunk's sums are copied out, the next one is added up and the one after that is
 * copied in:
 *
 *     in(0) | sum(0) in(1) | out(0) sum(1) in(2) | out(1) sum(2) ...     | is a meeting
 */
#include "distributed/shared.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "distributed/sums.h"
#include "distributed/world.h"

enum { LINE_ELEMENTS = 64, THREAD_BYTES = 64 * 1024 };

typedef struct shared_communicator {
    communicator base;
    host_group *group;
} shared_communicator;

/* A collective under way. */
typedef struct shared_run {
    host_group *group;
    const collective *what;
    int index, members, threads;
    int64_t element; /* bytes of one */
    const host_offer *offers;
    bool is_direct;
} shared_run;

/* ---- parts of the work ---- */

shared_range shared_part(int64_t count, int index, int parts) {
    int64_t lines = (count + LINE_ELEMENTS - 1) / LINE_ELEMENTS;
    int64_t begin = lines * index / parts * LINE_ELEMENTS;
    int64_t end = lines * (index + 1) / parts * LINE_ELEMENTS;
    return (shared_range){begin < count ? begin : count, end < count ? end : count};
}

typedef struct copy_job {
    char *to;
    const char *from;
} copy_job;

static void copy_range(void *context, int64_t begin, int64_t end) {
    const copy_job *job = context;
    memcpy(job->to + begin, job->from + begin, (size_t)(end - begin));
}

static void copy_range_through(void *context, int64_t begin, int64_t end) {
    const copy_job *job = context;
    sums_copy_through(job->to + begin, job->from + begin, end - begin);
}

static void copy_by(threads_range *copy, copy_job job, int64_t bytes, int threads) {
    if (job.to == job.from)
        return;
    if (threads > 1)
        threads_for(bytes, THREAD_BYTES, copy, &job);
    else
        copy(&job, 0, bytes);
}

void shared_copy(void *to, const void *from, int64_t bytes, int threads) {
    copy_by(copy_range, (copy_job){to, from}, bytes, threads);
}

void shared_copy_through(void *to, const void *from, int64_t bytes, int threads) {
    copy_by(copy_range_through, (copy_job){to, from}, bytes, threads);
}

typedef struct sum_job {
    dtype type;
    const void *const *from;
    int from_count;
    void *const *to;
    int to_count;
    char *copy; /* of the one result, past the caches, for others to read; NULL: none */
} sum_job;

/* In blocks that stay in the first-level cache: the copy for others is made from there. */
static void sum_and_copy(const sum_job *job, const void **from, char *to, char *copy,
                         int64_t count) {
    enum { BLOCK_BYTES = 8192 };
    int64_t block = BLOCK_BYTES / dtype_bytes(job->type);
    for (int64_t at = 0; at < count; at += block) {
        int64_t n = count - at < block ? count - at : block, bytes = n * dtype_bytes(job->type);
        sums_write(job->type, from, job->from_count, (void *const[]){to}, 1, n);
        sums_copy_through(copy, to, bytes);
        for (int k = 0; k < job->from_count; k++)
            from[k] = (const char *)from[k] + bytes;
        to += bytes;
        copy += bytes;
    }
}

static void sum_range(void *context, int64_t begin, int64_t end) {
    const sum_job *job = context;
    const void *from[MEETING_MOST_MEMBERS];
    void *to[MEETING_MOST_MEMBERS];
    int64_t skip = begin * dtype_bytes(job->type);
    for (int k = 0; k < job->from_count; k++)
        from[k] = (const char *)job->from[k] + skip;
    for (int k = 0; k < job->to_count; k++)
        to[k] = (char *)job->to[k] + skip;
    if (job->copy)
        sum_and_copy(job, from, to[0], job->copy + skip, end - begin);
    else
        sums_write(job->type, from, job->from_count, to, job->to_count, end - begin);
}

static void sum_by(sum_job job, int64_t count, int threads) {
    if (count <= 0)
        return;
    if (threads > 1)
        threads_for(count, THREAD_BYTES / dtype_bytes(job.type), sum_range, &job);
    else
        sum_range(&job, 0, count);
}

/* ---- operands that all ranks have mapped ---- */

static void reduce_direct(const shared_run *r, shared_range part, bool to_all) {
    const void *from[MEETING_MOST_MEMBERS];
    void *to[MEETING_MOST_MEMBERS];
    for (int k = 0; k < r->members; k++) {
        from[k] = host_group_at(r->group, r->offers[k].from, k) + part.begin * r->element;
        if (to_all)
            to[k] = host_group_at(r->group, r->offers[k].to, k) + part.begin * r->element;
    }
    if (!to_all)
        to[0] = r->what->to;
    sum_job job = {.type = r->what->type,
                   .from = from,
                   .from_count = r->members,
                   .to = to,
                   .to_count = to_all ? r->members : 1};
    sum_by(job, part.end - part.begin, r->threads);
}

static void gather_direct(const shared_run *r) {
    int64_t bytes = r->what->count * r->element;
    for (int step = 0; step < r->members; step++) {
        int k = (r->index + step) % r->members; /* not all from the same rank at once */
        shared_copy((char *)r->what->to + k * bytes,
                    k == r->index ? r->what->from : host_group_at(r->group, r->offers[k].from, k),
                    bytes, r->threads);
    }
}

static dyno_status run_direct(const shared_run *r) {
    const collective *what = r->what;
    switch (what->op) {
    case COLLECTIVE_ALL_REDUCE:
        reduce_direct(r, shared_part(what->count, r->index, r->members), true);
        break;
    case COLLECTIVE_REDUCE_SCATTER:
        reduce_direct(r, (shared_range){r->index * what->count, (r->index + 1) * what->count},
                      false);
        break;
    case COLLECTIVE_ALL_GATHER:
        gather_direct(r);
        break;
    case COLLECTIVE_BROADCAST:
        shared_copy(what->to,
                    r->index == what->root
                        ? what->from
                        : host_group_at(r->group, r->offers[what->root].from, what->root),
                    what->count * r->element, r->threads);
        break;
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_OP_COUNT:
        break;
    }
    return host_group_meet(r->group); /* operands may be written to again */
}

/* ---- operands that are copied through the slots ---- */

/* Elements of a chunk: of the whole tensor, or of each rank's part. */
static int64_t chunk_elements(const shared_run *r) {
    int64_t elements = HOST_GROUP_SLOT_BYTES / r->element;
    if (r->what->op == COLLECTIVE_REDUCE_SCATTER)
        elements /= r->members;
    int64_t lines = elements / LINE_ELEMENTS;
    return lines > 0 ? lines * LINE_ELEMENTS : elements > 0 ? elements : 1;
}

static shared_range chunk_at(const shared_run *r, int64_t chunk) {
    int64_t size = chunk_elements(r), count = r->what->count;
    int64_t begin = chunk * size, end = begin + size;
    return (shared_range){begin < count ? begin : count, end < count ? end : count};
}

/* Where rank k's part of the chunk is, for sums: in all of the tensor, and in the chunk. */
typedef struct chunk_part {
    int64_t in_tensor, in_chunk, count;
} chunk_part;

static chunk_part part_of(const shared_run *r, int64_t chunk, int k) {
    shared_range range = chunk_at(r, chunk);
    int64_t n = range.end - range.begin;
    if (r->what->op == COLLECTIVE_REDUCE_SCATTER)
        return (chunk_part){k * r->what->count + range.begin, k * n, n};
    shared_range part = shared_part(n, k, r->members);
    return (chunk_part){range.begin + part.begin, part.begin, part.end - part.begin};
}

static bool reduces(const collective *what) {
    return what->op == COLLECTIVE_ALL_REDUCE || what->op == COLLECTIVE_REDUCE_SCATTER;
}

/* A rank adds up its own part itself: the others need it not. */
static void copy_in(const shared_run *r, int64_t chunk) {
    const collective *what = r->what;
    shared_range range = chunk_at(r, chunk);
    char *slot = host_group_staging(r->group, r->group->chunks + chunk, r->index);
    const char *from = what->from;
    if (range.begin >= range.end)
        return;
    if (!reduces(what)) {
        if (what->op != COLLECTIVE_BROADCAST || r->index == what->root)
            shared_copy_through(slot, from + range.begin * r->element,
                                (range.end - range.begin) * r->element, r->threads);
        return;
    }
    for (int k = 0; k < r->members; k++) {
        chunk_part part = part_of(r, chunk, k);
        if (k != r->index)
            shared_copy_through(slot + part.in_chunk * r->element,
                                from + part.in_tensor * r->element, part.count * r->element,
                                r->threads);
    }
}

static void sum_chunk(const shared_run *r, int64_t chunk) {
    const collective *what = r->what;
    int64_t slot = r->group->chunks + chunk;
    chunk_part part = part_of(r, chunk, r->index);
    int64_t in_chunk = part.in_chunk * r->element, in_tensor = part.in_tensor * r->element;
    const void *from[MEETING_MOST_MEMBERS];
    for (int k = 0; k < r->members; k++)
        from[k] = k == r->index ? (const char *)what->from + in_tensor
                                : host_group_staging(r->group, slot, k) + in_chunk;
    bool scatters = what->op == COLLECTIVE_REDUCE_SCATTER;
    void *to = (char *)what->to + (scatters ? chunk_at(r, chunk).begin * r->element : in_tensor);
    sum_job job = {.type = what->type,
                   .from = from,
                   .from_count = r->members,
                   .to = &to,
                   .to_count = 1,
                   .copy = scatters ? NULL : host_group_result(r->group, slot) + in_chunk};
    sum_by(job, part.count, r->threads);
}

static void copy_out(const shared_run *r, int64_t chunk) {
    const collective *what = r->what;
    shared_range range = chunk_at(r, chunk);
    int64_t bytes = (range.end - range.begin) * r->element, skip = range.begin * r->element;
    int64_t slot = r->group->chunks + chunk;
    char *to = what->to;
    if (what->op == COLLECTIVE_BROADCAST)
        shared_copy(to + skip,
                    r->index == what->root ? (const char *)what->from + skip
                                           : host_group_staging(r->group, slot, what->root),
                    bytes, r->threads);
    for (int k = 0; k < r->members && what->op == COLLECTIVE_ALL_GATHER; k++)
        shared_copy(to + k * what->count * r->element + skip,
                    k == r->index ? (const char *)what->from + skip
                                  : host_group_staging(r->group, slot, k),
                    bytes, r->threads);
    for (int k = 0; k < r->members && what->op == COLLECTIVE_ALL_REDUCE; k++) {
        chunk_part part = part_of(r, chunk, k);
        if (k != r->index)
            shared_copy(to + part.in_tensor * r->element,
                        host_group_result(r->group, slot) + part.in_chunk * r->element,
                        part.count * r->element, r->threads);
    }
}

/* The first chunk is in the slots. */
static dyno_status run_staged(const shared_run *r) {
    bool sums_all = r->what->op == COLLECTIVE_ALL_REDUCE;
    int64_t size = chunk_elements(r), chunks = (r->what->count + size - 1) / size;
    for (int64_t chunk = 0; chunk < chunks + sums_all; chunk++) {
        if (chunk > 0)
            RETURN_IF_FAILED(host_group_meet(r->group));
        if (sums_all && chunk > 0)
            copy_out(r, chunk - 1);
        if (chunk == chunks)
            break;
        if (reduces(r->what))
            sum_chunk(r, chunk);
        else
            copy_out(r, chunk);
        copy_in(r, chunk + 1);
    }
    r->group->chunks += chunks;
    return DYNO_OK;
}

/* ---- a collective ---- */

/* For the sums of all-reduce the results must be mapped, too; what is copied may go anywhere. */
static bool is_mapped(const host_offer *offer) {
    return offer->from.region >= 0 && (offer->op != COLLECTIVE_ALL_REDUCE || offer->to.region >= 0);
}

static host_offer make_offer(const shared_run *r) {
    const collective *what = r->what;
    host_offer offer = {
        .op = what->op, .type = (int)what->type, .root = what->root, .count = what->count};
    offer.from = offer.to = (host_place){-1, 0};
    if (what->op == COLLECTIVE_BARRIER)
        return offer;
    if (what->from)
        offer.from = host_group_find(r->group, what->from,
                                     collective_from_count(what, r->members) * r->element);
    offer.to =
        host_group_find(r->group, what->to, collective_to_count(what, r->members) * r->element);
    return offer;
}

static dyno_status check_offers(const shared_run *r, const communicator *c) {
    const host_offer *first = &r->offers[0];
    for (int k = 1; k < r->members; k++) {
        const host_offer *o = &r->offers[k];
        if (o->op != first->op || o->count != first->count || o->root != first->root ||
            (o->op != COLLECTIVE_BARRIER && o->type != first->type))
            return dyno_fail(
                DYNO_INVALID,
                "ranks call different collectives: rank %d %s of %lld %s, root %d; rank %d %s of "
                "%lld %s, root %d",
                world_first_of_host(c->world), collective_op_name((collective_op)first->op),
                (long long)first->count, dtype_name((dtype)first->type), first->root,
                world_first_of_host(c->world) + k, collective_op_name((collective_op)o->op),
                (long long)o->count, dtype_name((dtype)o->type), o->root);
    }
    return DYNO_OK;
}

static dyno_status run(communicator *c, const collective *what, int threads) {
    shared_communicator *s = (shared_communicator *)c;
    host_group *g = s->group;
    host_offer *offers = g->offers[g->calls++ & 1];
    shared_run r = {.group = g,
                    .what = what,
                    .index = g->meeting.index,
                    .members = g->meeting.count,
                    .threads = threads,
                    .element = dtype_bytes(what->type),
                    .offers = offers};
    offers[r.index] = make_offer(&r);
    bool copies_first = what->op != COLLECTIVE_BARRIER && !is_mapped(&offers[r.index]);
    if (copies_first)
        copy_in(&r, 0);
    RETURN_IF_FAILED(host_group_meet(g));
    RETURN_IF_FAILED(check_offers(&r, c));
    if (what->op == COLLECTIVE_BARRIER)
        return DYNO_OK;
    int mapped = 0, senders = 0;
    for (int k = 0; k < r.members; k++) {
        if (what->op == COLLECTIVE_BROADCAST && k != what->root)
            continue;
        senders++;
        mapped += is_mapped(&offers[k]);
    }
    if (mapped == senders)
        return run_direct(&r);
    if (mapped > 0) { /* on some ranks: those copy now */
        if (!copies_first)
            copy_in(&r, 0);
        RETURN_IF_FAILED(host_group_meet(g));
    }
    return run_staged(&r);
}

static dyno_status memory_create(communicator *c, int64_t bytes, void **base) {
    return host_group_add_region(((shared_communicator *)c)->group, bytes, base);
}

static void memory_destroy(communicator *c, void *base) {
    host_group_remove_region(((shared_communicator *)c)->group, base);
}

static void destroy(communicator *c) {
    host_group_destroy(((shared_communicator *)c)->group);
    free(c);
}

static const communicator_functions FUNCTIONS = {.memory_create = memory_create,
                                                 .memory_destroy = memory_destroy,
                                                 .run = run,
                                                 .destroy = destroy};

dyno_status shared_create(struct world *w, int ranks, communicator **out) {
    host_group *group;
    *out = NULL;
    if (world_hosts(w) > 1)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "the transport shared is for ranks of one host, and these are on %d; use "
                         "mpi",
                         world_hosts(w));
    RETURN_IF_FAILED(host_group_create(w, ranks, &group));
    if (!group)
        return DYNO_OK;
    shared_communicator *s = memory_allocate(1, sizeof *s);
    s->base.functions = &FUNCTIONS;
    s->group = group;
    *out = &s->base;
    return DYNO_OK;
}
