/* attention_gradient_avx512.c - the gradients of attention_tiled.c, with each score computed once.
 *
 * The keys of a key/value head are cut into splits: as many as it takes for all heads together to
 * have LEAST_UNITS, which depends on the sizes alone. Who takes a split goes over its tiles of
 * keys, and for each over the queries that see them, two panels at a time:
 *   S^T = K Q'^T     P^T = 2^(S^T - LSE')     dP^T = V dO^T     dS^T = P^T (dP^T - D)
 *   dV += P^T dO     dK' += dS^T Q'           dQ^T += K^T dS^T
 * with Q' = Q scale log2(e), so dK = dK' ln(2). dK and dV are the tile's own. dQ is the split's
 * own and lies in the workspace; splits are added up at the end, in their order. So no sum depends
 * on the number of threads.
 *
 * Workspace, f32: D [B, H, T], then dQ [splits, B, H, panels][head size, rounded up to 8][32],
 * then, if queries are to be rotated and many tiles of keys take them, Q [B, H, T, S] rotated. */
#include "ops/attention/cpu/attention_panels.h"

#include <math.h>

#include "base/threads.h"

#if defined(__x86_64__)

enum { PAIR = 2 * PANEL, LEAST_UNITS = 16 };

typedef struct work {
    const kernel_args *args;
    attention_problem p;
    int64_t pitch, tile_keys, panels; /* panels: of a head's queries */
    int64_t tile_queries;             /* taken at a time: a pair of panels or one */
    int64_t splits, split_keys;
    int64_t panel_floats; /* of dQ */
    float *mean, *dq;
    bool keeps_queries;
    tensor q; /* and how its rows are rotated as they are taken */
    attention_rotation q_rotation;
} work;

static int list_tiles(const kernel_args *args, attention_tile *out) {
    return attention_list_panels(args, PAIR, TILE_KEYS, out);
}

static int variants(const kernel_args *args, kernel_variant *out) {
    attention_tile tiles[KERNEL_MOST_VARIANTS];
    return attention_name_tiles(tiles, list_tiles(args, tiles), out);
}

static work describe(const kernel_args *args) {
    work w = {.args = args, .p = attention_describe(args)};
    attention_tile tile = attention_tile_taken(args, list_tiles);
    w.pitch = attention_round_up(w.p.head_dim, LANES);
    w.tile_keys = tile.keys;
    w.tile_queries = tile.queries;
    w.panels = (w.p.queries + PANEL - 1) / PANEL;
    int64_t heads = w.p.batch * w.p.kv_heads, tiles = (w.p.keys + w.tile_keys - 1) / w.tile_keys;
    int64_t splits = attention_smaller((LEAST_UNITS + heads - 1) / heads, tiles);
    w.split_keys = (tiles + splits - 1) / splits * w.tile_keys;
    w.splits = (w.p.keys + w.split_keys - 1) / w.split_keys;
    w.panel_floats = attention_round_up(w.p.head_dim, STEP) * PANEL;
    w.keeps_queries = attention_is_rotated(args) && tiles > ATTENTION_MOST_ROTATIONS;
    w.mean = args->workspace;
    if (w.mean)
        w.dq = w.mean + w.p.batch * w.p.heads * w.p.queries;
    return w;
}

static int64_t gradient_floats(const work *w) {
    return w->p.batch * w->p.heads * w->splits * w->panels * w->panel_floats;
}

static size_t workspace_bytes(const kernel_args *args) {
    work w = describe(args);
    int64_t rows = w.p.batch * w.p.heads * w.p.queries;
    int64_t kept = w.keeps_queries ? rows * w.p.head_dim : 0;
    return (size_t)(rows + gradient_floats(&w) + kept) * sizeof(float);
}

static float *split_gradient(const work *w, int64_t split, int64_t b, int64_t h, int64_t panel) {
    int64_t head = (split * w->p.batch + b) * w->p.heads + h;
    return w->dq + (head * w->panels + panel) * w->panel_floats;
}

/* ---- D ---- */

static void mean_rows(void *context, int64_t begin, int64_t end) {
    const work *w = context;
    const tensor *in = w->args->inputs;
    for (int64_t row = begin; row < end; row++) {
        int64_t head = row / w->p.queries;
        w->mean[row] = attention_mean(&in[ATTENTION_O], &in[ATTENTION_DO], head / w->p.heads,
                                      head % w->p.heads, row % w->p.queries);
    }
}

/* ---- a tile of keys ---- */

typedef struct key_tile {
    int64_t b, kv, split, first, count;
    float *k, *v, *dk, *dv; /* [count rounded up][pitch] */
    bool is_first;          /* of its split */
} key_tile;

/* Two panels of queries, or one. */
typedef struct query_pair {
    int64_t h, first, panels;
    int64_t rows[2];     /* of the key tile, that some query of each sees */
    const float *q, *dy; /* [64][pitch] */
    const float *q_panel[2], *dy_panel[2];
    _Alignas(64) float lse[PAIR], mean[PAIR];
} query_pair;

/* P^T and dS^T of 8 keys from j on and one panel, to rows 64 apart. */
LANES_INLINE void score_block(const work *w, const key_tile *t, const query_pair *q, int panel,
                              int64_t j, bool is_masked, const __m512i limit[2], float *p,
                              float *ds) {
    const float *lse = q->lse + panel * PANEL, *mean = q->mean + panel * PANEL;
    attention_sums sums;
    sums_clear(sums);
    sums_add(2, sums, w->p.head_dim, t->k + j * w->pitch, w->pitch, 1, q->q_panel[panel], PANEL);
    for (int r = 0; r < STEP; r++)
        for (int i = 0; i < 2; i++) {
            __m512 x = _mm512_sub_ps(sums[r][i], _mm512_loadu_ps(lse + i * LANES));
            __mmask16 sees = is_masked ? lanes_that_see(limit[i], j + r) : (__mmask16)0xffff;
            _mm512_storeu_ps(p + r * PAIR + i * LANES, _mm512_maskz_mov_ps(sees, lanes_exp2(x)));
        }
    sums_clear(sums);
    sums_add(2, sums, w->p.head_dim, t->v + j * w->pitch, w->pitch, 1, q->dy_panel[panel], PANEL);
    for (int r = 0; r < STEP; r++)
        for (int i = 0; i < 2; i++) {
            __m512 x = _mm512_sub_ps(sums[r][i], _mm512_loadu_ps(mean + i * LANES));
            __mmask16 sees = is_masked ? lanes_that_see(limit[i], j + r) : (__mmask16)0xffff;
            x = _mm512_maskz_mul_ps(sees, x, _mm512_loadu_ps(p + r * PAIR + i * LANES));
            _mm512_storeu_ps(ds + r * PAIR + i * LANES, x);
        }
}

LANES_TARGET static void score_gradients(const work *w, const key_tile *t, const query_pair *q,
                                         int panel, float *p, float *ds) {
    int64_t query = q->first + panel * PANEL;
    int64_t clear = panel_clear_rows(&w->p, query, t->first, t->count), j = 0;
    __m512i limit[2];
    panel_limits(&w->p, query, t->first, limit);
    p += panel * PANEL;
    ds += panel * PANEL;
    for (; j < q->rows[panel] && j + STEP <= clear; j += STEP)
        score_block(w, t, q, panel, j, false, limit, p + j * PAIR, ds + j * PAIR);
    for (; j < q->rows[panel]; j += STEP)
        score_block(w, t, q, panel, j, true, limit, p + j * PAIR, ds + j * PAIR);
}

/* sums += x y over 8 keys from j on and the pair's queries that see them. Those that see but some
 * of the keys take part in their rows alone. */
LANES_INLINE void add_seeing(const work *w, const key_tile *t, const query_pair *q, int vectors,
                             int64_t j, const float *x, const float *y, attention_sums sums) {
    int64_t all = q->panels * PANEL, key = t->first + j;
    int64_t begin = attention_first_query(&w->p, key) - q->first;
    int64_t full = attention_first_query(&w->p, key + STEP - 1) - q->first;
    begin = begin < 0 ? 0 : attention_smaller(begin, all);
    full = full < 0 ? 0 : attention_smaller(full, all);
    for (int64_t i = begin; i < full; i++) {
        int64_t seen = attention_visible_keys(&w->p, q->first + i) - key;
        for (int r = 0; r < STEP; r++) {
            __mmask16 sees = (__mmask16)(r < seen ? 0xffff : 0);
            __m512 left = _mm512_set1_ps(x[r * PAIR + i]);
            for (int v = 0; v < vectors; v++)
                sums[r][v] = _mm512_mask3_fmadd_ps(
                    left, _mm512_loadu_ps(y + i * w->pitch + v * LANES), sums[r][v], sees);
        }
    }
    sums_add(vectors, sums, all - full, x + full, PAIR, 1, y + full * w->pitch, w->pitch);
}

/* to[keys][pitch] += x[keys][64] y[64][pitch] */
LANES_TARGET static void add_to_keys(const work *w, const key_tile *t, const query_pair *q,
                                     const float *x, const float *y, float *to) {
    for (int64_t j = 0; j < q->rows[q->panels - 1]; j += STEP) {
        const float *left = x + j * PAIR;
        float *row = to + j * w->pitch;
        attention_sums sums;
        int64_t d = 0;
        for (; d + PANEL <= w->pitch; d += PANEL) {
            sums_load(2, sums, row + d, w->pitch);
            add_seeing(w, t, q, 2, j, left, y + d, sums);
            sums_store(2, sums, row + d, w->pitch);
        }
        if (d < w->pitch) {
            sums_load(1, sums, row + d, w->pitch);
            add_seeing(w, t, q, 1, j, left, y + d, sums);
            sums_store(1, sums, row + d, w->pitch);
        }
    }
}

LANES_TARGET static void add_to_queries(const work *w, const key_tile *t, const query_pair *q,
                                        int panel, const float *ds) {
    float *dq = split_gradient(w, t->split, t->b, q->h, q->first / PANEL + panel);
    int64_t query = q->first + panel * PANEL, rows = q->rows[panel];
    int64_t clear = attention_smaller(rows, panel_clear_rows(&w->p, query, t->first, t->count));
    __m512i limit[2];
    panel_limits(&w->p, query, t->first, limit);
    ds += panel * PANEL;
    for (int64_t d = 0; d < w->p.head_dim; d += STEP) {
        attention_sums sums;
        if (t->is_first)
            sums_clear(sums);
        else
            sums_load(2, sums, dq + d * PANEL, PANEL);
        sums_add(2, sums, clear, t->k + d, 1, w->pitch, ds, PAIR);
        sums_add_seen(sums, rows - clear, t->k + clear * w->pitch + d, 1, w->pitch,
                      ds + clear * PAIR, PAIR, limit, clear);
        sums_store(2, sums, dq + d * PANEL, PANEL);
    }
}

/* Queries that see no key have no P; neither have those that are not there. */
static void load_statistics(const work *w, int64_t b, query_pair *q) {
    const float *lse = attention_lse(&w->args->inputs[ATTENTION_LSE], b, q->h) + q->first;
    const float *mean = w->mean + (b * w->p.heads + q->h) * w->p.queries + q->first;
    int64_t count = attention_smaller(w->tile_queries, w->p.queries - q->first);
    for (int64_t i = 0; i < PAIR; i++) {
        bool has_keys = i < count && lse[i] != -INFINITY;
        q->lse[i] = has_keys ? lse[i] * LOG2_E : INFINITY;
        q->mean[i] = has_keys ? mean[i] : 0;
    }
}

/* A pair's part of the gradients of a tile of keys. */
LANES_TARGET static void take_queries(const work *w, const key_tile *t, query_pair *q) {
    const tensor *in = w->args->inputs;
    _Alignas(64) float rows[2][PAIR * ATTENTION_MAX_HEAD_DIM];
    _Alignas(64) float panels[2][PAIR * ATTENTION_MAX_HEAD_DIM];
    _Alignas(64) float p[TILE_KEYS * PAIR], ds[TILE_KEYS * PAIR];
    int64_t count = attention_smaller(w->tile_queries, w->p.queries - q->first);
    q->panels = (count + PANEL - 1) / PANEL;
    tile_load(&w->q, &w->q_rotation, t->b, q->h, q->first, count, q->panels * PANEL, w->pitch,
              w->p.scale * LOG2_E, rows[0]);
    tile_load(&in[ATTENTION_DO], NULL, t->b, q->h, q->first, count, q->panels * PANEL, w->pitch, 1,
              rows[1]);
    load_statistics(w, t->b, q);
    for (int i = 0; i < q->panels; i++) {
        int64_t at = i * PANEL * w->pitch;
        tile_to_panel(rows[0] + at, w->pitch, w->p.head_dim, panels[0] + at);
        tile_to_panel(rows[1] + at, w->pitch, w->p.head_dim, panels[1] + at);
        q->q_panel[i] = panels[0] + at;
        q->dy_panel[i] = panels[1] + at;
        q->rows[i] = panel_rows(&w->p, q->first + i * PANEL, t->first, t->count);
        score_gradients(w, t, q, i, p, ds);
    }
    add_to_keys(w, t, q, p, rows[1], t->dv);
    add_to_keys(w, t, q, ds, rows[0], t->dk);
    for (int i = 0; i < q->panels; i++)
        if (q->rows[i] > 0)
            add_to_queries(w, t, q, i, ds);
}

LANES_TARGET static void take_tile(const work *w, key_tile *t) {
    const tensor *in = w->args->inputs, *out = w->args->outputs;
    _Alignas(64) float k[TILE_FLOATS], v[TILE_FLOATS], dk[TILE_FLOATS], dv[TILE_FLOATS];
    int64_t rows = attention_round_up(t->count, STEP);
    size_t bytes = (size_t)(rows * w->pitch) * sizeof(float);
    tile_load(&in[ATTENTION_K], &w->p.k_rotation, t->b, t->kv, t->first, t->count, rows, w->pitch,
              1, k);
    tile_load(&in[ATTENTION_V], NULL, t->b, t->kv, t->first, t->count, rows, w->pitch, 1, v);
    memset(dk, 0, bytes);
    memset(dv, 0, bytes);
    t->k = k;
    t->v = v;
    t->dk = dk;
    t->dv = dv;
    int64_t begin = attention_first_query(&w->p, t->first) / w->tile_queries * w->tile_queries;
    for (int64_t h = t->kv * w->p.group; h < (t->kv + 1) * w->p.group; h++)
        for (int64_t first = begin; first < w->p.queries; first += w->tile_queries) {
            query_pair q = {.h = h, .first = first};
            take_queries(w, t, &q);
        }
    for (int64_t j = 0; j < t->count; j++) {
        float *row = dk + j * w->pitch;
        for (int64_t d = 0; d < w->p.head_dim; d++)
            row[d] *= LN_2;
        attention_store_rotated_back(&out[ATTENTION_K], &w->p.dk_rotation, t->b, t->kv,
                                     t->first + j, row);
        attention_store_row(&out[ATTENTION_V], t->b, t->kv, t->first + j, dv + j * w->pitch);
    }
}

static void take_splits(void *context, int64_t begin, int64_t end) {
    const work *w = context;
    int64_t heads = w->p.batch * w->p.kv_heads;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t split = unit / heads, head = unit % heads, start = split * w->split_keys;
        int64_t stop = attention_smaller(start + w->split_keys, w->p.keys);
        for (int64_t first = start; first < stop; first += w->tile_keys) {
            key_tile t = {.b = head / w->p.kv_heads,
                          .kv = head % w->p.kv_heads,
                          .split = split,
                          .first = first,
                          .count = attention_smaller(w->tile_keys, stop - first),
                          .is_first = first == start};
            take_tile(w, &t);
        }
    }
}

/* ---- dQ ---- */

/* The splits' sums for panels of queries, added and stored. A split that none of a panel's queries
 * sees has left nothing. */
LANES_TARGET static void finish_panels(void *context, int64_t begin, int64_t end) {
    const work *w = context;
    _Alignas(64) float sum[PANEL * ATTENTION_MAX_HEAD_DIM], rows[PANEL * ATTENTION_MAX_HEAD_DIM];
    float factor[PANEL];
    for (int i = 0; i < PANEL; i++)
        factor[i] = w->p.scale;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t head = unit / w->panels, b = head / w->p.heads, h = head % w->p.heads;
        int64_t first = unit % w->panels * PANEL;
        int64_t count = attention_smaller(PANEL, w->p.queries - first);
        int64_t seen = attention_visible_keys(&w->p, first + count - 1);
        memset(sum, 0, (size_t)w->panel_floats * sizeof *sum);
        for (int64_t split = 0; split < w->splits && split * w->split_keys < seen; split++) {
            const float *part = split_gradient(w, split, b, h, first / PANEL);
            for (int64_t i = 0; i < w->panel_floats; i++)
                sum[i] += part[i];
        }
        panel_to_tile(sum, w->p.head_dim, factor, rows, w->pitch);
        for (int64_t i = 0; i < count; i++)
            attention_store_rotated_back(&w->args->outputs[ATTENTION_Q], &w->p.dq_rotation, b, h,
                                         first + i, rows + i * w->pitch);
    }
}

static dyno_status run(const kernel_args *args) {
    work w = describe(args);
    int64_t heads = w.p.batch * w.p.heads;
    w.q = args->inputs[ATTENTION_Q];
    if (w.keeps_queries)
        w.q = attention_rotate_all(&w.q, &w.p.q_rotation, w.dq + gradient_floats(&w));
    else
        w.q_rotation = w.p.q_rotation;
    threads_for(heads * w.p.queries, 64, mean_rows, &w);
    threads_for_each(w.splits * w.p.batch * w.p.kv_heads, take_splits, &w);
    threads_for(heads * w.panels, 1, finish_panels, &w);
    return DYNO_OK;
}

#endif

const kernel attention_gradient_avx512 = {.name = "attention_gradient_avx512",
                                          .target = TARGET_CPU,
                                          .reject = attention_reject_avx512,
#if defined(__x86_64__)
                                          .workspace_bytes = workspace_bytes,
                                          .run = run,
                                          .variants = variants,
#endif
                                          .writes_strided = true};
