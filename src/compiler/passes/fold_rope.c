/* fold_rope.c - walks back from Q, K and V of every attention to the rotations they come from.
 *
 *   rope [B, H, T, S] -> (cast) -> attention
 *   rope [B, T, all heads, S] -> split -> transpose to [B, H, T, S] -> (cast) -> attention
 *
 * Nodes between the two are changed in place and the attention gets two more inputs; nodes without
 * a reader are then dropped. */
#include "compiler/passes/fold_rope.h"

#include <string.h>

#include "compiler/passes/dead_code.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/uses.h"
#include "graph/op.h"
#include "ops/attention/attention.h"
#include "ops/op_list.h"

enum { OPERANDS = ATTENTION_V + 1 };

/* What Q, K or V goes through; NULL where it does not. */
typedef struct way {
    node *transpose, *split, *rope;
    int piece; /* of the split */
} way;

typedef struct pattern {
    node *attention;
    way ways[OPERANDS];
} pattern;

static way trace(uses *u, const value *v) {
    static const int64_t swap[] = {0, 2, 1, 3};
    way w = {0};
    const node *cast = uses_private_maker(u, v, &op_cast);
    if (cast)
        v = cast->inputs[0];
    w.rope = uses_private_maker(u, v, &op_rope);
    if (w.rope)
        return w;
    w.transpose = uses_private_maker(u, v, &op_transpose);
    if (!w.transpose ||
        memcmp(attribute_list(&w.transpose->attributes, "order")->dim, swap, sizeof swap) != 0)
        return (way){0};
    const value *piece = w.transpose->inputs[0];
    w.split = uses_private_maker(u, piece, &op_split);
    if (!w.split || attribute_integer(&w.split->attributes, "axis") != 2)
        return (way){0};
    w.piece = piece->output_index;
    w.rope = uses_private_maker(u, w.split->inputs[0], &op_rope);
    return w;
}

/* Whether all heads of Q, K or V are rotated; or, not `all`, none of them. */
static bool turns(const way *w, bool all) {
    const attribute *rotated = attribute_find(&w->rope->attributes, "heads");
    if (!w->split)
        return all && !rotated;
    if (!rotated)
        return false;
    int64_t begin = 0;
    for (int i = 0; i < w->piece; i++)
        begin += w->split->outputs[i]->shape.dim[2];
    int64_t end = begin + w->split->outputs[w->piece]->shape.dim[2];
    return all ? end <= rotated->integer : begin >= rotated->integer;
}

/* What the rotation is of, in that type, without the cast for its sake; NULL when it is of another
 * type. */
static value *source_of(const node *rope, dtype type) {
    value *x = rope->inputs[0];
    const node *cast = x->producer && x->producer->op == &op_cast ? x->producer : NULL;
    if (x->type == type)
        return x;
    return cast && x->type == DTYPE_F32 && cast->inputs[0]->type == type ? cast->inputs[0] : NULL;
}

/* Whether Q, K and V are all that comes from the way's split. */
static bool has_all_pieces(const pattern *p, const way *w) {
    int known = 0;
    for (int i = 0; i < OPERANDS; i++)
        known += p->ways[i].split == w->split;
    return !w->split || known == w->split->output_count;
}

static bool match(uses *u, node *n, pattern *p) {
    *p = (pattern){.attention = n};
    if (n->op != &op_attention || n->input_count != n->op->input_count)
        return false;
    for (int i = 0; i < OPERANDS; i++)
        p->ways[i] = trace(u, n->inputs[i]);
    const way *q = &p->ways[ATTENTION_Q], *k = &p->ways[ATTENTION_K], *v = &p->ways[ATTENTION_V];
    if (!q->rope || !k->rope)
        return false;
    if (v->rope != q->rope && v->rope != k->rope)
        p->ways[ATTENTION_V] = (way){0};
    for (int i = ATTENTION_Q; i <= ATTENTION_K; i++) {
        const way *w = &p->ways[i];
        if (!turns(w, true) || !has_all_pieces(p, w) ||
            attribute_integer(&w->rope->attributes, "inverse") ||
            !source_of(w->rope, n->inputs[i]->type))
            return false;
    }
    return q->rope->inputs[1] == k->rope->inputs[1] && q->rope->inputs[2] == k->rope->inputs[2] &&
           (!v->rope || turns(v, false));
}

/* Whether the target has kernels for attention that rotates, and for its gradients. Operands are
 * asked for as dense: what is known of them yet is their sizes. */
static bool can_rotate(const pattern *p, const target *chip) {
    const node *n = p->attention, *rope = p->ways[ATTENTION_Q].rope;
    const value *of[] = {n->inputs[ATTENTION_Q], n->inputs[ATTENTION_K], n->inputs[ATTENTION_V],
                         n->outputs[0],          n->outputs[0],          n->outputs[1],
                         rope->inputs[1],        rope->inputs[2]};
    enum { ALL = sizeof of / sizeof *of };
    tensor all[ALL], forward[OPERANDS + ATTENTION_TABLES], results[2];
    for (int i = 0; i < ALL; i++)
        all[i] = tensor_contiguous(NULL, of[i]->type, &of[i]->shape);
    memcpy(forward, all, OPERANDS * sizeof *all);
    memcpy(forward + OPERANDS, all + ALL - ATTENTION_TABLES, ATTENTION_TABLES * sizeof *all);
    results[0] = all[ATTENTION_O];
    results[1] = all[ATTENTION_LSE];
    kernel_args attend = {.input_count = OPERANDS + ATTENTION_TABLES,
                          .output_count = 2,
                          .inputs = forward,
                          .outputs = results,
                          .attributes = &n->attributes,
                          .target = chip};
    kernel_args differentiate = {.input_count = ALL,
                                 .output_count = OPERANDS,
                                 .inputs = all,
                                 .outputs = all,
                                 .attributes = &n->attributes,
                                 .target = chip};
    return kernel_pick(op_attention.kernels, &attend, NULL) &&
           kernel_pick(op_attention_gradient.kernels, &differentiate, NULL);
}

/* Q, K or V as it is before the rotation. */
static dyno_status unrotated(uses *u, const way *w, dtype type, value **out) {
    *out = source_of(w->rope, type);
    if (!w->split)
        return DYNO_OK;
    uses_set_input(u, w->split, 0, *out);
    *out = w->transpose->outputs[0];
    RETURN_IF_FAILED(rewrite_infer_types(w->split));
    return rewrite_infer_types(w->transpose);
}

static dyno_status fold(graph *g, uses *u, const pattern *p) {
    node *n = p->attention;
    const node *rope = p->ways[ATTENTION_Q].rope;
    value **inputs = arena_allocate(g->memory, OPERANDS + ATTENTION_TABLES, sizeof *inputs);
    for (int i = 0; i < OPERANDS; i++) {
        inputs[i] = n->inputs[i];
        if (p->ways[i].rope)
            RETURN_IF_FAILED(unrotated(u, &p->ways[i], n->inputs[i]->type, &inputs[i]));
    }
    inputs[OPERANDS] = rope->inputs[1];
    inputs[OPERANDS + 1] = rope->inputs[2];
    uses_set_inputs(u, n, inputs, OPERANDS + ATTENTION_TABLES);
    return DYNO_OK;
}

dyno_status fold_rope(graph *g, const target *chip) {
    bool has_folded = false;
    uses *u = uses_create(g);
    dyno_status status = DYNO_OK;
    for (int i = 0; i < g->node_count && status == DYNO_OK; i++) {
        pattern p;
        if (!match(u, g->nodes[i], &p) || !can_rotate(&p, chip))
            continue;
        status = fold(g, u, &p);
        has_folded = true;
    }
    uses_destroy(u);
    return has_folded && status == DYNO_OK ? dead_code_drop(g) : status;
}
