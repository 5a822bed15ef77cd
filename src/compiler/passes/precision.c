#include "compiler/passes/precision.h"

#include <stdlib.h>

#include "base/choice.h"
#include "base/memory.h"
#include "compiler/passes/rewrite.h"
#include "graph/op.h"
#include "ops/cast/cast.h"

CHOICE_FUNCTIONS(precision, precision, "precision", PRECISION_CHOICES, "fp32", "bf16", "fp16",
                 "tf32")

dtype precision_low_type(precision p) {
    static const dtype types[PRECISION_COUNT] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F32};
    return types[p];
}

dyno_status precision_check(precision p, const target *chip) {
    if (p != PRECISION_TF32 || target_is_cuda(chip))
        return DYNO_OK;
    return dyno_fail(DYNO_UNSUPPORTED,
                     "precision tf32 is of GPUs, the plan is for the %s; use --precision fp32 or "
                     "bf16, or --device cuda",
                     target_kind_name(chip->kind));
}

typedef struct policy {
    graph *g;
    dtype low;
    node **order; /* the graph's nodes with casts between them */
    int count;
    value **in_low;     /* by value id: its cast to the low type, once there is one */
    value **in_full;    /* and to f32 */
    bool *feeds_a_loss; /* by value id: a loss reads it, or a view of it */
} policy;

static value *in_type(policy *p, value *v, dtype type, const node *reader) {
    if (v->type == type || !dtype_is_f32_or_low(v->type))
        return v;
    value **made = type == p->low ? &p->in_low[v->id] : &p->in_full[v->id];
    if (!*made) {
        p->g->current_scope = reader->scope;
        p->g->current_phase = reader->phase;
        *made = build_cast(p->g, v, type);
        p->order[p->count++] = (*made)->producer;
    }
    return *made;
}

static dyno_status retype(policy *p, node *n) {
    for (int i = 0; i < n->input_count && n->op->precision != OP_PRECISION_ANY; i++)
        n->inputs[i] = in_type(p, n->inputs[i], i < n->op->factor_count ? p->low : DTYPE_F32, n);
    if (n->op->can_output_f32 && p->feeds_a_loss[n->outputs[0]->id])
        rewrite_set_attribute(p->g, n, ATTR_INTEGER("type", (int64_t)DTYPE_F32));
    p->order[p->count++] = n;
    RETURN_IF_FAILED(graph_status(p->g));
    return rewrite_infer_types(n);
}

static bool *find_loss_inputs(const graph *g) {
    bool *feeds = memory_allocate((size_t)g->value_count, sizeof *feeds);
    for (int i = g->node_count - 1; i >= 0; i--) {
        const node *n = g->nodes[i];
        bool reaches = n->op->class == OP_CLASS_LOSS;
        for (int j = 0; j < n->output_count && n->op->view; j++)
            reaches = reaches || feeds[n->outputs[j]->id];
        if (reaches)
            for (int j = 0; j < n->input_count; j++)
                feeds[n->inputs[j]->id] = true;
    }
    return feeds;
}

dyno_status precision_apply(graph *g, precision kind) {
    if (kind == PRECISION_FP32 || kind == PRECISION_TF32)
        return DYNO_OK;
    int operands = 0, node_count = g->node_count;
    for (int i = 0; i < node_count; i++)
        operands += g->nodes[i]->input_count;
    size_t values = (size_t)g->value_count;
    policy p = {.g = g,
                .low = precision_low_type(kind),
                .order = memory_allocate((size_t)(node_count + operands), sizeof(node *)),
                .in_low = memory_allocate(values, sizeof(value *)),
                .in_full = memory_allocate(values, sizeof(value *)),
                .feeds_a_loss = find_loss_inputs(g)};
    dyno_status status = DYNO_OK;
    for (int i = 0; i < node_count && status == DYNO_OK; i++)
        status = retype(&p, g->nodes[i]);
    if (status == DYNO_OK) {
        graph_set_order(g, p.order, p.count);
        if (dtype_table[p.low].needs_scale)
            graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &SHAPE_SCALAR, "loss_scale");
    }
    free(p.order);
    free(p.in_low);
    free(p.in_full);
    free(p.feeds_a_loss);
    return status;
}

void precision_allow_tf32(graph *g, precision kind) {
    for (int i = 0; kind == PRECISION_TF32 && i < g->node_count; i++) {
        node *n = g->nodes[i];
        if (n->op->precision == OP_PRECISION_PRODUCT)
            rewrite_set_attribute(g, n, ATTR_INTEGER("tf32", 1));
    }
}
