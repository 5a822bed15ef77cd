#include "compiler/codegen/fused_kernel.h"

/* Elements a unit should have: enough to be worth a call, few enough to share among threads. */
enum { UNIT_ELEMENTS = 8192 };

static int later(int a, int b) { return a > b ? a : b; }

/* A row's number computed in stage s's loop is there for stage s + 1. */
static int stage_available(const fused_member *m) {
    return m->kind == FUSION_ROW_REDUCE ? m->stage + 1 : m->stage;
}

const renderer *renderer_of(const target *chip) {
    static const renderer *const renderers[TARGET_KIND_COUNT] = {
        [TARGET_CPU] = &renderer_c, [TARGET_CUDA] = &renderer_cuda};
    return renderers[chip->kind];
}

void fused_kernel_arrange(fused_kernel *k) {
    k->stage_count = 1;
    for (int i = 0; i < k->member_count; i++) {
        fused_member *m = &k->members[i];
        m->stage = 0;
        for (int j = 0; j < m->read_count; j++)
            if (m->reads[j].source == FUSED_MEMBER)
                m->stage = later(m->stage, stage_available(&k->members[m->reads[j].index]));
        k->stage_count = later(k->stage_count, m->stage + 1);
    }
    for (int i = 0; i < k->member_count; i++) {
        const fused_member *m = &k->members[i];
        for (int j = 0; j < m->read_count; j++) {
            if (m->reads[j].source != FUSED_MEMBER)
                continue;
            fused_member *from = &k->members[m->reads[j].index];
            if (!from->is_row && from->stage < m->stage && from->output < 0)
                from->is_kept = true;
        }
    }
    if (!k->rows_per_unit) {
        k->rows_per_unit = UNIT_ELEMENTS / k->columns;
        if (k->rows_per_unit < 1)
            k->rows_per_unit = 1;
    }
}
