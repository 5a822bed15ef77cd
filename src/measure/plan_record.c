#include "measure/plan_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "measure/keys.h"
#include "plan/memory_account.h"
#include "plan/memory_formula.h"
#include "plan/scope.h"
#include "plan/value_groups.h"

typedef struct scope_cost {
    char scope[SCOPE_TEXT_BYTES];
    double flops[PHASE_COUNT], bytes;
    int64_t launches;
} scope_cost;

static int most_flops_first(const void *a, const void *b) {
    const scope_cost *x = a, *y = b;
    double fx = 0, fy = 0;
    for (int i = 0; i < PHASE_COUNT; i++) {
        fx += x->flops[i];
        fy += y->flops[i];
    }
    return (fx < fy) - (fx > fy);
}

static void record_flops_by_scope(const plan *p, results_cell *cell) {
    scope_cost *costs = NULL;
    int count = 0, capacity = 0;
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        scope_text name = scope_fold_layers(p->scopes[l->scope]);
        int at = 0;
        while (at < count && strcmp(costs[at].scope, name.text) != 0)
            at++;
        if (at == count) {
            MEMORY_GROW(costs, count, capacity);
            costs[count] = (scope_cost){0};
            memcpy(costs[count++].scope, name.text, sizeof name.text);
        }
        for (int f = 0; f < PHASE_COUNT; f++)
            costs[at].flops[f] += plan_launch_times(p, i) * plan_launch_flops(l, (phase)f);
        costs[at].bytes += plan_launch_times(p, i) * (l->bytes_read + l->bytes_written);
        costs[at].launches += plan_launch_times(p, i);
    }
    qsort(costs, (size_t)count, sizeof *costs, most_flops_first);
    static const results_column columns[] = {{COLUMN_FORWARD, "FLOP"},   {COLUMN_BACKWARD, "FLOP"},
                                             {COLUMN_OPTIMIZER, "FLOP"}, {COLUMN_FLOPS, "FLOP"},
                                             {COLUMN_BYTES, "B"},        {COLUMN_LAUNCHES, ""}};
    const char *key = KEY_SCOPE;
    results_breakdown *table = cell_add_breakdown(cell, BREAKDOWN_BY_SCOPE, &key, 1, columns, 6);
    for (int i = 0; i < count; i++) {
        const double *f = costs[i].flops;
        const char *keys[] = {costs[i].scope};
        results_value values[] = {results_real(f[PHASE_FORWARD]),
                                  results_real(f[PHASE_BACKWARD]),
                                  results_real(f[PHASE_OPTIMIZER]),
                                  results_real(f[PHASE_FORWARD] + f[PHASE_BACKWARD] +
                                               f[PHASE_OPTIMIZER] + f[PHASE_COMMUNICATION]),
                                  results_real(costs[i].bytes),
                                  results_integer(costs[i].launches)};
        breakdown_add_row(table, keys, values);
    }
    free(costs);
}

static bool is_alive(void *launch, const plan_buffer *b) {
    return memory_account_is_alive(b, *(const int *)launch);
}

void plan_record_values_at(const plan *p, int launch, results_cell *cell) {
    int count;
    value_group *groups = value_groups_create(
        p, &(value_group_options){.takes = is_alive, .context = &launch}, &count);
    value_groups_sort_by_total(groups, count);
    static const char *const keys[] = {KEY_VALUE, KEY_ROLE, KEY_FORMULA};
    static const results_column columns[] = {{COLUMN_COUNT, ""}, {COLUMN_BYTES, "B"}};
    results_breakdown *table = cell_add_breakdown(cell, BREAKDOWN_PEAK_VALUES, keys, 3, columns, 2);
    for (int i = 0; i < count; i++) {
        text formula = {0};
        memory_formula_append(groups[i].sample, &formula);
        const char *texts[] = {groups[i].name.text, role_name(groups[i].sample->role),
                               text_string(&formula)};
        results_value values[] = {results_integer(groups[i].count),
                                  results_integer(groups[i].bytes)};
        breakdown_add_row(table, texts, values);
        text_release(&formula);
    }
    free(groups);
}

void plan_record_cost(const plan *p, results_cell *cell) {
    plan_cost all = plan_total_cost(p, PHASE_COUNT);
    cell_set_metric(cell, METRIC_LAUNCHES, "", all.launches);
    cell_set_metric_real(cell, METRIC_FLOPS, "FLOP", all.flops);
    for (int i = 0; i < PHASE_COUNT; i++) {
        plan_cost part = plan_total_cost(p, (phase)i);
        char name[48];
        snprintf(name, sizeof name, "%s" METRIC_FLOPS_SUFFIX, phase_name((phase)i));
        if (part.launches)
            cell_set_metric_real(cell, name, "FLOP", part.flops);
    }
    if (all.bytes_sent > 0)
        cell_set_metric_real(cell, METRIC_BYTES_SENT, "B", all.bytes_sent);
    int64_t casts = 0;
    for (int i = 0; i < p->launch_count; i++)
        casts += plan_launch_times(p, i) * plan_launch_is_cast(&p->launches[i]);
    cell_set_metric(cell, METRIC_CAST_LAUNCHES, "", casts);
    if (all.split_launches) {
        cell_set_metric(cell, METRIC_SPLIT_LAUNCHES, "", all.split_launches);
        cell_set_metric_real(cell, METRIC_SPLIT_FLOPS, "FLOP", all.split_flops);
    }
    cell_set_metric_real(cell, METRIC_BYTES_MOVED, "B", all.bytes_read + all.bytes_written);
}

void plan_record_peak(const plan *p, const memory_account *account, results_cell *cell) {
    for (int r = 0; r < ROLE_COUNT; r++) {
        char name[48];
        snprintf(name, sizeof name, METRIC_AT_PEAK_PREFIX "%s", role_name((role)r));
        cell_set_metric(cell, name, "B", account->at_peak[r]);
    }
    cell_set_metric(cell, METRIC_PEAK_LAUNCH, "", account->peak_launch);
    char where[192] = "before the first launch";
    if (account->peak_launch >= 0) {
        const plan_launch *l = &p->launches[account->peak_launch];
        snprintf(where, sizeof where, "%s %s (%s)", p->scopes[l->scope], l->op_name,
                 phase_name(l->phase));
    }
    cell_set_text(cell, PARAM_PEAK_AT, where);
}

void plan_record(const plan *p, int64_t memory_bytes, results_cell *cell) {
    memory_account account = memory_account_plan(p);
    plan_record_cost(p, cell);
    plan_record_peak(p, &account, cell);
    cell_set_metric(cell, METRIC_PEAK_BYTES, "B", account.peak_bytes);
    cell_set_metric(cell, METRIC_RESERVED_BYTES, "B", account.reserved_bytes);
    if (memory_bytes) {
        cell_set_metric(cell, METRIC_MEMORY_BYTES, "B", memory_bytes);
        cell_set_text(cell, PARAM_FITS, account.reserved_bytes <= memory_bytes ? "yes" : "no");
    }
    record_flops_by_scope(p, cell);
    plan_record_values_at(p, account.peak_launch, cell);
    cell_set_status(cell, RESULTS_OK, NULL);
}
