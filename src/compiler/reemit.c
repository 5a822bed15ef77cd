#include "compiler/reemit.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

int scope_block(const char *scope) {
    static const char prefix[] = "layers.";
    if (strncmp(scope, prefix, sizeof prefix - 1) != 0)
        return -1;
    const char *digits = scope + sizeof prefix - 1;
    char *end;
    if (*digits < '0' || *digits > '9')
        return -1;
    long number = strtol(digits, &end, 10);
    return (*end == '.' || *end == '\0') && number < INT_MAX ? (int)number : -1;
}

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
