#include "compiler/optimizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ops/fill/fill.h"
#include "ops/global_norm/global_norm.h"

typedef struct parameter_pair {
    value *parameter, *gradient;
} parameter_pair;

/* Parameters in the order of the graph with the gradients autodiff gave them. */
static int collect(const graph *g, parameter_pair *pairs) {
    int count = 0;
    for (int i = 0; i < g->value_count; i++) {
        value *v = g->values[i];
        if (v->role == ROLE_PARAMETER && !v->producer)
            pairs[count++].parameter = v;
    }
    /* Gradients were named in the same order as parameters were added. */
    for (int i = 0; i < g->value_count; i++) {
        value *v = g->values[i];
        if (v->role != ROLE_GRADIENT || !v->name)
            continue;
        for (int j = 0; j < count; j++)
            if (!pairs[j].gradient && strcmp(v->name + 2, pairs[j].parameter->name) == 0) {
                pairs[j].gradient = v;
                break;
            }
    }
    return count;
}

static value *gradient_scale(graph *g, const parameter_pair *pairs, int count, double clip_norm) {
    if (clip_norm <= 0)
        return build_fill(g, DTYPE_F32, 1);
    int outer = graph_enter_scope(g, "clip");
    value **gradients = memory_allocate((size_t)count, sizeof *gradients);
    for (int i = 0; i < count; i++)
        gradients[i] = pairs[i].gradient;
    value *norm = build_global_norm(g, gradients, count);
    value *coefficient = build_clip_coefficient(g, norm, clip_norm);
    free(gradients);
    graph_leave_scope(g, outer);
    return coefficient;
}

dyno_status optimizer_append_adamw(graph *g, const optimizer_options *options) {
    parameter_pair *pairs = memory_allocate((size_t)g->value_count, sizeof *pairs);
    int count = collect(g, pairs);
    for (int i = 0; i < count; i++)
        if (!pairs[i].gradient) {
            dyno_status status = dyno_fail(DYNO_INVALID, "graph '%s': parameter '%s' has no "
                                           "gradient; the backward comes before the optimizer",
                                           g->name, pairs[i].parameter->name);
            free(pairs);
            return status;
        }
    shape scalar = SHAPE_SCALAR;
    value *rate = graph_add_leaf(g, ROLE_INPUT, DTYPE_F64, &scalar, "learning_rate");
    value *step = graph_add_leaf(g, ROLE_INPUT, DTYPE_I64, &scalar, "step");
    g->current_phase = PHASE_OPTIMIZER;
    g->current_scope = graph_intern_scope(g, "optimizer");
    value *scale = gradient_scale(g, pairs, count, options->clip_norm);
    for (int i = 0; i < count; i++) {
        value *w = pairs[i].parameter;
        adamw_inputs inputs = {
            .weight = w,
            .gradient = pairs[i].gradient,
            .first_moment = graph_add_leaf(g, ROLE_OPTIMIZER_STATE, DTYPE_F32, &w->shape,
                                           arena_format(g->memory, "m.%s", w->name)),
            .second_moment = graph_add_leaf(g, ROLE_OPTIMIZER_STATE, DTYPE_F32, &w->shape,
                                            arena_format(g->memory, "v.%s", w->name)),
            .learning_rate = rate,
            .step = step,
            .gradient_scale = scale};
        build_adamw(g, &inputs, &options->adamw);
    }
    free(pairs);
    return graph_status(g);
}
