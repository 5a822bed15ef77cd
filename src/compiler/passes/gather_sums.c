/* gather_sums.c - one walk in order. Sums of one shape are held back, with the views of their
 * results, until there are enough of them or one of the results is read; then they are emitted
 * together. */
#include "compiler/passes/gather_sums.h"

#include <stdlib.h>

#include "base/memory.h"
#include "compiler/passes/uses.h"
#include "graph/op.h"
#include "ops/concat/concat.h"
#include "ops/op_list.h"
#include "ops/reshape/reshape.h"
#include "ops/split/split.h"
#include "ops/sum/sum.h"

/* Holding back also keeps the partial sums of the first alive until those of the last are computed.
 * */
enum { MOST_SUMS = 8 };

typedef struct gatherer {
    graph *g;
    uses *u;
    node **order;
    int count, capacity;
    node *waiting[MOST_SUMS];
    int waiting_count;
    node **views; /* of results of those that wait */
    int view_count, view_capacity;
    int value_count;  /* at first */
    bool *is_waiting; /* by value id: it is the result of one that waits, or a view of it */
} gatherer;

static void emit(gatherer *w, node *n) {
    MEMORY_GROW(w->order, w->count, w->capacity);
    w->order[w->count++] = n;
}

/* A sum over blocks: [P, C] to [1, C], where [P, C] was summed over the rows of blocks before. */
static bool is_block_sum(const node *n) {
    if (n->op != &op_sum || n->inputs[0]->shape.rank != 2)
        return false;
    const shape *axes = attribute_list(&n->attributes, "axes");
    const node *view = n->inputs[0]->producer;
    const node *partial = view && view->op == &op_reshape ? view->inputs[0]->producer : NULL;
    return axes->rank == 1 && axes->dim[0] == 0 && partial && partial->op == &op_sum &&
           partial->inputs[0]->shape.rank == 3;
}

static bool fits(const gatherer *w, const node *n) {
    const node *first = w->waiting[0];
    return w->waiting_count == 0 ||
           (first->phase == n->phase && first->inputs[0]->type == n->inputs[0]->type &&
            shape_equal(&first->inputs[0]->shape, &n->inputs[0]->shape));
}

/* Emits the nodes that replace all sums held back. */
static void build_together(gatherer *w) {
    graph *g = w->g;
    int sums = w->waiting_count;
    const node *last = w->waiting[sums - 1];
    shape each = last->inputs[0]->shape, apart = SHAPE(sums, 1, each.dim[0], each.dim[1]);
    shape blocks = SHAPE(2);
    value *partial[MOST_SUMS];
    for (int i = 0; i < sums; i++)
        partial[i] = w->waiting[i]->inputs[0];
    g->current_scope = last->scope;
    g->current_phase = last->phase;
    value *all = build_reshape(g, build_concat(g, partial, sums, 0), &apart);
    value *total = build_sum(g, all, &blocks);
    const node *split = build_split_evenly(g, total, 0, sums)->producer;
    for (int i = 0; i < sums; i++) {
        value *old = w->waiting[i]->outputs[0];
        uses_replace(w->u, old, build_reshape(g, split->outputs[i], &old->shape));
    }
}

static void finish(gatherer *w) {
    int before = w->g->node_count;
    if (w->waiting_count > 1)
        build_together(w);
    else if (w->waiting_count == 1)
        emit(w, w->waiting[0]);
    for (int i = before; i < w->g->node_count; i++)
        emit(w, w->g->nodes[i]);
    for (int i = 0; i < w->waiting_count; i++)
        w->is_waiting[w->waiting[i]->outputs[0]->id] = false;
    for (int i = 0; i < w->view_count; i++) {
        emit(w, w->views[i]);
        for (int j = 0; j < w->views[i]->output_count; j++)
            w->is_waiting[w->views[i]->outputs[j]->id] = false;
    }
    w->waiting_count = w->view_count = 0;
}

static bool reads_waiting(const gatherer *w, const node *n) {
    for (int i = 0; i < n->input_count; i++)
        if (n->inputs[i]->id < w->value_count && w->is_waiting[n->inputs[i]->id])
            return true;
    return false;
}

static void visit(gatherer *w, node *n) {
    bool reads = w->waiting_count > 0 && reads_waiting(w, n);
    if (reads && n->op->view) {
        MEMORY_GROW(w->views, w->view_count, w->view_capacity);
        w->views[w->view_count++] = n;
        for (int i = 0; i < n->output_count; i++)
            w->is_waiting[n->outputs[i]->id] = true;
        return;
    }
    if (reads)
        finish(w);
    if (!is_block_sum(n)) {
        emit(w, n);
        return;
    }
    if (!fits(w, n))
        finish(w);
    w->waiting[w->waiting_count++] = n;
    w->is_waiting[n->outputs[0]->id] = true;
    if (w->waiting_count == MOST_SUMS)
        finish(w);
}

void gather_sums(graph *g) {
    int nodes = g->node_count;
    gatherer w = {.g = g,
                  .u = uses_create(g),
                  .order = memory_allocate((size_t)nodes, sizeof(node *)),
                  .capacity = nodes,
                  .value_count = g->value_count,
                  .is_waiting = memory_allocate((size_t)g->value_count, sizeof(bool))};
    for (int i = 0; i < nodes; i++)
        visit(&w, g->nodes[i]);
    finish(&w);
    uses_destroy(w.u);
    graph_set_order(g, w.order, w.count);
    free(w.order);
    free(w.views);
    free(w.is_waiting);
}
