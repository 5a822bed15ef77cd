#include "compiler/passes/low_copies.h"

#include <stdlib.h>

#include "base/memory.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/uses.h"
#include "graph/graph_parameter.h"
#include "ops/op_list.h"

/* The parameter's low copy, added if there is none yet; NULL when there is one of another type. */
static value *find_or_add(graph *g, graph_parameter *p, dtype type) {
    if (!p->low_copy)
        graph_add_part(g, p, PARAMETER_LOW_COPY, type);
    return p->low_copy->type == type ? p->low_copy : NULL;
}

/* The low copy of a weight, or of contiguous weights, in `type`; NULL for anything else. The concat
 * of the weights becomes one of their copies. */
static value *stand_in(graph *g, uses *u, value *v, dtype type) {
    if (graph_leaf_parameter(v))
        return find_or_add(g, v->parameter, type);
    node *concat = v->producer;
    if (!concat || !concat->op->piece || uses_count(u, v) != 1)
        return NULL;
    for (int i = 0; i < concat->input_count; i++) {
        graph_parameter *p = graph_leaf_parameter(concat->inputs[i]);
        if (!p || !find_or_add(g, p, type))
            return NULL;
    }
    for (int i = 0; i < concat->input_count; i++)
        uses_set_input(u, concat, i, concat->inputs[i]->parameter->low_copy);
    return rewrite_infer_types(concat) == DYNO_OK ? v : NULL;
}

dyno_status low_copies_bind(graph *g) {
    bool *is_dropped = memory_allocate((size_t)g->node_count, sizeof *is_dropped);
    uses *u = uses_create(g);
    for (int i = 0; i < g->node_count; i++) {
        const node *n = g->nodes[i];
        value *made = n->outputs[0];
        if (n->op != &op_cast || made->is_output || !dtype_is_low(made->type))
            continue;
        value *copy = stand_in(g, u, n->inputs[0], made->type);
        if (!copy)
            continue;
        uses_replace(u, made, copy);
        is_dropped[i] = true;
    }
    uses_destroy(u);
    rewrite_drop_nodes(g, is_dropped);
    free(is_dropped);
    return graph_status(g);
}

void low_copies_split(graph *g) {
    bool *is_read = memory_allocate((size_t)g->value_count, sizeof *is_read);
    for (int i = 0; i < g->node_count; i++)
        for (int j = 0; j < g->nodes[i]->input_count; j++)
            is_read[g->nodes[i]->inputs[j]->id] = true;
    for (int i = 0; i < g->parameter_count; i++) {
        graph_parameter *p = g->parameters[i];
        bool has_high = p->low_copy && dtype_table[p->low_copy->type].is_f32_upper_half;
        if (has_high && p->value->type == DTYPE_F32 && !p->value->is_output &&
            !is_read[p->value->id])
            graph_split_parameter(g, p);
    }
    free(is_read);
}
