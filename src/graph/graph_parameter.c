#include "graph/graph_parameter.h"

#include <assert.h>

#include "base/memory.h"

const char *parameter_part_prefix(parameter_part part) {
    static const char *const prefixes[] = {[PARAMETER_GRADIENT] = "g.",
                                           [PARAMETER_FIRST_MOMENT] = "m.",
                                           [PARAMETER_SECOND_MOMENT] = "v.",
                                           [PARAMETER_LOW_COPY] = "low.",
                                           [PARAMETER_REST] = "rest."};
    return prefixes[part];
}

static const char *part_name(graph *g, parameter_part part, const char *name) {
    return arena_format(g->memory, "%s%s", parameter_part_prefix(part), name);
}

graph_parameter *graph_record_parameter(graph *g, value *leaf, const char *name, int block) {
    graph_parameter *p = arena_allocate(g->memory, 1, sizeof *p);
    *p = (graph_parameter){
        .name = arena_copy_string(g->memory, name), .block = block, .value = leaf};
    leaf->parameter = p;
    if (name_table_find(&g->parameter_names, p->name) < 0)
        name_table_set(&g->parameter_names, p->name, g->parameter_count);
    MEMORY_GROW(g->parameters, g->parameter_count, g->parameter_capacity);
    return g->parameters[g->parameter_count++] = p;
}

value *graph_add_parameter(graph *g, dtype type, const shape *s, const char *name) {
    value *leaf = graph_add_leaf(g, ROLE_PARAMETER, type, s, name);
    graph_record_parameter(g, leaf, name, g->scopes[g->current_scope].block);
    return leaf;
}

void graph_bind_part(graph_parameter *p, parameter_part part, value *v) {
    value **const parts[] = {&p->gradient, &p->first_moment, &p->second_moment, &p->low_copy};
    assert(part != PARAMETER_REST);
    *parts[part] = v;
    v->parameter = p;
}

value *graph_add_part(graph *g, graph_parameter *p, parameter_part part, dtype type) {
    role r = part == PARAMETER_LOW_COPY ? ROLE_PARAMETER : ROLE_OPTIMIZER_STATE;
    value *leaf = graph_add_leaf(g, r, type, &p->value->shape, part_name(g, part, p->name));
    const char *family = p->value->family;
    if (family && part == PARAMETER_LOW_COPY)
        graph_join_family(g, &leaf, 1, part_name(g, part, family));
    graph_bind_part(p, part, leaf);
    return leaf;
}

void graph_set_gradient(graph *g, graph_parameter *p, value *gradient) {
    gradient->role = ROLE_GRADIENT;
    gradient->name = part_name(g, PARAMETER_GRADIENT, p->name);
    graph_bind_part(p, PARAMETER_GRADIENT, gradient);
}

void graph_split_parameter(graph *g, graph_parameter *p) {
    p->is_split = true;
    p->value->type = DTYPE_U16;
    p->value->name = part_name(g, PARAMETER_REST, p->name);
    p->value->family = NULL; /* only copies are multiplied, and are contiguous for that */
}

graph_parameter *graph_leaf_parameter(const value *v) {
    return v->parameter && v->parameter->value == v ? v->parameter : NULL;
}
