#include "compiler/passes/reemit.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* What follows "layers.N" in the scope, N in *block; NULL where it does not start so. */
static const char *after_block(const char *scope, int *block) {
    static const char prefix[] = "layers.";
    if (strncmp(scope, prefix, sizeof prefix - 1) != 0)
        return NULL;
    const char *digits = scope + sizeof prefix - 1;
    char *end;
    if (*digits < '0' || *digits > '9')
        return NULL;
    long number = strtol(digits, &end, 10);
    if ((*end != '.' && *end != '\0') || number >= INT_MAX)
        return NULL;
    *block = (int)number;
    return end;
}

int scope_block(const char *scope) {
    int block;
    return after_block(scope, &block) ? block : -1;
}

int scope_mlp(const char *scope) {
    static const char *const names[] = {".mlp", ".mlp_norm"};
    int block;
    const char *rest = after_block(scope, &block);
    for (size_t i = 0; rest && i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(rest, names[i], length) == 0 && (rest[length] == '.' || rest[length] == '\0'))
            return block;
    }
    return -1;
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
