/* attention_gradient_pairs.c - the gradients of attention_tiled.c for bf16, in products of pairs.
 *
 * First queries are packed, once, into the workspace, in blocks, with LSE and D. Then the
 * keys of a key/value head, cut into splits as in attention_panels_gradient.h, go over the blocks
 * that see them, a tile of keys at a time:
 *   S^T = K Q^T     P^T = 2^(c S^T - LSE')     dP^T = V dO^T     dS^T = P^T (dP^T - D)
 *   dV += P^T dO    dK' += dS^T Q              dQ'^T += K^T dS^T
 * with c = scale log2(e); dK = scale dK' and dQ = scale dQ'. P and dS are rounded to bf16, nothing
 * else is. dK and dV are the tile's own, dQ is the split's own and lies in the workspace; splits
 * are added up at the end, in their order. So no sum depends on the number of threads. */
#include "ops/attention/cpu/attention_pairs.h"

#include <math.h>

#include "base/threads.h"

#if defined(__x86_64__)

enum { BLOCK_PANELS = 4, BLOCK = BLOCK_PANELS * PANEL, MOST_KEYS = 256, LEAST_UNITS = 16 };
static const attention_tile MOST = {BLOCK, MOST_KEYS};

typedef struct work {
    const kernel_args *args;
    const gemm_engine *engine;
    attention_problem p;
    int64_t depth, tile_keys;
    int64_t block, blocks;      /* queries taken at a time, of a head */
    int64_t splits, split_keys; /* of a key/value head's keys */
    uint16_t *packed;           /* a block's four forms of Q and dO, see query_block */
    float *statistics;          /* a block's LSE', then D */
    float *dq;                  /* [splits][B, H][blocks][panels][depth][32] */
    unsigned char *is_wild;     /* a block's Q, then its dO */
} work;

static int list_tiles(const kernel_args *args, attention_tile *out) {
    return pairs_list_tiles(args, MOST, out);
}

static int variants(const kernel_args *args, kernel_variant *out) {
    attention_tile tiles[KERNEL_MOST_VARIANTS];
    return attention_name_tiles(tiles, list_tiles(args, tiles), out);
}

static work describe(const kernel_args *args, const gemm_engine *engine) {
    work w = {.args = args, .engine = engine, .p = attention_describe(args)};
    w.depth = attention_round_up(w.p.head_dim, PAIRS_DEPTH);
    attention_tile tile = attention_tile_taken(args, list_tiles);
    w.tile_keys = tile.keys;
    w.block = tile.queries;
    w.blocks = (w.p.queries + w.block - 1) / w.block;
    int64_t heads = w.p.batch * w.p.kv_heads, tiles = (w.p.keys + w.tile_keys - 1) / w.tile_keys;
    int64_t splits = attention_smaller((LEAST_UNITS + heads - 1) / heads, tiles);
    w.split_keys = (tiles + splits - 1) / splits * w.tile_keys;
    w.splits = (w.p.keys + w.split_keys - 1) / w.split_keys;
    if (args->workspace) {
        int64_t all = w.p.batch * w.p.heads * w.blocks;
        w.packed = pairs_aligned(args->workspace);
        w.statistics = (float *)(void *)(w.packed + all * 4 * w.block * w.depth);
        w.dq = w.statistics + all * 2 * w.block;
        w.is_wild = (unsigned char *)(w.dq + w.splits * all * w.block * w.depth);
    }
    return w;
}

static size_t workspace_bytes(const kernel_args *args) {
    work w = describe(args, NULL);
    int64_t blocks = w.p.batch * w.p.heads * w.blocks;
    int64_t block_bytes =
        w.block * w.depth * (4 * (int64_t)sizeof(uint16_t) + w.splits * (int64_t)sizeof(float)) +
        2 * w.block * (int64_t)sizeof(float) + 2;
    return (size_t)(PAIRS_ALIGNMENT + blocks * block_bytes);
}

static float *split_gradient(const work *w, int64_t split, int64_t block) {
    int64_t all = w->p.batch * w->p.heads * w->blocks;
    return w->dq + (split * all + block) * w->block * w->depth;
}

/* ---- queries ---- */

typedef struct query_block {
    int64_t index, b, h, first, count, panels;
    uint16_t *q, *dy;                 /* B', depth the head's */
    uint16_t *q_columns, *dy_columns; /* B', depth the queries: a line is a column of Q */
    float *lse, *mean;
    unsigned char *is_wild;
} query_block;

static query_block block_at(const work *w, int64_t index) {
    int64_t head = index / w->blocks, first = index % w->blocks * w->block,
            size = w->block * w->depth;
    uint16_t *packed = w->packed + index * 4 * size;
    query_block q = {.index = index,
                     .b = head / w->p.heads,
                     .h = head % w->p.heads,
                     .first = first,
                     .count = attention_smaller(w->block, w->p.queries - first),
                     .q = packed,
                     .dy = packed + size,
                     .q_columns = packed + 2 * size,
                     .dy_columns = packed + 3 * size,
                     .lse = w->statistics + index * 2 * w->block,
                     .mean = w->statistics + (index * 2 + 1) * w->block,
                     .is_wild = w->is_wild + 2 * index};
    q.panels = (q.count + PANEL - 1) / PANEL;
    return q;
}

/* D of one query: dO . O. */
PAIRS_TARGET static float mean_of(const tensor *o, const tensor *dy, int64_t b, int64_t h,
                                  int64_t row) {
    const uint16_t *x = (const uint16_t *)(const void *)attention_row(o, b, h, row);
    const uint16_t *y = (const uint16_t *)(const void *)attention_row(dy, b, h, row);
    int64_t width = o->shape.dim[3];
    __m512 sum = _mm512_setzero_ps();
    for (int64_t d = 0; d < width; d += LANES) {
        __mmask16 which = lanes_first(width - d);
        sum = _mm512_fmadd_ps(pairs_widen(which, x + d), pairs_widen(which, y + d), sum);
    }
    return _mm512_reduce_add_ps(sum);
}

/* Queries that see no key have no P; neither have those that are not there. */
static void take_statistics(const work *w, const query_block *q) {
    const tensor *in = w->args->inputs;
    const float *lse = attention_lse(&in[ATTENTION_LSE], q->b, q->h) + q->first;
    for (int64_t i = 0; i < w->block; i++) {
        bool has_keys = i < q->count && lse[i] != -INFINITY;
        q->lse[i] = has_keys ? lse[i] * LOG2_E : INFINITY;
        q->mean[i] =
            has_keys ? mean_of(&in[ATTENTION_O], &in[ATTENTION_DO], q->b, q->h, q->first + i) : 0;
    }
}

static void pack_blocks(void *context, int64_t begin, int64_t end) {
    const work *w = context;
    uint16_t room[BLOCK * ATTENTION_MAX_HEAD_DIM];
    for (int64_t index = begin; index < end; index++) {
        query_block q = block_at(w, index);
        const tensor *in = w->args->inputs;
        tensor from[2] = {
            pairs_rotated(&in[ATTENTION_Q], &w->p.q_rotation, q.b, q.h, q.first, q.count, room),
            pairs_rotated(&in[ATTENTION_DO], NULL, q.b, q.h, q.first, q.count, NULL)};
        uint16_t *rows_to[2] = {q.q, q.dy}, *columns_to[2] = {q.q_columns, q.dy_columns};
        for (int i = 0; i < 2; i++) {
            gemm_lines rows = pairs_rows(&from[i], 0, 0, 0);
            gemm_lines columns = pairs_columns(&from[i], 0, 0, 0);
            gemm_pack_pairs_b(&rows, q.count, w->p.head_dim, PAIRS_LINES, PAIRS_LINES, rows_to[i]);
            gemm_pack_pairs_b(&columns, w->p.head_dim, q.count, PAIRS_LINES, PAIRS_LINES,
                              columns_to[i]);
            q.is_wild[i] = pairs_are_wild(&from[i], 0, 0, 0, q.count);
        }
        take_statistics(w, &q);
    }
}

/* ---- a tile of keys ---- */

typedef struct key_tile {
    int64_t b, kv, split, first, count, padded;
    const uint16_t *k, *v;     /* A' [keys][depth] */
    const uint16_t *k_columns; /* A' [depth][keys] */
    float *dk, *dv;            /* [keys][depth] */
    pairs_ahead *ahead;        /* may be NULL */
    bool is_first;             /* of its split */
    bool is_wild;              /* K */
} key_tile;

/* What a block of queries and a tile of keys make of each other. */
typedef struct encounter {
    query_block q;
    const key_tile *t;
    int64_t rows[BLOCK_PANELS]; /* of the tile, that some query of a panel sees, in strips */
    bool is_masked;             /* some query does not see all of its panel's rows */
    uint16_t *p, *ds;           /* A' [keys][the block's queries] */
    uint16_t *ds_pairs;         /* B' [keys][a panel's queries], panel by panel */
} encounter;

/* 32 keys from j on and a panel: S^T and dP^T, [32][32]. */
typedef struct strip {
    int panel;
    int64_t j;
    float *s, *dp;
} strip;

/* ---- P and dS ---- */

static void score_strip(const work *w, const encounter *e, const strip *at) {
    int64_t keys = at->j * w->depth, queries = at->panel * pairs_strip(w->depth);
    w->engine->multiply_pairs(w->depth, e->t->k + keys, e->q.q + queries, NULL, 0, at->s, PANEL);
    w->engine->multiply_pairs(w->depth, e->t->v + keys, e->q.dy + queries, NULL, 0, at->dp, PANEL);
}

PAIRS_INLINE void take_scores(const work *w, const encounter *e, const strip *at, bool is_masked) {
    const __m512 factor = _mm512_set1_ps(w->p.scale * LOG2_E);
    const float *lse_at = e->q.lse + at->panel * PANEL, *mean_at = e->q.mean + at->panel * PANEL;
    const __m512 lse[2] = {_mm512_loadu_ps(lse_at), _mm512_loadu_ps(lse_at + LANES)};
    const __m512 mean[2] = {_mm512_loadu_ps(mean_at), _mm512_loadu_ps(mean_at + LANES)};
    int64_t rows_at = pairs_a_at(e->q.panels * PANEL, at->j, at->panel * PANEL);
    uint16_t *p_to = e->p + rows_at, *ds_to = e->ds + rows_at;
    uint16_t *pairs_to = e->ds_pairs + at->panel * pairs_strip(e->t->padded) + pairs_b_at(0, at->j);
    __m512i limit[2];
    if (is_masked)
        panel_limits(&w->p, e->q.first + at->panel * PANEL, e->t->first, limit);
    for (int r = 0; r < PAIRS_LINES; r += 2) {
        pairs_of_rows x;
        int64_t to = r / PAIRS_HALF * PAIRS_TILE + r % PAIRS_HALF * PAIRS_DEPTH;
        for (int odd = 0; odd < 2; odd++) {
            __m512 weight[2], gradient[2];
            for (int i = 0; i < 2; i++) {
                int64_t from = (r + odd) * PANEL + i * LANES;
                __mmask16 sees =
                    is_masked ? lanes_that_see(limit[i], at->j + r + odd) : (__mmask16)0xffff;
                weight[i] = lanes_exp2_rough(
                    _mm512_fmsub_ps(_mm512_loadu_ps(at->s + from), factor, lse[i]));
                weight[i] = _mm512_maskz_mov_ps(sees, weight[i]);
                gradient[i] = _mm512_maskz_mul_ps(
                    sees, weight[i], _mm512_sub_ps(_mm512_loadu_ps(at->dp + from), mean[i]));
            }
            _mm512_store_si512((void *)(p_to + to + odd * PAIRS_DEPTH),
                               pairs_round(weight[0], weight[1]));
            x.row[odd] = pairs_round(gradient[0], gradient[1]);
            _mm512_store_si512((void *)(ds_to + to + odd * PAIRS_DEPTH), x.row[odd]);
        }
        pairs_interleave(&x);
        _mm512_store_si512((void *)(pairs_to + r / 2 * PAIRS_DEPTH), x.half[0]);
        _mm512_store_si512((void *)(pairs_to + r / 2 * PAIRS_DEPTH + PAIRS_TILE), x.half[1]);
        if (e->t->ahead)
            pairs_ahead_next(e->t->ahead);
    }
}

PAIRS_TARGET static void take_strip(const work *w, const encounter *e, const strip *at) {
    int64_t query = e->q.first + at->panel * PANEL;
    if (at->j + PAIRS_LINES <= panel_clear_rows(&w->p, query, e->t->first, e->t->count))
        take_scores(w, e, at, false);
    else
        take_scores(w, e, at, true);
}

/* ---- products of P and dS ---- */

/* to[keys][depth] += x y, where y is Q or dO as columns. Queries of later panels see all that those
 * of earlier ones see. */
static void add_to_keys(const work *w, const encounter *e, const uint16_t *x, const uint16_t *y,
                        float *to) {
    int64_t queries = e->q.panels * PANEL, from = 0;
    for (int64_t j = 0; j < e->rows[e->q.panels - 1]; j += PAIRS_LINES) {
        while (e->rows[from / PANEL] <= j)
            from += PANEL;
        for (int64_t d = 0; d < w->depth; d += PAIRS_LINES) {
            float *sums = to + j * w->depth + d;
            w->engine->multiply_pairs(queries - from, x + pairs_a_at(queries, j, from),
                                      y + d * queries + from * PAIRS_LINES, sums, w->depth, sums,
                                      w->depth);
        }
    }
}

static float *query_gradient(const work *w, const encounter *e, int64_t panel) {
    return split_gradient(w, e->t->split, e->q.index) + panel * PANEL * w->depth;
}

static void add_to_queries(const work *w, const encounter *e, int64_t panel) {
    const uint16_t *right = e->ds_pairs + panel * pairs_strip(e->t->padded);
    for (int64_t d = 0; d < w->depth; d += PAIRS_LINES) {
        float *sums = query_gradient(w, e, panel) + d * PANEL;
        w->engine->multiply_pairs(e->rows[panel], e->t->k_columns + d * e->t->padded, right,
                                  e->t->is_first ? NULL : sums, PANEL, sums, PANEL);
    }
}

/* ---- the same where a hidden row holds what is no number ---- */

static bool is_visible(const work *w, const encounter *e, int64_t query, int64_t key) {
    return key < e->t->count &&
           attention_visible_keys(&w->p, e->q.first + query) > e->t->first + key;
}

static void add_visible_to_keys(const work *w, const encounter *e, const uint16_t *x,
                                const tensor *rows, const attention_rotation *rotation, float *to) {
    float y[ATTENTION_MAX_HEAD_DIM];
    for (int64_t i = 0; i < e->q.count; i++) {
        attention_load_rotated(rows, rotation, e->q.b, e->q.h, e->q.first + i, y);
        for (int64_t j = 0; is_visible(w, e, i, j); j++) {
            float factor = pairs_float(x[pairs_a_at(e->q.panels * PANEL, j, i)]);
            for (int64_t d = 0; d < w->p.head_dim; d++)
                to[j * w->depth + d] += factor * y[d];
        }
    }
}

static void add_visible_to_queries(const work *w, const encounter *e, int64_t panel) {
    float k[ATTENTION_MAX_HEAD_DIM], *dq = query_gradient(w, e, panel);
    const uint16_t *right = e->ds_pairs + panel * pairs_strip(e->t->padded);
    if (e->t->is_first)
        memset(dq, 0, (size_t)(w->depth * PANEL) * sizeof *dq);
    for (int64_t j = 0; j < e->t->count; j++) {
        attention_load_rotated(&w->args->inputs[ATTENTION_K], &w->p.k_rotation, e->t->b, e->t->kv,
                               e->t->first + j, k);
        for (int64_t c = 0; c < PANEL; c++) {
            int64_t i = panel * PANEL + pairs_query(c);
            if (i >= e->q.count || !is_visible(w, e, i, j))
                continue;
            float factor = pairs_float(right[pairs_b_at(c, j)]);
            for (int64_t d = 0; d < w->p.head_dim; d++)
                dq[d * PANEL + c] += factor * k[d];
        }
    }
}

/* ---- an encounter ---- */

static void meet(const work *w, const key_tile *t, int64_t block, encounter *e) {
    e->q = block_at(w, block);
    e->t = t;
    e->is_masked = false;
    for (int64_t i = 0; i < e->q.panels; i++) {
        int64_t first = e->q.first + i * PANEL;
        e->rows[i] = pairs_seen_rows(&w->p, first, t->first, t->count);
        if (panel_clear_rows(&w->p, first, t->first, t->count) < e->rows[i])
            e->is_masked = true;
    }
}

/* Products are not mixed with exponentials: that made them slower, measured. */
static void take_block(const work *w, const encounter *e) {
    _Alignas(64) float s[PAIRS_LINES * PANEL], dp[PAIRS_LINES * PANEL];
    const tensor *in = w->args->inputs;
    for (int panel = 0; panel < e->q.panels; panel++)
        for (int64_t j = 0; j < e->rows[panel]; j += PAIRS_LINES) {
            strip at = {panel, j, s, dp};
            score_strip(w, e, &at);
            take_strip(w, e, &at);
        }
    if (e->is_masked && e->q.is_wild[1])
        add_visible_to_keys(w, e, e->p, &in[ATTENTION_DO], NULL, e->t->dv);
    else
        add_to_keys(w, e, e->p, e->q.dy_columns, e->t->dv);
    if (e->is_masked && e->q.is_wild[0])
        add_visible_to_keys(w, e, e->ds, &in[ATTENTION_Q], &w->p.q_rotation, e->t->dk);
    else
        add_to_keys(w, e, e->ds, e->q.q_columns, e->t->dk);
    for (int64_t panel = 0; panel < e->q.panels; panel++)
        if (e->rows[panel] > 0 && e->is_masked && e->t->is_wild)
            add_visible_to_queries(w, e, panel);
        else if (e->rows[panel] > 0)
            add_to_queries(w, e, panel);
}

static void take_tile(const work *w, key_tile *t) {
    const tensor *in = w->args->inputs, *out = w->args->outputs;
    _Alignas(64) uint16_t k[TILE_FLOATS], v[TILE_FLOATS], k_columns[TILE_FLOATS];
    _Alignas(64) float dk[TILE_FLOATS], dv[TILE_FLOATS];
    _Alignas(64) uint16_t low[3][MOST_KEYS * BLOCK]; /* P and dS */
    uint16_t room[TILE_FLOATS];
    tensor rotated =
        pairs_rotated(&in[ATTENTION_K], &w->p.k_rotation, t->b, t->kv, t->first, t->count, room);
    gemm_lines keys = pairs_rows(&rotated, 0, 0, 0);
    gemm_lines values = pairs_rows(&in[ATTENTION_V], t->b, t->kv, t->first);
    gemm_lines columns = pairs_columns(&rotated, 0, 0, 0);
    gemm_pack_pairs_a(&keys, t->count, w->p.head_dim, PAIRS_LINES, PAIRS_LINES, k);
    gemm_pack_pairs_a(&values, t->count, w->p.head_dim, PAIRS_LINES, PAIRS_LINES, v);
    gemm_pack_pairs_a(&columns, w->p.head_dim, t->count, PAIRS_LINES, PAIRS_LINES, k_columns);
    t->padded = attention_round_up(t->count, PAIRS_LINES);
    memset(dk, 0, (size_t)(t->padded * w->depth) * sizeof *dk);
    memset(dv, 0, (size_t)(t->padded * w->depth) * sizeof *dv);
    t->is_wild = pairs_are_wild(&rotated, 0, 0, 0, t->count);
    t->k = k;
    t->v = v;
    t->k_columns = k_columns;
    t->dk = dk;
    t->dv = dv;
    encounter e = {.p = low[0], .ds = low[1], .ds_pairs = low[2]};
    int64_t begin = attention_first_query(&w->p, t->first) / w->block;
    for (int64_t h = t->kv * w->p.group; h < (t->kv + 1) * w->p.group; h++)
        for (int64_t i = begin; i < w->blocks; i++) {
            meet(w, t, (t->b * w->p.heads + h) * w->blocks + i, &e);
            take_block(w, &e);
        }
    for (int64_t j = 0; j < t->count; j++) {
        int64_t row = t->first + j;
        if (j % PANEL == 0) {
            int64_t count = attention_smaller(PANEL, t->count - j);
            attention_prefetch_to_store(&out[ATTENTION_K], t->b, t->kv, row, count);
            attention_prefetch_to_store(&out[ATTENTION_V], t->b, t->kv, row, count);
        }
        pairs_store_row(&out[ATTENTION_K], &w->p.dk_rotation, t->b, t->kv, row, dk + j * w->depth,
                        w->p.scale);
        pairs_store_row(&out[ATTENTION_V], NULL, t->b, t->kv, row, dv + j * w->depth, 1);
    }
}

static void take_split(const work *w, int64_t unit, pairs_ahead *ahead) {
    int64_t heads = w->p.batch * w->p.kv_heads;
    int64_t split = unit / heads, head = unit % heads, start = split * w->split_keys;
    int64_t stop = attention_smaller(start + w->split_keys, w->p.keys);
    if (w->engine->begin)
        w->engine->begin();
    for (int64_t first = start; first < stop; first += w->tile_keys) {
        key_tile t = {.b = head / w->p.kv_heads,
                      .kv = head % w->p.kv_heads,
                      .split = split,
                      .first = first,
                      .count = attention_smaller(w->tile_keys, stop - first),
                      .ahead = ahead,
                      .is_first = first == start};
        take_tile(w, &t);
    }
    if (w->engine->end)
        w->engine->end();
}

static void take_splits(void *context, int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; unit++)
        take_split(context, unit, NULL);
}

/* ---- dQ ---- */

/* The splits' sums for blocks of queries, added and stored. A split that none of a panel's queries
 * sees has left nothing. */
LANES_TARGET static void finish_blocks(void *context, int64_t begin, int64_t end) {
    const work *w = context;
    _Alignas(64) float sum[PANEL * ATTENTION_MAX_HEAD_DIM], rows[PANEL * ATTENTION_MAX_HEAD_DIM];
    float factor[PANEL];
    int64_t panels = w->block / PANEL;
    for (int i = 0; i < PANEL; i++)
        factor[i] = w->p.scale;
    for (int64_t unit = begin; unit < end; unit++) {
        query_block q = block_at(w, unit / panels);
        int64_t first = q.first + unit % panels * PANEL, size = PANEL * w->depth;
        int64_t count = attention_smaller(PANEL, w->p.queries - first);
        if (count <= 0)
            continue;
        int64_t seen = attention_visible_keys(&w->p, first + count - 1);
        attention_prefetch_to_store(&w->args->outputs[ATTENTION_Q], q.b, q.h, first, count);
        memset(sum, 0, (size_t)size * sizeof *sum);
        for (int64_t split = 0; split < w->splits && split * w->split_keys < seen; split++) {
            const float *part = split_gradient(w, split, q.index) + unit % panels * size;
            for (int64_t i = 0; i < size; i++)
                sum[i] += part[i];
        }
        panel_to_tile(sum, w->p.head_dim, factor, rows, w->depth);
        for (int64_t c = 0; c < PANEL; c++)
            if (pairs_query(c) < count)
                pairs_store_row(&w->args->outputs[ATTENTION_Q], &w->p.dq_rotation, q.b, q.h,
                                first + pairs_query(c), rows + c * w->depth, 1);
    }
}

/* What is prefetched while a key/value head is computed: the rows that its gradients go to, and then the rows that the next
 * head reads. Of the query heads that share a key/value head it is the first one's only. */
static pairs_ahead look_ahead(const work *w, int64_t head) {
    const attention_problem *p = &w->p;
    const tensor *in = w->args->inputs, *out = w->args->outputs;
    int64_t b = head / p->kv_heads, kv = head % p->kv_heads;
    pairs_ahead ahead = {.count = 0};
    pairs_ahead_add(&ahead, &out[ATTENTION_K], b, kv);
    pairs_ahead_add(&ahead, &out[ATTENTION_V], b, kv);
    pairs_ahead_add(&ahead, &out[ATTENTION_Q], b, kv * p->group);
    if (++head < p->batch * p->kv_heads) {
        b = head / p->kv_heads;
        kv = head % p->kv_heads;
        pairs_ahead_add(&ahead, &in[ATTENTION_Q], b, kv * p->group);
        pairs_ahead_add(&ahead, &in[ATTENTION_DO], b, kv * p->group);
        pairs_ahead_add(&ahead, &in[ATTENTION_O], b, kv * p->group);
        pairs_ahead_add(&ahead, &in[ATTENTION_K], b, kv);
        pairs_ahead_add(&ahead, &in[ATTENTION_V], b, kv);
    }
    pairs_ahead_spread(&ahead, pairs_turns(p));
    return ahead;
}

/* All of a key/value head whose keys are one split, while its queries are in L2. */
static void take_heads(void *context, int64_t begin, int64_t end) {
    const work *w = context;
    int64_t blocks = w->p.group * w->blocks, panels = w->block / PANEL;
    for (int64_t head = begin; head < end; head++) {
        pack_blocks(context, head * blocks, (head + 1) * blocks);
        pairs_ahead ahead = look_ahead(w, head);
        take_split(w, head, &ahead);
        finish_blocks(context, head * blocks * panels, (head + 1) * blocks * panels);
    }
}

static void run(const kernel_args *args, const gemm_engine *engine) {
    work w = describe(args, engine);
    int64_t blocks = w.p.batch * w.p.heads * w.blocks, heads = w.p.batch * w.p.kv_heads;
    if (w.splits == 1) {
        threads_for_each(heads, take_heads, &w);
        return;
    }
    threads_for_each(blocks, pack_blocks, &w);
    threads_for_each(w.splits * heads, take_splits, &w);
    threads_for(blocks * (w.block / PANEL), 1, finish_blocks, &w);
}

static dyno_status run_amx(const kernel_args *args) {
    run(args, &gemm_amx);
    return DYNO_OK;
}
static dyno_status run_dot(const kernel_args *args) {
    run(args, &gemm_avx512_bf16);
    return DYNO_OK;
}
#define RUN_BY(FUNCTION) .workspace_bytes = workspace_bytes, .run = FUNCTION, .variants = variants,
#else
#define RUN_BY(FUNCTION)
#endif

const kernel attention_gradient_bf16_amx = {.name = "attention_gradient_bf16_amx",
                                            .target = TARGET_CPU,
                                            .reject = attention_reject_amx,
                                            RUN_BY(run_amx).writes_strided = true};
const kernel attention_gradient_bf16_dot = {.name = "attention_gradient_bf16_dot",
                                            .target = TARGET_CPU,
                                            .reject = attention_reject_dot,
                                            RUN_BY(run_dot).writes_strided = true};
