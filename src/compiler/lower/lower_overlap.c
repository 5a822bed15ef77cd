/* lower_overlap.c - lets collectives run beside the launches that follow them.
 *
 * A collective that may do so is on a stream of its own. A launch that shares memory with it waits for
 * it (plan/hazards.h on a GPU, runtime/transfers.c on a CPU); what it uses lives at least that long. */
#include "compiler/lower/lower.h"
#include "plan/operand.h"

static void keep_operands(plan *p, const plan_operand *operands, int count, int launch) {
    for (int i = 0; i < count; i++) {
        plan_buffer *b = &p->buffers[operands[i].buffer];
        if (!b->is_persistent && b->last_used < launch)
            b->last_used = launch;
    }
}

void lower_overlap(plan *p) {
    bool is_any = false;
    for (int i = 0; i < p->launch_count; i++) {
        plan_launch *l = &p->launches[i];
        if (l->phase != PHASE_COMMUNICATION || !attribute_find(&l->attributes, "overlapped"))
            continue;
        is_any = true;
        l->stream = PLAN_STREAM_COMMUNICATION;
        int waits = i + 1;
        while (waits < p->launch_count && !plan_launches_conflict(p, i, waits))
            waits++;
        keep_operands(p, l->inputs, l->input_count, waits);
        keep_operands(p, l->outputs, l->output_count, waits);
    }
    if (is_any)
        plan_finish(p);
}
