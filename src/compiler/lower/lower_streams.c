/* lower_streams.c - lets updates of weights run concurrently with the backward that follows them.
 *
 * Such an update is memory-bound, the products of the next block are compute-bound: concurrently
 * they take less time than one after the other. It is safe because nothing reads what the update
 * writes before the step is over, and what it reads stays alive until the next update begins. */
#include "compiler/lower/lower.h"

/* An update writes persistent buffers and nothing else. */
static bool is_update(const plan *p, const plan_launch *l) {
    if (l->phase != PHASE_OPTIMIZER)
        return false;
    for (int i = 0; i < l->output_count; i++)
        if (!p->buffers[l->outputs[i].buffer].is_persistent)
            return false;
    return true;
}

static void keep_until(plan *p, int buffer, int launch) {
    plan_buffer *b = &p->buffers[buffer];
    if (!b->is_persistent && b->last_used < launch)
        b->last_used = launch;
}

void lower_streams(plan *p) {
    int next = p->launch_count, last_work = -1; /* next: the update that follows on stream 1 */
    for (int i = 0; i < p->launch_count; i++) {
        if (p->launches[i].phase == PHASE_COMMUNICATION)
            return; /* updates come behind the collectives, or collectives behind updates */
        if (!is_update(p, &p->launches[i]))
            last_work = i;
    }
    for (int i = last_work; i >= 0; i--) {
        plan_launch *l = &p->launches[i];
        if (!is_update(p, l))
            continue;
        l->stream = 1;
        /* An output of the step lives until launch_count; so does this. */
        for (int j = 0; j < l->input_count; j++)
            keep_until(p, l->inputs[j].buffer, next);
        if (l->workspace >= 0)
            keep_until(p, l->workspace, next);
        next = i;
    }
    plan_finish(p);
}
