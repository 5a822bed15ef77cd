/* attention_pairs.c - the algorithm of attention_tiled.c for bf16, in products of pairs.
 *
 * Keys and values are packed into the workspace, once, a tile of keys at a time: K as it lies (or rotated, if it is
 * to be) and V transposed. Where heads keep all threads busy, each packs one and then attends it; else all
 * are packed first, by all threads. Up to four panels of 32 queries go over the tiles together:
 *   S^T = K Q^T     P^T = 2^(c S^T - c largest)     O^T = O^T shrink + V^T P^T
 * with c = scale log2(e). P is rounded to bf16 for the second product and not for the sum of a row, as others do.
 *
 * Workspace, for each key/value head and tile: K [keys][depth], V^T [depth][keys], whether V has
 * infinities or NaNs. */
#include "ops/attention/cpu/attention_pairs.h"

#include <math.h>

#include "base/threads.h"
#include "ops/scalar_math.h"

static const char *reject_pairs(const kernel_args *args, gemm_method method) {
    if (args->inputs[ATTENTION_Q].type != DTYPE_BF16)
        return "takes bf16";
    gemm_problem like = {.m = 1,
                         .n = 1,
                         .k = 1,
                         .a = {.type = DTYPE_BF16},
                         .b = {.type = DTYPE_BF16},
                         .c_type = DTYPE_F32,
                         .target = args->target};
    const char *why = gemm_reject(method, &like);
    if (!why)
        why = gemm_pass_over(method, &like);
    if (!why && !(attribute_real(args->attributes, "scale") > 0))
        why = "the scale must be above 0";
    return why ? why : attention_reject_layout(args);
}
const char *attention_reject_amx(const kernel_args *args) { return reject_pairs(args, GEMM_AMX); }
const char *attention_reject_dot(const kernel_args *args) {
    return reject_pairs(args, GEMM_AVX512_BF16);
}

#if defined(__x86_64__)

int pairs_list_tiles(const kernel_args *args, attention_tile most, attention_tile *out) {
    enum { MOST = 4 };
    int64_t depth = attention_round_up(args->inputs[ATTENTION_Q].shape.dim[3], PAIRS_DEPTH);
    int most_keys = (int)attention_smaller(most.keys, TILE_FLOATS / depth);
    int queries[MOST], keys[MOST], query_count = 0, key_count = 0;
    for (int q = most.queries; q >= PANEL && query_count < MOST; q = q / 2 / PANEL * PANEL)
        queries[query_count++] = q;
    for (int k = most_keys / PAIRS_LINES * PAIRS_LINES; k >= PAIRS_LINES && key_count < MOST;
         k = k / 2 / PAIRS_LINES * PAIRS_LINES)
        keys[key_count++] = k;
    return attention_cross_tiles(queries, query_count, keys, key_count, out);
}

#if defined(__FMA__)
/* What rope_rotate_row computes, product by product, rounded by the instruction for it. */
PAIRS_TARGET static void rotate_row(int64_t half, const uint16_t *x, const float *cosine,
                                    const float *sine, uint16_t *y) {
    for (int64_t j = 0; j < half; j += 2 * LANES) {
        __mmask32 both = half - j < 2 * LANES ? (1u << (half - j)) - 1 : ~0u;
        __m512 low[2], high[2];
        for (int i = 0; i < 2; i++) {
            int64_t at = j + i * LANES;
            __mmask16 which = (__mmask16)(both >> (i * LANES));
            __m512 a = pairs_widen(which, x + at), b = pairs_widen(which, x + half + at);
            __m512 c = _mm512_maskz_loadu_ps(which, cosine + at);
            __m512 s = _mm512_maskz_loadu_ps(which, sine + at);
            low[i] = _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s));
            high[i] = _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s));
        }
        _mm512_mask_storeu_epi16(y + j, both, pairs_round(low[0], low[1]));
        _mm512_mask_storeu_epi16(y + half + j, both, pairs_round(high[0], high[1]));
    }
}

/* What attention_store_rotated_back() computes, likewise. */
PAIRS_TARGET static void rotate_row_back(int64_t half, const float *x, const float *cosine,
                                         const float *sine, float factor, uint16_t *y) {
    const __m512 times = _mm512_set1_ps(factor);
    for (int64_t j = 0; j < half; j += 2 * LANES) {
        __mmask32 both = half - j < 2 * LANES ? (1u << (half - j)) - 1 : ~0u;
        __m512 low[2], high[2];
        for (int i = 0; i < 2; i++) {
            int64_t at = j + i * LANES;
            __mmask16 which = (__mmask16)(both >> (i * LANES));
            __m512 a = _mm512_mul_ps(times, _mm512_maskz_loadu_ps(which, x + at));
            __m512 b = _mm512_mul_ps(times, _mm512_maskz_loadu_ps(which, x + half + at));
            __m512 c = _mm512_maskz_loadu_ps(which, cosine + at);
            __m512 s = _mm512_maskz_loadu_ps(which, sine + at);
            low[i] = _mm512_fmadd_ps(a, c, _mm512_mul_ps(b, s));
            high[i] = _mm512_fmsub_ps(b, c, _mm512_mul_ps(a, s));
        }
        _mm512_mask_storeu_epi16(y + j, both, pairs_round(low[0], low[1]));
        _mm512_mask_storeu_epi16(y + half + j, both, pairs_round(high[0], high[1]));
    }
}
#else
static void rotate_row(int64_t half, const uint16_t *x, const float *cosine, const float *sine,
                       uint16_t *y) {
    rope_rotate_row(DTYPE_BF16, half, x, cosine, sine, false, y);
}

static void rotate_row_back(int64_t half, const float *x, const float *cosine, const float *sine,
                            float factor, uint16_t *y) {
    float row[ATTENTION_MAX_HEAD_DIM];
    for (int64_t d = 0; d < 2 * half; d++)
        row[d] = factor * x[d];
    rope_rotate_row(DTYPE_F32, half, row, cosine, sine, true, row);
    convert_f32_to_low(DTYPE_BF16, 2 * half, row, y);
}
#endif

PAIRS_TARGET static void round_row(int64_t width, const float *x, float factor, uint16_t *y) {
    const __m512 times = _mm512_set1_ps(factor);
    for (int64_t d = 0; d < width; d += 2 * LANES) {
        __mmask32 both = width - d < 2 * LANES ? (1u << (width - d)) - 1 : ~0u;
        __m512 low = _mm512_maskz_loadu_ps((__mmask16)both, x + d);
        __m512 high = _mm512_maskz_loadu_ps((__mmask16)(both >> LANES), x + d + LANES);
        _mm512_mask_storeu_epi16(
            y + d, both, pairs_round(_mm512_mul_ps(times, low), _mm512_mul_ps(times, high)));
    }
}

void pairs_store_row(const tensor *t, const attention_rotation *rotation, int64_t b, int64_t h,
                     int64_t row, const float *in, float factor) {
    uint16_t *to = (uint16_t *)(void *)attention_row(t, b, h, row);
    if (!rotation || !rotation->cosine)
        round_row(t->shape.dim[3], in, factor, to);
    else
        rotate_row_back(rotation->half, in, rotation->cosine + row * rotation->half,
                        rotation->sine + row * rotation->half, factor, to);
}

tensor pairs_rotated(const tensor *t, const attention_rotation *rotation, int64_t b, int64_t h,
                     int64_t first, int64_t count, uint16_t *room) {
    tensor rows = *t;
    int64_t width = t->shape.dim[3];
    rows.data = attention_row(t, b, h, first);
    if (!rotation || !rotation->cosine)
        return rows;
    for (int64_t i = 0; i < ATTENTION_ROWS_AHEAD && i < count; i++)
        attention_prefetch_row(t, b, h, first + i);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = (first + i) * rotation->half;
        if (i + ATTENTION_ROWS_AHEAD < count)
            attention_prefetch_row(t, b, h, first + i + ATTENTION_ROWS_AHEAD);
        rotate_row(rotation->half, (const void *)attention_row(t, b, h, first + i),
                   rotation->cosine + at, rotation->sine + at, room + i * width);
    }
    rows.data = room;
    rows.stride[2] = width;
    return rows;
}

enum { MOST_PANELS = 4, MOST_KEYS = 256 }; /* panels: of queries that go together */

typedef struct work {
    const kernel_args *args;
    const gemm_engine *engine;
    attention_problem p;
    int64_t depth; /* the head size, rounded up */
    int64_t tile_keys, tiles, panels, query_tiles;
    uint16_t *keys, *values;
    unsigned char *is_wild;
} work;

static int64_t tile_count(const work *w) { return w->p.batch * w->p.kv_heads * w->tiles; }

static attention_tile most(const kernel_args *args) {
    int64_t depth = attention_round_up(args->inputs[ATTENTION_Q].shape.dim[3], PAIRS_DEPTH);
    int64_t panels = attention_smaller(MOST_PANELS, TILE_FLOATS / (PANEL * depth));
    return (attention_tile){(int)panels * PANEL, MOST_KEYS};
}

static int list_tiles(const kernel_args *args, attention_tile *out) {
    return pairs_list_tiles(args, most(args), out);
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
    w.tiles = (w.p.keys + w.tile_keys - 1) / w.tile_keys;
    w.panels = tile.queries / PANEL;
    w.query_tiles = (w.p.queries + w.panels * PANEL - 1) / (w.panels * PANEL);
    if (args->workspace) {
        int64_t packed = tile_count(&w) * w.tile_keys * w.depth;
        w.keys = pairs_aligned(args->workspace);
        w.values = w.keys + packed;
        w.is_wild = (unsigned char *)(w.values + packed);
    }
    return w;
}

static size_t workspace_bytes(const kernel_args *args) {
    work w = describe(args, NULL);
    size_t packed = (size_t)(tile_count(&w) * w.tile_keys * w.depth) * sizeof *w.keys;
    return PAIRS_ALIGNMENT + 2 * packed + (size_t)tile_count(&w);
}

static void pack_tiles(void *context, int64_t begin, int64_t end) {
    const work *w = context;
    const tensor *in = w->args->inputs, *v = &in[ATTENTION_V];
    uint16_t room[TILE_FLOATS];
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t head = tile / w->tiles, first = tile % w->tiles * w->tile_keys;
        int64_t b = head / w->p.kv_heads, kv = head % w->p.kv_heads;
        int64_t count = attention_smaller(w->tile_keys, w->p.keys - first);
        tensor k = pairs_rotated(&in[ATTENTION_K], &w->p.k_rotation, b, kv, first, count, room);
        gemm_lines keys = pairs_rows(&k, 0, 0, 0), values = pairs_columns(v, b, kv, first);
        int64_t at = tile * w->tile_keys * w->depth;
        gemm_pack_pairs_a(&keys, count, w->p.head_dim, PAIRS_LINES, PAIRS_LINES, w->keys + at);
        gemm_pack_pairs_a(&values, w->p.head_dim, count, PAIRS_LINES, PAIRS_LINES, w->values + at);
        w->is_wild[tile] = pairs_are_wild(v, b, kv, first, count);
    }
}

/* A panel's queries and what is known of them so far. */
typedef struct panel {
    const uint16_t *q; /* B' [depth][32] */
    float *o;          /* [depth][32], columns as pairs_query says */
    float *largest, *sum;
    int64_t query;
} panel;

/* A panel and a tile of keys. */
typedef struct encounter {
    const panel *at;
    int64_t b, kv, first, count;
    int64_t rows;  /* that some query sees, in whole strips; 0: there is no encounter */
    int64_t clear; /* that all see, from the first */
    const uint16_t *k, *v;
    bool is_wild;
    float *s;           /* scores [rows][32] */
    uint16_t *p;        /* P, a strip of B' */
    pairs_ahead *ahead; /* may be NULL */
    _Alignas(64) float reference[PANEL], shrink[PANEL];
} encounter;

/* ---- P ---- */

LANES_INLINE void hide_scores(const work *w, const encounter *e) {
    __m512i limit[2];
    panel_limits(&w->p, e->at->query, e->first, limit);
    for (int64_t j = e->clear; j < e->rows; j++)
        for (int i = 0; i < 2; i++)
            _mm512_mask_storeu_ps(e->s + j * PANEL + i * LANES,
                                  (__mmask16)~lanes_that_see(limit[i], j),
                                  _mm512_set1_ps(-INFINITY));
}

LANES_INLINE void join_largest(const encounter *e, __m512 largest[2]) {
    __m512 top[4][2];
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < 2; i++)
            top[r][i] = _mm512_loadu_ps(e->at->largest + i * LANES);
    for (int64_t j = 0; j < e->rows; j += 4)
        for (int r = 0; r < 4; r++)
            for (int i = 0; i < 2; i++)
                top[r][i] =
                    _mm512_max_ps(top[r][i], _mm512_loadu_ps(e->s + (j + r) * PANEL + i * LANES));
    for (int i = 0; i < 2; i++)
        largest[i] =
            _mm512_max_ps(_mm512_max_ps(top[0][i], top[1][i]), _mm512_max_ps(top[2][i], top[3][i]));
}

/* The largest scores so far, and how sums so far shrink. */
LANES_TARGET static void begin_weights(const work *w, encounter *e) {
    const __m512 factor = _mm512_set1_ps(w->p.scale * LOG2_E);
    __m512 largest[2];
    if (e->clear < e->rows)
        hide_scores(w, e);
    join_largest(e, largest);
    for (int i = 0; i < 2; i++) {
        /* While all scores are -infinity, any finite reference keeps them out of the sums. */
        __mmask16 is_none = _mm512_cmp_ps_mask(largest[i], _mm512_set1_ps(-INFINITY), _CMP_EQ_OQ);
        __m512 reference =
            _mm512_mul_ps(factor, _mm512_mask_mov_ps(largest[i], is_none, _mm512_setzero_ps()));
        __m512 before = _mm512_loadu_ps(e->at->largest + i * LANES);
        __m512 shrink = lanes_exp2(_mm512_fmsub_ps(before, factor, reference));
        /* Exactly 1 where nothing changes, which the product's rounding may miss. */
        __mmask16 is_same = _mm512_cmp_ps_mask(before, largest[i], _CMP_EQ_OQ);
        shrink = _mm512_mask_mov_ps(shrink, is_same & (__mmask16)~is_none, _mm512_set1_ps(1));
        float *sum = e->at->sum + i * LANES;
        _mm512_storeu_ps(sum, _mm512_mul_ps(_mm512_loadu_ps(sum), shrink));
        _mm512_storeu_ps(e->at->largest + i * LANES, largest[i]);
        _mm512_store_ps(e->reference + i * LANES, reference);
        _mm512_store_ps(e->shrink + i * LANES, shrink);
    }
}

PAIRS_TARGET static void weigh_strip(const work *w, const encounter *e, int64_t j) {
    const __m512 factor = _mm512_set1_ps(w->p.scale * LOG2_E);
    const __m512 reference[2] = {_mm512_load_ps(e->reference),
                                 _mm512_load_ps(e->reference + LANES)};
    const float *s = e->s + j * PANEL;
    uint16_t *to = e->p + pairs_b_at(0, j);
    __m512 total[2][2];
    for (int i = 0; i < 2; i++)
        total[0][i] = total[1][i] = _mm512_setzero_ps();
    for (int pair = 0; pair < PAIRS_HALF; pair++, s += 2 * PANEL, to += PAIRS_DEPTH) {
        pairs_of_rows x;
        for (int odd = 0; odd < 2; odd++) {
            __m512 weight[2];
            for (int i = 0; i < 2; i++) {
                weight[i] = _mm512_loadu_ps(s + odd * PANEL + i * LANES);
                weight[i] = lanes_exp2_rough(_mm512_fmsub_ps(weight[i], factor, reference[i]));
                total[odd][i] = _mm512_add_ps(total[odd][i], weight[i]);
            }
            x.row[odd] = pairs_round(weight[0], weight[1]);
        }
        pairs_interleave(&x);
        _mm512_store_si512((void *)to, x.half[0]);
        _mm512_store_si512((void *)(to + PAIRS_TILE), x.half[1]);
        if (e->ahead)
            pairs_ahead_next(e->ahead);
    }
    for (int i = 0; i < 2; i++) {
        float *sum = e->at->sum + i * LANES;
        _mm512_storeu_ps(
            sum, _mm512_add_ps(_mm512_loadu_ps(sum), _mm512_add_ps(total[0][i], total[1][i])));
    }
}

/* ---- O ---- */

LANES_TARGET static void shrink_values(const work *w, const encounter *e) {
    const __m512 one = _mm512_set1_ps(1);
    __m512 shrink[2] = {_mm512_load_ps(e->shrink), _mm512_load_ps(e->shrink + LANES)}, factor[2];
    if (!(_mm512_cmp_ps_mask(shrink[0], one, _CMP_NEQ_UQ) |
          _mm512_cmp_ps_mask(shrink[1], one, _CMP_NEQ_UQ)))
        return;
    int32_t query[PANEL];
    for (int c = 0; c < PANEL; c++)
        query[c] = (int32_t)pairs_query(c);
    for (int i = 0; i < 2; i++)
        factor[i] =
            _mm512_permutex2var_ps(shrink[0], _mm512_loadu_si512(query + i * LANES), shrink[1]);
    for (int64_t d = 0; d < w->p.head_dim; d++)
        for (int i = 0; i < 2; i++) {
            float *x = e->at->o + d * PANEL + i * LANES;
            _mm512_storeu_ps(x, _mm512_mul_ps(factor[i], _mm512_loadu_ps(x)));
        }
}

/* What products would do, without the hidden values: one of them is no number. */
static void add_visible_values(const work *w, const encounter *e) {
    float v[ATTENTION_MAX_HEAD_DIM];
    for (int64_t j = 0; j < e->count; j++) {
        attention_load_row(&w->args->inputs[ATTENTION_V], e->b, e->kv, e->first + j, v);
        for (int64_t c = 0; c < PANEL; c++) {
            int64_t query = e->at->query + pairs_query(c);
            if (query >= w->p.queries || attention_visible_keys(&w->p, query) <= e->first + j)
                continue;
            float weight = pairs_float(e->p[pairs_b_at(c, j)]);
            for (int64_t d = 0; d < w->p.head_dim; d++)
                e->at->o[d * PANEL + c] += weight * v[d];
        }
    }
}

static void add_values(const work *w, const encounter *e) {
    int64_t padded = attention_round_up(e->count, PAIRS_DEPTH);
    for (int64_t d = 0; d < w->depth; d += PAIRS_LINES) {
        float *o = e->at->o + d * PANEL;
        w->engine->multiply_pairs(e->rows, e->v + d * padded, e->p, o, PANEL, o, PANEL);
    }
}

/* ---- an encounter ---- */

/* One stage after the other: to mix products with another encounter's exponentials was no faster,
 * measured. */
static void attend_keys(const work *w, encounter *e) {
    for (int64_t j = 0; j < e->rows; j += PAIRS_LINES)
        w->engine->multiply_pairs(w->depth, e->k + j * w->depth, e->at->q, NULL, 0,
                                  e->s + j * PANEL, PANEL);
    begin_weights(w, e);
    for (int64_t j = 0; j < e->rows; j += PAIRS_LINES)
        weigh_strip(w, e, j);
    shrink_values(w, e);
    if (e->is_wild && e->clear < e->rows)
        add_visible_values(w, e);
    else
        add_values(w, e);
}

LANES_TARGET static void finish(const work *w, int64_t b, int64_t h, const panel *at) {
    const tensor *out = w->args->outputs;
    _Alignas(64) float rows[PANEL * ATTENTION_MAX_HEAD_DIM];
    float inverse[PANEL], *lse = attention_lse(&out[1], b, h) + at->query;
    int64_t count = attention_smaller(PANEL, w->p.queries - at->query);
    for (int64_t c = 0; c < PANEL; c++) {
        float sum = at->sum[pairs_query(c)];
        inverse[c] = sum == 0 ? 0 : 1 / sum;
    }
    attention_prefetch_to_store(&out[0], b, h, at->query, count);
    panel_to_tile(at->o, w->p.head_dim, inverse, rows, w->depth);
    for (int64_t c = 0; c < PANEL; c++) {
        int64_t i = pairs_query(c);
        if (i >= count)
            continue;
        pairs_store_row(&out[0], NULL, b, h, at->query + i, rows + c * w->depth, 1);
        lse[i] = at->sum[i] == 0
                     ? -INFINITY
                     : at->largest[i] * (w->p.scale * LOG2_E) * LN_2 + log_f32(at->sum[i]);
    }
}

static void meet(const work *w, int64_t head, const panel *at, int64_t tile, encounter *e) {
    int64_t b = head / w->p.heads, kv = head % w->p.heads / w->p.group;
    int64_t key_tile = (b * w->p.kv_heads + kv) * w->tiles + tile, first = tile * w->tile_keys;
    int64_t count = attention_smaller(w->tile_keys, w->p.keys - first);
    e->at = at;
    e->b = b;
    e->kv = kv;
    e->first = first;
    e->count = count;
    e->rows = pairs_seen_rows(&w->p, at->query, first, count);
    e->clear = panel_clear_rows(&w->p, at->query, first, count);
    e->k = w->keys + key_tile * w->tile_keys * w->depth;
    e->v = w->values + key_tile * w->tile_keys * w->depth;
    e->is_wild = w->is_wild[key_tile];
}

static void attend(const work *w, int64_t unit, pairs_ahead *ahead) {
    const attention_problem *p = &w->p;
    /* Of a head, the tiles with most keys first: the short ones even out the threads. */
    int64_t head = unit / w->query_tiles, tile = w->query_tiles - 1 - unit % w->query_tiles;
    int64_t b = head / p->heads, h = head % p->heads;
    int64_t begin = tile * w->panels * PANEL, panel_count = 0;
    _Alignas(64) uint16_t q[TILE_FLOATS], weights[MOST_KEYS * PANEL];
    uint16_t room[PANEL * ATTENTION_MAX_HEAD_DIM];
    _Alignas(64) float o[TILE_FLOATS], s[MOST_KEYS * PANEL];
    _Alignas(64) float largest[MOST_PANELS * PANEL], sum[MOST_PANELS * PANEL];
    panel panels[MOST_PANELS];
    for (; panel_count < w->panels && begin + panel_count * PANEL < p->queries; panel_count++) {
        panel *at = &panels[panel_count];
        int64_t i = panel_count * PANEL;
        *at = (panel){q + i * w->depth, o + i * w->depth, largest + i, sum + i, begin + i};
        int64_t count = attention_smaller(PANEL, p->queries - at->query);
        tensor rotated = pairs_rotated(&w->args->inputs[ATTENTION_Q], &p->q_rotation, b, h,
                                       at->query, count, room);
        gemm_lines rows = pairs_rows(&rotated, 0, 0, 0);
        gemm_pack_pairs_b(&rows, count, p->head_dim, PAIRS_LINES, PAIRS_LINES, q + i * w->depth);
        memset(at->o, 0, (size_t)(PANEL * w->depth) * sizeof *o);
        for (int j = 0; j < PANEL; j++) {
            at->largest[j] = -INFINITY;
            at->sum[j] = 0;
        }
    }
    int64_t last = attention_smaller(begin + panel_count * PANEL, p->queries) - 1;
    int64_t tiles = (attention_visible_keys(p, last) + w->tile_keys - 1) / w->tile_keys;
    encounter e = {.s = s, .p = weights, .ahead = ahead};
    for (int64_t i = 0; i < tiles * panel_count; i++) {
        meet(w, head, &panels[i % panel_count], i / panel_count, &e);
        if (e.rows > 0)
            attend_keys(w, &e);
    }
    for (int64_t i = 0; i < panel_count; i++)
        finish(w, b, h, &panels[i]);
}

static void attend_units(void *context, int64_t begin, int64_t end) {
    const work *w = context;
    if (w->engine->begin)
        w->engine->begin();
    for (int64_t unit = begin; unit < end; unit++)
        attend(w, unit, NULL);
    if (w->engine->end)
        w->engine->end();
}

/* What is prefetched while a key/value head is computed: the rows that its output goes to, and then the rows that the next
 * head reads. Of the query heads that share a key/value head it is the first one's only. */
static pairs_ahead look_ahead(const work *w, int64_t head) {
    const attention_problem *p = &w->p;
    const tensor *in = w->args->inputs;
    pairs_ahead ahead = {.count = 0};
    pairs_ahead_add(&ahead, &w->args->outputs[0], head / p->kv_heads,
                    head % p->kv_heads * p->group);
    if (++head < p->batch * p->kv_heads) {
        int64_t b = head / p->kv_heads, kv = head % p->kv_heads;
        pairs_ahead_add(&ahead, &in[ATTENTION_K], b, kv);
        pairs_ahead_add(&ahead, &in[ATTENTION_V], b, kv);
        pairs_ahead_add(&ahead, &in[ATTENTION_Q], b, kv * p->group);
    }
    pairs_ahead_spread(&ahead, pairs_turns(p));
    return ahead;
}

/* All of a key/value head, while its keys and values are in L2. */
static void attend_heads(void *context, int64_t begin, int64_t end) {
    const work *w = context;
    int64_t units = w->p.group * w->query_tiles;
    for (int64_t head = begin; head < end; head++) {
        pairs_ahead ahead = look_ahead(w, head);
        pack_tiles(context, head * w->tiles, (head + 1) * w->tiles);
        if (w->engine->begin)
            w->engine->begin();
        for (int64_t unit = head * units; unit < (head + 1) * units; unit++)
            attend(w, unit, &ahead);
        if (w->engine->end)
            w->engine->end();
    }
}

static void run(const kernel_args *args, const gemm_engine *engine) {
    /* Heads for each thread; many are even enough, whatever is left over. */
    enum { SEVERAL = 4, MANY = 16 };
    work w = describe(args, engine);
    int64_t heads = w.p.batch * w.p.kv_heads, threads = threads_count();
    if (heads >= (heads % threads == 0 ? SEVERAL : MANY) * threads) {
        threads_for_each(heads, attend_heads, &w);
        return;
    }
    threads_for_each(tile_count(&w), pack_tiles, &w);
    threads_for_each(w.p.batch * w.p.heads * w.query_tiles, attend_units, &w);
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

const kernel attention_bf16_amx = {.name = "attention_bf16_amx",
                                   .target = TARGET_CPU,
                                   .reject = attention_reject_amx,
                                   RUN_BY(run_amx).writes_strided = true};
const kernel attention_bf16_dot = {.name = "attention_bf16_dot",
                                   .target = TARGET_CPU,
                                   .reject = attention_reject_dot,
                                   RUN_BY(run_dot).writes_strided = true};
