#include "compiler/passes/split_sums.h"

#include <stdlib.h>

#include "base/memory.h"
#include "graph/op.h"
#include "ops/reshape/reshape.h"
#include "ops/sum/sum.h"

int64_t split_sums_rows_per_block(int64_t rows, const target *chip) {
    /* As many blocks, where there are rows enough, as keep all threads busy: a few for each core,
     * two for each multiprocessor of a GPU. */
    bool is_gpu = target_is_cuda(chip);
    int64_t block = is_gpu ? 256 : 64, blocks = is_gpu ? 256 : 16;
    while (block > 1 && (rows % block != 0 || rows / block < blocks))
        block /= 2;
    return block;
}

static bool is_column_sum(const node *n) {
    if (n->op->reduction != REDUCTION_SUM)
        return false;
    const shape *axes = attribute_list(&n->attributes, "axes"), *in = &n->inputs[0]->shape;
    if (in->rank < 2 || axes->rank != in->rank - 1)
        return false;
    for (int i = 0; i < axes->rank; i++)
        if (axes->dim[i] != i)
            return false;
    return true;
}

/* sum over all rows -> sum over the rows of each block, then over blocks. The new nodes are added
 * at the end and moved before the old one, which keeps its place as the last of them. */
static void split_column_sum(graph *g, node *n, const target *chip) {
    shape in = n->inputs[0]->shape;
    int64_t columns = in.dim[in.rank - 1], rows = shape_elements(&in) / columns;
    int64_t block = split_sums_rows_per_block(rows, chip);
    if (block == 1 || block == rows)
        return;
    shape blocks = SHAPE(rows / block, block, columns), flat = SHAPE(rows / block, columns);
    shape middle = SHAPE(1), first = SHAPE(0);
    g->current_scope = n->scope;
    g->current_phase = n->phase;
    value *partial = build_sum(g, build_reshape(g, n->inputs[0], &blocks), &middle);
    value *total = build_sum(g, build_reshape(g, partial, &flat), &first);
    value *shaped = build_reshape(g, total, &n->outputs[0]->shape);
    /* The new result takes over the identity of the old one. */
    value *old = n->outputs[0];
    node *last = shaped->producer;
    last->outputs[0] = old;
    old->producer = last;
    n->outputs[0] = shaped;
    shaped->producer = n;
}

dyno_status split_sums(graph *g, const target *chip) {
    int before = g->node_count;
    node **order = memory_allocate((size_t)before * 6, sizeof *order);
    int count = 0;
    for (int i = 0; i < before; i++) {
        node *n = g->nodes[i];
        int from = g->node_count;
        if (is_column_sum(n))
            split_column_sum(g, n, chip);
        if (g->node_count == from)
            order[count++] = n; /* else dropped: it has no reader any more */
        for (int j = from; j < g->node_count; j++)
            order[count++] = g->nodes[j];
    }
    graph_set_order(g, order, count);
    free(order);
    return graph_status(g);
}
