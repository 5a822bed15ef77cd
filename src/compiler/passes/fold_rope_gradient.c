/* fold_rope_gradient.c - walks back from every inverse RoPE to the attention gradient it rotates.
 * The gradient gets two more inputs and the attribute that Q and K come rotated; the rotation is
 * dropped. */
#include "compiler/passes/fold_rope_gradient.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/uses.h"
#include "graph/op.h"
#include "ops/attention/attention.h"
#include "ops/op_list.h"

enum { OPERANDS = ATTENTION_V + 1, INPUTS = ATTENTION_LSE + 1 };

/* The attention gradient whose output v is, transposed. */
static node *trace(uses *u, const value *v, int output) {
    static const int64_t swap[] = {0, 2, 1, 3};
    const node *transpose = uses_private_maker(u, v, &op_transpose);
    if (!transpose ||
        memcmp(attribute_list(&transpose->attributes, "order")->dim, swap, sizeof swap) != 0)
        return NULL;
    const value *gradient = transpose->inputs[0];
    node *n = uses_private_maker(u, gradient, &op_attention_gradient);
    return n && gradient->output_index == output ? n : NULL;
}

/* Whether v is there before a node. */
static bool is_before(const value *v, const node *n) {
    return !v->producer || v->producer->id <= n->id;
}

/* The attention gradient whose dQ and dK, and nothing else, this rotates; NULL: there is none. */
static node *match(uses *u, const node *rope) {
    const attribute *heads = attribute_find(&rope->attributes, "heads");
    if (rope->op != &op_rope || !heads || !attribute_integer(&rope->attributes, "inverse"))
        return NULL;
    const node *concat = uses_private_maker(u, rope->inputs[0], &op_concat);
    if (!concat || concat->input_count != OPERANDS ||
        attribute_integer(&concat->attributes, "axis") != 2)
        return NULL;
    node *n = trace(u, concat->inputs[ATTENTION_Q], ATTENTION_Q);
    for (int i = ATTENTION_K; i < OPERANDS; i++)
        if (!n || trace(u, concat->inputs[i], i) != n)
            return NULL;
    int64_t rotated = n->outputs[ATTENTION_Q]->shape.dim[1] + n->outputs[ATTENTION_K]->shape.dim[1];
    bool is_plain = n->input_count == n->op->input_count && heads->integer == rotated;
    return is_plain && is_before(rope->inputs[1], n) && is_before(rope->inputs[2], n) ? n : NULL;
}

/* Whether the target has a kernel that applies the inverse RoPE to these gradients. Operands are
 * taken as dense: only their sizes are known yet. */
static bool can_rotate_back(const node *n, const node *rope, const target *chip) {
    tensor in[INPUTS + ATTENTION_TABLES], out[OPERANDS];
    for (int i = 0; i < INPUTS + ATTENTION_TABLES; i++) {
        const value *v = i < INPUTS ? n->inputs[i] : rope->inputs[1 + i - INPUTS];
        in[i] = tensor_contiguous(NULL, v->type, &v->shape);
    }
    for (int i = 0; i < OPERANDS; i++)
        out[i] = tensor_contiguous(NULL, n->outputs[i]->type, &n->outputs[i]->shape);
    attributes all = {n->attributes.count + 1, NULL};
    all.items = memory_allocate((size_t)all.count, sizeof *all.items);
    memcpy(all.items, n->attributes.items, (size_t)n->attributes.count * sizeof *all.items);
    all.items[n->attributes.count] = ATTR_INTEGER("inverse_rope", 1);
    kernel_args args = {.input_count = INPUTS + ATTENTION_TABLES,
                        .output_count = OPERANDS,
                        .inputs = in,
                        .outputs = out,
                        .attributes = &all,
                        .target = chip};
    bool is_there = kernel_pick(op_attention_gradient.kernels, &args, NULL) != NULL;
    free(all.items);
    return is_there;
}

static void fold(graph *g, uses *u, node *n, const node *rope) {
    value **inputs = arena_allocate(g->memory, INPUTS + ATTENTION_TABLES, sizeof *inputs);
    memcpy(inputs, n->inputs, INPUTS * sizeof *inputs);
    memcpy(inputs + INPUTS, rope->inputs + 1, ATTENTION_TABLES * sizeof *inputs);
    uses_set_inputs(u, n, inputs, INPUTS + ATTENTION_TABLES);
    rewrite_set_attribute(g, n, ATTR_INTEGER("inverse_rope", 1));
    uses_replace(u, rope->outputs[0], rope->inputs[0]);
}

dyno_status fold_rope_gradient(graph *g, const target *chip) {
    bool *is_dropped = memory_allocate((size_t)g->node_count, sizeof *is_dropped);
    uses *u = uses_create(g);
    for (int i = 0; i < g->node_count; i++) {
        const node *rope = g->nodes[i];
        node *n = match(u, rope);
        is_dropped[i] = n && can_rotate_back(n, rope, chip);
        if (is_dropped[i])
            fold(g, u, n, rope);
    }
    uses_destroy(u);
    rewrite_drop_nodes(g, is_dropped);
    free(is_dropped);
    return graph_status(g);
}
