#include "experiments/bench_ranks.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "measure/keys.h"

dyno_status bench_ranks_join(bench_ranks *r, const flags *given) {
    *r = (bench_ranks){.count = 1};
    int64_t wanted = flags_integer(given, "ranks");
    RETURN_IF_FAILED(ranks_open(given, &r->world));
    r->rank = world_rank(r->world);
    r->count = world_count(r->world);
    if (flags_is_set(given, "ranks") && r->count > 1 && wanted != r->count)
        return dyno_fail(DYNO_INVALID, "--ranks is %lld and %d ranks were started; leave it out",
                         (long long)wanted, r->count);
    return ranks_check_count(r->world, wanted);
}

/* The least that any rank may use. */
static dyno_status share_memory(const bench_ranks *r, sweep *s) {
    bool is_divided = !flags_is_set(s->given, "memory") && device_is_host(s->device);
    int64_t mine = s->memory_limit / (is_divided ? world_host_count(r->world) : 1);
    int64_t *all = memory_allocate((size_t)r->count, sizeof *all);
    dyno_status status = world_exchange(r->world, &mine, all, sizeof mine);
    for (int i = 0; i < r->count && status == DYNO_OK; i++)
        mine = all[i] < mine ? all[i] : mine;
    free(all);
    s->memory_limit = mine;
    return status;
}

dyno_status bench_ranks_prepare(bench_ranks *r, sweep *s) {
    if (r->count == 1)
        return DYNO_OK;
    /* A rank that leaves a step by itself would leave the others waiting. */
    r->stop = stop_ask(NULL);
    r->asks_nobody = true;
    RETURN_IF_FAILED(share_memory(r, s));
    return ranks_create_communicator(r->world, s->device, &r->communicator);
}

void bench_ranks_leave(bench_ranks *r) {
    communicator_destroy(r->communicator);
    r->communicator = NULL;
    if (r->asks_nobody)
        stop_ask(r->stop);
    r->asks_nobody = false;
}

void bench_ranks_set_phase(const bench_ranks *r, const char *doing) {
    if (r->count > 1)
        world_set_phase(r->world, doing);
}

static void note_broken(bench_ranks *r, dyno_status status) {
    if (r->broken != DYNO_OK)
        return;
    r->broken = status;
    snprintf(r->why, sizeof r->why, "%s", dyno_error_message());
}

bool bench_ranks_should_stop(bench_ranks *r, sweep *s) {
    char mine = r->rank == 0 && sweep_should_stop(s);
    if (r->count == 1)
        return mine;
    char *all = memory_allocate((size_t)r->count, sizeof *all);
    dyno_status asked = world_exchange(r->world, &mine, all, sizeof mine);
    bool stops = asked != DYNO_OK || all[0];
    free(all);
    if (asked != DYNO_OK)
        note_broken(r, asked);
    return stops;
}

dyno_status bench_ranks_conclude(bench_ranks *r, dyno_status status) {
    if (r->count == 1)
        return status;
    if (status != DYNO_OK && status != DYNO_INTERRUPTED)
        note_broken(r, status);
    return r->broken == DYNO_OK ? status : dyno_fail(r->broken, "%s", r->why);
}

dyno_status bench_ranks_agree(bench_ranks *r, dyno_status status) {
    if (r->count == 1)
        return status;
    status = world_agree(r->world, status);
    if (status == DYNO_RANK_FAILED) /* they could not */
        note_broken(r, status);
    return status;
}

static dyno_status record_series(const bench_ranks *r, results_cell *cell,
                                 const char *series_name) {
    const results_series *own = cell_find_series(cell, series_name);
    int64_t count = own ? own->count : 0;
    int64_t *all = memory_allocate((size_t)r->count, sizeof *all);
    dyno_status status = DYNO_OK;
    for (int64_t i = 0; i < count && status == DYNO_OK; i++) {
        int64_t mine = own->integers[i];
        status = world_exchange(r->world, &mine, all, sizeof mine);
        for (int other = 0; other < r->count && status == DYNO_OK; other++) {
            char name[64];
            snprintf(name, sizeof name, SERIES_RANK_PREFIX "%d", other);
            cell_add_sample(cell, name, "ns", all[other]);
            own = cell_find_series(cell, series_name); /* adding a series may have moved it */
        }
    }
    free(all);
    return status;
}

static dyno_status record_memory(const bench_ranks *r, results_cell *cell) {
    static const char *const METRICS[] = {METRIC_PEAK_BYTES, METRIC_RESERVED_BYTES,
                                          METRIC_RSS_BYTES};
    enum { COUNT = sizeof METRICS / sizeof *METRICS };
    static const results_column columns[COUNT] = {
        {METRIC_PEAK_BYTES, "B"}, {METRIC_RESERVED_BYTES, "B"}, {METRIC_RSS_BYTES, "B"}};
    int64_t mine[COUNT], *all = memory_allocate((size_t)r->count * COUNT, sizeof *all);
    for (int i = 0; i < COUNT; i++) {
        const results_metric *m = cell_find_metric(cell, METRICS[i]);
        mine[i] = m ? (int64_t)results_number(&m->value) : 0;
    }
    dyno_status status = world_exchange(r->world, mine, all, sizeof mine);
    const char *key = PARAM_RANKS;
    results_breakdown *table =
        status == DYNO_OK ? cell_add_breakdown(cell, BREAKDOWN_BY_RANK, &key, 1, columns, COUNT)
                          : NULL;
    for (int i = 0; table && i < r->count; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        const char *keys[] = {name};
        results_value values[COUNT];
        for (int j = 0; j < COUNT; j++)
            values[j] = results_integer(all[i * COUNT + j]);
        breakdown_add_row(table, keys, values);
    }
    free(all);
    return status;
}

dyno_status bench_ranks_record(const bench_ranks *r, results_cell *cell) {
    if (r->count == 1)
        return DYNO_OK;
    RETURN_IF_FAILED(record_series(r, cell, SERIES_STEP));
    return record_memory(r, cell);
}
