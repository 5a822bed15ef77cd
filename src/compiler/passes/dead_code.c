#include "compiler/passes/dead_code.h"

#include <stdlib.h>

#include "base/memory.h"
#include "graph/op.h"

/* A node with an effect even if no node reads it. */
static bool has_effect(const node *n) {
    for (int i = 0; i < n->output_count; i++)
        if (n->outputs[i]->is_output || op_inplace_input(n, i) >= 0)
            return true;
    return false;
}

dyno_status dead_code_drop(graph *g) {
    bool *needed = memory_allocate((size_t)g->value_count, sizeof *needed);
    node **kept = memory_allocate((size_t)g->node_count, sizeof *kept);
    int from = g->node_count;
    for (int i = g->node_count - 1; i >= 0; i--) {
        node *n = g->nodes[i];
        bool is_needed = has_effect(n);
        for (int j = 0; j < n->output_count; j++)
            is_needed = is_needed || needed[n->outputs[j]->id];
        if (!is_needed)
            continue;
        for (int j = 0; j < n->input_count; j++)
            needed[n->inputs[j]->id] = true;
        kept[--from] = n;
    }
    graph_set_order(g, kept + from, g->node_count - from);
    free(needed);
    free(kept);
    return DYNO_OK;
}
