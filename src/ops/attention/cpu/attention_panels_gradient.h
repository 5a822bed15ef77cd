/* attention_panels_gradient.h - the gradients of attention_tiled.c, with each score computed once;
 * written once for AVX2 and AVX-512: attention_gradient_avx2.c and attention_gradient_avx512.c are
 * made of this.
 *
 * The keys of a key/value head are cut into splits: as many as it takes for all heads together to
 * have LEAST_UNITS, but of about LEAST_SPLIT_KEYS at least, since adding the splits of a short head up takes
 * longer than several threads for it save. That depends on the sizes alone. Who takes a split goes over its
 * tiles of keys, and for each over the queries that see them, some panels at a time:
 *   S^T = K Q'^T     P^T = 2^(S^T - LSE')     dP^T = V dO^T     dS^T = P^T (dP^T - D)
 *   dV += P^T dO     dK' += dS^T Q            dQ^T += K^T dS^T
 * with Q' = Q scale log2(e), and dK = dK' scale. dK and dV are the tile's own. dQ is the split's
 * own and lies in the workspace; splits are added up at the end, in their order. So no sum depends
 * on the number of threads.
 *
 * Workspace, f32: D [B, H, T], then dQ [splits, B, H, panels][head size, rounded up to STEP][PANEL],
 * then, if queries are to be rotated and many tiles of keys take them, Q [B, H, T, S] rotated. */
#ifndef OPS_ATTENTION_CPU_ATTENTION_PANELS_GRADIENT_H
#define OPS_ATTENTION_CPU_ATTENTION_PANELS_GRADIENT_H

#include <math.h>

#include "base/threads.h"
#include "ops/attention/cpu/attention_panels.h"

#if defined(__x86_64__)

enum {
    TILE_PANELS = 2,
    TILE_QUERIES = TILE_PANELS * PANEL,
    LEAST_UNITS = 16,
    LEAST_SPLIT_KEYS = 256
};

typedef struct work {
    const kernel_args *args;
    attention_problem p;
    int64_t pitch, tile_keys, panels; /* panels: of a head's queries */
    int64_t tile_queries;             /* taken at a time */
    int64_t splits, split_keys;
    int64_t panel_floats; /* of dQ */
    float *mean, *dq;
    bool keeps_queries;
    tensor q; /* and how its rows are rotated as they are taken */
    attention_rotation q_rotation;
} work;

static int list_tiles(const kernel_args *args, attention_tile *out) {
    return attention_list_panels(args, TILE_QUERIES, TILE_KEYS, out);
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
    int64_t wanted = (LEAST_UNITS + heads - 1) / heads, most = w.p.keys / LEAST_SPLIT_KEYS;
    int64_t splits = attention_smaller(attention_smaller(wanted, tiles), most > 1 ? most : 1);
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
    const float *k, *v;  /* [count rounded up][pitch] */
    float *dk, *dv;      /* likewise */
    bool is_first;       /* of its split */
    bool has_plain_keys; /* which lanes that do not see them may take times 0 */
} key_tile;

/* Panels of queries that are taken together. */
typedef struct query_tile {
    int64_t h, first, count, panels;
    int64_t rows[TILE_PANELS]; /* of the key tile, that some query of each sees */
    const float *q_panel[TILE_PANELS], *dy_panel[TILE_PANELS];
    _Alignas(64) float lse[TILE_QUERIES], mean[TILE_QUERIES];
} query_tile;

/* P^T and dS^T of STEP keys from j on and one panel, to rows TILE_QUERIES apart. */
LANES_INLINE void score_block(int vectors, const work *w, const key_tile *t, const query_tile *q,
                              int panel, int64_t j, bool is_masked, const lanes_int limit[VECTORS],
                              float *p, float *ds) {
    const float *lse = q->lse + panel * PANEL, *mean = q->mean + panel * PANEL;
    attention_sums sums;
    sums_clear(sums);
    sums_add(vectors, sums, w->p.head_dim, t->k + j * w->pitch, w->pitch, 1, q->q_panel[panel],
             PANEL);
    for (int r = 0; r < STEP; r++)
        for (int i = 0; i < vectors; i++) {
            lanes x = panel_exp2(lanes_sub(sums[r][i], lanes_load(lse + i * LANES)));
            if (is_masked)
                x = lanes_choose(lanes_that_see(limit[i], j + r), x, lanes_zero());
            lanes_store(p + r * TILE_QUERIES + i * LANES, x);
        }
    sums_clear(sums);
    sums_add(vectors, sums, w->p.head_dim, t->v + j * w->pitch, w->pitch, 1, q->dy_panel[panel],
             PANEL);
    for (int r = 0; r < STEP; r++)
        for (int i = 0; i < vectors; i++) {
            lanes x = lanes_sub(sums[r][i], lanes_load(mean + i * LANES));
            x = lanes_mul(x, lanes_load(p + r * TILE_QUERIES + i * LANES));
            if (is_masked)
                x = lanes_choose(lanes_that_see(limit[i], j + r), x, lanes_zero());
            lanes_store(ds + r * TILE_QUERIES + i * LANES, x);
        }
}

LANES_INLINE void score_panel(int vectors, const work *w, const key_tile *t, const query_tile *q,
                              int panel, float *p, float *ds) {
    int64_t query = q->first + panel * PANEL;
    int64_t clear = panel_clear_rows(&w->p, query, t->first, t->count), j = 0;
    lanes_int limit[VECTORS];
    panel_limits(&w->p, query, t->first, limit);
    p += panel * PANEL;
    ds += panel * PANEL;
    for (; j < q->rows[panel] && j + STEP <= clear; j += STEP)
        score_block(vectors, w, t, q, panel, j, false, limit, p + j * TILE_QUERIES,
                    ds + j * TILE_QUERIES);
    for (; j < q->rows[panel]; j += STEP)
        score_block(vectors, w, t, q, panel, j, true, limit, p + j * TILE_QUERIES,
                    ds + j * TILE_QUERIES);
}

LANES_TARGET static void score_gradients(const work *w, const key_tile *t, const query_tile *q,
                                         int panel, float *p, float *ds) {
    if (panel_lacks_a_vector(&w->p, q->first + panel * PANEL))
        score_panel(VECTORS - 1, w, t, q, panel, p, ds);
    else
        score_panel(VECTORS, w, t, q, panel, p, ds);
}

/* sums += x y over STEP keys from j on and the tile's queries that see them. Those that see but some
 * of the keys take part in their rows alone. */
LANES_INLINE void add_seeing(const work *w, const key_tile *t, const query_tile *q, int vectors,
                             int64_t j, const float *x, const float *y, attention_sums sums) {
    int64_t all = q->count, key = t->first + j;
    int64_t begin = attention_first_query(&w->p, key) - q->first;
    int64_t full = attention_first_query(&w->p, key + STEP - 1) - q->first;
    begin = begin < 0 ? 0 : attention_smaller(begin, all);
    full = full < 0 ? 0 : attention_smaller(full, all);
    for (int64_t i = begin; i < full; i++) {
        int64_t seen = attention_visible_keys(&w->p, q->first + i) - key;
        for (int r = 0; r < STEP; r++) {
            lanes_mask sees = r < seen ? lanes_all() : lanes_none();
            lanes left = lanes_set(x[r * TILE_QUERIES + i]);
            for (int v = 0; v < vectors; v++)
                sums[r][v] = lanes_fma_where(sees, left, lanes_load(y + i * w->pitch + v * LANES),
                                             sums[r][v]);
        }
    }
    sums_add(vectors, sums, all - full, x + full, TILE_QUERIES, 1, y + full * w->pitch, w->pitch);
}

LANES_INLINE void add_to_columns(const work *w, const key_tile *t, const query_tile *q, int vectors,
                                 int64_t j, const float *x, const float *y, float *to) {
    attention_sums sums;
    sums_load(vectors, sums, to, w->pitch);
    add_seeing(w, t, q, vectors, j, x, y, sums);
    sums_store(vectors, sums, to, w->pitch);
}

/* to[keys][pitch] += x[keys][TILE_QUERIES] y[TILE_QUERIES][pitch]. Rather two blocks of two vectors
 * than one of three and one of a single vector, which is too few sums. */
LANES_TARGET static void add_to_keys(const work *w, const key_tile *t, const query_tile *q,
                                     const float *x, const float *y, float *to) {
    for (int64_t j = 0; j < q->rows[q->panels - 1]; j += STEP) {
        const float *left = x + j * TILE_QUERIES;
        float *row = to + j * w->pitch;
        int64_t d = 0;
        for (; VECTORS > 2 && d + PANEL <= w->pitch && d + PANEL + LANES != w->pitch; d += PANEL)
            add_to_columns(w, t, q, VECTORS, j, left, y + d, row + d);
        for (; d + 2 * LANES <= w->pitch; d += 2 * LANES)
            add_to_columns(w, t, q, 2, j, left, y + d, row + d);
        if (d < w->pitch)
            add_to_columns(w, t, q, 1, j, left, y + d, row + d);
    }
}

LANES_INLINE void add_to_panel(int vectors, const work *w, const key_tile *t, const query_tile *q,
                               int panel, const float *ds) {
    float *dq = split_gradient(w, t->split, t->b, q->h, q->first / PANEL + panel);
    int64_t query = q->first + panel * PANEL, rows = q->rows[panel];
    int64_t clear = t->has_plain_keys ? rows : panel_clear_rows(&w->p, query, t->first, t->count);
    clear = attention_smaller(rows, clear);
    lanes_int limit[VECTORS];
    panel_limits(&w->p, query, t->first, limit);
    ds += panel * PANEL;
    if (t->is_first && vectors < VECTORS)
        memset(dq, 0, (size_t)w->panel_floats * sizeof *dq);
    for (int64_t d = 0; d < w->p.head_dim; d += STEP) {
        attention_sums sums;
        if (t->is_first)
            sums_clear(sums);
        else
            sums_load(vectors, sums, dq + d * PANEL, PANEL);
        sums_add(vectors, sums, clear, t->k + d, 1, w->pitch, ds, TILE_QUERIES);
        sums_add_seen(vectors, sums, rows - clear, t->k + clear * w->pitch + d, 1, w->pitch,
                      ds + clear * TILE_QUERIES, TILE_QUERIES, limit, clear);
        sums_store(vectors, sums, dq + d * PANEL, PANEL);
    }
}

LANES_TARGET static void add_to_queries(const work *w, const key_tile *t, const query_tile *q,
                                        int panel, const float *ds) {
    if (panel_lacks_a_vector(&w->p, q->first + panel * PANEL))
        add_to_panel(VECTORS - 1, w, t, q, panel, ds);
    else
        add_to_panel(VECTORS, w, t, q, panel, ds);
}

/* Queries that see no key have no P; neither have those that are not there. */
static void load_statistics(const work *w, int64_t b, query_tile *q) {
    const float *lse = attention_lse(&w->args->inputs[ATTENTION_LSE], b, q->h) + q->first;
    const float *mean = w->mean + (b * w->p.heads + q->h) * w->p.queries + q->first;
    int64_t count = attention_smaller(w->tile_queries, w->p.queries - q->first);
    for (int64_t i = 0; i < TILE_QUERIES; i++) {
        bool has_keys = i < count && lse[i] != -INFINITY;
        q->lse[i] = has_keys ? lse[i] * LOG2_E : INFINITY;
        q->mean[i] = has_keys ? mean[i] : 0;
    }
}

/* A tile of queries' part of the gradients of a tile of keys. */
LANES_TARGET static void take_queries(const work *w, const key_tile *t, query_tile *q) {
    const tensor *in = w->args->inputs;
    _Alignas(64) float rows[2][TILE_QUERIES * ATTENTION_MAX_HEAD_DIM];
    _Alignas(64) float panels[2][TILE_QUERIES * ATTENTION_MAX_HEAD_DIM];
    _Alignas(64) float p[TILE_KEYS * TILE_QUERIES], ds[TILE_KEYS * TILE_QUERIES];
    int64_t count = attention_smaller(w->tile_queries, w->p.queries - q->first);
    q->count = count;
    q->panels = (count + PANEL - 1) / PANEL;
    const float *x = tile_take(&w->q, &w->q_rotation, t->b, q->h, q->first, count,
                               q->panels * PANEL, w->pitch, rows[0]);
    const float *dy = tile_take(&in[ATTENTION_DO], NULL, t->b, q->h, q->first, count,
                                q->panels * PANEL, w->pitch, rows[1]);
    load_statistics(w, t->b, q);
    for (int i = 0; i < q->panels; i++) {
        int64_t at = i * PANEL * w->pitch;
        tile_to_panel(x + at, w->pitch, w->p.head_dim, w->p.scale * LOG2_E, panels[0] + at);
        tile_to_panel(dy + at, w->pitch, w->p.head_dim, 1, panels[1] + at);
        q->q_panel[i] = panels[0] + at;
        q->dy_panel[i] = panels[1] + at;
        q->rows[i] = panel_rows(&w->p, q->first + i * PANEL, t->first, t->count);
        score_gradients(w, t, q, i, p, ds);
    }
    add_to_keys(w, t, q, p, dy, t->dv);
    add_to_keys(w, t, q, ds, x, t->dk);
    for (int i = 0; i < q->panels; i++)
        if (q->rows[i] > 0)
            add_to_queries(w, t, q, i, ds);
}

LANES_TARGET static void take_tile(const work *w, key_tile *t) {
    const tensor *in = w->args->inputs, *out = w->args->outputs;
    _Alignas(64) float k[TILE_FLOATS], v[TILE_FLOATS], dk[TILE_FLOATS], dv[TILE_FLOATS];
    int64_t rows = attention_round_up(t->count, STEP);
    size_t bytes = (size_t)(rows * w->pitch) * sizeof(float);
    t->k = tile_take(&in[ATTENTION_K], &w->p.k_rotation, t->b, t->kv, t->first, t->count, rows,
                     w->pitch, k);
    t->v = tile_take(&in[ATTENTION_V], NULL, t->b, t->kv, t->first, t->count, rows, w->pitch, v);
    t->has_plain_keys = w->p.is_causal && !MASKS_ARE_FREE && tile_is_finite(t->k, rows * w->pitch);
    memset(dk, 0, bytes);
    memset(dv, 0, bytes);
    t->dk = dk;
    t->dv = dv;
    int64_t begin = attention_first_query(&w->p, t->first) / w->tile_queries * w->tile_queries;
    for (int64_t h = t->kv * w->p.group; h < (t->kv + 1) * w->p.group; h++)
        for (int64_t first = begin; first < w->p.queries; first += w->tile_queries) {
            query_tile q = {.h = h, .first = first};
            take_queries(w, t, &q);
        }
    for (int64_t j = 0; j < t->count; j++) {
        float *row = dk + j * w->pitch;
        if (j % PANEL == 0) {
            int64_t count = attention_smaller(PANEL, t->count - j);
            attention_prefetch_to_store(&out[ATTENTION_K], t->b, t->kv, t->first + j, count);
            attention_prefetch_to_store(&out[ATTENTION_V], t->b, t->kv, t->first + j, count);
        }
        for (int64_t d = 0; d < w->p.head_dim; d++)
            row[d] *= w->p.scale;
        attention_store_rotated_back(&out[ATTENTION_K], &w->p.dk_rotation, t->b, t->kv,
                                     t->first + j, row);
        attention_store_row(&out[ATTENTION_V], t->b, t->kv, t->first + j, dv + j * w->pitch);
    }
}

static void take_split(const work *w, int64_t unit) {
    int64_t heads = w->p.batch * w->p.kv_heads;
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

static void take_splits(void *context, int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; unit++)
        take_split(context, unit);
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
        attention_prefetch_to_store(&w->args->outputs[ATTENTION_Q], b, h, first, count);
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

/* All of a key/value head whose keys are one split, while its rows are in L2. */
static void take_heads(void *context, int64_t begin, int64_t end) {
    const work *w = context;
    int64_t rows = w->p.group * w->p.queries, panels = w->p.group * w->panels;
    for (int64_t head = begin; head < end; head++) {
        mean_rows(context, head * rows, (head + 1) * rows);
        take_split(w, head);
        finish_panels(context, head * panels, (head + 1) * panels);
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
    if (w.splits == 1) {
        threads_for_each(w.p.batch * w.p.kv_heads, take_heads, &w);
        return DYNO_OK;
    }
    threads_for(heads * w.p.queries, 64, mean_rows, &w);
    threads_for_each(w.splits * w.p.batch * w.p.kv_heads, take_splits, &w);
    threads_for(heads * w.panels, 1, finish_panels, &w);
    return DYNO_OK;
}

#endif
#endif
