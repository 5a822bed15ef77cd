#include "compiler/passes/low_copies.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compiler/passes/rewrite.h"
#include "ops/op_list.h"

enum {
    PREFIX_LENGTH = sizeof LOW_COPY_PREFIX - 1,
    REST_PREFIX_LENGTH = sizeof WEIGHT_REST_PREFIX - 1
};

bool weight_is_split(const value *parameter) {
    return parameter->type == DTYPE_U16 &&
           strncmp(parameter->name, WEIGHT_REST_PREFIX, REST_PREFIX_LENGTH) == 0;
}

const char *weight_name(const value *parameter) {
    return parameter->name + (weight_is_split(parameter) ? REST_PREFIX_LENGTH : 0);
}

bool low_copy_is(const value *v) {
    return !v->producer && v->role == ROLE_PARAMETER &&
           strncmp(v->name, LOW_COPY_PREFIX, PREFIX_LENGTH) == 0;
}

value *low_copy_find(const graph *g, const value *parameter) {
    for (int i = 0; i < g->value_count; i++) {
        value *v = g->values[i];
        if (low_copy_is(v) && strcmp(v->name + PREFIX_LENGTH, weight_name(parameter)) == 0)
            return v;
    }
    return NULL;
}

static value *add_copy(graph *g, const value *parameter, dtype type) {
    value *copy = graph_add_leaf(g, ROLE_PARAMETER, type, &parameter->shape,
                                 arena_format(g->memory, LOW_COPY_PREFIX "%s", parameter->name));
    if (parameter->family)
        graph_join_family(g, &copy, 1,
                          arena_format(g->memory, LOW_COPY_PREFIX "%s", parameter->family));
    return copy;
}

static bool is_weight(const value *v) {
    return !v->producer && v->role == ROLE_PARAMETER && !low_copy_is(v);
}

/* The parameter's low copy, added if there is none yet; NULL when there is one of another type. */
static value *find_or_add(graph *g, const value *parameter, dtype type) {
    value *copy = low_copy_find(g, parameter);
    if (!copy)
        copy = add_copy(g, parameter, type);
    return copy->type == type ? copy : NULL;
}

/* What stands for a weight, or for weights side by side, in `type`; NULL for anything else. The
 * concat that lays them side by side is then one of copies. */
static value *stand_in(graph *g, value *v, dtype type) {
    if (is_weight(v))
        return find_or_add(g, v, type);
    node *concat = v->producer;
    if (!concat || !concat->op->piece || rewrite_count_uses(g, v) != 1)
        return NULL;
    for (int i = 0; i < concat->input_count; i++)
        if (!is_weight(concat->inputs[i]) || !find_or_add(g, concat->inputs[i], type))
            return NULL;
    for (int i = 0; i < concat->input_count; i++)
        concat->inputs[i] = find_or_add(g, concat->inputs[i], type);
    return rewrite_infer_types(concat) == DYNO_OK ? v : NULL;
}

dyno_status low_copies_bind(graph *g) {
    bool *is_dropped = memory_allocate((size_t)g->node_count, sizeof *is_dropped);
    for (int i = 0; i < g->node_count; i++) {
        const node *n = g->nodes[i];
        value *made = n->outputs[0];
        if (n->op != &op_cast || made->is_output || !dtype_is_low(made->type))
            continue;
        value *copy = stand_in(g, n->inputs[0], made->type);
        if (!copy)
            continue;
        rewrite_replace(g, made, copy);
        is_dropped[i] = true;
    }
    rewrite_drop_nodes(g, is_dropped);
    free(is_dropped);
    return graph_status(g);
}

void low_copies_split(graph *g) {
    bool *is_read = memory_allocate((size_t)g->value_count, sizeof *is_read);
    for (int i = 0; i < g->node_count; i++)
        for (int j = 0; j < g->nodes[i]->input_count; j++)
            is_read[g->nodes[i]->inputs[j]->id] = true;
    for (int i = 0; i < g->value_count; i++) {
        value *v = g->values[i];
        if (v->producer || v->role != ROLE_PARAMETER || v->type != DTYPE_F32 || v->is_output ||
            is_read[i])
            continue;
        const value *copy = low_copy_find(g, v);
        if (!copy || !dtype_table[copy->type].is_f32_upper_half)
            continue;
        v->name = arena_format(g->memory, WEIGHT_REST_PREFIX "%s", v->name);
        v->type = DTYPE_U16;
        v->family = NULL; /* only copies are multiplied, and lie side by side for that */
    }
    free(is_read);
}
