/* verify.c - one pass over the nodes in order, remembering for each value the node that made it
 * and the node that overwrote it. */
#include "graph/verify.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/text.h"
#include "graph/graph_parameter.h"
#include "graph/op.h"

/* Positions in the node list; -1 for "never". */
typedef struct history {
    int *made_at, *overwritten_at;
    bool is_any_overwritten;
} history;

static dyno_status broken(const graph *g, int position, const char *rule, const char *detail) {
    const node *n = g->nodes[position];
    return dyno_fail(DYNO_INVALID, "graph '%s', node %d (%s, scope '%s') breaks the rule '%s': %s",
                     g->name, position, n->op->name, g->scopes[n->scope].path, rule, detail);
}

#define DETAIL(...) (snprintf(detail, sizeof detail, __VA_ARGS__), (const char *)detail)

static bool belongs_to(const graph *g, const value *v) {
    return v->id >= 0 && v->id < g->value_count && g->values[v->id] == v;
}

/* The node that overwrote the value, or what it may be a view of; -1 when none did. */
static int overwritten_at(const history *seen, const value *v) {
    if (!seen->is_any_overwritten)
        return -1; /* so it is up to the optimizer */
    int position = seen->overwritten_at[v->id];
    const node *n = v->producer;
    for (int i = 0; position < 0 && n && i < n->input_count; i++)
        if (op_shares_input(n->op, i))
            position = overwritten_at(seen, n->inputs[i]);
    return position;
}

static dyno_status check_inputs(const graph *g, int position, const history *seen) {
    char detail[512];
    const node *n = g->nodes[position];
    for (int i = 0; i < n->input_count; i++) {
        const value *v = n->inputs[i];
        if (!belongs_to(g, v))
            return broken(g, position, "order", DETAIL("input %d belongs to another graph", i));
        if (v->producer && seen->made_at[v->id] < 0)
            return broken(g, position, "order",
                          DETAIL("input %d, value %d, is made by a later node", i, v->id));
        if (overwritten_at(seen, v) >= 0)
            return broken(g, position, "in place",
                          DETAIL("input %d, value %d, was overwritten by node %d", i, v->id,
                                 overwritten_at(seen, v)));
        if (!v->producer || n->phase == PHASE_COMMUNICATION ||
            v->producer->phase == PHASE_COMMUNICATION)
            continue;
        if (v->producer->phase > n->phase)
            return broken(g, position, "phase",
                          DETAIL("a %s node reads value %d of the %s", phase_name(n->phase), v->id,
                                 phase_name(v->producer->phase)));
        if (v->producer->phase == PHASE_FORWARD && n->phase != PHASE_FORWARD &&
            v->role == ROLE_ACTIVATION)
            return broken(
                g, position, "saved",
                DETAIL("value %d of the forward is read here but not marked saved", v->id));
    }
    return DYNO_OK;
}

static dyno_status check_types(const graph *g, int position, const value_type *expected) {
    char detail[512];
    const node *n = g->nodes[position];
    for (int i = 0; i < n->output_count; i++) {
        const value *v = n->outputs[i];
        if (!belongs_to(g, v))
            return broken(g, position, "producer",
                          DETAIL("output %d is no value of this graph", i));
        if (v->producer != n || v->output_index != i)
            return broken(g, position, "producer",
                          DETAIL("output %d, value %d, names another producer", i, v->id));
        if (v->type != expected[i].type || !shape_equal(&v->shape, &expected[i].shape))
            return broken(g, position, "type",
                          DETAIL("output %d is %s[%s], the shape rule gives %s[%s]", i,
                                 dtype_name(v->type), shape_format(&v->shape).text,
                                 dtype_name(expected[i].type),
                                 shape_format(&expected[i].shape).text));
        int target = op_inplace_input(n, i);
        bool is_leaf_role = v->role <= ROLE_OPTIMIZER_STATE || v->role >= ROLE_WORKSPACE;
        if (target >= 0 ? v->role != n->inputs[target]->role : is_leaf_role)
            return broken(g, position, "role",
                          DETAIL("output %d, value %d, cannot have the role %s", i, v->id,
                                 role_name(v->role)));
    }
    return DYNO_OK;
}

static dyno_status check_outputs(const graph *g, int position) {
    const node *n = g->nodes[position];
    value_type few[OP_MAX_OUTPUTS] = {0};
    value_type *many = n->output_count > OP_MAX_OUTPUTS
                           ? memory_allocate((size_t)n->output_count, sizeof *many)
                           : NULL;
    value_type *expected = many ? many : few;
    dyno_status status = n->op->infer(n, expected);
    status = status == DYNO_OK ? check_types(g, position, expected)
                               : broken(g, position, "type", dyno_error_message());
    free(many);
    return status;
}

static dyno_status check_node(const graph *g, int position, history *seen) {
    char detail[512];
    const node *n = g->nodes[position];
    if (!op_takes_inputs(n->op, n->input_count) || n->output_count != op_output_count(n))
        return broken(g, position, "arity",
                      DETAIL("has %d inputs and %d outputs", n->input_count, n->output_count));
    RETURN_IF_FAILED(check_inputs(g, position, seen));
    RETURN_IF_FAILED(check_outputs(g, position));
    for (int i = 0; i < n->output_count; i++) {
        seen->made_at[n->outputs[i]->id] = position;
        int taken = op_inplace_input(n, i);
        if (taken < 0)
            continue;
        seen->overwritten_at[n->inputs[taken]->id] = position;
        seen->is_any_overwritten = true;
    }
    return DYNO_OK;
}

/* The outputs that the caller reads after the step. */
static dyno_status check_result(const graph *g, const value *v, const history *seen) {
    if (v->producer && seen->made_at[v->id] < 0)
        return dyno_fail(DYNO_INVALID,
                         "graph '%s', output '%s' breaks the rule 'producer': no node makes it",
                         g->name, v->name);
    int position = overwritten_at(seen, v);
    if (position >= 0)
        return dyno_fail(DYNO_INVALID,
                         "graph '%s', node %d (%s) breaks the rule 'in place': it overwrites the "
                         "output '%s'",
                         g->name, position, g->nodes[position]->op->name, v->name);
    return DYNO_OK;
}

/* ---- parameters ---- */

static dyno_status broken_record(const graph *g, const graph_parameter *p, const char *detail) {
    return dyno_fail(DYNO_INVALID, "graph '%s', parameter '%s' breaks the rule 'parameter': %s",
                     g->name, p->name, detail);
}

static dyno_status check_part(const graph *g, const graph_parameter *p, const value *v,
                              const char *part, role wanted) {
    char detail[512];
    if (!v)
        return DYNO_OK;
    if (!belongs_to(g, v) || v->parameter != p)
        return broken_record(g, p, DETAIL("its %s leads to no record, or to another", part));
    if (v->role != wanted || (v->producer != NULL) != (wanted == ROLE_GRADIENT))
        return broken_record(g, p,
                             DETAIL("its %s cannot have the role %s", part, role_name(v->role)));
    if (!shape_equal(&v->shape, &p->value->shape))
        return broken_record(g, p,
                             DETAIL("its %s is [%s], the parameter is [%s]", part,
                                    shape_format(&v->shape).text,
                                    shape_format(&p->value->shape).text));
    return DYNO_OK;
}

/* Of a list in parts: the wholes are the leaves. */
static dyno_status check_whole(const graph *g, const graph_parameter *p, const value *v) {
    if (!v || (belongs_to(g, v) && !v->producer && v->role == ROLE_PARAMETER))
        return DYNO_OK;
    return broken_record(g, p, "its whole is no leaf of the role parameter");
}

static dyno_status check_record(const graph *g, const graph_parameter *p) {
    RETURN_IF_FAILED(check_whole(g, p, p->whole));
    RETURN_IF_FAILED(check_whole(g, p, p->whole_low));
    if (!p->whole)
        RETURN_IF_FAILED(check_part(g, p, p->value, "leaf", ROLE_PARAMETER));
    RETURN_IF_FAILED(check_part(g, p, p->gradient, "gradient", ROLE_GRADIENT));
    RETURN_IF_FAILED(check_part(g, p, p->first_moment, "first moment", ROLE_OPTIMIZER_STATE));
    RETURN_IF_FAILED(check_part(g, p, p->second_moment, "second moment", ROLE_OPTIMIZER_STATE));
    if (!p->whole)
        RETURN_IF_FAILED(check_part(g, p, p->low_copy, "low copy", ROLE_PARAMETER));
    bool has_high = p->low_copy && p->low_copy->type == DTYPE_BF16;
    if (p->is_split && (!has_high || p->value->type != DTYPE_U16))
        return broken_record(g, p, "it is split, but not into a bf16 low copy and a rest in u16");
    return DYNO_OK;
}

/* The names are counted as parameters are added, so that they need not be compared here. */
static dyno_status check_parameters(const graph *g) {
    bool share_names = g->parameter_names.count < (size_t)g->parameter_count;
    for (int i = 0; i < g->parameter_count; i++) {
        const graph_parameter *p = g->parameters[i];
        RETURN_IF_FAILED(check_record(g, p));
        if (share_names && name_table_find(&g->parameter_names, p->name) != i)
            return broken_record(g, p, "another parameter has its name");
    }
    return DYNO_OK;
}

dyno_status graph_verify(const graph *g) {
    RETURN_IF_FAILED(graph_status(g));
    for (int i = 0; i < g->value_count; i++) {
        const value *v = g->values[i];
        if (!v->producer && v->role > ROLE_GRADIENT)
            return dyno_fail(DYNO_INVALID,
                             "graph '%s', value %d breaks the rule 'role': no node makes it, yet "
                             "its role is %s",
                             g->name, i, role_name(v->role));
    }
    RETURN_IF_FAILED(check_parameters(g));
    size_t count = (size_t)g->value_count;
    history seen = {.made_at = memory_allocate(count, sizeof(int)),
                    .overwritten_at = memory_allocate(count, sizeof(int))};
    for (size_t i = 0; i < count; i++)
        seen.made_at[i] = seen.overwritten_at[i] = -1;
    dyno_status status = DYNO_OK;
    for (int i = 0; i < g->node_count && status == DYNO_OK; i++)
        status = check_node(g, i, &seen);
    for (int i = 0; i < g->value_count && status == DYNO_OK; i++)
        if (g->values[i]->is_output)
            status = check_result(g, g->values[i], &seen);
    free(seen.made_at);
    free(seen.overwritten_at);
    return status;
}
