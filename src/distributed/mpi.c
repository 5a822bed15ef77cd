/* mpi.c - collectives of several hosts: shared memory inside each, MPI between their first ranks.
 *
 * Sums must be taken in the order of ranks. Ranks are numbered host by host, so a sum goes from host to
 * host: each adds its own ranks to what the one before sent, the last one has the result and sends it
 * back the same way. Chunks follow one another, so that all hosts are at work. A host sends every byte
 * about twice, as in a ring. Sums travel as fp32, whatever the type, and are rounded by the last host.
 *
 *     host 0  --sum(t)-->  host 1  --sum(t)-->  host 2
 *             <-result(u)-          <-result(u)-          u = t - 2 (hosts behind this one)
 *
 * In a step a host handles one chunk on its way up and one on its way back. What a step waits for was
 * sent in an earlier step, or by a host further down in the same: nobody waits in a circle.
 * All-gather goes the same ways with parts in place of sums; a broadcast goes away from its root. */
#include "distributed/mpi.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "distributed/host_group.h"
#include "distributed/mpi_module.h"
#include "distributed/mpi_wait.h"
#include "distributed/shared.h"
#include "distributed/sums.h"
#include "distributed/world.h"

/* A chunk has so many elements in all: as fp32 it fills a slot. */
enum { CHUNK_ELEMENTS = HOST_GROUP_SLOT_BYTES / 4 };

enum { UP, DOWN, WAYS }; /* towards the last host, towards the first */

typedef struct mpi_communicator {
    communicator base;
    host_group *group;
    const mpi_module *mpi;
    int host, hosts;
    int *first; /* rank of each host, and behind the last the number of ranks */
    int tag;    /* and tag + 1: of this communicator alone */
    /* In shared memory, two of each, used by turns. */
    char *sums;    /* fp32, on their way up */
    char *results; /* on their way down */
    mpi_transfer *sent[WAYS][2];
} mpi_communicator;

/* A collective under way. */
typedef struct mpi_run {
    mpi_communicator *m;
    const collective *what;
    int threads, index, members;
    int64_t element, chunk_size,
        chunks; /* elements of a chunk: of the tensor, or of a rank's part */
} mpi_run;

/* ---- between hosts ---- */

static bool is_first(const mpi_communicator *m) { return m->group->meeting.index == 0; }

static int first_of(const mpi_communicator *m, int host) { return m->first[host]; }

/* Only the first rank of a host sends and receives. */
static dyno_status receive(mpi_communicator *m, int host, int way, void *data, int64_t bytes) {
    mpi_transfer *transfer;
    if (!is_first(m) || bytes == 0)
        return DYNO_OK;
    RETURN_IF_FAILED(m->mpi->start_receive(world_mpi(m->base.world), first_of(m, host),
                                           m->tag + way, data, (size_t)bytes, &transfer));
    return mpi_wait(m->base.world, &transfer, first_of(m, host));
}

/* The slot may be written again after wait_sent. */
static dyno_status send(mpi_communicator *m, int host, int way, int64_t chunk, const void *data,
                        int64_t bytes) {
    if (!is_first(m) || bytes == 0)
        return DYNO_OK;
    return m->mpi->start_send(world_mpi(m->base.world), first_of(m, host), m->tag + way, data,
                              (size_t)bytes, &m->sent[way][chunk & 1]);
}

static dyno_status wait_sent(mpi_communicator *m, int way, int64_t chunk) {
    return is_first(m) ? mpi_wait(m->base.world, &m->sent[way][chunk & 1], -1) : DYNO_OK;
}

static dyno_status meet(const mpi_run *r) { return host_group_meet(r->m->group); }

/* ---- chunks ---- */

static bool has_parts(const collective *what) {
    return what->op == COLLECTIVE_REDUCE_SCATTER || what->op == COLLECTIVE_ALL_GATHER;
}

static shared_range chunk_at(const mpi_run *r, int64_t chunk) {
    int64_t begin = chunk * r->chunk_size, end = begin + r->chunk_size;
    return (shared_range){begin, end < r->what->count ? end : r->what->count};
}

static int64_t length_at(const mpi_run *r, int64_t chunk) {
    shared_range range = chunk_at(r, chunk);
    return range.end - range.begin;
}

/* Elements of the chunk that belong to ranks below `rank`; all of them where ranks have no parts. */
static int64_t elements_below(const mpi_run *r, int64_t chunk, int rank) {
    return length_at(r, chunk) * (has_parts(r->what) ? rank : 1);
}

static char *sums_of(const mpi_run *r, int64_t chunk) {
    return r->m->sums + (chunk & 1) * (int64_t)HOST_GROUP_SLOT_BYTES;
}

static char *results_of(const mpi_run *r, int64_t chunk) {
    return r->m->results + (chunk & 1) * (int64_t)HOST_GROUP_SLOT_BYTES;
}

static bool is_last_host(const mpi_communicator *m) { return m->host == m->hosts - 1; }

/* ---- sums ---- */

static void copy_in(const mpi_run *r, int64_t chunk) {
    const collective *what = r->what;
    shared_range range = chunk_at(r, chunk);
    int64_t n = range.end - range.begin;
    char *slot = host_group_staging(r->m->group, chunk, r->index);
    int parts = has_parts(what) ? r->m->base.count : 1;
    for (int k = 0; k < parts; k++)
        shared_copy_through(slot + k * n * r->element,
                            (const char *)what->from + (k * what->count + range.begin) * r->element,
                            n * r->element, r->threads);
}

static void copy_out_sums(const mpi_run *r, int64_t chunk) {
    const collective *what = r->what;
    shared_range range = chunk_at(r, chunk);
    int64_t n = range.end - range.begin;
    int part = has_parts(what) ? r->m->base.rank : 0;
    shared_copy((char *)what->to + range.begin * r->element,
                results_of(r, chunk) + part * n * r->element, n * r->element, r->threads);
}

/* This rank's part of the chunk: adds the host's ranks to what came from below. */
static void add_own(const mpi_run *r, int64_t chunk) {
    mpi_communicator *m = r->m;
    int64_t total = elements_below(r, chunk, m->base.count);
    shared_range part = shared_part(total, r->index, r->members);
    const void *from[MEETING_MOST_MEMBERS];
    for (int k = 0; k < r->members; k++)
        from[k] = host_group_staging(m->group, chunk, k) + part.begin * r->element;
    float *sums = (float *)sums_of(r, chunk) + part.begin;
    int64_t n = part.end - part.begin;
    sums_accumulate(r->what->type, sums, m->host == 0, from, r->members, n);
    if (is_last_host(m))
        sums_round(r->what->type, sums, results_of(r, chunk) + part.begin * r->element, n);
}

static dyno_status sum_up(const mpi_run *r, int64_t chunk) {
    mpi_communicator *m = r->m;
    int64_t bytes = elements_below(r, chunk, m->base.count) * (int64_t)sizeof(float);
    RETURN_IF_FAILED(wait_sent(m, UP, chunk));
    if (is_last_host(m))
        RETURN_IF_FAILED(wait_sent(m, DOWN, chunk)); /* its results are written below */
    copy_in(r, chunk);
    if (m->host > 0)
        RETURN_IF_FAILED(receive(m, m->host - 1, UP, sums_of(r, chunk), bytes));
    RETURN_IF_FAILED(meet(r));
    add_own(r, chunk);
    RETURN_IF_FAILED(meet(r));
    return is_last_host(m) ? DYNO_OK : send(m, m->host + 1, UP, chunk, sums_of(r, chunk), bytes);
}

/* Hosts further down get what their ranks need: everything, or the parts of ranks below this host. */
static dyno_status send_back(const mpi_run *r, int64_t chunk) {
    mpi_communicator *m = r->m;
    int64_t own = elements_below(r, chunk, first_of(m, m->host + 1)) * r->element;
    int64_t below = elements_below(r, chunk, first_of(m, m->host)) * r->element;
    if (!is_last_host(m)) {
        RETURN_IF_FAILED(wait_sent(m, DOWN, chunk));
        RETURN_IF_FAILED(receive(m, m->host + 1, DOWN, results_of(r, chunk), own));
        RETURN_IF_FAILED(meet(r));
    }
    if (m->host > 0)
        RETURN_IF_FAILED(send(m, m->host - 1, DOWN, chunk, results_of(r, chunk), below));
    copy_out_sums(r, chunk);
    return meet(r); /* before the slot is written again */
}

/* ---- parts of all ranks ---- */

/* Every rank puts its own part where all of the host find it. */
static void put_own(const mpi_run *r, int64_t chunk, char *parts) {
    shared_range range = chunk_at(r, chunk);
    int64_t n = range.end - range.begin;
    shared_copy_through(parts + r->m->base.rank * n * r->element,
                        (const char *)r->what->from + range.begin * r->element, n * r->element,
                        r->threads);
}

static void copy_out_parts(const mpi_run *r, int64_t chunk, const char *parts, int first, int end) {
    shared_range range = chunk_at(r, chunk);
    int64_t n = range.end - range.begin;
    for (int k = first; k < end; k++)
        shared_copy((char *)r->what->to + (k * r->what->count + range.begin) * r->element,
                    parts + k * n * r->element, n * r->element, r->threads);
}

/* Parts of ranks of lower hosts come from below; with the host's own they go up. */
static dyno_status gather_up(const mpi_run *r, int64_t chunk) {
    mpi_communicator *m = r->m;
    char *parts = sums_of(r, chunk);
    int64_t below = elements_below(r, chunk, first_of(m, m->host)) * r->element;
    int64_t own = elements_below(r, chunk, first_of(m, m->host + 1)) * r->element;
    RETURN_IF_FAILED(wait_sent(m, UP, chunk));
    RETURN_IF_FAILED(meet(r)); /* the slot is free on all ranks */
    put_own(r, chunk, parts);
    if (m->host > 0)
        RETURN_IF_FAILED(receive(m, m->host - 1, UP, parts, below));
    RETURN_IF_FAILED(meet(r));
    if (!is_last_host(m))
        RETURN_IF_FAILED(send(m, m->host + 1, UP, chunk, parts, own));
    copy_out_parts(r, chunk, parts, 0, first_of(m, m->host + 1));
    return DYNO_OK;
}

/* Parts of ranks of higher hosts come from above; with the host's own they go down. */
static dyno_status gather_down(const mpi_run *r, int64_t chunk) {
    mpi_communicator *m = r->m;
    char *parts = results_of(r, chunk);
    int64_t all = elements_below(r, chunk, m->base.count) * r->element;
    int64_t below = elements_below(r, chunk, first_of(m, m->host)) * r->element;
    int64_t own = elements_below(r, chunk, first_of(m, m->host + 1)) * r->element;
    RETURN_IF_FAILED(wait_sent(m, DOWN, chunk));
    RETURN_IF_FAILED(meet(r));
    put_own(r, chunk, parts);
    if (!is_last_host(m))
        RETURN_IF_FAILED(receive(m, m->host + 1, DOWN, parts + own, all - own));
    RETURN_IF_FAILED(meet(r));
    if (m->host > 0)
        RETURN_IF_FAILED(send(m, m->host - 1, DOWN, chunk, parts + below, all - below));
    copy_out_parts(r, chunk, parts, first_of(m, m->host + 1), m->base.count);
    return DYNO_OK;
}

/* ---- broadcast ---- */

static dyno_status broadcast(const mpi_run *r, int64_t chunk) {
    mpi_communicator *m = r->m;
    const collective *what = r->what;
    int root_host = world_host_of(m->base.world, what->root);
    shared_range range = chunk_at(r, chunk);
    int64_t bytes = (range.end - range.begin) * r->element, skip = range.begin * r->element;
    char *slot = results_of(r, chunk);
    RETURN_IF_FAILED(wait_sent(m, UP, chunk));
    RETURN_IF_FAILED(wait_sent(m, DOWN, chunk));
    RETURN_IF_FAILED(meet(r)); /* the slot is free on all ranks */
    if (m->base.rank == what->root)
        shared_copy_through(slot, (const char *)what->from + skip, bytes, r->threads);
    if (m->host > root_host)
        RETURN_IF_FAILED(receive(m, m->host - 1, UP, slot, bytes));
    if (m->host < root_host)
        RETURN_IF_FAILED(receive(m, m->host + 1, DOWN, slot, bytes));
    RETURN_IF_FAILED(meet(r));
    if (m->host >= root_host && !is_last_host(m))
        RETURN_IF_FAILED(send(m, m->host + 1, UP, chunk, slot, bytes));
    if (m->host <= root_host && m->host > 0)
        RETURN_IF_FAILED(send(m, m->host - 1, DOWN, chunk, slot, bytes));
    shared_copy((char *)what->to + skip, slot, bytes, r->threads);
    return DYNO_OK;
}

/* ---- running ---- */

static dyno_status run_chunks(const mpi_run *r) {
    const mpi_communicator *m = r->m;
    int64_t lag = 2 * (m->hosts - 1 - m->host);
    bool gathers = r->what->op == COLLECTIVE_ALL_GATHER;
    for (int64_t step = 0; step < r->chunks + lag; step++) {
        if (step < r->chunks)
            RETURN_IF_FAILED(gathers ? gather_up(r, step) : sum_up(r, step));
        if (step >= lag)
            RETURN_IF_FAILED(gathers ? gather_down(r, step - lag) : send_back(r, step - lag));
    }
    return DYNO_OK;
}

/* A sum of one number: its result is not there before every rank has given its own. */
static dyno_status barrier(communicator *c);

static dyno_status run(communicator *c, const collective *what, int threads) {
    mpi_communicator *m = (mpi_communicator *)c;
    if (what->op == COLLECTIVE_BARRIER)
        return barrier(c);
    mpi_run r = {.m = m,
                 .what = what,
                 .threads = threads,
                 .index = m->group->meeting.index,
                 .members = m->group->meeting.count,
                 .element = dtype_bytes(what->type)};
    int64_t bytes = r.element > 4 ? r.element : 4;
    r.chunk_size = HOST_GROUP_SLOT_BYTES / bytes / (has_parts(what) ? c->count : 1);
    r.chunks = (what->count + r.chunk_size - 1) / r.chunk_size;
    if (what->op != COLLECTIVE_BROADCAST)
        RETURN_IF_FAILED(run_chunks(&r));
    for (int64_t chunk = 0; what->op == COLLECTIVE_BROADCAST && chunk < r.chunks; chunk++)
        RETURN_IF_FAILED(broadcast(&r, chunk));
    for (int way = 0; way < WAYS; way++)
        for (int64_t slot = 0; slot < 2; slot++)
            RETURN_IF_FAILED(wait_sent(m, way, slot));
    return meet(&r);
}

static dyno_status barrier(communicator *c) {
    float one = 1;
    collective what = {
        .op = COLLECTIVE_ALL_REDUCE, .type = DTYPE_F32, .from = &one, .to = &one, .count = 1};
    return run(c, &what, 1);
}

static dyno_status memory_create(communicator *c, int64_t bytes, void **base) {
    mpi_communicator *m = (mpi_communicator *)c;
    dyno_status status = host_group_add_region(m->group, bytes, base);
    if (status == DYNO_RANK_FAILED)
        return status;
    /* All hosts, or none. */
    float failed = status != DYNO_OK;
    collective what = {
        .op = COLLECTIVE_ALL_REDUCE, .type = DTYPE_F32, .from = &failed, .to = &failed, .count = 1};
    char message[SEGMENT_FAILURE_BYTES] = "";
    if (status != DYNO_OK)
        strncpy(message, dyno_error_message(), sizeof message - 1);
    RETURN_IF_FAILED(run(c, &what, 1));
    if (failed > 0 && *base) {
        host_group_remove_region(m->group, *base);
        *base = NULL;
    }
    if (status != DYNO_OK)
        return dyno_fail(status, "%s", message);
    return failed > 0 ? dyno_fail(DYNO_OUT_OF_MEMORY,
                                  "another host has no memory for %lld bytes on each rank",
                                  (long long)bytes)
                      : DYNO_OK;
}

static void memory_destroy(communicator *c, void *base) {
    host_group_remove_region(((mpi_communicator *)c)->group, base);
}

static void destroy(communicator *c) {
    mpi_communicator *m = (mpi_communicator *)c;
    host_group_destroy(m->group);
    free(m->first);
    free(m);
}

static const communicator_functions FUNCTIONS = {.memory_create = memory_create,
                                                 .memory_destroy = memory_destroy,
                                                 .run = run,
                                                 .destroy = destroy};

/* ---- making one ---- */

static void find_hosts(mpi_communicator *m, const struct world *w, int ranks) {
    m->host = world_host_of(w, world_rank(w));
    m->hosts = world_host_of(w, ranks - 1) + 1;
    m->first = memory_allocate((size_t)m->hosts + 1, sizeof *m->first);
    for (int r = ranks - 1; r >= 0; r--)
        m->first[world_host_of(w, r)] = r;
    m->first[m->hosts] = ranks;
}

/* The slots between hosts are the first rank's part of a region. */
static dyno_status take_slots(mpi_communicator *m) {
    void *own;
    RETURN_IF_FAILED(host_group_add_region(m->group, 4 * (int64_t)HOST_GROUP_SLOT_BYTES, &own));
    m->sums = host_group_at(m->group, (host_place){m->group->next_region - 1, 0}, 0);
    m->results = m->sums + 2 * (int64_t)HOST_GROUP_SLOT_BYTES;
    return DYNO_OK;
}

dyno_status mpi_create(struct world *w, int ranks, communicator **out) {
    static int created; /* the same on all ranks: communicators are made in the same order */
    int tag = WAYS * (created++ % 8192);
    *out = NULL;
    if (world_hosts(w) == 1) /* there is nothing between hosts */
        return shared_create(w, ranks, out);
    host_group *group;
    RETURN_IF_FAILED(host_group_create(w, ranks, &group));
    dyno_status status = DYNO_OK;
    if (group) {
        mpi_communicator *m = memory_allocate(1, sizeof *m);
        m->base.functions = &FUNCTIONS;
        m->base.world = w;
        m->group = group;
        m->tag = tag;
        *out = &m->base;
        status = mpi_module_load(&m->mpi);
        if (status == DYNO_OK)
            status = take_slots(m);
        find_hosts(m, w, ranks);
    }
    status = world_agree(w, status);
    if (status != DYNO_OK && *out) {
        destroy(*out);
        *out = NULL;
    }
    return status;
}
