#include "support/fusable_graph.h"

#include <stdio.h>

#include "ops/add/add.h"
#include "ops/add_scalar/add_scalar.h"
#include "ops/broadcast/broadcast.h"
#include "ops/cast/cast.h"
#include "ops/divide/divide.h"
#include "ops/equal/equal.h"
#include "ops/exp/exp.h"
#include "ops/fill/fill.h"
#include "ops/greater_equal/greater_equal.h"
#include "ops/log/log.h"
#include "ops/max/max.h"
#include "ops/mean/mean.h"
#include "ops/multiply/multiply.h"
#include "ops/rsqrt/rsqrt.h"
#include "ops/scale/scale.h"
#include "ops/select/select.h"
#include "ops/sigmoid/sigmoid.h"
#include "ops/subtract/subtract.h"
#include "ops/sum/sum.h"
#include "ops/transpose/transpose.h"

enum { MOST_VALUES = 256 };

typedef struct pool {
    value *items[MOST_VALUES];
    int count;
} pool;

typedef struct builder {
    graph *g;
    draw *d;
    const fusable_options *options;
    shape full, row;
    pool fulls, rows, masks; /* f32, f32, bool */
    int index, leaves;
} builder;

static value *pick(builder *b, const pool *from) {
    /* The latest most often: chains, not stars. */
    int64_t back = draw_chance(b->d, 0.5) ? draw_below(b->d, 3) : draw_below(b->d, from->count);
    return from->items[from->count - 1 - (back < from->count ? back : 0)];
}

static void keep(pool *into, value *v) {
    if (into->count < MOST_VALUES)
        into->items[into->count++] = v;
}

static value *leaf(builder *b, dtype type, shape s) {
    char name[32];
    snprintf(name, sizeof name, "x%d.%d", b->index, b->leaves++);
    return graph_add_leaf(b->g, ROLE_INPUT, type, &s, name);
}

/* An f32 operand that has the full shape, one way or another. */
static value *draw_leaf(builder *b) {
    const int64_t *rows = b->options->rows, columns = b->options->columns;
    graph *g = b->g;
    dtype low = draw_chance(b->d, 0.5) ? DTYPE_BF16 : DTYPE_F16;
    dtype type = b->options->has_low_types && draw_chance(b->d, 0.6) ? low : DTYPE_F32;
    shape rows_swapped = SHAPE(1, 0, 2), columns_swapped = SHAPE(0, 2, 1);
    value *v;
    switch (draw_below(b->d, 9)) {
    case 0: /* rows in another order */
        v = build_transpose(g, leaf(b, type, SHAPE(rows[1], rows[0], columns)), &rows_swapped);
        break;
    case 1: /* columns far apart */
        v = build_transpose(g, leaf(b, type, SHAPE(rows[0], columns, rows[1])), &columns_swapped);
        break;
    case 2:
        v = build_broadcast(g, leaf(b, type, SHAPE(1, 1, columns)), &b->full);
        break;
    case 3:
        v = build_broadcast(g, leaf(b, type, SHAPE(1, rows[1], columns)), &b->full);
        break;
    case 4:
        v = build_broadcast(g, leaf(b, type, b->row), &b->full);
        break;
    case 5:
        v = build_broadcast(g, leaf(b, type, SHAPE(1, 1, 1)), &b->full);
        break;
    case 6:
        v = build_broadcast_scalar(g, build_fill(g, DTYPE_F32, draw_normal(b->d)), &b->full);
        break;
    default:
        v = leaf(b, type, b->full);
    }
    return v->type == DTYPE_F32 ? v : build_cast(g, v, DTYPE_F32);
}

/* Compares leaves only: what is computed may be a bit off, and no compare forgives that. */
static value *draw_mask(builder *b) {
    graph *g = b->g;
    bool has_integers = draw_chance(b->d, 0.5);
    dtype type = has_integers ? DTYPE_I32 : DTYPE_F32;
    value *x = leaf(b, type, b->full);
    value *y = draw_chance(b->d, 0.5) ? build_broadcast(g, leaf(b, type, b->row), &b->full)
                                      : leaf(b, type, b->full);
    return has_integers && draw_chance(b->d, 0.5) ? build_equal(g, x, y)
                                                  : build_greater_equal(g, x, y);
}

/* Results stay of the size of 1, whatever is chained. */
static value *draw_unary(builder *b, value *a) {
    graph *g = b->g;
    switch (draw_below(b->d, 6)) {
    case 0:
        return build_sigmoid(g, a);
    case 1:
        return build_exp(g, build_scale(g, build_sigmoid(g, a), -1));
    case 2:
        return build_rsqrt(g, build_add_scalar(g, build_multiply(g, a, a), 1));
    case 3:
        return build_log(g, build_add_scalar(g, build_sigmoid(g, a), 1));
    case 4:
        return build_divide(g, a, build_add_scalar(g, build_exp(g, build_sigmoid(g, a)), 0.5));
    default:
        return build_scale(g, a, -0.5);
    }
}

static value *draw_low(builder *b, value *a, value *c) {
    graph *g = b->g;
    dtype type = draw_chance(b->d, 0.5) ? DTYPE_BF16 : DTYPE_F16;
    value *x = build_cast(g, a, type), *y = build_cast(g, c, type);
    value *z = draw_chance(b->d, 0.5) ? build_multiply(g, x, build_sigmoid(g, y))
                                      : build_scale(g, build_add(g, x, y), 0.5);
    return build_cast(g, z, DTYPE_F32);
}

static value *draw_reduction(builder *b, value *a) {
    shape last = SHAPE(2);
    switch (draw_below(b->d, 3)) {
    case 0:
        return build_scale(b->g, build_sum(b->g, a, &last), 1.0 / (double)b->options->columns);
    case 1:
        return build_mean(b->g, a, &last);
    default:
        return build_max(b->g, a, &last);
    }
}

static void draw_node(builder *b) {
    graph *g = b->g;
    value *a = pick(b, &b->fulls), *c = pick(b, &b->fulls);
    switch (draw_below(b->d, 9)) {
    case 0:
        keep(&b->fulls, build_scale(g, build_add(g, a, c), 0.5));
        break;
    case 1:
        keep(&b->fulls, build_multiply(g, build_sigmoid(g, a), c));
        break;
    case 2:
        keep(&b->fulls, build_scale(g, build_subtract(g, a, c), 0.5));
        break;
    case 3:
        keep(&b->fulls, draw_unary(b, a));
        break;
    case 4:
        if (b->options->has_low_types)
            keep(&b->fulls, draw_low(b, a, c));
        break;
    case 5:
        keep(&b->fulls, build_select(g, pick(b, &b->masks), a, c));
        break;
    case 6:
        if (b->options->columns > 1)
            keep(&b->rows, draw_reduction(b, a));
        break;
    case 7:
        keep(&b->rows, draw_unary(b, pick(b, &b->rows)));
        break;
    default:
        keep(&b->fulls,
             build_multiply(g, a,
                            build_broadcast(g, build_sigmoid(g, pick(b, &b->rows)), &b->full)));
    }
}

static void add_output(builder *b, value *v, const char *kind, int number) {
    char name[48];
    snprintf(name, sizeof name, "%s%d.%d", kind, b->index, number);
    if (v->producer && !v->is_output && !v->name)
        graph_add_output(b->g, v, name);
}

void fusable_graph_add(graph *g, draw *d, const fusable_options *options, int index) {
    builder b = {.g = g, .d = d, .options = options, .index = index};
    b.full = SHAPE(options->rows[0], options->rows[1], options->columns);
    b.row = SHAPE(options->rows[0], options->rows[1], 1);
    keep(&b.fulls, leaf(&b, DTYPE_F32, b.full));
    for (int64_t i = 0, count = 1 + draw_below(d, 4); i < count; i++)
        keep(&b.fulls, draw_leaf(&b));
    keep(&b.rows, leaf(&b, DTYPE_F32, b.row));
    keep(&b.masks, draw_mask(&b));
    int inputs = b.fulls.count;
    for (int i = 0; i < options->nodes; i++)
        draw_node(&b);
    for (int i = 0; options->sums_blocks && i < 2; i++) {
        shape middle = SHAPE(1);
        add_output(&b, build_sum(g, pick(&b, &b.fulls), &middle), "columns", i);
    }
    /* The last of all, and some from the middle, in low types too. */
    for (int i = inputs; i < b.fulls.count; i++) {
        value *v = b.fulls.items[i];
        if (i + 1 < b.fulls.count && !draw_chance(d, 0.2))
            continue;
        if (options->has_low_types && draw_chance(d, 0.4))
            v = build_cast(g, v, draw_chance(d, 0.5) ? DTYPE_BF16 : DTYPE_F16);
        add_output(&b, v, "full", i);
    }
    for (int i = 1; i < b.rows.count; i++)
        if (i + 1 == b.rows.count || draw_chance(d, 0.3))
            add_output(&b, b.rows.items[i], "row", i);
    if (draw_chance(d, 0.3))
        add_output(&b, b.masks.items[0], "mask", 0);
}
