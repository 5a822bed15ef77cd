/* swap_attention.c - matches backwards from every product that could be P V.
 *
 * Queries of the heads that share a key/value head are stacked as rows in the model's graph: scores
 * are [B, K, G*T, T2] as a product and [B, K, G, T, T2] under the mask; see model/attention.c. */
#include "compiler/passes/swap_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compiler/passes/dead_code.h"
#include "compiler/passes/uses.h"
#include "ops/attention/attention.h"
#include "ops/cast/cast.h"
#include "ops/op_list.h"
#include "ops/reshape/reshape.h"

enum { MOST_NODES = 32 };

typedef struct pattern {
    node *product; /* P V */
    value *q, *k, *v;
    double scale;
    bool is_causal;
    int64_t B, K, G, T, T2, S;
    /* Nodes that the swap makes dead: their outputs may have no other readers. */
    const node *members[MOST_NODES];
    int count;
    bool is_too_long;
} pattern;

static void add_member(pattern *p, const node *n) {
    if (p->count < MOST_NODES)
        p->members[p->count++] = n;
    else
        p->is_too_long = true;
}

/* The producer of v, if it is of that kind; it becomes part of the match. */
static node *member_of(pattern *p, const value *v, const op *kind) {
    if (!v || !v->producer || v->producer->op != kind)
        return NULL;
    add_member(p, v->producer);
    return v->producer;
}

/* Skips the casts and reshapes that produced v. */
static value *behind(pattern *p, value *v) {
    while (v->producer && (v->producer->op == &op_cast || v->producer->op == &op_reshape)) {
        add_member(p, v->producer);
        v = v->producer->inputs[0];
    }
    return v;
}

static bool is_over_last(const node *reduction) {
    const shape *axes = attribute_list(&reduction->attributes, "axes");
    return axes->rank == 1 && axes->dim[0] == reduction->inputs[0]->shape.rank - 1;
}

/* The value of which `repeated` broadcasts the row reduction, NULL when it is none. */
static value *reduced(pattern *p, const value *repeated, const op *kind) {
    const node *n = member_of(p, repeated, &op_broadcast);
    if (!n)
        return NULL;
    const node *detached = member_of(p, n->inputs[0], &op_detach);
    const node *r = member_of(p, (detached ? detached : n)->inputs[0], kind);
    return r && is_over_last(r) ? r->inputs[0] : NULL;
}

/* x where y = softmax(x) over the last dimension. */
static value *match_softmax(pattern *p, const value *y) {
    const node *quotient = member_of(p, y, &op_divide);
    if (!quotient)
        return NULL;
    const value *e = quotient->inputs[0];
    const node *exponential = member_of(p, e, &op_exp);
    if (!exponential || reduced(p, quotient->inputs[1], &op_sum) != e)
        return NULL;
    const node *difference = member_of(p, exponential->inputs[0], &op_subtract);
    if (!difference || reduced(p, difference->inputs[1], &op_max) != difference->inputs[0])
        return NULL;
    return difference->inputs[0];
}

/* Views of shared values: they are not part of the match, others may read them. */
static const value *behind_views(const value *v) {
    while (v->producer && (v->producer->op == &op_broadcast || v->producer->op == &op_reshape))
        v = v->producer->inputs[0];
    return v;
}

/* 0, 1, 2, ... along one dimension of a [T, T], the same along the other. */
static bool counts_along(const value *v, int dimension) {
    const node *n = v->producer;
    if (!n || n->op != &op_broadcast || n->inputs[0]->shape.rank != 2)
        return false;
    const shape *s = &n->inputs[0]->shape;
    const node *counting = behind_views(v)->producer;
    return s->dim[dimension] == v->shape.dim[dimension] && s->dim[1 - dimension] == 1 && counting &&
           counting->op == &op_iota;
}

/* Whether the mask is causal: [T, T], query i sees the keys up to i, broadcast over the batch. */
static bool is_causal_mask(const value *mask) {
    const value *square = behind_views(mask);
    const node *n = square->producer;
    int rank = mask->shape.rank;
    if (!n || n->op != &op_greater_equal || square->shape.rank != 2 ||
        square->shape.dim[0] != square->shape.dim[1] ||
        square->shape.dim[0] != mask->shape.dim[rank - 2] ||
        square->shape.dim[1] != mask->shape.dim[rank - 1])
        return false;
    const node *repeat = mask->producer;
    const shape *before = &repeat->inputs[0]->shape;
    bool is_repeated = repeat->op == &op_broadcast && before->rank == rank;
    for (int i = 0; is_repeated && i < rank - 2; i++)
        is_repeated = before->dim[i] == 1;
    return is_repeated && counts_along(n->inputs[0], 0) && counts_along(n->inputs[1], 1);
}

static bool is_minus_infinity(const value *v) {
    const node *n = behind_views(v)->producer;
    return n && n->op == &op_fill && attribute_real(&n->attributes, "number") == -INFINITY;
}

static value *match_mask(pattern *p, value *x) {
    if (!x->producer || x->producer->op != &op_select)
        return x;
    const node *n = member_of(p, x, &op_select);
    if (!is_causal_mask(n->inputs[0]) || !is_minus_infinity(n->inputs[2]))
        return NULL;
    p->is_causal = true;
    return n->inputs[1];
}

static double product_alpha(const node *n) {
    const attribute *alpha = attribute_find(&n->attributes, "alpha");
    return alpha ? alpha->real : 1;
}

static bool is_product(const node *n, bool transpose_b) {
    return n->op == &op_matmul && n->outputs[0]->shape.rank == 4 &&
           !attribute_integer(&n->attributes, "transpose_a") &&
           (attribute_integer(&n->attributes, "transpose_b") != 0) == transpose_b;
}

static bool match_scores(pattern *p, value *x) {
    p->scale = 1;
    x = behind(p, x);
    while (x->producer && x->producer->op == &op_scale) {
        p->scale *= attribute_real(&x->producer->attributes, "s");
        add_member(p, x->producer);
        x = behind(p, x->producer->inputs[0]);
    }
    const node *n = member_of(p, x, &op_matmul);
    if (!n || !is_product(n, true))
        return false;
    p->scale *= product_alpha(n);
    p->q = n->inputs[0];
    p->k = n->inputs[1];
    return true;
}

/* Sizes from the shape under the softmax, and whether all others agree with them. */
static bool match_sizes(pattern *p, const shape *under) {
    if (under->rank != 4 && under->rank != 5)
        return false;
    const int64_t *last = under->dim + under->rank - 2;
    p->B = under->dim[0];
    p->K = under->dim[1];
    p->G = under->rank == 5 ? under->dim[2] : 1;
    p->T = last[0];
    p->T2 = last[1];
    p->S = p->v->shape.dim[3];
    shape rows = SHAPE(p->B, p->K, p->G * p->T, p->S), keys = SHAPE(p->B, p->K, p->T2, p->S);
    return p->S <= ATTENTION_MAX_HEAD_DIM && shape_equal(&p->q->shape, &rows) &&
           shape_equal(&p->k->shape, &keys) && shape_equal(&p->v->shape, &keys) &&
           p->q->type == p->v->type && p->k->type == p->v->type &&
           p->product->outputs[0]->type == p->v->type;
}

static bool is_member(const pattern *p, const node *n) {
    for (int i = 0; i < p->count; i++)
        if (p->members[i] == n)
            return true;
    return n == p->product;
}

static bool is_read_by_members_only(uses *u, const pattern *p) {
    for (int i = 0; i < p->count; i++) {
        const value *v = p->members[i]->outputs[0];
        if (v->is_output)
            return false;
        for (const node *n = uses_next_reader(u, v, NULL); n; n = uses_next_reader(u, v, n))
            if (!is_member(p, n))
                return false;
    }
    return true;
}

static bool match(uses *u, node *product, pattern *p) {
    *p = (pattern){.product = product};
    const value *o = product->outputs[0];
    bool is_read = o->is_output || uses_next_reader(u, o, NULL);
    if (!is_read || !is_product(product, false) || product_alpha(product) != 1)
        return false;
    p->v = product->inputs[1];
    value *weights = behind(p, product->inputs[0]);
    value *x = match_softmax(p, weights);
    value *scores = x ? match_mask(p, x) : NULL;
    return scores && match_scores(p, scores) && match_sizes(p, &x->shape) && !p->is_too_long &&
           is_read_by_members_only(u, p);
}

/* The queries as heads, without the reshape that stacked them as rows. */
static value *as_heads(graph *g, value *q, const shape *heads) {
    const node *n = q->producer;
    if (n && n->op == &op_cast)
        return build_cast(g, as_heads(g, n->inputs[0], heads), q->type);
    if (n && n->op == &op_reshape && shape_equal(&n->inputs[0]->shape, heads))
        return n->inputs[0];
    return shape_equal(&q->shape, heads) ? q : build_reshape(g, q, heads);
}

static void enter_scope_of(graph *g, const node *product) {
    const char *path = g->scopes[product->scope].path, *last = strrchr(path, '.');
    char *parent = arena_format(g->memory, "%.*s", last ? (int)(last - path) : 0, path);
    g->current_scope = graph_intern_scope(g, parent, product->scope);
    graph_enter_scope(g, "flash");
}

/* Puts the nodes that were added for g->nodes[i], from added_at[i] to added_at[i + 1], before it.
 */
static void move_added_nodes(graph *g, int nodes, const int *added_at) {
    node **order = memory_allocate((size_t)g->node_count, sizeof *order);
    int count = 0;
    for (int i = 0; i < nodes; i++) {
        for (int j = added_at[i]; j < added_at[i + 1]; j++)
            order[count++] = g->nodes[j];
        order[count++] = g->nodes[i];
    }
    graph_set_order(g, order, count);
    free(order);
}

/* What reads the product's rows as heads again reads O. */
static void replace_product(graph *g, uses *u, const pattern *p, value *o) {
    value *rows = p->product->outputs[0];
    for (node *n = uses_next_reader(u, rows, NULL), *next; n; n = next) {
        next = uses_next_reader(u, rows, n);
        if (n->op == &op_reshape && !o->name && shape_equal(&n->outputs[0]->shape, &o->shape)) {
            uses_replace(u, n->outputs[0], o);
            n->outputs[0]->is_output = false;
            n->outputs[0]->name = NULL;
            uses_set_input(u, n, 0, o);
        }
    }
    if (rows->is_output || uses_next_reader(u, rows, NULL)) {
        uses_replace(u, rows, build_reshape(g, o, &rows->shape));
        rows->is_output = false;
        rows->name = NULL;
    }
}

/* Adds the attention at the end of the graph. */
static dyno_status swap(graph *g, uses *u, const pattern *p) {
    shape heads = SHAPE(p->B, p->K * p->G, p->T, p->S);
    enter_scope_of(g, p->product);
    g->current_phase = PHASE_FORWARD;
    value *q = as_heads(g, p->q, &heads);
    value *o = build_attention_node(g, q, p->k, p->v, p->is_causal, p->scale);
    RETURN_IF_FAILED(graph_status(g));
    replace_product(g, u, p, o);
    return graph_status(g);
}

dyno_status swap_attention(graph *g) {
    int nodes = g->node_count;
    int *added_at = memory_allocate((size_t)nodes + 1, sizeof *added_at);
    uses *u = uses_create(g);
    dyno_status status = DYNO_OK;
    for (int i = 0; i < nodes && status == DYNO_OK; i++) {
        pattern p;
        added_at[i] = g->node_count;
        if (g->nodes[i]->op == &op_matmul && match(u, g->nodes[i], &p))
            status = swap(g, u, &p);
    }
    uses_destroy(u);
    added_at[nodes] = g->node_count;
    if (status == DYNO_OK && g->node_count > nodes) {
        move_added_nodes(g, nodes, added_at);
        status = dead_code_drop(g);
    }
    free(added_at);
    return status;
}
