#include "measure/memory_detail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "measure/keys.h"
#include "measure/plan_record.h"
#include "plan/memory_formula.h"
#include "plan/memory_walk.h"
#include "plan/model_blocks.h"
#include "plan/value_groups.h"

/* ---- the peak ---- */

/* What the lookup of the tokens gives is the residual stream as the first block gets it. */
static const tensor *find_residual(const plan *p) {
    for (int i = 0; i < p->launch_count; i++)
        if (strcmp(p->scopes[p->launches[i].scope], "embed") == 0 && p->launches[i].output_count)
            return &p->launches[i].outputs[0].layout;
    return NULL;
}

static void record_residual(const plan *p, int64_t batch, int64_t context, results_cell *cell) {
    const tensor *residual = find_residual(p);
    if (!residual)
        return;
    int64_t width = shape_elements(&residual->shape) / (batch * context);
    plan_buffer stream = {.type = residual->type, .shape = SHAPE(batch, context, width)};
    text formula = {0};
    memory_formula_append(&stream, &formula);
    cell_set_metric(cell, METRIC_RESIDUAL_BYTES, "B", tensor_bytes(residual));
    cell_set_text(cell, PARAM_RESIDUAL, text_string(&formula));
    text_release(&formula);
}

void memory_detail_record_peak(const plan *p, const memory_account *account, int64_t batch,
                               int64_t context, results_cell *cell) {
    cell_set_metric(cell, METRIC_LAUNCHES, "", p->launch_count);
    plan_record_peak(p, account, cell);
    cell_set_metric(cell, METRIC_ALIVE_BYTES, "B", account->alive_bytes);
    cell_set_metric(cell, METRIC_BLOCK_BYTES, "B", account->peak_block_bytes);
    cell_set_metric(cell, METRIC_PREDICTED_BYTES, "B", account->peak_bytes);
    cell_set_metric(cell, METRIC_PREDICTED_RESERVED_BYTES, "B", account->reserved_bytes);
    cell_set_metric(cell, METRIC_SAVED_BYTES, "B", memory_account_saved_bytes(p));
    if (p->memory_mode == PLAN_MEMORY_STATIC)
        cell_set_metric(cell, METRIC_ARENA_BYTES, "B", p->arena_bytes);
    record_residual(p, batch, context, cell);
}

/* ---- the timeline ---- */

void memory_detail_sample(const memory_record *records, int count, memory_sample *samples,
                          int launch_count) {
    memory_sample now = {0};
    int next = 0;
    for (int launch = -1; launch < launch_count; launch++) {
        bool is_repeated = next < count && records[next].launch >= 0;
        if (is_repeated && records[next].launch < launch)
            launch = records[next].launch; /* the next micro-batch begins, with less alive */
        /* Births come before the launch's deaths in the records; both carry its number. */
        for (; next < count && records[next].launch == launch && records[next].is_allocation;
             next++) {
            now.block_bytes += records[next].bytes;
            now.tensor_bytes += records[next].tensor_bytes;
        }
        samples[launch + 1] = now;
        for (; next < count && records[next].launch == launch && !records[next].is_allocation;
             next++) {
            now.block_bytes -= records[next].bytes;
            now.tensor_bytes -= records[next].tensor_bytes;
        }
    }
}

typedef struct timeline {
    const plan *p;
    const memory_sample *measured;
    results_breakdown *table;
} timeline;

static void add_moment(void *context, const memory_moment *now) {
    const timeline *t = context;
    const char *keys[] = {"", "", ""};
    if (now->launch >= 0) {
        const plan_launch *l = &t->p->launches[now->launch];
        keys[0] = phase_name(l->phase);
        keys[1] = t->p->scopes[l->scope];
        keys[2] = l->op_name;
    }
    results_value values[ROLE_COUNT + 5] = {results_integer(now->launch)};
    int count = 1;
    for (int r = 0; r < ROLE_COUNT; r++)
        values[count++] = results_integer(now->alive[r]);
    values[count++] = results_integer(now->block_bytes);
    values[count++] = results_integer(now->reserved_bytes);
    if (t->measured) {
        values[count++] = results_integer(t->measured[now->launch + 1].block_bytes);
        values[count++] = results_integer(t->measured[now->launch + 1].tensor_bytes);
    }
    breakdown_add_row(t->table, keys, values);
}

void memory_detail_record_timeline(const plan *p, const memory_sample *measured,
                                   results_cell *cell) {
    static const char *const keys[] = {KEY_PHASE, KEY_SCOPE, KEY_OP};
    results_column columns[ROLE_COUNT + 5] = {{COLUMN_LAUNCH, ""}};
    int count = 1;
    for (int r = 0; r < ROLE_COUNT; r++)
        columns[count++] = (results_column){role_name((role)r), "B"};
    columns[count++] = (results_column){COLUMN_BLOCKS, "B"};
    columns[count++] = (results_column){COLUMN_RESERVED, "B"};
    if (measured) {
        columns[count++] = (results_column){COLUMN_MEASURED, "B"};
        columns[count++] = (results_column){COLUMN_MEASURED_TENSORS, "B"};
    }
    timeline t = {p, measured,
                  cell_add_breakdown(cell, BREAKDOWN_TIMELINE, keys, 3, columns, count)};
    memory_walk(p, &(memory_visitor){.context = &t, .on_moment = add_moment});
}

/* ---- values ---- */

static void record_allocations(const plan *p, results_cell *cell) {
    static const char *const keys[] = {KEY_VALUE, KEY_OP, KEY_ROLE, KEY_FORMULA};
    static const results_column columns[] = {{COLUMN_COUNT, ""},
                                             {COLUMN_BYTES, "B"},
                                             {COLUMN_BORN, ""},
                                             {COLUMN_LAST_USED, ""},
                                             {COLUMN_PERSISTENT, ""}};
    int count;
    value_group *groups = value_groups_create(p, &(value_group_options){.is_by_op = true}, &count);
    value_groups_sort_by_size(groups, count);
    results_breakdown *table = cell_add_breakdown(cell, BREAKDOWN_ALLOCATIONS, keys, 4, columns, 5);
    for (int i = 0; i < count; i++) {
        const plan_buffer *b = groups[i].sample;
        text formula = {0};
        memory_formula_append(b, &formula);
        const char *texts[] = {groups[i].name.text, groups[i].op, role_name(b->role),
                               text_string(&formula)};
        results_value values[] = {results_integer(groups[i].count), results_integer(b->bytes),
                                  results_integer(b->born), results_integer(b->last_used),
                                  results_integer(b->is_persistent)};
        breakdown_add_row(table, texts, values);
        text_release(&formula);
    }
    free(groups);
}

static bool waits_for_backward(void *launch, const plan_buffer *b) {
    return memory_account_is_saved(b, *(const int *)launch);
}

static void record_saved(const plan *p, results_cell *cell) {
    static const char *const keys[] = {KEY_SCOPE, KEY_OP, KEY_FORMULA};
    static const results_column columns[] = {{COLUMN_COUNT, ""}, {COLUMN_BYTES, "B"}};
    int backward = memory_account_first_backward(p), count;
    if (backward == p->launch_count)
        return;
    value_group *groups = value_groups_create(
        p,
        &(value_group_options){.takes = waits_for_backward, .context = &backward, .is_by_op = true},
        &count);
    value_groups_sort_by_total(groups, count);
    results_breakdown *table = cell_add_breakdown(cell, BREAKDOWN_SAVED_BY_OP, keys, 3, columns, 2);
    for (int i = 0; i < count; i++) {
        text formula = {0};
        memory_formula_append(groups[i].sample, &formula);
        const char *texts[] = {groups[i].name.text, groups[i].op, text_string(&formula)};
        results_value values[] = {results_integer(groups[i].count),
                                  results_integer(groups[i].bytes)};
        breakdown_add_row(table, texts, values);
        text_release(&formula);
    }
    free(groups);
}

/* The row "-" has what belongs to no block. */
static void record_blocks(const plan *p, results_cell *cell) {
    static const results_column columns[BLOCK_COLUMN_COUNT] = {
        [BLOCK_WEIGHTS] = {"parameter", "B"},
        [BLOCK_GRADIENTS] = {"gradient", "B"},
        [BLOCK_GRADIENT_SUMS] = {COLUMN_GRADIENT_SUMS, "B"},
        [BLOCK_STATE] = {"optimizer-state", "B"},
        [BLOCK_SAVED] = {"saved", "B"}};
    const char *key = KEY_BLOCK;
    int blocks;
    model_block_bytes *rows = model_blocks_of(p, &blocks);
    results_breakdown *table =
        cell_add_breakdown(cell, BREAKDOWN_BY_BLOCK, &key, 1, columns, BLOCK_COLUMN_COUNT);
    for (int i = 0; i <= blocks; i++) {
        char name[16] = "-";
        if (i < blocks)
            snprintf(name, sizeof name, "%d", i);
        results_value values[BLOCK_COLUMN_COUNT];
        for (int c = 0; c < BLOCK_COLUMN_COUNT; c++)
            values[c] = results_integer(rows[i].of[c]);
        breakdown_add_row(table, &(const char *){name}, values);
    }
    free(rows);
}

void memory_detail_record_values(const plan *p, const memory_account *account, results_cell *cell) {
    plan_record_values_at(p, account->peak_launch, cell);
    record_allocations(p, cell);
    record_saved(p, cell);
    record_blocks(p, cell);
}
