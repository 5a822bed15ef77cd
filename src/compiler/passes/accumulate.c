/* accumulate.c - one node for each gradient, and one for the loss, right behind what makes them: the
 * memory of a micro-batch's gradient is free again at once.
 *
 * The sums are leaves, so that they live from one repetition of the launches to the next. */
#include "compiler/passes/accumulate.h"

#include "compiler/passes/insertions.h"
#include "compiler/passes/uses.h"
#include "graph/graph_parameter.h"
#include "graph/op.h"
#include "ops/accumulate/accumulate.h"
#include "ops/micro_batch/micro_batch.h"
#include "ops/scale/scale.h"

double step_part_share(const step_part *part) {
    return 1.0 / ((double)part->micro_batches * (double)part->ranks);
}

static bool is_read_by_backward(uses *u, const value *v) {
    for (const node *n = uses_next_reader(u, v, NULL); n; n = uses_next_reader(u, v, n))
        if (n->phase != PHASE_FORWARD)
            return true;
    return false;
}

/* The leaf takes the rows of all micro-batches; its readers see one of them. */
static void divide_input(graph *g, uses *u, value *leaf, int64_t count) {
    shape one = leaf->shape;
    bool is_saved = is_read_by_backward(u, leaf);
    leaf->shape.dim[0] *= count;
    value *part = build_micro_batch(g, leaf, count);
    part->role = is_saved ? ROLE_SAVED : ROLE_ACTIVATION;
    node *own = part->producer;
    for (node *n = uses_next_reader(u, leaf, NULL), *after; n; n = after) {
        after = uses_next_reader(u, leaf, n);
        for (int i = 0; n != own && i < n->input_count; i++)
            if (n->inputs[i] == leaf)
                uses_set_input(u, n, i, part);
    }
    if (!shape_equal(&part->shape, &one))
        graph_fail(g, dyno_fail(DYNO_INVALID, "input '%s' cannot be divided", leaf->name));
}

static void divide_inputs(graph *g, int64_t count, insertions *made) {
    int values = g->value_count;
    uses *u = uses_create(g);
    g->current_phase = PHASE_FORWARD;
    g->current_scope = 0;
    for (int i = 0; i < values; i++) {
        value *v = g->values[i];
        if (!v->producer && v->role == ROLE_INPUT && v->shape.rank > 0)
            divide_input(g, u, v, count);
    }
    insertions_note(g, made, NULL);
    uses_destroy(u);
}

static void sum_gradient(graph *g, graph_parameter *p, insertions *made) {
    value *term = p->gradient;
    const node *behind = term->producer;
    bool is_output = term->is_output;
    term->is_output = false;
    term->name = NULL;
    term->parameter = NULL;
    value *sum = graph_add_leaf(g, ROLE_GRADIENT, DTYPE_F32, &p->value->shape,
                                arena_format(g->memory, "sum.%s", p->name));
    g->current_phase = behind->phase;
    g->current_scope = behind->scope;
    graph_set_gradient(g, p, build_accumulate(g, sum, term));
    p->gradient->is_output = is_output;
    insertions_note(g, made, behind);
}

static void sum_loss(graph *g, value *loss, const step_part *part, insertions *made) {
    const node *behind = loss->producer;
    loss->is_output = false;
    loss->name = NULL;
    g->current_phase = behind->phase;
    g->current_scope = behind->scope;
    value *sum = graph_add_leaf(g, ROLE_GRADIENT, DTYPE_F32, &loss->shape, "sum.loss");
    value *share = build_scale(g, loss, step_part_share(part));
    graph_add_output(g, build_accumulate(g, sum, share), "loss");
    insertions_note(g, made, behind);
}

dyno_status accumulate_gradients(graph *g, const step_part *part) {
    insertions made = insertions_begin(g);
    value *loss = graph_find_value(g, "loss");
    if (!loss || !loss->producer)
        return dyno_fail(DYNO_INVALID, "graph '%s' has no output 'loss' to sum over micro-batches",
                         g->name);
    if (part->micro_batches > 1)
        divide_inputs(g, part->micro_batches, &made);
    for (int i = 0; i < g->parameter_count; i++)
        if (g->parameters[i]->gradient && !part->is_sharded)
            sum_gradient(g, g->parameters[i], &made);
    sum_loss(g, loss, part, &made);
    insertions_apply(g, &made);
    return graph_status(g);
}
