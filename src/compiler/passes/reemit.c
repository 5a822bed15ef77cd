#include "compiler/passes/reemit.h"

node *reemit_node(graph *g, const node *n, value *const *inputs) {
    int scope = g->current_scope;
    phase outer = g->current_phase;
    g->current_scope = n->scope;
    g->current_phase = PHASE_BACKWARD;
    value *first =
        graph_add_node(g, n->op, inputs, n->input_count, n->attributes.items, n->attributes.count);
    g->current_scope = scope;
    g->current_phase = outer;
    return first->producer;
}
