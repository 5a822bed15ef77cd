#include "measure/profile_record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "measure/keys.h"
#include "plan/memory_walk.h"

const grouping *profile_groupings(bool by_launch, int *count) {
    static const grouping GROUPINGS[] = {
        {BREAKDOWN_BY_KERNEL, {GROUP_KERNEL}, 1},
        {BREAKDOWN_BY_CLASS, {GROUP_CLASS}, 1},
        {BREAKDOWN_BY_OP, {GROUP_OP}, 1},
        {BREAKDOWN_BY_SCOPE, {GROUP_FOLDED_SCOPE}, 1},
        {BREAKDOWN_BY_PHASE, {GROUP_PHASE}, 1},
        {BREAKDOWN_KINDS,
         {GROUP_KERNEL, GROUP_PLANNED, GROUP_OP, GROUP_CLASS, GROUP_FOLDED_SCOPE, GROUP_PHASE,
          GROUP_GRID, GROUP_BLOCK, GROUP_COST},
         9},
        {BREAKDOWN_SCOPES, {GROUP_SCOPE, GROUP_PHASE}, 2},
        {BREAKDOWN_BY_LAUNCH,
         {GROUP_LAUNCH, GROUP_KERNEL, GROUP_PLANNED, GROUP_OP, GROUP_CLASS, GROUP_SCOPE,
          GROUP_PHASE, GROUP_GRID, GROUP_BLOCK},
         9}};
    enum { ALL = sizeof GROUPINGS / sizeof *GROUPINGS };
    *count = by_launch ? ALL : ALL - 1;
    return GROUPINGS;
}

/* ---- groups ---- */

static const results_column COLUMNS[] = {
    {COLUMN_TIME, "ns"},       {COLUMN_COUNT, ""},       {COLUMN_FLOPS, "FLOP"},
    {COLUMN_BYTES, "B"},       {COLUMN_RUNNING, "ns"},   {COLUMN_MIN, "ns"},
    {COLUMN_MEDIAN, "ns"},     {COLUMN_MAX, "ns"},       {COLUMN_STD, "ns"},
    {COLUMN_REGISTERS, ""},    {COLUMN_SHARED, "B"},     {COLUMN_CYCLES, ""},
    {COLUMN_INSTRUCTIONS, ""}, {COLUMN_CACHE_MISSES, ""}};
enum { SHARE_COLUMNS = 4, SHARE_AND_RUNNING = 5, PROFILE_COLUMNS = 11, WITH_COUNTERS = 14 };

/* A count that every step has is whole. */
static results_value per_step(double sum, int64_t steps) {
    double value = sum / (double)steps;
    bool is_whole = fabs(value) < 0x1p53 && value >= floor(value) && value <= floor(value);
    return is_whole ? results_integer((int64_t)value) : results_real(value);
}

/* Shares count launches, which are what a plan has; a profile counts records, which are what a
 * device ran. */
static void make_values(const kernel_group *g, int64_t steps, int columns, results_value *values) {
    int64_t count = columns <= SHARE_AND_RUNNING ? g->launches : g->count;
    double each = 1 / (double)steps;
    /* A cost that some records lack is nobody's: a sum without them would be too small. */
    double known = g->without_cost ? (double)NAN : each;
    values[0] = results_real(g->share_ns * each);
    values[1] = per_step((double)count, steps);
    values[2] = results_real(g->flops * known);
    values[3] = results_real(g->bytes * known);
    values[4] = results_real(g->running_ns * each);
    if (columns <= SHARE_AND_RUNNING)
        return;
    /* Without records it is the other phase of launches that are counted in their own. */
    value_summary single = value_counts_summarize(&g->durations);
    values[5] = g->count ? results_integer(single.min) : results_real(NAN);
    values[6] = results_real(g->count ? single.median : (double)NAN);
    values[7] = g->count ? results_integer(single.max) : results_real(NAN);
    values[8] = results_real(single.std);
    values[9] = results_integer(g->registers);
    values[10] = results_integer(g->shared_bytes);
    double counted = g->with_counters == g->count ? each : (double)NAN;
    values[11] = results_real(g->cycles * counted);
    values[12] = results_real(g->instructions * counted);
    values[13] = results_real(g->cache_misses * counted);
}

static results_breakdown *add_breakdown(const grouping *by, int columns, results_cell *cell) {
    const char *keys[GROUPING_MOST_KEYS];
    for (int i = 0; i < by->key_count; i++)
        keys[i] = group_key_name(by->keys[i]);
    return cell_add_breakdown(cell, by->name, keys, by->key_count, COLUMNS, columns);
}

static void add_rows(kernel_groups *groups, int index, int64_t steps, int columns,
                     results_breakdown *to) {
    int count;
    const kernel_group *const *sorted = kernel_groups_sorted(groups, index, &count);
    for (int i = 0; i < count; i++) {
        results_value values[WITH_COUNTERS];
        make_values(sorted[i], steps, columns, values);
        breakdown_add_row(to, sorted[i]->keys, values);
    }
}

void profile_record_shares(kernel_groups *groups, int index, int64_t steps, bool has_running,
                           double step_ns, results_cell *cell) {
    int count, columns = has_running ? SHARE_AND_RUNNING : SHARE_COLUMNS;
    results_breakdown *to = add_breakdown(kernel_groups_grouping(groups, index), columns, cell);
    add_rows(groups, index, steps, columns, to);
    const kernel_group *const *sorted = kernel_groups_sorted(groups, index, &count);
    double between = step_ns;
    for (int i = 0; i < count; i++)
        between -= sorted[i]->share_ns / (double)steps;
    breakdown_add_row(to, &(const char *){"(between launches)"},
                      (const results_value[]){results_real(between), results_integer(0),
                                              results_real(0), results_real(0), results_real(0)});
}

/* ---- devices ---- */

static void record_devices(kernel_groups *groups, int64_t steps, results_cell *cell) {
    static const char *const KEYS[] = {KEY_DEVICE, KEY_PHASE};
    static const results_column TIMES[] = {
        {COLUMN_SPAN, "ns"},          {COLUMN_BUSY, "ns"},         {COLUMN_RUNNING, "ns"},
        {COLUMN_LAUNCHES, ""},        {COLUMN_GAPS, ""},           {COLUMN_GAP_MEDIAN, "ns"},
        {COLUMN_GAP_MAX, "ns"},       {COLUMN_HOST_CALLS, ""},     {COLUMN_HOST_CALL_TIME, "ns"},
        {COLUMN_BEHIND_MEDIAN, "ns"}, {COLUMN_UNATTRIBUTED, "ns"}, {COLUMN_SPAN_MEDIAN, "ns"}};
    enum { TIME_COLUMNS = sizeof TIMES / sizeof *TIMES };
    results_breakdown *to =
        cell_add_breakdown(cell, BREAKDOWN_DEVICES, KEYS, 2, TIMES, TIME_COLUMNS);
    const device_time *times;
    int count = kernel_groups_device_times(groups, &times);
    double each = 1 / (double)steps;
    for (int i = 0; i < count; i++) {
        const device_time *t = &times[i];
        char device[16];
        snprintf(device, sizeof device, "%d", t->device);
        const char *keys[] = {device, t->phase ? t->phase : ROW_ALL_PHASES};
        double behind = t->host_calls ? t->behind.median : (double)NAN;
        results_value values[TIME_COLUMNS] = {results_real(t->span_ns * each),
                                              results_real(t->busy_ns * each),
                                              results_real(t->running_ns * each),
                                              per_step((double)t->launches, steps),
                                              per_step((double)t->gaps.count, steps),
                                              results_real(t->gaps.median),
                                              results_integer(t->gaps.max),
                                              per_step((double)t->host_calls, steps),
                                              results_real(t->host_calls_ns * each),
                                              results_real(behind),
                                              results_real(t->unattributed_ns * each),
                                              results_real(t->span_median_ns)};
        breakdown_add_row(to, keys, values);
    }
}

/* Of those that are alike but for their layer, because a coarser group could hide two errors that
 * cancel out. */
static int64_t count_uneven(kernel_groups *groups) {
    int64_t uneven = 0, steps = kernel_groups_step_count(groups);
    for (int i = 0; i < kernel_groups_grouping_count(groups); i++) {
        int count;
        if (strcmp(kernel_groups_grouping(groups, i)->name, BREAKDOWN_KINDS) != 0)
            continue;
        const kernel_group *const *sorted = kernel_groups_sorted(groups, i, &count);
        for (int j = 0; j < count; j++)
            uneven += !kernel_group_is_even(sorted[j], steps);
    }
    return uneven;
}

static bool has_counters(kernel_groups *groups) {
    int count;
    const kernel_group *const *sorted = kernel_groups_sorted(groups, 0, &count);
    for (int i = 0; i < count; i++)
        if (sorted[i]->with_counters)
            return true;
    return false;
}

void profile_record_groups(kernel_groups *groups, int64_t steps, results_cell *cell) {
    int columns = has_counters(groups) ? WITH_COUNTERS : PROFILE_COLUMNS;
    cell_set_metric(cell, METRIC_TRACED_STEPS, "", kernel_groups_step_count(groups));
    cell_set_metric(cell, METRIC_RECORDS, "", kernel_groups_record_count(groups));
    cell_set_metric(cell, METRIC_UNEVEN_GROUPS, "", count_uneven(groups));
    for (int i = 0; i < kernel_groups_grouping_count(groups); i++)
        add_rows(groups, i, steps, columns,
                 add_breakdown(kernel_groups_grouping(groups, i), columns, cell));
    record_devices(groups, steps, cell);
}

/* By launch, and before it what is alive before the first. */
static void note_alive(void *context, const memory_moment *now) {
    ((int64_t *)context)[now->launch + 1] = now->alive_bytes;
}

/* The streams of a step in the order in which it uses them: replays of one graph have streams of other
 * ids each time. */
typedef struct used_stream {
    int id;
    int64_t begin_ns;
} used_stream;

enum { MOST_STREAMS = 256 };

static int find_streams(const launch_record *records, int64_t count, used_stream *used) {
    int found = 0;
    for (int64_t i = 0; i < count; i++) {
        int at = 0;
        while (at < found && used[at].id != records[i].stream)
            at++;
        if (at == MOST_STREAMS)
            continue;
        if (at == found)
            used[found++] = (used_stream){records[i].stream, records[i].begin_ns};
        else if (records[i].begin_ns < used[at].begin_ns)
            used[at].begin_ns = records[i].begin_ns;
    }
    return found;
}

static int stream_number(const used_stream *used, int count, int id) {
    const used_stream *own = used;
    while (own < used + count && own->id != id)
        own++;
    if (own == used + count)
        return count; /* beyond MOST_STREAMS */
    int earlier = 0;
    for (int i = 0; i < count; i++)
        earlier += used[i].begin_ns < own->begin_ns ||
                   (used[i].begin_ns == own->begin_ns && &used[i] < own);
    return earlier;
}

void profile_record_launches(const launch_record *records, int64_t count, const plan *p,
                             results_cell *cell) {
    static const char *const keys[] = {KEY_KERNEL, KEY_SCOPE, KEY_PHASE};
    static const results_column columns[] = {{COLUMN_STEP, ""},
                                             {COLUMN_STREAM, ""},
                                             {COLUMN_BEGIN, "ns"},
                                             {COLUMN_DURATION, "ns"},
                                             {COLUMN_ALIVE, "B"}};
    results_breakdown *rows = cell_add_breakdown(cell, BREAKDOWN_RECORDS, keys, 3, columns, 5);
    int64_t *alive = memory_allocate((size_t)p->launch_count + 1, sizeof *alive);
    memory_walk(p, &(memory_visitor){.context = alive, .on_moment = note_alive});
    int64_t now = alive[0];
    for (int64_t first = 0, next; first < count; first = next) {
        int64_t begin = records[first].begin_ns;
        for (next = first; next < count && records[next].step == records[first].step; next++)
            begin = records[next].begin_ns < begin ? records[next].begin_ns : begin;
        used_stream used[MOST_STREAMS];
        int streams = find_streams(records + first, next - first, used);
        for (int64_t i = first; i < next; i++) {
            const launch_record *r = &records[i];
            const char *name = r->recorded ? r->recorded : r->kernel;
            if (r->launch >= 0 && r->launch < p->launch_count)
                now = alive[r->launch + 1];
            breakdown_add_row(
                rows,
                (const char *const[]){name ? name : ROW_UNATTRIBUTED, r->scope ? r->scope : "",
                                      r->phase ? r->phase : ""},
                (const results_value[]){results_integer(r->step),
                                        results_integer(stream_number(used, streams, r->stream)),
                                        results_integer(r->begin_ns - begin),
                                        results_integer(r->end_ns - r->begin_ns),
                                        results_integer(now)});
        }
    }
    free(alive);
}
