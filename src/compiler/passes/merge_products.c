/* merge_products.c - in graph order, each product of x by a weight of a family absorbs the products
 * of the same x by the adjacent weights.
 *
 * Heads: a product that is reshaped to [B, T, H, S], transposed to [B, H, T, S] and perhaps
 * rotated. Merged, these are strided views of one [B, T, all heads, S]. One whose readers need
 * other strides (grouped queries, stacked as rows) is left out: it would have to be copied. */
#include "compiler/passes/merge_products.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compiler/passes/uses.h"
#include "graph/op.h"
#include "ops/concat/concat.h"
#include "ops/matmul/matmul.h"
#include "ops/op_list.h"
#include "ops/reshape/reshape.h"
#include "ops/rope/rope.h"
#include "ops/split/split.h"
#include "ops/transpose/transpose.h"

/* As many sizes as a split takes. */
enum { MOST_PRODUCTS = SHAPE_MAX_RANK };

/* One of the products, and what its result goes through on the way to being heads. */
typedef struct member {
    node *product;
    node *reshape, *transpose; /* NULL: its result is used as it is */
    node *rope;                /* NULL: not rotated */
} member;

typedef struct family {
    member members[MOST_PRODUCTS];
    int count;
} family;

/* The one node that reads the value, if it is of that kind. */
static node *only_reader(uses *u, const value *v, const op *kind) {
    if (v->is_output || uses_count(u, v) != 1)
        return NULL;
    node *reader = uses_next_reader(u, v, NULL);
    return reader->op == kind && reader->inputs[0] == v ? reader : NULL;
}

/* x W^T, plain, of matrices, W in a family. */
static bool is_candidate(const node *n) {
    return n->op == &op_matmul && n->attributes.count == 2 && n->outputs[0]->shape.rank == 2 &&
           !attribute_integer(&n->attributes, "transpose_a") &&
           attribute_integer(&n->attributes, "transpose_b") && n->inputs[1]->family &&
           !n->outputs[0]->is_output;
}

static member describe(uses *u, node *product) {
    static const int64_t swap[] = {0, 2, 1, 3};
    member m = {.product = product};
    node *reshape = only_reader(u, product->outputs[0], &op_reshape);
    node *transpose = reshape ? only_reader(u, reshape->outputs[0], &op_transpose) : NULL;
    if (!transpose || transpose->outputs[0]->is_output || transpose->inputs[0]->shape.rank != 4 ||
        memcmp(attribute_list(&transpose->attributes, "order")->dim, swap, sizeof swap) != 0)
        return m;
    m.reshape = reshape;
    m.transpose = transpose;
    m.rope = only_reader(u, transpose->outputs[0], &op_rope);
    if (m.rope && attribute_find(&m.rope->attributes, "heads"))
        m.rope = NULL;
    return m;
}

static value *result_of(const member *m) {
    const node *last = m->rope ? m->rope : m->transpose ? m->transpose : m->product;
    return last->outputs[0];
}

/* Whether every reshape of the heads can still be a view when all heads are contiguous. */
static bool readers_take_strides(uses *u, const member *m, int64_t row) {
    if (!m->transpose)
        return true;
    const value *v = result_of(m);
    tensor heads = tensor_contiguous(NULL, v->type, &v->shape);
    heads.stride[0] = v->shape.dim[2] * row;
    heads.stride[1] = v->shape.dim[3];
    heads.stride[2] = row;
    for (const node *n = uses_next_reader(u, v, NULL); n; n = uses_next_reader(u, v, n)) {
        tensor view;
        int64_t offset = 0;
        if (n->op == &op_reshape && !n->op->view(n, 0, &heads, &view, &offset))
            return false;
    }
    return true;
}

static node *product_by(uses *u, const value *x, const value *weight) {
    for (node *n = uses_next_reader(u, x, NULL); n; n = uses_next_reader(u, x, n))
        if (is_candidate(n) && n->inputs[0] == x && n->inputs[1] == weight)
            return n;
    return NULL;
}

/* `first` and the products by the weights that follow its own. */
static family collect(const graph *g, uses *u, const int *next_of_family, node *first) {
    family f = {.members = {describe(u, first)}, .count = 1};
    int weight = next_of_family[first->inputs[1]->id];
    while (weight >= 0 && f.count < MOST_PRODUCTS) {
        node *n = product_by(u, first->inputs[0], g->values[weight]);
        if (!n)
            break;
        f.members[f.count++] = describe(u, n);
        weight = next_of_family[weight];
    }
    return f;
}

/* How many from the first on can be merged. */
static int count_mergeable(uses *u, const family *f, bool takes_any_heads) {
    int64_t row = 0;
    if (takes_any_heads)
        return f->count;
    for (int i = 0; i < f->count; i++)
        row += f->members[i].product->outputs[0]->shape.dim[1];
    int count = 0;
    while (count < f->count && readers_take_strides(u, &f->members[count], row))
        count++;
    return count;
}

/* Whether all go on as heads of one kind, those that are rotated before those that are not. */
static bool are_heads(const family *f) {
    const member *first = &f->members[0];
    for (int i = 0; i < f->count; i++) {
        const member *m = &f->members[i];
        if (!m->transpose)
            return false;
        const shape *a = &first->reshape->outputs[0]->shape, *b = &m->reshape->outputs[0]->shape;
        if (a->dim[0] != b->dim[0] || a->dim[1] != b->dim[1] || a->dim[3] != b->dim[3])
            return false;
        if (!m->rope)
            continue;
        if (i > 0 && !m[-1].rope)
            return false;
        if (m->rope->inputs[1] != first->rope->inputs[1] ||
            m->rope->inputs[2] != first->rope->inputs[2] ||
            attribute_integer(&m->rope->attributes, "inverse") !=
                attribute_integer(&first->rope->attributes, "inverse"))
            return false;
    }
    return true;
}

/* "layers.0.attn.q+k+v" */
static int joined_scope(graph *g, const family *f) {
    int first = f->members[0].product->scope;
    const char *path = g->scopes[first].path;
    for (int i = 1; i < f->count; i++) {
        const char *name = g->scopes[f->members[i].product->scope].path, *dot = strrchr(name, '.');
        path = arena_format(g->memory, "%s+%s", path, dot ? dot + 1 : name);
    }
    return graph_intern_scope(g, path, first);
}

static value *build_product(graph *g, const family *f, shape *columns) {
    value *weights[MOST_PRODUCTS];
    for (int i = 0; i < f->count; i++) {
        weights[i] = f->members[i].product->inputs[1];
        columns->dim[columns->rank++] = weights[i]->shape.dim[0];
    }
    value *all = build_concat(g, weights, f->count, 0);
    return build_matmul(g, f->members[0].product->inputs[0], all, false, true);
}

/* The heads side by side, rotated where they are to be; one result for each member. */
static void build_heads(graph *g, const family *f, value *y, value **results) {
    shape all = f->members[0].reshape->outputs[0]->shape, heads = {0}, swap = SHAPE(0, 2, 1, 3);
    int64_t rotated = 0;
    for (int i = 0; i < f->count; i++) {
        heads.dim[heads.rank++] = f->members[i].reshape->outputs[0]->shape.dim[2];
        rotated += f->members[i].rope ? heads.dim[i] : 0;
    }
    all.dim[2] = 0;
    for (int i = 0; i < heads.rank; i++)
        all.dim[2] += heads.dim[i];
    value *r = build_reshape(g, y, &all);
    const node *rope = f->members[0].rope;
    if (rope) {
        g->current_scope = rope->scope;
        r = build_rope_heads(g, r, (rope_table){rope->inputs[1], rope->inputs[2]},
                             attribute_integer(&rope->attributes, "inverse") != 0, rotated);
    }
    g->current_scope = f->members[0].reshape->scope;
    value *first = build_split(g, r, 2, &heads);
    for (int i = 0; i < f->count; i++)
        results[i] = build_transpose(g, first->producer->outputs[i], &swap);
}

/* Marks what stands for the member, by node id. */
static void drop_member(const member *m, bool with_heads, bool *is_dropped) {
    const node *nodes[] = {m->product, m->reshape, m->transpose, m->rope};
    for (int i = 0; i < (with_heads ? 4 : 1); i++)
        if (nodes[i])
            is_dropped[nodes[i]->id] = true;
}

/* Adds the merged nodes at the end of the graph; marks what they replace. */
static void merge(graph *g, uses *u, const family *f, bool *is_dropped) {
    bool with_heads = are_heads(f);
    value *results[MOST_PRODUCTS];
    shape columns = {0};
    g->current_scope = joined_scope(g, f);
    value *y = build_product(g, f, &columns);
    if (with_heads) {
        build_heads(g, f, y, results);
    } else {
        value *first = build_split(g, y, 1, &columns);
        for (int i = 0; i < f->count; i++)
            results[i] = first->producer->outputs[i];
    }
    for (int i = 0; i < f->count; i++) {
        const member *m = &f->members[i];
        uses_replace(u, with_heads ? result_of(m) : m->product->outputs[0], results[i]);
        drop_member(m, with_heads, is_dropped);
    }
}

dyno_status merge_products(graph *g, bool takes_any_heads) {
    int nodes = g->node_count, count = 0, capacity = nodes;
    bool *is_dropped = memory_allocate((size_t)nodes, sizeof *is_dropped);
    int *merged_at = memory_allocate((size_t)nodes + 1, sizeof *merged_at);
    node **before = memory_allocate((size_t)nodes, sizeof *before);
    node **order = memory_allocate((size_t)capacity, sizeof *order);
    int *next_of_family = graph_link_families(g);
    uses *u = uses_create(g);
    memcpy(before, g->nodes, (size_t)nodes * sizeof *before);
    for (int i = 0; i < nodes; i++) {
        merged_at[i] = g->node_count;
        if (is_dropped[i] || !is_candidate(before[i]))
            continue;
        g->current_phase = before[i]->phase;
        family f = collect(g, u, next_of_family, before[i]);
        f.count = count_mergeable(u, &f, takes_any_heads);
        if (f.count > 1)
            merge(g, u, &f, is_dropped);
    }
    merged_at[nodes] = g->node_count;
    for (int i = 0; i < nodes; i++) {
        for (int j = merged_at[i]; j < merged_at[i + 1]; j++) {
            MEMORY_GROW(order, count, capacity);
            order[count++] = g->nodes[j];
        }
        if (is_dropped[i])
            continue;
        MEMORY_GROW(order, count, capacity);
        order[count++] = before[i];
    }
    if (graph_status(g) == DYNO_OK)
        graph_set_order(g, order, count);
    uses_destroy(u);
    free(next_of_family);
    free(is_dropped);
    free(merged_at);
    free(before);
    free(order);
    return graph_status(g);
}
