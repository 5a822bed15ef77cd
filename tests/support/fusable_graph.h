/* fusable_graph.h - random graphs of nothing but what can be generated: element-wise ops, row
 * reductions and sums over blocks of rows, on operands of every layout. */
#ifndef TESTS_SUPPORT_FUSABLE_GRAPH_H
#define TESTS_SUPPORT_FUSABLE_GRAPH_H

#include "graph/graph.h"
#include "support/draw.h"

typedef struct fusable_options {
    int64_t rows[2], columns; /* values are [rows[0], rows[1], columns] */
    int nodes;                /* about so many */
    bool has_low_types;       /* bf16 and f16 beside f32 */
    bool sums_blocks;         /* and sums over rows[1], in blocks */
} fusable_options;

/* Adds to the graph; `index` tells its leaves and outputs from those of other calls. */
void fusable_graph_add(graph *g, draw *d, const fusable_options *options, int index);

#endif
