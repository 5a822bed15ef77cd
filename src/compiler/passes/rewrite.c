#include "compiler/passes/rewrite.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/op.h"

void rewrite_set_attribute(graph *g, node *n, attribute item) {
    item.name = arena_copy_string(g->memory, item.name);
    attributes *list = &n->attributes;
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, item.name) == 0) {
            list->items[i] = item;
            return;
        }
    attribute *grown = arena_allocate(g->memory, (size_t)list->count + 1, sizeof *grown);
    if (list->count)
        memcpy(grown, list->items, (size_t)list->count * sizeof *grown);
    grown[list->count++] = item;
    list->items = grown;
}

dyno_status rewrite_infer_types(node *n) {
    value_type few[OP_MAX_OUTPUTS] = {0};
    value_type *many = n->output_count > OP_MAX_OUTPUTS
                           ? memory_allocate((size_t)n->output_count, sizeof *many)
                           : NULL;
    value_type *types = many ? many : few;
    dyno_status status = n->op->infer(n, types);
    for (int i = 0; i < n->output_count && status == DYNO_OK; i++) {
        n->outputs[i]->type = types[i].type;
        n->outputs[i]->shape = types[i].shape;
    }
    free(many);
    return status;
}

void rewrite_drop_nodes(graph *g, const bool *is_dropped) {
    node **order = memory_allocate((size_t)g->node_count, sizeof *order);
    int kept = 0;
    for (int i = 0; i < g->node_count; i++)
        if (!is_dropped[i])
            order[kept++] = g->nodes[i];
    graph_set_order(g, order, kept);
    free(order);
}
