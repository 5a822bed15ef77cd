/* optimizer.c - gradients are found by the names autodiff gave them.
 *
 * Overflow of scaled gradients costs no pass of its own: the global norm reads them all, and is
 * not finite if one of them is not. With a loss scale the norm is therefore taken even when
 * nothing is clipped. */
#include "compiler/optimizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compiler/low_copies.h"
#include "ops/adamw_many/adamw_many.h"
#include "ops/fill/fill.h"
#include "ops/global_norm/global_norm.h"

/* Parameters in the order of the graph with the gradients autodiff gave them. */
static int collect(const graph *g, adamw_parameter *parameters) {
    int count = 0;
    for (int i = 0; i < g->value_count; i++) {
        value *v = g->values[i];
        if (v->role == ROLE_PARAMETER && !v->producer && !low_copy_is(v))
            parameters[count++].weight = v;
    }
    for (int i = 0; i < g->value_count; i++) {
        value *v = g->values[i];
        if (v->role != ROLE_GRADIENT || !v->name)
            continue;
        for (int j = 0; j < count; j++)
            if (!parameters[j].gradient && strcmp(v->name + 2, parameters[j].weight->name) == 0) {
                parameters[j].gradient = v;
                break;
            }
    }
    return count;
}

static value *gradient_scale(graph *g, const adamw_parameter *parameters, int count,
                             double clip_norm, value *loss_scale) {
    if (clip_norm <= 0 && !loss_scale)
        return build_fill(g, DTYPE_F32, 1);
    int outer = graph_enter_scope(g, "clip");
    value **gradients = memory_allocate((size_t)count, sizeof *gradients);
    for (int i = 0; i < count; i++)
        gradients[i] = parameters[i].gradient;
    value *norm = build_global_norm(g, gradients, count);
    value *coefficient = loss_scale ? build_unscale_coefficient(g, norm, loss_scale, clip_norm)
                                    : build_clip_coefficient(g, norm, clip_norm);
    if (loss_scale)
        graph_add_output(g, coefficient, "gradient_scale");
    free(gradients);
    graph_leave_scope(g, outer);
    return coefficient;
}

static void add_moments(graph *g, adamw_parameter *p) {
    const value *w = p->weight;
    p->first_moment = graph_add_leaf(g, ROLE_OPTIMIZER_STATE, DTYPE_F32, &w->shape,
                                     arena_format(g->memory, "m.%s", w->name));
    p->second_moment = graph_add_leaf(g, ROLE_OPTIMIZER_STATE, DTYPE_F32, &w->shape,
                                      arena_format(g->memory, "v.%s", w->name));
}

/* Those with a low copy first, otherwise in order, as adamw_many wants them. */
static void sort_by_low_copy(const graph *g, adamw_parameter *parameters, int count) {
    adamw_parameter *sorted = memory_allocate((size_t)count, sizeof *sorted);
    int next = 0;
    for (int i = 0; i < count; i++)
        parameters[i].low_copy = low_copy_find(g, parameters[i].weight);
    for (int with_copy = 1; with_copy >= 0; with_copy--)
        for (int i = 0; i < count; i++)
            if ((parameters[i].low_copy != NULL) == with_copy)
                sorted[next++] = parameters[i];
    memcpy(parameters, sorted, (size_t)count * sizeof *sorted);
    free(sorted);
}

static dyno_status append(graph *g, const optimizer_options *options, adamw_parameter *parameters,
                          int count) {
    bool has_low_copies = false;
    for (int i = 0; i < count; i++) {
        if (!parameters[i].gradient)
            return dyno_fail(DYNO_INVALID,
                             "graph '%s': parameter '%s' has no gradient; the backward comes "
                             "before the optimizer",
                             g->name, parameters[i].weight->name);
        has_low_copies = has_low_copies || low_copy_find(g, parameters[i].weight);
    }
    if (has_low_copies && !options->one_launch)
        return dyno_fail(DYNO_INVALID,
                         "graph '%s' has low copies of weights; only the optimizer in one launch "
                         "keeps them",
                         g->name);
    value *loss_scale = graph_find_value(g, "loss_scale");
    value *rate = graph_add_leaf(g, ROLE_INPUT, DTYPE_F64, &SHAPE_SCALAR, "learning_rate");
    value *step = graph_add_leaf(g, ROLE_INPUT, DTYPE_I64, &SHAPE_SCALAR, "step");
    g->current_phase = PHASE_OPTIMIZER;
    g->current_scope = graph_intern_scope(g, "optimizer");
    value *scale = gradient_scale(g, parameters, count, options->clip_norm, loss_scale);
    adamw_options adamw = options->adamw;
    adamw.skips_nan = loss_scale != NULL;
    for (int i = 0; i < count; i++) {
        add_moments(g, &parameters[i]);
        adamw_inputs inputs = {.weight = parameters[i].weight,
                               .gradient = parameters[i].gradient,
                               .first_moment = parameters[i].first_moment,
                               .second_moment = parameters[i].second_moment,
                               .learning_rate = rate,
                               .step = step,
                               .gradient_scale = scale};
        if (!options->one_launch)
            build_adamw(g, &inputs, &adamw);
    }
    if (options->one_launch) {
        sort_by_low_copy(g, parameters, count);
        build_adamw_many(g, parameters, count, rate, step, scale, &adamw);
    }
    return graph_status(g);
}

dyno_status optimizer_append_adamw(graph *g, const optimizer_options *options) {
    adamw_parameter *parameters = memory_allocate((size_t)g->value_count, sizeof *parameters);
    dyno_status status = append(g, options, parameters, collect(g, parameters));
    free(parameters);
    return status;
}
