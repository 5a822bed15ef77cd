/* optimizer.c - one update for each record of a parameter.
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

#include "base/choice.h"
#include "base/memory.h"
#include "graph/graph_parameter.h"
#include "graph/op.h"
#include "ops/adamw_many/adamw_many.h"
#include "ops/add/add.h"
#include "ops/add_scalar/add_scalar.h"
#include "ops/all_gather/all_gather.h"
#include "ops/fill/fill.h"
#include "ops/global_norm/global_norm.h"
#include "ops/op_list.h"
#include "ops/scale/scale.h"
#include "ops/squares/squares.h"

static const char *const policy_names[] = {"ignore", "stop", "skip"};

const char *nonfinite_policy_name(nonfinite_policy policy) { return policy_names[policy]; }

dyno_status nonfinite_policy_parse(const char *name, nonfinite_policy *policy) {
    int index;
    RETURN_IF_FAILED(choice_parse("way to treat what is not finite", policy_names,
                                  NONFINITE_POLICY_COUNT, NONFINITE_CHOICES, name, &index));
    *policy = (nonfinite_policy)index;
    return DYNO_OK;
}

bool optimizer_takes_norm(const optimizer_options *options, bool is_loss_scaled) {
    return options->clip_norm > 0 || is_loss_scaled || options->on_nonfinite == NONFINITE_SKIP;
}

static bool can_be_void(const optimizer_options *options, const value *loss_scale) {
    return loss_scale || options->on_nonfinite != NONFINITE_IGNORE;
}

/* Over all ranks, where each has its part. */
static value *exact_norm(graph *g, const optimizer_options *options, value *const *gradients) {
    value *squares = build_squares(g, gradients, g->parameter_count);
    if (options->ranks > 1) {
        phase before = g->current_phase;
        g->current_phase = PHASE_COMMUNICATION;
        squares = build_all_gather(g, squares, &(collective_place){.ranks = options->ranks});
        g->current_phase = before;
    }
    return build_root_of_squares(g, squares);
}

/* What clips the gradients' norm and undoes the scaling of the loss. Where the step can be void it
 * is NaN unless the norm is finite. */
static value *norm_factor(graph *g, const optimizer_options *options, value *loss_scale) {
    value **gradients = memory_allocate((size_t)g->parameter_count, sizeof *gradients);
    for (int i = 0; i < g->parameter_count; i++)
        gradients[i] = g->parameters[i]->gradient;
    value *norm = options->is_of_sums ? exact_norm(g, options, gradients)
                                      : build_global_norm(g, gradients, g->parameter_count);
    free(gradients);
    if (!can_be_void(options, loss_scale))
        return build_clip_coefficient(g, norm, options->clip_norm);
    value *scale = loss_scale ? loss_scale : build_fill(g, DTYPE_F32, 1);
    return build_unscale_coefficient(g, norm, scale, options->clip_norm);
}

/* 0 times the loss is added: one that is not finite makes it NaN. */
static value *gradient_scale(graph *g, const optimizer_options *options, value *loss_scale) {
    bool has_norm = optimizer_takes_norm(options, loss_scale != NULL);
    bool reads_loss = options->on_nonfinite != NONFINITE_IGNORE;
    if (!has_norm && !reads_loss)
        return build_fill(g, DTYPE_F32, 1);
    int outer = graph_enter_scope(g, "clip");
    value *factor = has_norm ? norm_factor(g, options, loss_scale) : NULL;
    if (reads_loss) {
        value *loss = graph_find_value(g, "loss");
        if (loss->role == ROLE_ACTIVATION)
            loss->role = ROLE_SAVED; /* the forward makes it, and it is read here */
        value *zero = build_scale(g, loss, 0);
        factor = factor ? build_add(g, factor, zero) : build_add_scalar(g, zero, 1);
    }
    if (can_be_void(options, loss_scale))
        graph_add_output(g, factor, "gradient_scale");
    graph_leave_scope(g, outer);
    return factor;
}

/* What every update of a step reads. */
typedef struct update_scalars {
    value *rate, *step, *scale;
    adamw_options options;
} update_scalars;

static void update_each(graph *g, graph_parameter *const *parameters, int count,
                        const update_scalars *with) {
    for (int i = 0; i < count; i++) {
        const graph_parameter *p = parameters[i];
        adamw_inputs inputs = {.weight = p->value,
                               .gradient = p->gradient,
                               .first_moment = p->first_moment,
                               .second_moment = p->second_moment,
                               .learning_rate = with->rate,
                               .step = with->step,
                               .gradient_scale = with->scale};
        build_adamw(g, &inputs, &with->options);
    }
}

/* Those with a low copy first, otherwise in order, as adamw_many wants them. */
static void update_together(graph *g, graph_parameter *const *parameters, int count,
                            const update_scalars *with) {
    adamw_parameter *sorted = memory_allocate((size_t)count, sizeof *sorted);
    int next = 0;
    for (int has_copy = 1; has_copy >= 0; has_copy--)
        for (int i = 0; i < count; i++) {
            const graph_parameter *p = parameters[i];
            if ((p->low_copy != NULL) == has_copy)
                sorted[next++] = (adamw_parameter){p->value, p->gradient, p->first_moment,
                                                   p->second_moment, p->low_copy};
        }
    build_adamw_many(g, sorted, count, with->rate, with->step, with->scale, &with->options);
    free(sorted);
}

/* ---- sums over micro-batches and ranks ---- */

static int by_gradient(const void *a, const void *b) {
    const graph_parameter *x = *(graph_parameter *const *)a, *y = *(graph_parameter *const *)b;
    int first = x->gradient->producer->id, second = y->gradient->producer->id;
    return first != second ? (first < second ? -1 : 1)
                           : x->gradient->output_index - y->gradient->output_index;
}

/* Parameters whose gradients one collective sums are updated together, in the order of the collectives:
 * while they are updated, the next may still be under way. */
static void update_sums(graph *g, bool together, const update_scalars *with) {
    int count = g->parameter_count;
    graph_parameter **sorted = memory_allocate((size_t)count, sizeof *sorted);
    memcpy(sorted, g->parameters, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_gradient);
    if (!together)
        update_each(g, sorted, count, with);
    for (int first = 0, end; together && first < count; first = end) {
        const node *of = sorted[first]->gradient->producer;
        for (end = first + 1; end < count; end++)
            if (of->phase == PHASE_COMMUNICATION && sorted[end]->gradient->producer != of)
                break;
        update_together(g, sorted + first, end - first, with);
    }
    free(sorted);
}

/* ---- by block ---- */

/* Parameters [first, end) that are updated together, and the node they come behind. */
typedef struct update_group {
    int first, end, behind;
    int64_t elements;
    int scope;
} update_group;

/* Node `position` reads `v`, and what `v` may share memory with. */
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

static int ready_behind(const graph_parameter *p, const int *last_reader) {
    int behind = p->gradient->producer->id;
    const value *const read[] = {p->value, p->low_copy};
    for (int i = 0; i < 2; i++)
        if (read[i] && last_reader[read[i]->id] > behind)
            behind = last_reader[read[i]->id];
    return behind;
}

/* Whether the gradient is a sum, over rows as it is of a vector. */
static bool is_sum(const value *gradient) {
    const node *n = gradient->producer;
    while (n && n->op->view)
        n = n->inputs[0]->producer;
    return n && n->op->reduction == REDUCTION_SUM;
}

/* Parameters that are updated in one scope are a group: those of a block, those whose gradients
 * are sums, and those outside of blocks that have the outermost scope in common. */
static int update_scope(graph *g, const graph_parameter *p) {
    const char *from = g->scopes[p->gradient->producer->scope].path;
    const char *path = arena_format(g->memory, "optimizer.%.*s", (int)strcspn(from, "."), from);
    if (is_sum(p->gradient))
        path = "optimizer.norms";
    else if (p->block >= 0)
        path = arena_format(g->memory, "optimizer.layers.%d", p->block);
    return graph_intern_scope(g, path, 0);
}

typedef struct ready_parameter {
    graph_parameter *parameter;
    int behind, scope, place;
} ready_parameter;

static int by_readiness(const void *a, const void *b) {
    const ready_parameter *x = a, *y = b;
    return x->behind != y->behind ? (x->behind < y->behind ? -1 : 1) : x->place - y->place;
}

/* Gives the parameters so that each group's stand together, groups by readiness; none comes before
 * the node `earliest`. */
static int form_groups(graph *g, int earliest, graph_parameter **parameters, update_group *groups) {
    int *last_reader = find_last_readers(g), count = g->parameter_count, made = 0, sorted = 0;
    ready_parameter *ready = memory_allocate((size_t)count, sizeof *ready);
    for (int i = 0; i < count; i++) {
        graph_parameter *p = g->parameters[i];
        int behind = ready_behind(p, last_reader);
        ready[i] =
            (ready_parameter){p, behind > earliest ? behind : earliest, update_scope(g, p), i};
    }
    qsort(ready, (size_t)count, sizeof *ready, by_readiness);
    /* By scope: 1 + the number of its group. */
    int *group_of = memory_allocate((size_t)g->scope_count, sizeof *group_of);
    for (int i = 0; i < count; i++) {
        int scope = ready[i].scope;
        if (!group_of[scope]) {
            groups[made++] = (update_group){.scope = scope};
            group_of[scope] = made;
        }
        groups[group_of[scope] - 1].end++; /* how many, for now */
    }
    for (int i = 0; i < made; i++) {
        int members = groups[i].end;
        groups[i].first = groups[i].end = sorted;
        sorted += members;
    }
    for (int i = 0; i < count; i++) {
        update_group *group = &groups[group_of[ready[i].scope] - 1];
        group->behind = ready[i].behind > group->behind ? ready[i].behind : group->behind;
        group->elements += shape_elements(&ready[i].parameter->value->shape);
        parameters[group->end++] = ready[i].parameter;
    }
    free(group_of);
    free(last_reader);
    free(ready);
    return made;
}

/* Groups are sorted by their last parameter; then those that are small join the next. */
static int by_last(const void *a, const void *b) {
    const update_group *x = a, *y = b;
    return x->behind != y->behind ? (x->behind < y->behind ? -1 : 1) : x->first - y->first;
}

/* What the scale reads is there behind the node `earliest`. */
static void update_by_block(graph *g, const update_scalars *with, int earliest, int node_count) {
    enum { SMALL_SHARE = 16 };
    size_t count = (size_t)g->parameter_count;
    update_group *groups = memory_allocate(count, sizeof *groups);
    graph_parameter **parameters = memory_allocate(count, sizeof *parameters);
    graph_parameter **together = memory_allocate(count, sizeof *together);
    int group_count = form_groups(g, earliest, parameters, groups), given = 0;
    qsort(groups, (size_t)group_count, sizeof *groups, by_last);
    int *behind = memory_allocate((size_t)group_count, sizeof *behind), made = 0;
    for (int i = 0; i < group_count; i++) {
        const update_group *group = &groups[i];
        for (int j = group->first; j < group->end; j++)
            together[given++] = parameters[j];
        if (i + 1 < group_count && group->elements * SMALL_SHARE < groups[i + 1].elements)
            continue;
        g->current_scope = group->scope;
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
    free(parameters);
    free(groups);
}

/* ---- all of it ---- */

/* The loss comes after the gradients of the head where one op makes both. */
static int last_before_scale(const graph *g, const optimizer_options *options) {
    return options->on_nonfinite == NONFINITE_IGNORE ? -1
                                                     : graph_find_value(g, "loss")->producer->id;
}

static dyno_status check(const graph *g, const optimizer_options *options) {
    if (options->on_nonfinite != NONFINITE_IGNORE && !graph_find_value(g, "loss"))
        return dyno_fail(DYNO_INVALID, "graph '%s' has no output 'loss' to check", g->name);
    for (int i = 0; i < g->parameter_count; i++) {
        if (!g->parameters[i]->gradient)
            return dyno_fail(DYNO_INVALID,
                             "graph '%s': parameter '%s' has no gradient; the backward comes "
                             "before the optimizer",
                             g->name, g->parameters[i]->name);
        if (g->parameters[i]->low_copy && !options->by_block)
            return dyno_fail(DYNO_INVALID,
                             "graph '%s' has low copies of weights; only the optimizer in one "
                             "launch, or in one for each block, keeps them",
                             g->name);
    }
    return DYNO_OK;
}

static bool needs_all_at_once(const graph *g, bool takes_norm) {
    bool has_outputs = false;
    for (int i = 0; i < g->parameter_count; i++)
        has_outputs = has_outputs || g->parameters[i]->gradient->is_output;
    return has_outputs || takes_norm;
}

dyno_status optimizer_append_adamw(graph *g, const optimizer_options *options) {
    RETURN_IF_FAILED(check(g, options));
    value *loss_scale = graph_find_value(g, "loss_scale");
    int node_count = g->node_count;
    update_scalars with = {
        .rate = graph_add_leaf(g, ROLE_INPUT, DTYPE_F64, &SHAPE_SCALAR, "learning_rate"),
        .step = graph_add_leaf(g, ROLE_INPUT, DTYPE_I64, &SHAPE_SCALAR, "step"),
        .options = options->adamw};
    g->current_phase = PHASE_OPTIMIZER;
    g->current_scope = graph_intern_scope(g, "optimizer", 0);
    with.scale = gradient_scale(g, options, loss_scale);
    with.options.skips_nan = can_be_void(options, loss_scale);
    for (int i = 0; i < g->parameter_count; i++) {
        graph_add_part(g, g->parameters[i], PARAMETER_FIRST_MOMENT, DTYPE_F32);
        graph_add_part(g, g->parameters[i], PARAMETER_SECOND_MOMENT, DTYPE_F32);
    }
    bool takes_norm = optimizer_takes_norm(options, loss_scale != NULL);
    if (options->is_of_sums)
        update_sums(g, options->by_block, &with);
    else if (options->by_block && !needs_all_at_once(g, takes_norm))
        update_by_block(g, &with, last_before_scale(g, options), node_count);
    else if (options->by_block)
        update_together(g, g->parameters, g->parameter_count, &with);
    else
        update_each(g, g->parameters, g->parameter_count, &with);
    return graph_status(g);
}
