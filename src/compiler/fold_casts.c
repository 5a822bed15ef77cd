#include "compiler/fold_casts.h"

#include <stdlib.h>

#include "base/memory.h"
#include "compiler/rewrite.h"
#include "graph/op.h"
#include "ops/op_list.h"

static bool is_low(dtype type) { return type == DTYPE_BF16 || type == DTYPE_F16; }

/* What the cast's result is without the cast; NULL when it is needed. */
static value *result_without(const node *cast) {
    value *in = cast->inputs[0], *out = cast->outputs[0];
    if (in->type == out->type)
        return in;
    const node *before = in->producer;
    if (before && before->op == &op_cast && in->type == DTYPE_F32 && is_low(out->type) &&
        before->inputs[0]->type == out->type)
        return before->inputs[0];
    return NULL;
}

static bool is_cast_of_weight_gradient(const graph *g, const node *cast) {
    const value *in = cast->inputs[0], *out = cast->outputs[0];
    return out->role == ROLE_GRADIENT && out->type == DTYPE_F32 && is_low(in->type) &&
           in->producer && in->producer->op == &op_matmul && !in->is_output &&
           rewrite_count_uses(g, in) == 1;
}

/* Whether all that is ever done with the value, views aside, is to cast it to `low`. */
static bool is_only_cast_to(const graph *g, const value *v, dtype low) {
    if (v->is_output)
        return false;
    for (int i = 0; i < g->node_count; i++) {
        const node *n = g->nodes[i];
        for (int j = 0; j < n->input_count; j++) {
            if (n->inputs[j] != v)
                continue;
            bool is_cast = n->op == &op_cast && n->outputs[0]->type == low;
            if (!is_cast && !(n->op->view && is_only_cast_to(g, n->outputs[0], low)))
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
        RETURN_IF_FAILED(retype_views(g, n->outputs[0]));
    }
    return DYNO_OK;
}

/* A rotation between a cast from a low type and casts back to it rotates the low type itself: its
 * kernel computes in f32 and rounds once, as the casts would. */
static dyno_status fold_rotation(graph *g, node *rope) {
    const node *cast = rope->inputs[0]->producer;
    if (!cast || cast->op != &op_cast || !is_low(cast->inputs[0]->type) ||
        !is_only_cast_to(g, rope->outputs[0], cast->inputs[0]->type))
        return DYNO_OK;
    rope->inputs[0] = cast->inputs[0];
    RETURN_IF_FAILED(rewrite_infer_types(rope));
    return retype_views(g, rope->outputs[0]);
}

/* Casts whose results are read by nobody any more, and what only they read. */
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
        if (n->op == &op_rope)
            RETURN_IF_FAILED(fold_rotation(g, n));
        if (n->op != &op_cast)
            continue;
        value *out = n->outputs[0], *instead = result_without(n);
        if (!instead && is_cast_of_weight_gradient(g, n)) {
            node *product = n->inputs[0]->producer;
            instead = n->inputs[0];
            if (are_gradients_full || out->is_output) {
                rewrite_set_attribute(g, product, ATTR_INTEGER("type", (int64_t)DTYPE_F32));
                RETURN_IF_FAILED(rewrite_infer_types(product));
            }
        }
        /* A leaf, or a value with a name of its own, cannot take another name. */
        if (!instead || (out->name && (!instead->producer || instead->name)))
            continue;
        rewrite_replace(g, out, instead);
        out->name = NULL;
        out->is_output = false;
        out->role = ROLE_ACTIVATION;
    }
    drop_unused_casts(g);
    return DYNO_OK;
}
