/* optimizer.c - gradients are found by the names autodiff gave them.
 *
 * By block: parameters are sorted by when they are ready, which is after the node that makes their
 * gradient and after the last that reads the weight or its low copy, a view of them included. Those
 * of one block become one node, which goes where the last of them is ready. Those whose gradients
 * are sums of columns, as of norms, wait for one another: they hold little memory, and several can
 * then be summed together (gather_sums.h). A few parameters on their own go with the block that
 * follows: a launch costs more than they do.
 *
 * Overflow of scaled gradients costs no pass of its own: the global norm reads them all, and is
 * not finite if one of them is not. With a loss scale the norm is therefore taken even when
 * nothing is clipped. */
#include "compiler/passes/optimizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compiler/passes/low_copies.h"
#include "compiler/passes/reemit.h"
#include "graph/op.h"
#include "ops/adamw_many/adamw_many.h"
#include "ops/fill/fill.h"
#include "ops/global_norm/global_norm.h"
#include "ops/op_list.h"

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
            if (!parameters[j].gradient &&
                strcmp(v->name + 2, weight_name(parameters[j].weight)) == 0) {
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
                                     arena_format(g->memory, "m.%s", weight_name(w)));
    p->second_moment = graph_add_leaf(g, ROLE_OPTIMIZER_STATE, DTYPE_F32, &w->shape,
                                      arena_format(g->memory, "v.%s", weight_name(w)));
}

/* What every update of a step reads. */
typedef struct update_scalars {
    value *rate, *step, *scale;
    adamw_options options;
} update_scalars;

static void update_each(graph *g, const adamw_parameter *parameters, int count,
                        const update_scalars *with) {
    for (int i = 0; i < count; i++) {
        adamw_inputs inputs = {.weight = parameters[i].weight,
                               .gradient = parameters[i].gradient,
                               .first_moment = parameters[i].first_moment,
                               .second_moment = parameters[i].second_moment,
                               .learning_rate = with->rate,
                               .step = with->step,
                               .gradient_scale = with->scale};
        build_adamw(g, &inputs, &with->options);
    }
}

/* Those with a low copy first, otherwise in order, as adamw_many wants them. */
static void update_together(graph *g, const adamw_parameter *parameters, int count,
                            const update_scalars *with) {
    adamw_parameter *sorted = memory_allocate((size_t)count, sizeof *sorted);
    int next = 0;
    for (int has_copy = 1; has_copy >= 0; has_copy--)
        for (int i = 0; i < count; i++)
            if ((parameters[i].low_copy != NULL) == has_copy)
                sorted[next++] = parameters[i];
    build_adamw_many(g, sorted, count, with->rate, with->step, with->scale, &with->options);
    free(sorted);
}

/* ---- by block ---- */

/* In place of a block's number. */
enum { OUTSIDE_OF_BLOCKS = -1, SUMS = -2 };

/* Parameters [first, end) that are updated together, and the node they come behind. */
typedef struct update_group {
    int first, end, behind;
    int64_t elements;
    int block;
    const char *scope;
} update_group;

/* Node `position` reads `v`, and what it may share memory with. */
static void mark_reader(const value *v, int position, int *last) {
    const node *n = v->producer;
    last[v->id] = position;
    for (int i = 0; n && i < n->input_count; i++)
        if (op_shares_input(n->op, i))
            mark_reader(n->inputs[i], position, last);
}

/* By value id of leaves: the position of the last node that reads it or a view of it; -1. */
static int *find_last_readers(const graph *g) {
    int *last = memory_allocate((size_t)g->value_count, sizeof *last);
    for (int i = 0; i < g->value_count; i++)
        last[i] = -1;
    for (int i = 0; i < g->node_count; i++)
        for (int j = 0; j < g->nodes[i]->input_count; j++)
            mark_reader(g->nodes[i]->inputs[j], i, last);
    return last;
}

static int ready_behind(const adamw_parameter *p, const int *last_reader) {
    int behind = p->gradient->producer->id;
    const value *const read[] = {p->weight, p->low_copy};
    for (int i = 0; i < 2; i++)
        if (read[i] && last_reader[read[i]->id] > behind)
            behind = last_reader[read[i]->id];
    return behind;
}

/* The first part of a scope, or the whole where it is a block's. */
static const char *update_scope(graph *g, const value *gradient, int block) {
    if (block >= 0)
        return arena_format(g->memory, "optimizer.layers.%d", block);
    if (block == SUMS)
        return "optimizer.norms";
    const char *scope = g->scopes[gradient->producer->scope];
    return arena_format(g->memory, "optimizer.%.*s", (int)strcspn(scope, "."), scope);
}

/* Whether the gradient is a sum, over rows as it is of a vector. */
static bool is_sum(const value *gradient) {
    const node *n = gradient->producer;
    while (n && n->op->view)
        n = n->inputs[0]->producer;
    return n && n->op->reduction == REDUCTION_SUM;
}

typedef struct ready_parameter {
    adamw_parameter parameter;
    int behind, block, place;
} ready_parameter;

static int by_readiness(const void *a, const void *b) {
    const ready_parameter *x = a, *y = b;
    return x->behind != y->behind ? (x->behind < y->behind ? -1 : 1) : x->place - y->place;
}

/* Sorts the parameters so that each group's stand together, groups by readiness. */
static int form_groups(graph *g, adamw_parameter *parameters, int count, update_group *groups) {
    int *last_reader = find_last_readers(g), made = 0, sorted = 0;
    ready_parameter *ready = memory_allocate((size_t)count, sizeof *ready);
    for (int i = 0; i < count; i++) {
        const node *maker = parameters[i].gradient->producer;
        int block = is_sum(parameters[i].gradient) ? SUMS : scope_block(g->scopes[maker->scope]);
        ready[i] =
            (ready_parameter){parameters[i], ready_behind(&parameters[i], last_reader), block, i};
    }
    qsort(ready, (size_t)count, sizeof *ready, by_readiness);
    for (int i = 0; i < count; i++) {
        if (!ready[i].parameter.gradient)
            continue;
        update_group group = {.first = sorted, .block = ready[i].block};
        group.scope = update_scope(g, ready[i].parameter.gradient, group.block);
        for (int j = i; j < count; j++) {
            const value *gradient = ready[j].parameter.gradient;
            if (!gradient || ready[j].block != group.block ||
                (j > i && group.block == OUTSIDE_OF_BLOCKS &&
                 strcmp(update_scope(g, gradient, OUTSIDE_OF_BLOCKS), group.scope) != 0))
                continue;
            parameters[sorted++] = ready[j].parameter;
            group.behind = ready[j].behind > group.behind ? ready[j].behind : group.behind;
            group.elements += shape_elements(&gradient->shape);
            ready[j].parameter.gradient = NULL; /* taken */
        }
        group.end = sorted;
        groups[made++] = group;
    }
    free(last_reader);
    free(ready);
    return made;
}

/* Groups are sorted by their last parameter; then those that are small join the next. */
static int by_last(const void *a, const void *b) {
    const update_group *x = a, *y = b;
    return x->behind != y->behind ? (x->behind < y->behind ? -1 : 1) : x->first - y->first;
}

static void update_by_block(graph *g, adamw_parameter *parameters, int count,
                            const update_scalars *with, int node_count) {
    enum { SMALL_SHARE = 16 };
    update_group *groups = memory_allocate((size_t)count, sizeof *groups);
    adamw_parameter *together = memory_allocate((size_t)count, sizeof *together);
    int group_count = form_groups(g, parameters, count, groups), given = 0;
    qsort(groups, (size_t)group_count, sizeof *groups, by_last);
    int *behind = memory_allocate((size_t)group_count, sizeof *behind), made = 0;
    for (int i = 0; i < group_count; i++) {
        const update_group *group = &groups[i];
        for (int j = group->first; j < group->end; j++)
            together[given++] = parameters[j];
        if (i + 1 < group_count && group->elements * SMALL_SHARE < groups[i + 1].elements)
            continue;
        g->current_scope = graph_intern_scope(g, group->scope);
        update_together(g, together, given, with);
        behind[made++] = group->behind;
        given = 0;
    }
    /* The first of the new nodes makes the scale; it goes before the first update. */
    node **order = memory_allocate((size_t)g->node_count, sizeof *order);
    int placed = 0, next = 0, updates = g->node_count - made;
    for (int i = 0; i < node_count; i++) {
        order[placed++] = g->nodes[i];
        for (; next < made && behind[next] == i; next++) {
            for (int j = node_count; next == 0 && j < updates; j++)
                order[placed++] = g->nodes[j];
            order[placed++] = g->nodes[updates + next];
        }
    }
    graph_set_order(g, order, placed);
    free(order);
    free(behind);
    free(together);
    free(groups);
}

/* ---- all of it ---- */

static dyno_status check(const graph *g, const adamw_parameter *parameters, int count,
                         bool has_many) {
    for (int i = 0; i < count; i++) {
        if (!parameters[i].gradient)
            return dyno_fail(DYNO_INVALID,
                             "graph '%s': parameter '%s' has no gradient; the backward comes "
                             "before the optimizer",
                             g->name, weight_name(parameters[i].weight));
        if (parameters[i].low_copy && !has_many)
            return dyno_fail(DYNO_INVALID,
                             "graph '%s' has low copies of weights; only the optimizer in one "
                             "launch, or in one for each block, keeps them",
                             g->name);
    }
    return DYNO_OK;
}

static bool needs_all_at_once(const adamw_parameter *parameters, int count, double clip_norm,
                              const value *loss_scale) {
    bool has_outputs = false;
    for (int i = 0; i < count; i++)
        has_outputs = has_outputs || parameters[i].gradient->is_output;
    return has_outputs || clip_norm > 0 || loss_scale;
}

static dyno_status append(graph *g, const optimizer_options *options, adamw_parameter *parameters,
                          int count) {
    for (int i = 0; i < count; i++)
        parameters[i].low_copy = low_copy_find(g, parameters[i].weight);
    RETURN_IF_FAILED(check(g, parameters, count, options->by_block));
    value *loss_scale = graph_find_value(g, "loss_scale");
    int node_count = g->node_count;
    update_scalars with = {
        .rate = graph_add_leaf(g, ROLE_INPUT, DTYPE_F64, &SHAPE_SCALAR, "learning_rate"),
        .step = graph_add_leaf(g, ROLE_INPUT, DTYPE_I64, &SHAPE_SCALAR, "step"),
        .options = options->adamw};
    g->current_phase = PHASE_OPTIMIZER;
    g->current_scope = graph_intern_scope(g, "optimizer");
    with.scale = gradient_scale(g, parameters, count, options->clip_norm, loss_scale);
    with.options.skips_nan = loss_scale != NULL;
    for (int i = 0; i < count; i++)
        add_moments(g, &parameters[i]);
    if (options->by_block && !needs_all_at_once(parameters, count, options->clip_norm, loss_scale))
        update_by_block(g, parameters, count, &with, node_count);
    else if (options->by_block)
        update_together(g, parameters, count, &with);
    else
        update_each(g, parameters, count, &with);
    return graph_status(g);
}

dyno_status optimizer_append_adamw(graph *g, const optimizer_options *options) {
    adamw_parameter *parameters = memory_allocate((size_t)g->value_count, sizeof *parameters);
    dyno_status status = append(g, options, parameters, collect(g, parameters));
    free(parameters);
    return status;
}
