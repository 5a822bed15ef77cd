/* allreduce_row.c - operands, their check, and times.
 *
 * The operands hold small integers that depend on rank and index, so that every sum is exact in every
 * type and an element in the wrong place is seen. They are checked in a run before the timed ones and
 * in one after. Collectives are in place, as in a training step. Timed ones go on adding up what the
 * last one left, which costs no more than the first. */
#include "experiments/allreduce_row.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/system_memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "measure/keys.h"

/* Values repeat after so many elements: a prime, so that no part of a tensor looks like another. */
enum { PERIOD = 1009 };

typedef struct way_state {
    allreduce_way *way;
    results_cell *cell;
    char *data;  /* where the operands are */
    bool is_out; /* it was skipped, has failed or is out of memory */
    int64_t wrong;
} way_state;

typedef struct row_state {
    const allreduce_group *group;
    const allreduce_row *row;
    const experiment_context *context;
    collective what; /* without the pointers */
    int64_t buffer_bytes;
    int rank, ranks;
    char *ordinary; /* shared by the ways whose operands are in ordinary memory */
    way_state ways[ALLREDUCE_MOST_WAYS];
    int64_t started_ns;
    struct report *reports; /* of all ranks, the last that were exchanged */
} row_state;

/* ---- what ranks tell each other ---- */

typedef enum decision { GO_ON, ENOUGH, STOP } decision;

typedef struct report {
    int64_t ns, wrong;
    int64_t decision; /* rank 0's counts */
    int64_t status;
    char message[256];
} report;

static dyno_status exchange(row_state *s, const report *mine) {
    return communicator_all_gather(s->group->control, mine, s->reports, (int64_t)sizeof *mine,
                                   DTYPE_U8);
}

/* The worst status of all ranks, as everybody's. */
static dyno_status agree(row_state *s, dyno_status status) {
    report mine = {.status = (int64_t)status};
    if (status != DYNO_OK)
        snprintf(mine.message, sizeof mine.message, "%s", dyno_error_message());
    RETURN_IF_FAILED(exchange(s, &mine));
    for (int r = 0; r < s->ranks; r++)
        if (s->reports[r].status != DYNO_OK)
            return dyno_fail((dyno_status)s->reports[r].status, "%s%.*s",
                             s->ranks > 1 ? "on a rank: " : "", (int)sizeof mine.message - 1,
                             s->reports[r].message);
    return DYNO_OK;
}

/* ---- operands ---- */

static void fill_table(int rank, int ranks, float table[PERIOD]) {
    for (int j = 0; j < PERIOD; j++) /* at most 16 ranks add something: sums stay below 2^8 */
        table[j] = (j + rank) % ranks < 16 ? (float)((j * 5 + rank * 11 + j / 16) % 16) : 0;
}

static void fill_sums(int ranks, float table[PERIOD]) {
    float one[PERIOD];
    memset(table, 0, PERIOD * sizeof *table);
    for (int r = 0; r < ranks; r++) {
        fill_table(r, ranks, one);
        for (int j = 0; j < PERIOD; j++)
            table[j] += one[j];
    }
}

typedef struct table_job {
    dtype type;
    void *data;
    int64_t first; /* index of the first element */
    const float *table;
    _Atomic int64_t wrong;
} table_job;

static void write_range(void *context, int64_t begin, int64_t end) {
    const table_job *job = context;
    int64_t j = (job->first + begin) % PERIOD;
    for (int64_t i = begin; i < end; i++, j = j + 1 == PERIOD ? 0 : j + 1) {
        if (job->type == DTYPE_F32)
            ((float *)job->data)[i] = job->table[j];
        else
            dtype_store(job->type, job->data, i, (double)job->table[j]);
    }
}

static void check_range(void *context, int64_t begin, int64_t end) {
    table_job *job = context;
    int64_t j = (job->first + begin) % PERIOD, wrong = 0;
    for (int64_t i = begin; i < end; i++, j = j + 1 == PERIOD ? 0 : j + 1) {
        float value = job->type == DTYPE_F32 ? ((const float *)job->data)[i]
                                             : (float)dtype_load(job->type, job->data, i);
        wrong += !(value >= job->table[j] && value <= job->table[j]);
    }
    atomic_fetch_add(&job->wrong, wrong);
}

enum { GRAIN = 65536 };

static void write_values(dtype type, void *data, int64_t first, int64_t count, const float *table) {
    table_job job = {.type = type, .data = data, .first = first, .table = table};
    threads_for(count, GRAIN, write_range, &job);
}

static int64_t count_wrong(dtype type, void *data, int64_t first, int64_t count,
                           const float *table) {
    table_job job = {.type = type, .data = data, .first = first, .table = table};
    threads_for(count, GRAIN, check_range, &job);
    return atomic_load(&job.wrong);
}

/* The collective on a way's operands, in place. */
static collective on_operands(const row_state *s, const way_state *at) {
    collective what = s->what;
    int64_t skip = s->rank * what.count * dtype_bytes(what.type);
    what.from = what.to = at->data;
    if (what.op == COLLECTIVE_REDUCE_SCATTER)
        what.to = at->data + skip;
    if (what.op == COLLECTIVE_ALL_GATHER)
        what.from = at->data + skip;
    return what;
}

/* In the host's memory: a GPU's operands are written from there and read back. */
static void write_operand(const row_state *s, char *data) {
    float table[PERIOD];
    int64_t count = collective_from_count(&s->what, s->ranks);
    int64_t skip = s->what.op == COLLECTIVE_ALL_GATHER ? s->rank * s->what.count : 0;
    memset(data, 0, (size_t)s->buffer_bytes);
    fill_table(s->rank, s->ranks, table);
    write_values(s->what.type, data + skip * dtype_bytes(s->what.type), 0, count, table);
}

static int64_t check_result(const row_state *s, char *data) {
    float table[PERIOD];
    int64_t count = s->what.count, element = dtype_bytes(s->what.type), wrong = 0;
    switch (s->what.op) {
    case COLLECTIVE_ALL_REDUCE:
        fill_sums(s->ranks, table);
        return count_wrong(s->what.type, data, 0, count, table);
    case COLLECTIVE_REDUCE_SCATTER:
        fill_sums(s->ranks, table);
        return count_wrong(s->what.type, data + s->rank * count * element, s->rank * count, count,
                           table);
    case COLLECTIVE_ALL_GATHER:
        for (int r = 0; r < s->ranks; r++) {
            fill_table(r, s->ranks, table);
            wrong += count_wrong(s->what.type, data + r * count * element, 0, count, table);
        }
        return wrong;
    case COLLECTIVE_BROADCAST:
        fill_table(s->what.root, s->ranks, table);
        return count_wrong(s->what.type, data, 0, count, table);
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_OP_COUNT:
        break;
    }
    return wrong;
}

static dyno_status take_ordinary(row_state *s) {
    if (s->ordinary)
        return DYNO_OK;
    system_memory memory = system_memory_read();
    int64_t all = s->buffer_bytes * s->ranks;
    if (memory.available_bytes && all > memory.available_bytes)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "%d ranks need %s, there are %s", s->ranks,
                         units_bytes(all).text, units_bytes(memory.available_bytes).text);
    s->ordinary = memory_try_allocate((size_t)s->buffer_bytes);
    if (!s->ordinary)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "the system refuses %s",
                         units_bytes(s->buffer_bytes).text);
    return DYNO_OK;
}

static dyno_status take_operands(row_state *s, way_state *at) {
    void *base = NULL;
    if (!at->way->is_in_shared_memory) {
        dyno_status status = take_ordinary(s);
        RETURN_IF_FAILED(agree(s, status));
        at->data = s->ordinary;
        return DYNO_OK;
    }
    dyno_status status = communicator_memory_create(at->way->communicator, s->buffer_bytes, &base);
    if (status == DYNO_OK && at->way->device)
        status = take_ordinary(s);
    at->data = base;
    return agree(s, status);
}

static void give_operands(const row_state *s, way_state *at) {
    if (at->way->is_in_shared_memory)
        communicator_memory_destroy(at->way->communicator, at->data);
    at->data = NULL;
    (void)s;
}

/* ---- running ---- */

static dyno_status run_once(const row_state *s, const way_state *at) {
    collective what = on_operands(s, at);
    if (at->way->library)
        return at->way->library->run_library(world_mpi(s->group->world), s->ranks, &what);
    if (!at->way->device)
        return communicator_run(at->way->communicator, &what);
    collective_handle handle; /* a GPU's is enqueued: the host waits for it */
    RETURN_IF_FAILED(communicator_start(at->way->communicator, &what, &handle));
    return communicator_wait(at->way->communicator, handle);
}

/* A run whose result is checked, on every rank. */
static dyno_status verify(row_state *s, way_state *at) {
    device *d = at->way->device;
    char *values = d ? s->ordinary : at->data;
    write_operand(s, values);
    if (d)
        d->functions->write(d, at->data, values, s->buffer_bytes);
    RETURN_IF_FAILED(communicator_barrier(s->group->control));
    RETURN_IF_FAILED(run_once(s, at));
    if (d)
        d->functions->read(d, values, at->data, s->buffer_bytes);
    report mine = {.wrong = check_result(s, values)};
    RETURN_IF_FAILED(exchange(s, &mine));
    for (int r = 0; r < s->ranks; r++)
        at->wrong += s->reports[r].wrong;
    return DYNO_OK;
}

/* What rank 0 thinks of going on. */
static decision decide(const row_state *s, int64_t reps, int ways) {
    if (experiment_should_stop(s->context))
        return STOP;
    double elapsed = (double)(clock_now_ns() - s->started_ns) * 1e-9;
    bool is_over = reps >= s->row->least_reps && elapsed >= s->row->seconds * ways;
    return reps >= s->row->most_reps || is_over ? ENOUGH : GO_ON;
}

/* One timed run; every rank's time goes into the series. */
static dyno_status time_once(row_state *s, way_state *at, const char *prefix, decision mine,
                             decision *all) {
    RETURN_IF_FAILED(communicator_barrier(s->group->control));
    int64_t begin = clock_now_ns();
    RETURN_IF_FAILED(run_once(s, at));
    report own = {.ns = clock_now_ns() - begin, .decision = (int64_t)mine};
    RETURN_IF_FAILED(exchange(s, &own));
    for (int r = 0; r < s->ranks; r++) {
        char name[40];
        snprintf(name, sizeof name, "%s%d", prefix, r);
        cell_add_sample(at->cell, name, "ns", s->reports[r].ns);
    }
    *all = (decision)s->reports[0].decision;
    return DYNO_OK;
}

static int ways_in(const row_state *s) {
    int count = 0;
    for (int i = 0; i < s->group->way_count; i++)
        count += !s->ways[i].is_out;
    return count;
}

/* All ways once, by turns. */
static dyno_status take_turn(row_state *s, const char *prefix, int64_t reps, decision *next) {
    int ways = ways_in(s);
    *next = ENOUGH;
    for (int i = 0; i < s->group->way_count; i++) {
        way_state *at = &s->ways[i];
        if (at->is_out)
            continue;
        RETURN_IF_FAILED(time_once(s, at, prefix, decide(s, reps + 1, ways), next));
        if (*next == STOP)
            return dyno_fail(DYNO_INTERRUPTED, "interrupted while timing collectives");
    }
    return DYNO_OK;
}

static dyno_status time_ways(row_state *s) {
    decision next = GO_ON;
    int64_t reps = 0;
    s->started_ns = clock_now_ns();
    for (int64_t i = 0; i < s->row->warmup && ways_in(s) > 0; i++)
        RETURN_IF_FAILED(take_turn(s, SERIES_WARMUP_RANK_PREFIX, INT64_MIN, &next));
    s->started_ns = clock_now_ns();
    for (next = ways_in(s) > 0 ? GO_ON : ENOUGH; next == GO_ON; reps++)
        RETURN_IF_FAILED(take_turn(s, SERIES_RANK_PREFIX, reps, &next));
    for (int i = 0; i < s->group->way_count; i++)
        if (!s->ways[i].is_out)
            cell_set_integer(s->ways[i].cell, PARAM_REPS, reps);
    return DYNO_OK;
}

/* ---- cells ---- */

static void describe(const row_state *s, const allreduce_way *way, results_cell *cell) {
    cell_set_text(cell, PARAM_OP, collective_op_name(s->row->op));
    cell_set_text(cell, PARAM_TYPE, s->row->type_name);
    cell_set_text(cell, PARAM_TRANSPORT, way->transport);
    cell_set_text(cell, PARAM_OPERANDS,
                  way->device                ? "gpu"
                  : way->is_in_shared_memory ? "shared"
                                             : "private");
    cell_set_integer(cell, PARAM_RANKS, s->ranks);
    cell_set_integer(cell, PARAM_HOSTS, world_host_of(s->group->world, s->ranks - 1) + 1);
    cell_set_integer(cell, PARAM_BYTES, s->row->bytes);
    cell_set_integer(cell, PARAM_WARMUP, s->row->warmup);
    cell_set_metric(cell, METRIC_COUNT, "", s->what.count);
}

/* The way's cell says why it is out. Failures of ranks end the run. */
static dyno_status set_out(way_state *at, dyno_status status) {
    at->is_out = true;
    if (status == DYNO_OUT_OF_MEMORY)
        cell_set_status(at->cell, RESULTS_OOM, dyno_error_message());
    else if (status == DYNO_UNSUPPORTED)
        cell_set_status(at->cell, RESULTS_SKIP, dyno_error_message());
    else
        return status;
    return DYNO_OK;
}

static dyno_status prepare_way(row_state *s, way_state *at) {
    if (at->way->why_not[0])
        return set_out(at, dyno_fail(DYNO_UNSUPPORTED, "%s", at->way->why_not));
    dyno_status status = take_operands(s, at);
    if (status == DYNO_OK)
        status = verify(s, at);
    return status == DYNO_OK ? DYNO_OK : set_out(at, status);
}

static dyno_status finish_way(row_state *s, way_state *at) {
    if (at->is_out)
        return DYNO_OK;
    RETURN_IF_FAILED(verify(s, at));
    cell_set_metric(at->cell, METRIC_WRONG, "", at->wrong);
    if (at->wrong > 0)
        cell_set_status(at->cell, RESULTS_FAILED, "elements are wrong");
    else
        cell_set_status(at->cell, RESULTS_OK, NULL);
    return DYNO_OK;
}

static dyno_status run_ways(row_state *s) {
    for (int i = 0; i < s->group->way_count; i++)
        RETURN_IF_FAILED(prepare_way(s, &s->ways[i]));
    RETURN_IF_FAILED(time_ways(s));
    for (int i = 0; i < s->group->way_count; i++)
        RETURN_IF_FAILED(finish_way(s, &s->ways[i]));
    return DYNO_OK;
}

/* Elements as nccl-tests counts them: `bytes` is the larger operand, of which ranks have equal parts. */
static collective collective_of(const allreduce_row *row, int ranks) {
    collective what = {.op = row->op, .type = row->type};
    bool has_parts = row->op == COLLECTIVE_REDUCE_SCATTER || row->op == COLLECTIVE_ALL_GATHER;
    what.count = row->bytes / dtype_bytes(row->type) / (has_parts ? ranks : 1);
    if (what.count < 1)
        what.count = 1;
    return what;
}

dyno_status allreduce_row_run(const allreduce_group *group, const allreduce_row *row,
                              const experiment_context *context, results *run) {
    if (!group->control)
        return DYNO_OK;
    row_state s = {.group = group,
                   .row = row,
                   .context = context,
                   .what = collective_of(row, group->ranks),
                   .rank = world_rank(group->world),
                   .ranks = group->ranks};
    s.buffer_bytes = collective_bytes(&s.what, s.ranks);
    s.reports = memory_allocate((size_t)s.ranks, sizeof *s.reports);
    for (int i = 0; i < group->way_count; i++) {
        s.ways[i] =
            (way_state){.way = (allreduce_way *)&group->ways[i], .cell = results_add_cell(run)};
        describe(&s, s.ways[i].way, s.ways[i].cell);
    }
    dyno_status status = run_ways(&s);
    for (int i = 0; i < group->way_count; i++)
        if (s.ways[i].data)
            give_operands(&s, &s.ways[i]);
    free(s.ordinary);
    free(s.reports);
    return status;
}
