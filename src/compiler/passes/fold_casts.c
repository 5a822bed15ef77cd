#include "compiler/passes/fold_casts.h"

#include <stdlib.h>

#include "base/memory.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/uses.h"
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
static bool is_weight_gradient(uses *u, const value *v) {
    if (v->role == ROLE_GRADIENT)
        return true;
    const node *split = uses_next_reader(u, v, NULL);
    bool are_all = split && split->op == &op_split && uses_count(u, v) == 1;
    for (int i = 0; are_all && i < split->output_count; i++)
        are_all = split->outputs[i]->role == ROLE_GRADIENT;
    return are_all;
}

/* Whether the caller reads the gradient, or one that is contiguous with it. */
static bool is_looked_at(uses *u, const value *v) {
    const node *reader = uses_next_reader(u, v, NULL);
    bool is_output = v->is_output;
    for (int i = 0; reader && reader->op == &op_split && i < reader->output_count; i++)
        is_output = is_output || reader->outputs[i]->is_output;
    return is_output;
}

static bool is_cast_of_weight_gradient(uses *u, const node *cast) {
    const value *in = cast->inputs[0], *out = cast->outputs[0];
    return is_weight_gradient(u, out) && out->type == DTYPE_F32 && dtype_is_low(in->type) &&
           in->producer && in->producer->op->can_output_f32 && !in->is_output &&
           uses_count(u, in) == 1;
}

/* Whether all readers of the value, through views, cast it to `low`. */
static bool is_only_cast_to(uses *u, const value *v, dtype low) {
    if (v->is_output)
        return false;
    for (const node *n = uses_next_reader(u, v, NULL); n; n = uses_next_reader(u, v, n)) {
        bool is_cast = n->op == &op_cast && n->outputs[0]->type == low;
        for (int i = 0; i < n->output_count && !is_cast; i++)
            if (!n->op->view || !is_only_cast_to(u, n->outputs[i], low))
                return false;
    }
    return true;
}

static dyno_status retype_views(uses *u, const value *v) {
    for (node *n = uses_next_reader(u, v, NULL); n; n = uses_next_reader(u, v, n)) {
        if (!n->op->view || n->inputs[0] != v)
            continue;
        RETURN_IF_FAILED(rewrite_infer_types(n));
        for (int i = 0; i < n->output_count; i++)
            RETURN_IF_FAILED(retype_views(u, n->outputs[i]));
    }
    return DYNO_OK;
}

static bool moves_elements(const node *n) { return n->op->view || n->op->piece; }

/* Whether the value is cast from `low`, or moved together from values that are, all for one
 * reader. */
static bool comes_from(uses *u, const value *v, dtype low) {
    const node *n = v->producer;
    if (n && n->op == &op_cast)
        return n->inputs[0]->type == low;
    if (!n || !moves_elements(n) || n->output_count != 1 || v->is_output || uses_count(u, v) != 1)
        return false;
    for (int i = 0; i < n->input_count; i++)
        if (!comes_from(u, n->inputs[i], low))
            return false;
    return true;
}

/* The node reads the same elements without the casts. */
static dyno_status take_off_casts(uses *u, node *reader, int index) {
    node *n = reader->inputs[index]->producer;
    if (n->op == &op_cast) {
        uses_set_input(u, reader, index, n->inputs[0]);
        return DYNO_OK;
    }
    for (int i = 0; i < n->input_count; i++)
        RETURN_IF_FAILED(take_off_casts(u, n, i));
    return rewrite_infer_types(n);
}

/* A node between a cast from a low type and casts back to it computes in the low type itself. */
static dyno_status absorb_casts(uses *u, node *n) {
    for (int i = 0; i < DTYPE_COUNT; i++) {
        dtype low = (dtype)i;
        if (!dtype_is_low(low) || n->inputs[0]->type != DTYPE_F32 ||
            !comes_from(u, n->inputs[0], low) || !is_only_cast_to(u, n->outputs[0], low))
            continue;
        RETURN_IF_FAILED(take_off_casts(u, n, 0));
        RETURN_IF_FAILED(rewrite_infer_types(n));
        RETURN_IF_FAILED(retype_views(u, n->outputs[0]));
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

static dyno_status fold_node(graph *g, uses *u, node *n, bool are_gradients_full) {
    if (n->op->absorbs_casts)
        RETURN_IF_FAILED(absorb_casts(u, n));
    if (n->op != &op_cast)
        return DYNO_OK;
    value *out = n->outputs[0], *instead = result_without(n);
    if (!instead && is_cast_of_weight_gradient(u, n)) {
        node *product = n->inputs[0]->producer;
        instead = n->inputs[0];
        if (are_gradients_full || is_looked_at(u, out)) {
            rewrite_set_attribute(g, product, ATTR_INTEGER("type", (int64_t)DTYPE_F32));
            RETURN_IF_FAILED(rewrite_infer_types(product));
        }
    }
    /* A leaf, or a value with a name of its own, cannot take another name. */
    if (!instead || (out->name && (!instead->producer || instead->name)))
        return DYNO_OK;
    uses_replace(u, out, instead);
    RETURN_IF_FAILED(retype_views(u, instead));
    out->name = NULL;
    out->is_output = false;
    out->role = ROLE_ACTIVATION;
    return DYNO_OK;
}

dyno_status fold_casts(graph *g, bool are_gradients_full) {
    uses *u = uses_create(g);
    dyno_status status = DYNO_OK;
    for (int i = 0; i < g->node_count && status == DYNO_OK; i++)
        status = fold_node(g, u, g->nodes[i], are_gradients_full);
    uses_destroy(u);
    if (status == DYNO_OK)
        drop_unused_casts(g);
    return status;
}
