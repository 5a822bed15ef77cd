#include "compiler/passes/swap_loss_head.h"

#include <stdlib.h>

#include "base/memory.h"
#include "compiler/passes/mark_saved.h"
#include "compiler/passes/uses.h"
#include "ops/loss_head/loss_head.h"
#include "ops/op_list.h"

/* The nodes of the pattern; those behind the losses are NULL when there is no backward. */
typedef struct loss_pattern {
    node *head, *cross_entropy;
    node *gradient, *cast; /* the cast, of dlogits to a low type, may be missing too */
    node *dx, *dw;
    node *dw_cast; /* of dW from a low type to f32; may be missing */
} loss_pattern;

static bool is_product(const node *n, bool transpose_a, bool transpose_b) {
    const attribute *alpha = attribute_find(&n->attributes, "alpha");
    return n->op == &op_matmul && n->outputs[0]->shape.rank == 2 && (!alpha || alpha->real == 1) &&
           (attribute_integer(&n->attributes, "transpose_a") != 0) == transpose_a &&
           (attribute_integer(&n->attributes, "transpose_b") != 0) == transpose_b;
}

/* The only node that reads v, and does so once. */
static node *only_user(uses *u, const value *v) {
    return !v->is_output && uses_count(u, v) == 1 ? uses_next_reader(u, v, NULL) : NULL;
}

/* dx and dW are the two products that read `dlogits`, in either order. */
static bool match_products(uses *u, const value *dlogits, loss_pattern *p) {
    if (dlogits->is_output || uses_count(u, dlogits) != 2)
        return false;
    node *first = uses_next_reader(u, dlogits, NULL);
    node *pair[] = {first, uses_next_reader(u, dlogits, first)};
    for (int i = 0; i < 2; i++) {
        node *n = pair[i];
        if (!n || n->inputs[0] != dlogits)
            return false;
        if (is_product(n, false, false) && n->inputs[1] == p->head->inputs[1])
            p->dx = n;
        else if (is_product(n, true, false) && n->inputs[1] == p->head->inputs[0])
            p->dw = n;
    }
    return p->dx && p->dw;
}

static bool match_backward(uses *u, loss_pattern *p) {
    value *dlogits = p->gradient->outputs[0], *low = dlogits;
    node *user = only_user(u, dlogits);
    if (user && user->op == &op_cast) {
        p->cast = user;
        low = user->outputs[0];
    }
    if (low->type != p->head->inputs[0]->type || !match_products(u, low, p))
        return false;
    value *dw = p->dw->outputs[0];
    if (dw->type == DTYPE_F32 || dw->role == ROLE_GRADIENT)
        return true;
    p->dw_cast = only_user(u, dw);
    return p->dw_cast && p->dw_cast->op == &op_cast && p->dw_cast->outputs[0]->type == DTYPE_F32;
}

static bool match(uses *u, node *cross_entropy, loss_pattern *p) {
    *p = (loss_pattern){.cross_entropy = cross_entropy};
    const value *logits = cross_entropy->inputs[0], *lse = cross_entropy->outputs[1];
    p->head = logits->producer;
    if (!p->head || !is_product(p->head, false, true) || logits->type != DTYPE_F32 ||
        logits->is_output || lse->is_output)
        return false;
    int logits_uses = uses_count(u, logits), lse_uses = uses_count(u, lse);
    if (logits_uses == 1 && lse_uses == 0)
        return true;
    p->gradient = uses_next_reader(u, lse, NULL);
    return logits_uses == 2 && lse_uses == 1 && p->gradient->op == &op_cross_entropy_gradient &&
           p->gradient->inputs[0] == logits && p->gradient->inputs[2] == lse &&
           p->gradient->inputs[1] == cross_entropy->inputs[1] &&
           p->gradient->inputs[3]->type == DTYPE_F32 && match_backward(u, p);
}

/* Marks the nodes that make v and come after `position`. False when one of them depends on what
 * the node at `position` makes. */
static bool mark_makers(const value *v, int position, bool *is_maker) {
    if (!v->producer)
        return true;
    int at = v->producer->id;
    if (at == position)
        return false;
    if (at < position || is_maker[at])
        return true;
    is_maker[at] = true;
    for (int i = 0; i < v->producer->input_count; i++)
        if (!mark_makers(v->producer->inputs[i], position, is_maker))
            return false;
    return true;
}

static bool is_replaced(const loss_pattern *p, const node *n) {
    return n == p->head || n == p->cross_entropy || n == p->gradient || n == p->cast ||
           n == p->dx || n == p->dw || n == p->dw_cast;
}

/* Where the cross-entropy stood: the makers of dy, then the loss head. */
static void put_in_place(graph *g, const loss_pattern *p, node *made, const bool *is_maker,
                         int node_count) {
    node **order = memory_allocate((size_t)g->node_count, sizeof *order);
    int count = 0;
    for (int i = 0; i < node_count; i++) {
        node *n = g->nodes[i];
        if (n == p->cross_entropy) {
            for (int j = 0; j < node_count; j++)
                if (is_maker[j]) {
                    g->nodes[j]->phase = PHASE_FORWARD;
                    order[count++] = g->nodes[j];
                }
            order[count++] = made;
        }
        if (!is_maker[i] && !is_replaced(p, n))
            order[count++] = n;
    }
    graph_set_order(g, order, count);
    free(order);
}

static int64_t chunk_for(const target *chip, const value *x, const value *weight) {
    int64_t tokens = x->shape.dim[0], vocab = weight->shape.dim[0];
    return target_is_cuda(chip) ? loss_head_chunk_cuda(tokens, vocab, x->type)
                                : loss_head_chunk(tokens, vocab);
}

static dyno_status swap(graph *g, uses *u, const loss_pattern *p, const bool *is_maker,
                        const target *chip) {
    value *x = p->head->inputs[0], *weight = p->head->inputs[1];
    value *targets = p->cross_entropy->inputs[1], *losses = p->cross_entropy->outputs[0];
    int64_t chunk = chunk_for(chip, x, weight);
    int node_count = g->node_count;
    g->current_scope = p->head->scope;
    g->current_phase = PHASE_FORWARD;
    value *made;
    if (p->gradient) {
        value *dx = p->dx->outputs[0], *dw = (p->dw_cast ? p->dw_cast : p->dw)->outputs[0];
        /* Several chunks are added up in f32. So is one whose type lacks the range of f32. */
        bool is_one_chunk = target_is_cuda(chip) && chunk >= x->shape.dim[0];
        bool has_range_of_f32 = !dtype_table[dw->type].needs_scale;
        dtype dw_type = is_one_chunk && has_range_of_f32 ? dw->type : DTYPE_F32;
        made = build_loss_head(g, x, weight, targets, p->gradient->inputs[3], chunk, dx->type,
                               dw_type);
        RETURN_IF_FAILED(graph_status(g));
        uses_replace(u, dx, made->producer->outputs[1]);
        uses_replace(u, dw, made->producer->outputs[2]);
    } else {
        made = build_loss_head_forward(g, x, weight, targets, chunk);
        RETURN_IF_FAILED(graph_status(g));
    }
    uses_replace(u, losses, made);
    put_in_place(g, p, made->producer, is_maker, node_count);
    return mark_saved_activations(g);
}

dyno_status swap_loss_head(graph *g, const target *chip) {
    dyno_status status = DYNO_OK;
    uses *u = uses_create(g);
    for (int i = 0; i < g->node_count; i++) {
        loss_pattern p;
        if (g->nodes[i]->op != &op_cross_entropy || !match(u, g->nodes[i], &p))
            continue;
        bool *is_maker = memory_allocate((size_t)g->node_count, sizeof *is_maker);
        if (!p.gradient || mark_makers(p.gradient->inputs[3], i, is_maker))
            status = swap(g, u, &p, is_maker, chip);
        free(is_maker);
        break; /* the graph's order is another one now */
    }
    uses_destroy(u);
    return status;
}
