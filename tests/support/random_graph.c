#include "support/random_graph.h"

#include <stdio.h>

#include "ops/broadcast/broadcast.h"
#include "ops/cast/cast.h"
#include "ops/elementwise.h"
#include "ops/op_list.h"
#include "ops/reduction.h"
#include "ops/reshape/reshape.h"
#include "ops/transpose/transpose.h"

enum { MOST_VALUES = 32, LEAVES = 3 };

typedef struct pool {
    graph *g;
    draw *d;
    shape s; /* of every value in it, all f32 */
    value *values[MOST_VALUES];
    int count;
    bool has_low;
    int island;
} pool;

static value *pick(pool *p) { return p->values[draw_below(p->d, p->count)]; }

static value *unary(pool *p, const op *kind, value *a) {
    return elementwise_build(p->g, kind, &a, 1);
}

static value *binary(pool *p, const op *kind, value *a, value *b) {
    return elementwise_build(p->g, kind, (value *[]){a, b}, 2);
}

/* Over the last dimension, the first, or all but the last; spread out again. */
static value *reduced(pool *p, value *a) {
    const op *kinds[] = {&op_mean, &op_max, &op_sum};
    const op *kind = kinds[draw_below(p->d, 3)];
    shape axes = {.rank = 1};
    int64_t which = draw_below(p->d, 4);
    if (which < 2)
        axes.dim[0] = p->s.rank - 1;
    else if (which == 3)
        for (axes.rank = 0; axes.rank < p->s.rank - 1; axes.rank++)
            axes.dim[axes.rank] = axes.rank;
    if (!axes.rank)
        axes = SHAPE(0);
    value *y = reduction_build(p->g, kind, a, &axes);
    if (kind == &op_sum) {
        int64_t terms = shape_elements(&p->s) / shape_elements(&y->shape);
        y = elementwise_build_scalar(p->g, &op_scale, y, 1 / (double)terms);
    }
    return build_broadcast(p->g, y, &p->s);
}

static value *rounded(pool *p, value *a) {
    dtype low = draw_chance(p->d, 0.5) ? DTYPE_BF16 : DTYPE_F16;
    return build_cast(p->g, build_cast(p->g, a, low), DTYPE_F32);
}

/* The same numbers out of memory in another order: what views give a kernel to read. */
static value *turned(pool *p, value *a) {
    if (p->s.rank < 2)
        return unary(p, &op_sigmoid, a);
    shape order = draw_order(p->d, p->s.rank), back = {.rank = p->s.rank};
    for (int i = 0; i < order.rank; i++)
        back.dim[order.dim[i]] = i;
    value *y = unary(p, &op_sigmoid, build_transpose(p->g, a, &order));
    return build_transpose(p->g, y, &back);
}

/* Which of two leaves is larger is the same in any precision. */
static value *chosen(pool *p, value *a, value *b) {
    value *mask = binary(p, draw_chance(p->d, 0.5) ? &op_greater_equal : &op_equal, p->values[0],
                         p->values[draw_below(p->d, LEAVES)]);
    return elementwise_build(p->g, &op_select, (value *[]){mask, a, b}, 3);
}

static value *add_step(pool *p) {
    value *a = pick(p), *b = pick(p);
    switch (draw_below(p->d, p->has_low ? 11 : 10)) {
    case 0:
        return binary(p, &op_add, a, b);
    case 1:
        return binary(p, &op_subtract, a, b);
    case 2:
        return binary(p, &op_multiply, a, unary(p, &op_sigmoid, b));
    case 3:
        return unary(p, &op_exp, unary(p, &op_sigmoid, a));
    case 4: {
        value *square = binary(p, &op_multiply, a, a);
        return unary(p, &op_rsqrt, elementwise_build_scalar(p->g, &op_add_scalar, square, 0.5));
    }
    case 5:
        return elementwise_build_scalar(p->g, &op_scale, a, draw_uniform(p->d, -1, 1));
    case 6:
    case 7:
        return reduced(p, a);
    case 8:
        return turned(p, a);
    case 9:
        return chosen(p, a, b);
    default:
        return rounded(p, a);
    }
}

static value *add_leaf(pool *p, shape s, int index) {
    char name[32];
    snprintf(name, sizeof name, "x%d.%d", p->island, index);
    return graph_add_leaf(p->g, ROLE_INPUT, DTYPE_F32, &s, name);
}

int random_graph_add(graph *g, draw *d, bool has_low, int island) {
    pool p = {.g = g, .d = d, .s = draw_shape(d, 1, 4), .has_low = has_low, .island = island};
    for (; p.count < LEAVES; p.count++)
        p.values[p.count] = add_leaf(&p, p.s, p.count);
    shape row = SHAPE(p.s.dim[p.s.rank - 1]), column = p.s; /* a weight, and a number a row */
    shape wide = p.s;
    for (int i = 0; i < p.s.rank - 1; i++)
        wide.dim[i] = 1;
    column.dim[p.s.rank - 1] = 1;
    value *weight = build_reshape(p.g, add_leaf(&p, row, LEAVES), &wide);
    p.values[p.count] = build_broadcast(p.g, weight, &p.s);
    p.values[p.count + 1] = build_broadcast(p.g, add_leaf(&p, column, LEAVES + 1), &p.s);
    p.count += 2;
    int steps = 2 + (int)draw_below(d, 12), outputs = 0;
    for (int i = 0; i < steps; i++) {
        value *made = add_step(&p);
        p.values[p.count++] = made;
    }
    for (int i = p.count - 1; i >= p.count - steps; i--)
        if (i == p.count - 1 || draw_chance(d, 0.3)) {
            char name[32];
            snprintf(name, sizeof name, "y%d.%d", island, outputs++);
            value *y = unary(&p, &op_sigmoid, p.values[i]); /* a value of its own, no view */
            graph_add_output(p.g, y, name);
        }
    return outputs;
}
