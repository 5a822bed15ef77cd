/* common_subexpressions.c - in order, each node's inputs are replaced by their representatives;
 * a node that then equals an earlier one makes that one the representative of its outputs. Equal
 * nodes share their first input (or have none), so only the users of that are compared. */
#include "compiler/passes/common_subexpressions.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compiler/passes/dead_code.h"
#include "graph/op.h"

static bool same_attributes(const attributes *a, const attributes *b) {
    if (a->count != b->count)
        return false;
    for (int i = 0; i < a->count; i++) {
        const attribute *x = &a->items[i], *y = &b->items[i];
        if (strcmp(x->name, y->name) != 0 || x->kind != y->kind || x->integer != y->integer ||
            memcmp(&x->real, &y->real, sizeof x->real) != 0 || !shape_equal(&x->list, &y->list))
            return false;
    }
    return true;
}

static bool same_node(const node *a, const node *b) {
    if (a->op != b->op || a->phase != b->phase || a->input_count != b->input_count)
        return false;
    for (int i = 0; i < a->input_count; i++)
        if (a->inputs[i] != b->inputs[i])
            return false;
    return same_attributes(&a->attributes, &b->attributes);
}

/* What the backward recomputes is recomputed on purpose, so that the value need not live in
 * between; there only constants and views, which take no memory, are worth merging. */
static bool is_mergeable(const node *n) {
    if (n->phase != PHASE_FORWARD && n->input_count > 0 && !n->op->view)
        return false;
    for (int i = 0; i < n->output_count; i++)
        if (op_inplace_input(n, i) >= 0 || n->outputs[i]->is_output ||
            n->outputs[i]->role == ROLE_GRADIENT)
            return false;
    return true;
}

dyno_status common_subexpressions_merge(graph *g) {
    size_t values = (size_t)g->value_count, nodes = (size_t)g->node_count;
    value **stands_for = memory_allocate(values, sizeof *stands_for);
    /* Chains of seen nodes by first input; those without inputs hang on the last entry. */
    node **newest = memory_allocate(values + 1, sizeof *newest);
    node **older = memory_allocate(nodes, sizeof *older);
    for (size_t i = 0; i < values; i++)
        stands_for[i] = g->values[i];
    for (int i = 0; i < g->node_count; i++) {
        node *n = g->nodes[i];
        for (int j = 0; j < n->input_count; j++)
            n->inputs[j] = stands_for[n->inputs[j]->id];
        if (!is_mergeable(n))
            continue;
        size_t chain = n->input_count ? (size_t)n->inputs[0]->id : values;
        const node *twin = newest[chain];
        while (twin && !same_node(twin, n))
            twin = older[twin->id];
        if (twin) {
            for (int j = 0; j < n->output_count; j++) {
                stands_for[n->outputs[j]->id] = twin->outputs[j];
                if (n->outputs[j]->role == ROLE_SAVED)
                    twin->outputs[j]->role = ROLE_SAVED;
            }
        } else {
            older[n->id] = newest[chain];
            newest[chain] = n;
        }
    }
    free(stands_for);
    free(newest);
    free(older);
    return dead_code_drop(g);
}
