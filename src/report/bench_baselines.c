/* bench_baselines.c - cells are sorted by what they have in common, so that a grid of many thousands
 * is not compared cell by cell with all of itself. */
#include "report/bench_baselines.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "measure/keys.h"
#include "report/view_parts.h"

static const char *const WAYS[] = {PARAM_MODE,      PARAM_MATH,      PARAM_ATTENTION,
                                   PARAM_RECOMPUTE, PARAM_GRADIENTS, NULL};
static const char *const RECOMPUTE[] = {PARAM_RECOMPUTE, NULL};

/* A cell under what it has in common with those that it is compared with. */
typedef struct common_key {
    char *key;
    int64_t index;
} common_key;

static int by_key_then_index(const void *a, const void *b) {
    const common_key *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static char *key_of(const results_cell *cell, const char *const *except) {
    text key = {0};
    for (int i = 0; i < cell->parameters.count; i++) {
        const results_entry *entry = &cell->parameters.entries[i];
        if (view_is_one_of(entry->key, except))
            continue;
        text_format(&key, "%s=", entry->key);
        view_append_value(&key, &entry->value);
        text_append(&key, "\n");
    }
    char *copy = memory_copy_string(text_string(&key));
    text_release(&key);
    return copy;
}

static bool is_plain(const results_cell *cell) {
    return strcmp(view_text(cell, PARAM_RECOMPUTE), "none") == 0;
}

/* For each cell, the first of its group that may be a baseline; NULL: none. */
static void find(const results *run, const char *const *except, bool wants_plain,
                 const results_cell **out) {
    common_key *keys = memory_allocate((size_t)run->cell_count, sizeof *keys);
    for (int64_t i = 0; i < run->cell_count; i++)
        keys[i] = (common_key){key_of(run->cells[i], except), i};
    qsort(keys, (size_t)run->cell_count, sizeof *keys, by_key_then_index);
    for (int64_t begin = 0, end; begin < run->cell_count; begin = end) {
        const results_cell *first = NULL;
        for (end = begin; end < run->cell_count && strcmp(keys[end].key, keys[begin].key) == 0;
             end++) {
            const results_cell *cell = run->cells[keys[end].index];
            if (!first && cell->status != RESULTS_SKIP && (!wants_plain || is_plain(cell)))
                first = cell;
        }
        for (int64_t i = begin; i < end; i++)
            out[keys[i].index] = first;
    }
    for (int64_t i = 0; i < run->cell_count; i++)
        free(keys[i].key);
    free(keys);
}

bench_baselines bench_baselines_of(const results *run) {
    bench_baselines b = {.first_way =
                             memory_allocate((size_t)run->cell_count + 1, sizeof *b.first_way),
                         .plain = memory_allocate((size_t)run->cell_count + 1, sizeof *b.plain)};
    find(run, WAYS, false, b.first_way);
    find(run, RECOMPUTE, true, b.plain);
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        if (is_plain(cell))
            b.plain[i] = NULL;
        b.has_ways = b.has_ways || (b.first_way[i] && b.first_way[i] != cell);
        b.has_recompute = b.has_recompute || b.plain[i];
    }
    return b;
}

void bench_baselines_release(bench_baselines *b) {
    free(b->first_way);
    free(b->plain);
    *b = (bench_baselines){0};
}
