#include "report/memory_kinds.h"

#include <string.h>

#include "measure/keys.h"

static const struct {
    const char *name;
    const char *roles[3]; /* "" for all */
} KINDS[MEMORY_KIND_COUNT] = {
    [MEMORY_WEIGHTS] = {"weights", {"parameter"}},
    [MEMORY_GRADIENTS] = {"gradients", {"gradient"}},
    [MEMORY_STATE] = {"state", {"optimizer-state"}},
    [MEMORY_ACTIVATIONS] = {"activations", {"activation", "saved", "workspace"}},
    [MEMORY_INPUTS] = {"inputs", {"input"}},
    [MEMORY_ALL] = {"all", {""}},
};

const char *memory_kind_name(memory_kind kind) { return KINDS[kind].name; }

bool memory_kind_has_role(memory_kind kind, const char *role) {
    for (int i = 0; i < 3 && KINDS[kind].roles[i]; i++)
        if (!KINDS[kind].roles[i][0] || strcmp(KINDS[kind].roles[i], role) == 0)
            return true;
    return false;
}

const results_breakdown *memory_stages_of(const results_cell *cell) {
    const results_breakdown *b = cell_find_breakdown(cell, BREAKDOWN_MEMORY_STAGES);
    return b && b->key_count == 2 && b->column_count == 2 ? b : NULL;
}

double memory_stage_bytes(const results_breakdown *stages, const char *stage, memory_kind kind,
                          int column) {
    double bytes = 0;
    for (int64_t i = 0; i < stages->row_count; i++) {
        const results_row *row = &stages->rows[i];
        if (strcmp(row->keys[0], stage) == 0 && memory_kind_has_role(kind, row->keys[1]))
            bytes += results_number(&row->values[column]);
    }
    return bytes;
}

const char *memory_fullest_stage(const results_breakdown *stages, int *column) {
    const char *fullest = NULL;
    double most = 0;
    for (*column = MEMORY_MEASURED; *column >= MEMORY_PREDICTED; --*column) {
        for (int64_t i = 0; i < stages->row_count; i++) {
            const char *stage = stages->rows[i].keys[0];
            double bytes = memory_stage_bytes(stages, stage, MEMORY_ALL, *column);
            if (bytes > most) {
                most = bytes;
                fullest = stage;
            }
        }
        if (fullest)
            return fullest;
    }
    return NULL;
}
