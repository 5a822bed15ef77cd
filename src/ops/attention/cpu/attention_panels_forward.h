/* attention_panels_forward.h - the algorithm of attention_tiled.c in panels of queries, written once
 * for AVX2 and AVX-512: attention_avx2.c and attention_avx512.c are made of this.
 *
 * Up to eight panels go over the keys together, a tile at a time. For each:
 *   S^T = K Q'^T            Q' = Q scale log2(e), so that P = 2^(S - largest)
 *   O^T = O^T shrink + V^T P^T
 * All of it is vertical: a lane is a query. What no query of a panel sees is not computed, and
 * only blocks that some query does not see are masked.
 *
 * Keys that are to be rotated and that many tiles of queries take are rotated once. Workspace,
 * then: K in f32. */
#ifndef OPS_ATTENTION_CPU_ATTENTION_PANELS_FORWARD_H
#define OPS_ATTENTION_CPU_ATTENTION_PANELS_FORWARD_H

#include <math.h>

#include "base/threads.h"
#include "ops/attention/cpu/attention_panels.h"
#include "ops/scalar_math.h"

#if defined(__x86_64__)

/* A tile of K, a panel of Q and their scores are in L1 together, and so are V, P and O; the other
 * panels that share the tile wait in L2. */
enum { MOST_PANELS = 8, MOST_KEYS = 64 };

typedef struct work {
    const kernel_args *args;
    attention_problem p;
    int64_t pitch; /* of rows in tiles */
    int64_t tile_keys, panels, query_tiles;
    tensor k; /* and how its rows are rotated as they are taken */
    attention_rotation k_rotation;
} work;

/* A panel's queries and what is known of them so far. */
typedef struct panel {
    const float *q; /* [head_dim][PANEL] */
    float *o;       /* [pitch][PANEL] */
    float *largest, *sum;
    int64_t query;
} panel;

/* A tile of keys in f32, zeros up to a multiple of STEP. */
typedef struct key_tile {
    int64_t first, count;
    const float *k, *v;
    bool has_plain_values; /* which lanes that do not see them may take with a weight of 0 */
} key_tile;

/* Scores of the first `rows` keys to s[rows][PANEL]; the panel's maximum over them joins `largest`. */
LANES_INLINE void score(int vectors, const work *w, const panel *at, const float *k, int64_t rows,
                        int64_t clear, const lanes_int limit[VECTORS], float *s,
                        lanes largest[VECTORS]) {
    for (int64_t j = 0; j < rows; j += STEP) {
        attention_sums sums;
        sums_clear(sums);
        sums_add(vectors, sums, w->p.head_dim, k + j * w->pitch, w->pitch, 1, at->q, PANEL);
        if (j + STEP > clear)
            for (int r = 0; r < STEP; r++)
                for (int i = 0; i < vectors; i++)
                    sums[r][i] = lanes_choose(lanes_that_see(limit[i], j + r), sums[r][i],
                                              lanes_set(-INFINITY));
        for (int r = 0; r < STEP; r++)
            for (int i = 0; i < vectors; i++)
                largest[i] = lanes_max(largest[i], sums[r][i]);
        sums_store(vectors, sums, s + j * PANEL, PANEL);
    }
}

/* s becomes P; the panel's sums take it in. */
LANES_INLINE void take_scores(int vectors, const panel *at, int64_t rows,
                              const lanes largest[VECTORS], float *s, lanes shrink[VECTORS]) {
    lanes reference[VECTORS], total[VECTORS];
    for (int i = 0; i < vectors; i++) {
        /* While all scores are -infinity, any finite reference keeps them out of the sums. */
        lanes_mask is_none = lanes_equal(largest[i], lanes_set(-INFINITY));
        reference[i] = lanes_choose(is_none, lanes_zero(), largest[i]);
        shrink[i] = panel_exp2(lanes_sub(lanes_load(at->largest + i * LANES), reference[i]));
        total[i] = lanes_zero();
    }
    for (int64_t j = 0; j < rows; j++)
        for (int i = 0; i < vectors; i++) {
            float *x = s + j * PANEL + i * LANES;
            lanes p = panel_exp2(lanes_sub(lanes_load(x), reference[i]));
            total[i] = lanes_add(total[i], p);
            lanes_store(x, p);
        }
    for (int i = 0; i < vectors; i++) {
        float *sum = at->sum + i * LANES;
        lanes_store(sum, lanes_fma(lanes_load(sum), shrink[i], total[i]));
        lanes_store(at->largest + i * LANES, largest[i]);
    }
}

LANES_INLINE void add_values(int vectors, const work *w, const panel *at, const float *v,
                             int64_t rows, int64_t clear, const lanes_int limit[VECTORS],
                             const float *p, const lanes shrink[VECTORS]) {
    for (int64_t d = 0; d < w->p.head_dim; d += STEP) {
        attention_sums sums;
        sums_load(vectors, sums, at->o + d * PANEL, PANEL);
        for (int r = 0; r < STEP; r++)
            for (int i = 0; i < vectors; i++)
                sums[r][i] = lanes_mul(sums[r][i], shrink[i]);
        sums_add(vectors, sums, clear, v + d, 1, w->pitch, p, PANEL);
        sums_add_seen(vectors, sums, rows - clear, v + clear * w->pitch + d, 1, w->pitch,
                      p + clear * PANEL, PANEL, limit, clear);
        sums_store(vectors, sums, at->o + d * PANEL, PANEL);
    }
}

/* By the panel's first vectors. */
LANES_INLINE void attend_with(int vectors, const work *w, const panel *at, const key_tile *t,
                              int64_t rows, float *s) {
    lanes largest[VECTORS], shrink[VECTORS];
    for (int i = 0; i < vectors; i++)
        largest[i] = lanes_load(at->largest + i * LANES);
    int64_t clear = panel_clear_rows(&w->p, at->query, t->first, t->count);
    lanes_int limit[VECTORS];
    panel_limits(&w->p, at->query, t->first, limit);
    score(vectors, w, at, t->k, rows, clear, limit, s, largest);
    take_scores(vectors, at, rows, largest, s, shrink);
    if (t->has_plain_values || clear > rows)
        clear = rows;
    add_values(vectors, w, at, t->v, rows, clear, limit, s, shrink);
}

LANES_TARGET static void attend_keys(const work *w, const panel *at, const key_tile *t, float *s) {
    int64_t rows = panel_rows(&w->p, at->query, t->first, t->count);
    if (rows == 0)
        return;
    if (panel_lacks_a_vector(&w->p, at->query))
        attend_with(VECTORS - 1, w, at, t, rows, s);
    else
        attend_with(VECTORS, w, at, t, rows, s);
}

LANES_TARGET static void finish(const work *w, int64_t b, int64_t h, const panel *at, float *rows) {
    const tensor *out = w->args->outputs;
    float inverse[PANEL], *lse = attention_lse(&out[1], b, h) + at->query;
    int64_t count = attention_smaller(PANEL, w->p.queries - at->query);
    for (int i = 0; i < PANEL; i++)
        inverse[i] = at->sum[i] == 0 ? 0 : 1 / at->sum[i];
    attention_prefetch_to_store(&out[0], b, h, at->query, count);
    panel_to_tile(at->o, w->p.head_dim, inverse, rows, w->pitch);
    for (int64_t i = 0; i < count; i++) {
        attention_store_row(&out[0], b, h, at->query + i, rows + i * w->pitch);
        lse[i] = at->sum[i] == 0 ? -INFINITY : at->largest[i] * LN_2 + log_f32(at->sum[i]);
    }
}

LANES_TARGET static void attend(const work *w, int64_t unit) {
    const attention_problem *p = &w->p;
    const tensor *in = w->args->inputs;
    /* Of a head, the tiles with most keys first: the short ones even out the threads. */
    int64_t head = unit / w->query_tiles, tile = w->query_tiles - 1 - unit % w->query_tiles;
    int64_t b = head / p->heads, h = head % p->heads, kv = h / p->group;
    int64_t begin = tile * w->panels * PANEL, panel_count = 0;
    _Alignas(64) float q[TILE_FLOATS], o[TILE_FLOATS], k[TILE_FLOATS], v[TILE_FLOATS];
    _Alignas(64) float s[MOST_KEYS * PANEL];
    _Alignas(64) float largest[MOST_PANELS * PANEL], sum[MOST_PANELS * PANEL];
    panel panels[MOST_PANELS];
    for (; panel_count < w->panels && begin + panel_count * PANEL < p->queries; panel_count++) {
        panel *at = &panels[panel_count];
        int64_t i = panel_count * PANEL;
        *at = (panel){q + i * w->pitch, o + i * w->pitch, largest + i, sum + i, begin + i};
        int64_t count = attention_smaller(PANEL, p->queries - at->query);
        const float *rows =
            tile_take(&in[ATTENTION_Q], &p->q_rotation, b, h, at->query, count, PANEL, w->pitch, k);
        tile_to_panel(rows, w->pitch, p->head_dim, p->scale * LOG2_E, q + i * w->pitch);
        memset(at->o, 0, (size_t)(PANEL * w->pitch) * sizeof *o);
        for (int j = 0; j < PANEL; j++) {
            at->largest[j] = -INFINITY;
            at->sum[j] = 0;
        }
    }
    int64_t last = attention_smaller(begin + panel_count * PANEL, p->queries) - 1;
    int64_t end = attention_visible_keys(p, last);
    for (int64_t first = 0; first < end; first += w->tile_keys) {
        int64_t count = attention_smaller(w->tile_keys, end - first);
        int64_t rows = attention_round_up(count, STEP);
        key_tile t = {.first = first, .count = count};
        t.k = tile_take(&w->k, &w->k_rotation, b, kv, first, count, rows, w->pitch, k);
        t.v = tile_take(&in[ATTENTION_V], NULL, b, kv, first, count, rows, w->pitch, v);
        bool is_masked = panel_clear_rows(p, begin, first, count) < rows;
        t.has_plain_values = is_masked && !MASKS_ARE_FREE && tile_is_finite(t.v, rows * w->pitch);
        for (int64_t i = 0; i < panel_count; i++)
            attend_keys(w, &panels[i], &t, s);
    }
    for (int64_t i = 0; i < panel_count; i++)
        finish(w, b, h, &panels[i], k);
}

static void attend_units(void *context, int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; unit++)
        attend(context, unit);
}

static int list_tiles(const kernel_args *args, attention_tile *out) {
    int64_t pitch = attention_round_up(args->inputs[ATTENTION_Q].shape.dim[3], LANES);
    int64_t panels = attention_smaller(MOST_PANELS, TILE_FLOATS / (PANEL * pitch));
    return attention_list_panels(args, (int)panels * PANEL, MOST_KEYS, out);
}

static int variants(const kernel_args *args, kernel_variant *out) {
    attention_tile tiles[KERNEL_MOST_VARIANTS];
    return attention_name_tiles(tiles, list_tiles(args, tiles), out);
}

/* The same for every tile, as a plan wants it. */
static bool keeps_keys(const kernel_args *args) {
    attention_tile own[KERNEL_MOST_VARIANTS];
    attention_problem p = attention_describe(args);
    list_tiles(args, own);
    int64_t takers = (p.queries + own[0].queries - 1) / own[0].queries * p.group;
    return attention_is_rotated(args) && takers > ATTENTION_MOST_ROTATIONS;
}

static size_t workspace_bytes(const kernel_args *args) {
    const shape *k = &args->inputs[ATTENTION_K].shape;
    return keeps_keys(args) ? (size_t)shape_elements(k) * sizeof(float) : 0;
}

static dyno_status run(const kernel_args *args) {
    work w = {.args = args, .p = attention_describe(args)};
    attention_tile tile = attention_tile_taken(args, list_tiles);
    w.k = args->inputs[ATTENTION_K];
    if (keeps_keys(args))
        w.k = attention_rotate_all(&w.k, &w.p.k_rotation, args->workspace);
    else
        w.k_rotation = w.p.k_rotation;
    w.pitch = attention_round_up(w.p.head_dim, LANES);
    w.tile_keys = tile.keys;
    /* Of about the same size each: the last one must not be a rest that leaves threads idle. */
    int64_t panels = (w.p.queries + PANEL - 1) / PANEL, most = tile.queries / PANEL;
    w.query_tiles = (panels + most - 1) / most;
    w.panels = (panels + w.query_tiles - 1) / w.query_tiles;
    threads_for_each(w.p.batch * w.p.heads * w.query_tiles, attend_units, &w);
    return DYNO_OK;
}

#endif
#endif
