#include "compiler/passes/mark_saved.h"

dyno_status mark_saved_activations(graph *g) {
    for (int i = 0; i < g->value_count; i++)
        if (g->values[i]->producer && g->values[i]->role == ROLE_SAVED)
            g->values[i]->role = ROLE_ACTIVATION;
    for (int i = 0; i < g->node_count; i++) {
        const node *n = g->nodes[i];
        if (n->phase == PHASE_FORWARD)
            continue;
        for (int j = 0; j < n->input_count; j++) {
            value *v = n->inputs[j];
            if (v->producer && v->producer->phase == PHASE_FORWARD && v->role == ROLE_ACTIVATION)
                v->role = ROLE_SAVED;
        }
    }
    return DYNO_OK;
}
