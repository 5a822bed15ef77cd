#include "compiler/passes/fold_casts.h"

#include <stdlib.h>

#include "base/memory.h"
#include "compiler/passes/rewrite.h"
#include "graph/op.h"
#include "ops/op_list.h"

/* What replaces the result of the cast; NULL when the cast is needed. */
static value *result_without(const node *cast) {
    value *in = cast->inputs[0], *out = cast->outputs[0];
    if (in->type == out->type)
        return in;
    const node *before = in->producer;
    if (before && before->op == &op_cast && in->type == DTYPE_F32 && dtype_is_low(out->type) &&
        before->inputs[0]->type == out->type)
        return before->inputs[0];
    return NULL;
}

/* A parameter's gradient, or those of several that are contiguous. */
static bool is_weight_gradient(const graph *g, const value *v) {
    if (v->role == ROLE_GRADIENT)
        return true;
    const node *split = rewrite_next_user(g, v, NULL);
    bool are_all = split && split->op == &op_split && rewrite_count_uses(g, v) == 1;
    for (int i = 0; are_all && i < split->output_count; i++)
        are_all = split->outputs[i]->role == ROLE_GRADIENT;
    return are_all;
}

/* Whether the caller reads the gradient, or one that is contiguous with it. */
static bool is_looked_at(const graph *g, const value *v) {
    const node *reader = rewrite_next_user(g, v, NULL);
    bool is_output = v->is_output;
    for (int i = 0; reader && reader->op == &op_split && i < reader->output_count; i++)
        is_output = is_output || reader->outputs[i]->is_output;
    return is_output;
}

static bool is_cast_of_weight_gradient(const graph *g, const node *cast) {
    const value *in = cast->inputs[0], *out = cast->outputs[0];
    return is_weight_gradient(g, out) && out->type == DTYPE_F32 && dtype_is_low(in->type) &&
           in->producer && in->producer->op->can_output_f32 && !in->is_output &&
           rewrite_count_uses(g, in) == 1;
}

/* Whether all readers of the value, through views, cast it to `low`. */
static bool is_only_cast_to(const graph *g, const value *v, dtype low) {
    if (v->is_output)
        return false;
    for (int i = 0; i < g->node_count; i++) {
        const node *n = g->nodes[i];
        for (int j = 0; j < n->input_count; j++) {
            if (n->inputs[j] != v)
                continue;
            bool is_cast = n->op == &op_cast && n->outputs[0]->type == low;
            for (int k = 0; k < n->output_count && !is_cast; k++)
                if (!n->op->view || !is_only_cast_to(g, n->outputs[k], low))
                    return false;
        }
    }
    return true;
}

static dyno_status retype_views(graph *g, const value *v) {
    for (int i = 0; i < g->node_count; i++) {
        node *n = g->nodes[i];
        if (!n->op->view || n->inputs[0] != v)
            continue;
        RETURN_IF_FAILED(rewrite_infer_types(n));
        for (int j = 0; j < n->output_count; j++)
            RETURN_IF_FAILED(retype_views(g, n->outputs[j]));
    }
    return DYNO_OK;
}

static bool moves_elements(const node *n) { return n->op->view || n->op->piece; }

/* Whether the value is cast from `low`, or moved together from values that are, all for one
 * reader. */
static bool comes_from(const graph *g, const value *v, dtype low) {
    const node *n = v->producer;
    if (n && n->op == &op_cast)
        return n->inputs[0]->type == low;
    if (!n || !moves_elements(n) || n->output_count != 1 || v->is_output ||
        rewrite_count_uses(g, v) != 1)
        return false;
    for (int i = 0; i < n->input_count; i++)
        if (!comes_from(g, n->inputs[i], low))
            return false;
    return true;
}

/* The same elements without the casts. */
static dyno_status take_off_casts(value *v, value **without) {
    node *n = v->producer;
    *without = n->op == &op_cast ? n->inputs[0] : v;
    if (n->op == &op_cast)
        return DYNO_OK;
    for (int i = 0; i < n->input_count; i++)
        RETURN_IF_FAILED(take_off_casts(n->inputs[i], &n->inputs[i]));
    return rewrite_infer_types(n);
}

/* A node between a cast from a low type and casts back to it computes in the low type itself. */
static dyno_status absorb_casts(graph *g, node *n) {
    for (int i = 0; i < DTYPE_COUNT; i++) {
        dtype low = (dtype)i;
        if (!dtype_is_low(low) || n->inputs[0]->type != DTYPE_F32 ||
            !comes_from(g, n->inputs[0], low) || !is_only_cast_to(g, n->outputs[0], low))
            continue;
        RETURN_IF_FAILED(take_off_casts(n->inputs[0], &n->inputs[0]));
        RETURN_IF_FAILED(rewrite_infer_types(n));
        RETURN_IF_FAILED(retype_views(g, n->outputs[0]));
    }
    return DYNO_OK;
}

/* Removes casts without readers, and what only they read. */
static void drop_unused_casts(graph *g) {
    bool *is_used = memory_allocate((size_t)g->value_count, sizeof *is_used);
    bool *is_dropped = memory_allocate((size_t)g->node_count, sizeof *is_dropped);
    for (int i = g->node_count - 1; i >= 0; i--) {
        const node *n = g->nodes[i];
        const value *out = n->outputs[0];
        is_dropped[i] =
            n->op == &op_cast && !is_used[out->id] && !out->is_output && out->role != ROLE_GRADIENT;
        for (int j = 0; j < n->input_count && !is_dropped[i]; j++)
            is_used[n->inputs[j]->id] = true;
    }
    rewrite_drop_nodes(g, is_dropped);
    free(is_used);
    free(is_dropped);
}

dyno_status fold_casts(graph *g, bool are_gradients_full) {
    for (int i = 0; i < g->node_count; i++) {
        node *n = g->nodes[i];
        if (n->op->absorbs_casts)
            RETURN_IF_FAILED(absorb_casts(g, n));
        if (n->op != &op_cast)
            continue;
        value *out = n->outputs[0], *instead = result_without(n);
        if (!instead && is_cast_of_weight_gradient(g, n)) {
            node *product = n->inputs[0]->producer;
            instead = n->inputs[0];
            if (are_gradients_full || is_looked_at(g, out)) {
                rewrite_set_attribute(g, product, ATTR_INTEGER("type", (int64_t)DTYPE_F32));
                RETURN_IF_FAILED(rewrite_infer_types(product));
            }
        }
        /* A leaf, or a value with a name of its own, cannot take another name. */
        if (!instead || (out->name && (!instead->producer || instead->name)))
            continue;
        rewrite_replace(g, out, instead);
        RETURN_IF_FAILED(retype_views(g, instead));
        out->name = NULL;
        out->is_output = false;
        out->role = ROLE_ACTIVATION;
    }
    drop_unused_casts(g);
    return DYNO_OK;
}
