#include "compiler/passes/repeat_sums.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compiler/passes/uses.h"
#include "graph/op.h"
#include "ops/op_list.h"

static bool is_made_by_group(const value *v, int group) {
    return v->producer && v->producer->group == group;
}

/* The input of `sum` that its own group widens from a saved value of a low type; -1 when there is
 * none, or the other one is not in memory. */
static int narrow_input(const node *sum) {
    for (int i = 0; i < 2; i++) {
        const value *wide = sum->inputs[i], *other = sum->inputs[1 - i];
        if (!is_made_by_group(wide, sum->group) || wide->producer->op != &op_cast)
            continue;
        const value *narrow = wide->producer->inputs[0];
        if (narrow->role == ROLE_SAVED && dtype_bytes(narrow->type) < dtype_bytes(wide->type) &&
            !is_made_by_group(narrow, sum->group) && !is_made_by_group(other, sum->group))
            return i;
    }
    return -1;
}

/* The one node outside the group that makes `v` and reads it; NULL unless there is exactly one and
 * it has a group. */
static node *only_reader_outside(uses *u, const value *v) {
    node *found = NULL;
    for (node *n = uses_next_reader(u, v, NULL); n; n = uses_next_reader(u, v, n)) {
        if (n->group == v->producer->group)
            continue;
        if (found || !n->group || n->phase != PHASE_FORWARD)
            return NULL;
        found = n;
    }
    return found;
}

static value *repeat(graph *g, const node *n, value *const *inputs, int group) {
    g->current_scope = n->scope;
    g->current_phase = n->phase;
    value *again =
        graph_add_node(g, n->op, inputs, n->input_count, n->attributes.items, n->attributes.count);
    again->producer->group = group;
    return again;
}

/* Adds the sum again for its reader; the new nodes are the last of the graph. */
static void repeat_for(graph *g, uses *u, const node *sum, int narrow, node *reader) {
    const node *cast = sum->inputs[narrow]->producer;
    value *inputs[2];
    inputs[narrow] = repeat(g, cast, cast->inputs, reader->group);
    inputs[1 - narrow] = sum->inputs[1 - narrow];
    value *again = repeat(g, sum, inputs, reader->group);
    for (int i = 0; i < reader->input_count; i++)
        if (reader->inputs[i] == sum->outputs[0])
            uses_set_input(u, reader, i, again);
}

void repeat_sums(graph *g) {
    int nodes = g->node_count;
    node **before = memory_allocate((size_t)nodes, sizeof *before);
    /* By node id: where the nodes that it waits for begin; 0 when there are none. */
    int *begin = memory_allocate((size_t)nodes, sizeof *begin);
    uses *u = uses_create(g);
    memcpy(before, g->nodes, (size_t)nodes * sizeof *before);
    for (int i = 0; i < nodes; i++) {
        const node *n = before[i];
        const value *sum = n->outputs[0];
        if (n->op != &op_add || n->phase != PHASE_FORWARD || !n->group || sum->is_output ||
            sum->role == ROLE_SAVED)
            continue;
        int narrow = narrow_input(n);
        node *reader = narrow >= 0 ? only_reader_outside(u, sum) : NULL;
        if (!reader || begin[reader->id])
            continue;
        begin[reader->id] = g->node_count;
        repeat_for(g, u, n, narrow, reader);
    }
    uses_destroy(u);
    node **order = memory_allocate((size_t)g->node_count, sizeof *order);
    int count = 0;
    for (int i = 0; i < nodes; i++) {
        for (int j = 0; begin[before[i]->id] && j < 2; j++) /* the cast and the sum */
            order[count++] = g->nodes[begin[before[i]->id] + j];
        order[count++] = before[i];
    }
    graph_set_order(g, order, count);
    free(before);
    free(begin);
    free(order);
}
