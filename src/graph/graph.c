#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/graph_parameter.h"
#include "graph/op.h"

const char *op_class_name(op_class c) {
    static const char *const names[OP_CLASS_COUNT] = {"matmul",    "element-wise", "reduction",
                                                      "copy",      "gather",       "loss",
                                                      "optimizer", "attention",    "communication"};
    return names[c];
}

graph *graph_create(const char *name) {
    graph *g = memory_allocate(1, sizeof *g);
    g->memory = arena_create();
    g->name = arena_copy_string(g->memory, name);
    g->scopes = memory_allocate(1, sizeof *g->scopes);
    g->scopes[0] = (graph_scope){.path = "", .block = -1};
    g->scope_count = g->scope_capacity = 1;
    name_table_set(&g->scope_numbers, g->scopes[0].path, 0);
    return g;
}

void graph_destroy(graph *g) {
    if (!g)
        return;
    arena_destroy(g->memory);
    free(g->nodes);
    free(g->values);
    free(g->parameters);
    free(g->scopes);
    name_table_release(&g->scope_numbers);
    name_table_release(&g->parameter_names);
    free(g);
}

dyno_status graph_status(const graph *g) {
    return g->status == DYNO_OK ? DYNO_OK : dyno_fail(g->status, "%s", g->message);
}

static value *add_value(graph *g, role r, dtype type, const shape *s) {
    value *v = arena_allocate(g->memory, 1, sizeof *v);
    *v = (value){.id = g->value_count, .type = type, .shape = *s, .role = r};
    MEMORY_GROW(g->values, g->value_count, g->value_capacity);
    g->values[g->value_count++] = v;
    return v;
}

/* Keeps the first failure only: later ones are consequences. */
void graph_fail(graph *g, dyno_status status) {
    if (g->status != DYNO_OK)
        return;
    g->status = status;
    g->message = arena_copy_string(g->memory, dyno_error_message());
}

value *graph_add_leaf(graph *g, role r, dtype type, const shape *s, const char *name) {
    shape safe = *s;
    if (!shape_is_valid(s, dtype_bytes(type))) {
        graph_fail(g, dyno_fail(DYNO_INVALID,
                                "%s '%s': shape [%s] has a size below 1 or overflows 64 bits",
                                role_name(r), name, shape_format(s).text));
        safe = SHAPE_SCALAR;
    }
    value *v = add_value(g, r, type, &safe);
    v->name = arena_copy_string(g->memory, name);
    return v;
}

void graph_join_family(graph *g, value *const *leaves, int count, const char *family) {
    const char *name = arena_copy_string(g->memory, family);
    for (int i = 0; i < count; i++) {
        if (leaves[i]->producer || leaves[i]->role != leaves[0]->role ||
            leaves[i]->type != leaves[0]->type)
            graph_fail(g, dyno_fail(DYNO_INVALID,
                                    "family '%s': value %d is no leaf, or of another role or type "
                                    "than the first",
                                    family, leaves[i]->id));
        leaves[i]->family = name;
    }
}

int *graph_link_families(const graph *g) {
    int *next = memory_allocate((size_t)g->value_count, sizeof *next);
    name_table following = {0};
    for (int i = g->value_count - 1; i >= 0; i--) {
        const value *v = g->values[i];
        next[i] = -1;
        if (v->producer || !v->family)
            continue;
        next[i] = name_table_find(&following, v->family);
        name_table_set(&following, v->family, i);
    }
    name_table_release(&following);
    return next;
}

static dyno_status fail_input_count(const op *kind, int given) {
    if (kind->input_count == OP_ANY_COUNT)
        return dyno_fail(DYNO_INVALID, "takes at least 1 inputs, %d given", given);
    if (kind->optional_inputs)
        return dyno_fail(DYNO_INVALID, "takes %d or %d inputs, %d given", kind->input_count,
                         kind->input_count + kind->optional_inputs, given);
    return dyno_fail(DYNO_INVALID, "takes %d inputs, %d given", kind->input_count, given);
}

value *graph_add_node(graph *g, const op *kind, value *const *inputs, int input_count,
                      const attribute *items, int attribute_count) {
    node *n = arena_allocate(g->memory, 1, sizeof *n);
    *n = (node){.id = g->node_count,
                .op = kind,
                .input_count = input_count,
                .scope = g->current_scope,
                .phase = g->current_phase};
    n->inputs = arena_allocate(g->memory, (size_t)input_count, sizeof(value *));
    if (input_count)
        memcpy(n->inputs, inputs, (size_t)input_count * sizeof(value *));
    n->attributes.count = attribute_count;
    n->attributes.items = arena_allocate(g->memory, (size_t)attribute_count, sizeof(attribute));
    for (int i = 0; i < attribute_count; i++) {
        n->attributes.items[i] = items[i];
        n->attributes.items[i].name = arena_copy_string(g->memory, items[i].name);
    }
    n->output_count = op_output_count(n);
    size_t outputs = (size_t)n->output_count;
    value_type few[OP_MAX_OUTPUTS] = {0};
    value_type *many = outputs > OP_MAX_OUTPUTS ? memory_allocate(outputs, sizeof *many) : NULL;
    value_type *types = many ? many : few;
    if (g->status == DYNO_OK) {
        dyno_status status = DYNO_OK;
        if (!op_takes_inputs(kind, input_count))
            status = fail_input_count(kind, input_count);
        if (status == DYNO_OK)
            status = kind->infer(n, types);
        for (int i = 0; status == DYNO_OK && i < n->output_count; i++)
            if (!shape_is_valid(&types[i].shape, dtype_bytes(types[i].type)))
                status = dyno_fail(DYNO_INVALID, "result [%s] overflows 64 bits",
                                   shape_format(&types[i].shape).text);
        if (status != DYNO_OK) {
            graph_fail(g, dyno_fail_within(status, "%s in scope '%s'", kind->name,
                                           g->scopes[g->current_scope].path));
            memset(types, 0, outputs * sizeof *types);
        }
    }
    n->outputs = arena_allocate(g->memory, outputs, sizeof(value *));
    for (int i = 0; i < n->output_count; i++) {
        value *v = add_value(g, ROLE_ACTIVATION, types[i].type, &types[i].shape);
        v->producer = n;
        v->output_index = i;
        if (g->status == DYNO_OK && op_inplace_input(n, i) >= 0) /* else inputs may be missing */
            v->role = n->inputs[op_inplace_input(n, i)]->role;
        n->outputs[i] = v;
    }
    free(many);
    MEMORY_GROW(g->nodes, g->node_count, g->node_capacity);
    g->nodes[g->node_count++] = n;
    return n->outputs[0];
}

void graph_set_order(graph *g, node *const *order, int count) {
    for (int i = 0; i < g->value_count; i++)
        g->values[i]->id = g->values[i]->producer || g->values[i]->is_dropped ? -1 : 0;
    for (int i = 0; i < count; i++) {
        g->nodes[i] = order[i];
        order[i]->id = i;
        for (int j = 0; j < order[i]->output_count; j++)
            order[i]->outputs[j]->id = 0;
    }
    g->node_count = count;
    int kept = 0;
    for (int i = 0; i < g->value_count; i++)
        if (g->values[i]->id == 0) {
            g->values[kept] = g->values[i];
            g->values[kept]->id = kept;
            kept++;
        }
    g->value_count = kept;
    for (int i = 0; i < g->parameter_count; i++) {
        graph_parameter *p = g->parameters[i];
        if (p->gradient && p->gradient->id < 0)
            p->gradient = NULL;
    }
}

void graph_add_output(graph *g, value *v, const char *name) {
    v->is_output = true;
    v->name = arena_copy_string(g->memory, name);
}

value *graph_find_value(const graph *g, const char *name) {
    for (int i = 0; i < g->value_count; i++) {
        value *v = g->values[i];
        if (v->name && (!v->producer || v->is_output) && strcmp(v->name, name) == 0)
            return v;
    }
    return NULL;
}

int graph_intern_scope(graph *g, const char *path, int like) {
    int known = name_table_find(&g->scope_numbers, path);
    if (known >= 0)
        return known;
    MEMORY_GROW(g->scopes, g->scope_count, g->scope_capacity);
    g->scopes[g->scope_count] = g->scopes[like];
    g->scopes[g->scope_count].path = arena_copy_string(g->memory, path);
    name_table_set(&g->scope_numbers, g->scopes[g->scope_count].path, g->scope_count);
    return g->scope_count++;
}

int graph_enter_scope(graph *g, const char *name) {
    int outer = g->current_scope;
    const char *path = outer ? arena_format(g->memory, "%s.%s", g->scopes[outer].path, name) : name;
    g->current_scope = graph_intern_scope(g, path, outer);
    return outer;
}

int graph_enter_block(graph *g, int block) {
    int outer = graph_enter_scope(g, arena_format(g->memory, "layers.%d", block));
    g->scopes[g->current_scope].block = block;
    return outer;
}

int graph_enter_part(graph *g, const char *name, block_part part) {
    int outer = graph_enter_scope(g, name);
    g->scopes[g->current_scope].part = part;
    return outer;
}

void graph_leave_scope(graph *g, int outer) { g->current_scope = outer; }

dyno_status node_require_attribute(const node *n, const char *name, attribute_kind kind) {
    static const char *const kinds[] = {"an integer", "a real", "a list"};
    const attribute *found = attribute_find(&n->attributes, name);
    if (!found || found->kind != kind)
        return dyno_fail(DYNO_INVALID, "attribute '%s' must be given, as %s", name, kinds[kind]);
    return DYNO_OK;
}

bool op_takes_inputs(const op *kind, int count) {
    if (kind->input_count == OP_ANY_COUNT)
        return count >= 1;
    return count == kind->input_count || count == kind->input_count + kind->optional_inputs;
}

int op_output_count(const node *n) {
    return n->op->output_count == OP_ANY_COUNT ? n->op->count_outputs(n) : n->op->output_count;
}

int op_inplace_input(const node *n, int output) {
    if (n->op->inplace_input)
        return n->op->inplace_input(n, output);
    return output < OP_MAX_OUTPUTS ? n->op->inplace[output] - 1 : -1; /* an op of any count */
}

bool op_shares_input(const op *kind, int input) {
    return kind->piece || (kind->view && input == 0);
}

bool op_is_cheap(const op *kind) { return kind->expression || kind->view || kind->is_literal; }

int64_t value_stored_elements(const value *v) {
    int64_t elements = shape_elements(&v->shape);
    while (v->producer && v->producer->op->view) {
        v = v->producer->inputs[0];
        int64_t below = shape_elements(&v->shape);
        if (below < elements)
            elements = below;
    }
    return elements;
}

op_cost op_cost_streaming(const node *n, double flops_per_output) {
    op_cost cost = {0};
    for (int i = 0; i < n->input_count; i++)
        cost.bytes_read +=
            (double)value_stored_elements(n->inputs[i]) * dtype_bytes(n->inputs[i]->type);
    for (int i = 0; i < n->output_count; i++)
        cost.bytes_written +=
            (double)shape_elements(&n->outputs[i]->shape) * dtype_bytes(n->outputs[i]->type);
    if (n->output_count)
        cost.flops = flops_per_output * (double)shape_elements(&n->outputs[0]->shape);
    return cost;
}
