#include "compiler/passes/weight_views.h"

#include <stdlib.h>

#include "base/memory.h"
#include "compiler/passes/insertions.h"
#include "compiler/passes/reemit.h"
#include "graph/op.h"

/* Whether nothing but weights and views of them is in `v`, which the forward makes. */
static bool is_view_of_weights(const value *v) {
    const node *n = v->producer;
    if (!n)
        return v->role == ROLE_PARAMETER;
    if (n->phase != PHASE_FORWARD || !(n->op->view || n->op->piece))
        return false;
    for (int i = 0; i < n->input_count; i++)
        if (!is_view_of_weights(n->inputs[i]))
            return false;
    return true;
}

/* `v` made again for the backward; again[] has what was, by value id. */
static value *view_again(graph *g, value *v, value **again) {
    if (!v->producer)
        return v;
    if (again[v->id])
        return again[v->id];
    const node *n = v->producer;
    value **inputs = memory_allocate((size_t)n->input_count, sizeof *inputs);
    for (int i = 0; i < n->input_count; i++)
        inputs[i] = view_again(g, n->inputs[i], again);
    again[v->id] = reemit_node(g, n, inputs)->outputs[v->output_index];
    free(inputs);
    return again[v->id];
}

void weight_views_separate(graph *g) {
    insertions made = insertions_begin(g);
    int nodes = g->node_count;
    value **again = memory_allocate((size_t)g->value_count, sizeof *again);
    for (int i = 0; i < nodes; i++) {
        node *n = g->nodes[i];
        for (int j = 0; j < n->input_count && n->phase == PHASE_BACKWARD; j++) {
            value *v = n->inputs[j];
            if (!v->producer || !is_view_of_weights(v))
                continue;
            n->inputs[j] = view_again(g, v, again);
            insertions_note(g, &made, i > 0 ? g->nodes[i - 1] : NULL);
        }
    }
    free(again);
    insertions_apply(g, &made);
}
