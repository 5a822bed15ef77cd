/* autodiff.c - walks the forward nodes in reverse; each op's gradient rule appends nodes.
 *
 * A value with several readers gets the sum of their gradients, added in the order in which they
 * arrive. Gradients are only computed on paths that lead to a parameter. */
#include "compiler/passes/autodiff.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/text.h"
#include "graph/graph_parameter.h"
#include "graph/op.h"
#include "ops/add/add.h"
#include "ops/cast/cast.h"
#include "ops/detach/detach.h"
#include "ops/fill/fill.h"
#include "ops/scale/scale.h"

/* needs[v]: value v depends on a parameter along a path that gradients can take. */
static bool *find_needs(const graph *g) {
    bool *needs = memory_allocate((size_t)g->value_count, sizeof *needs);
    for (int i = 0; i < g->parameter_count; i++)
        needs[g->parameters[i]->value->id] = true;
    for (int i = 0; i < g->node_count; i++) {
        const node *n = g->nodes[i];
        bool any = false;
        for (int j = 0; j < n->input_count; j++)
            any = any || needs[n->inputs[j]->id];
        for (int j = 0; j < n->output_count; j++)
            needs[n->outputs[j]->id] =
                any && n->op->gradient && dtype_is_float(n->outputs[j]->type);
    }
    return needs;
}

/* Gradients of a value in a low type are accumulated in f32. The rules accept it: casts and
 * products convert the incoming gradient to the type they need. */
static value *in_full(graph *g, value *v) {
    return dtype_is_low(v->type) ? build_cast(g, v, DTYPE_F32) : v;
}

static void back_through(graph *g, const node *n, const bool *needs, value **gradient) {
    bool reached = false;
    for (int i = 0; i < n->output_count; i++)
        reached = reached || gradient[n->outputs[i]->id];
    if (!reached || !n->op->gradient)
        return;
    size_t inputs = (size_t)n->input_count, outputs = (size_t)n->output_count;
    value **from_above = memory_allocate(outputs + inputs, sizeof *from_above);
    value **sent = from_above + outputs;
    bool *wanted = memory_allocate(inputs, sizeof *wanted);
    for (int i = 0; i < n->output_count; i++)
        from_above[i] = gradient[n->outputs[i]->id];
    for (int i = 0; i < n->input_count; i++)
        wanted[i] = needs[n->inputs[i]->id];
    g->current_scope = n->scope;
    n->op->gradient(g, n, from_above, wanted, sent);
    for (int i = 0; i < n->input_count; i++) {
        if (!wanted[i] || !sent[i])
            continue;
        value **sum = &gradient[n->inputs[i]->id];
        *sum = *sum ? build_add(g, in_full(g, *sum), in_full(g, sent[i])) : sent[i];
    }
    free(from_above);
    free(wanted);
}

static bool is_loss(const value *v) { return v && v->producer && v->shape.rank == 0; }

/* The input that is the gradient reaching an output, NULL when there is none. */
static value *given_gradient(const graph *g, const value *output) {
    text name = {0};
    text_format(&name, "d%s", output->name);
    value *given = graph_find_value(g, text_string(&name));
    text_release(&name);
    bool fits = given && !given->producer && given->type == output->type &&
                shape_equal(&given->shape, &output->shape);
    return fits ? given : NULL;
}

/* The gradient that the backward starts from; false when there is none. */
static bool begin(graph *g, double share, value **gradient) {
    value *loss = graph_find_value(g, "loss");
    if (is_loss(loss)) {
        g->current_scope = loss->producer->scope;
        value *scale = graph_find_value(g, "loss_scale");
        bool is_scaled = scale && !scale->producer;
        value *from = is_scaled ? scale : build_fill(g, loss->type, share);
        gradient[loss->id] = is_scaled && share != 1 ? build_scale(g, from, share) : from;
        return true;
    }
    bool is_any = false;
    for (int i = 0; i < g->value_count && !loss; i++) {
        const value *v = g->values[i];
        if (v->is_output && v->producer && v->name && (gradient[i] = given_gradient(g, v)))
            is_any = true;
    }
    return is_any;
}

dyno_status autodiff_append_backward(graph *g, bool keep_gradients) {
    return autodiff_append_backward_of_share(g, keep_gradients, 1);
}

dyno_status autodiff_append_backward_of_share(graph *g, bool keep_gradients, double share) {
    int forward_nodes = g->node_count, forward_values = g->value_count;
    value **gradient = memory_allocate((size_t)forward_values, sizeof *gradient);
    g->current_phase = PHASE_BACKWARD;
    if (!begin(g, share, gradient)) {
        free(gradient);
        return dyno_fail(DYNO_INVALID, "graph '%s' has no scalar output named 'loss' to derive",
                         g->name);
    }
    bool *needs = find_needs(g);
    for (int i = forward_nodes - 1; i >= 0; i--)
        back_through(g, g->nodes[i], needs, gradient);
    dyno_status status = graph_status(g);
    for (int i = 0; i < g->parameter_count && status == DYNO_OK; i++) {
        graph_parameter *parameter = g->parameters[i];
        value *found = gradient[parameter->value->id];
        if (!found) {
            status = dyno_fail(DYNO_INVALID, "graph '%s': the loss does not depend on '%s'",
                               g->name, parameter->name);
            break;
        }
        if (found->name) /* another parameter's too, as for a + b: a view takes the second name */
            found = build_detach(g, found);
        graph_set_gradient(g, parameter, found);
        found->is_output = keep_gradients;
    }
    free(needs);
    free(gradient);
    return status;
}
