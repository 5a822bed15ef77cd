/* attention_avx512.c - the algorithm of attention_tiled.c in panels of 32 queries.
 *
 * Up to eight panels go over the keys together, a tile at a time. For each:
 *   S^T = K Q'^T            Q' = Q scale log2(e), so that P = 2^(S - largest)
 *   O^T = O^T shrink + V^T P^T
 * All of it is vertical: a lane is a query. What no query of a panel sees is not computed, and
 * only blocks that some query does not see are masked.
 *
 * Keys that are to be rotated and that many tiles of queries take are rotated once. Workspace,
 * then: K in f32. */
#include "ops/attention/cpu/attention_panels.h"

#include <math.h>

#include "base/threads.h"
#include "ops/scalar_math.h"

const char *attention_reject_avx512(const kernel_args *args) {
    const char *why = target_reject(args->target, ISA_AVX512);
    return why ? why : attention_reject_layout(args);
}

#if defined(__x86_64__)

int attention_list_panels(const kernel_args *args, int most_queries, int most_keys,
                          attention_tile *out) {
    enum { MOST = 4 };
    int64_t pitch = attention_round_up(args->inputs[ATTENTION_Q].shape.dim[3], LANES);
    most_keys = (int)attention_smaller(most_keys, attention_tile_keys(pitch));
    int queries[MOST], keys[MOST], query_count = 0, key_count = 0;
    for (int q = most_queries; q >= PANEL && query_count < MOST; q = q / 2 / PANEL * PANEL)
        queries[query_count++] = q;
    for (int k = most_keys; k >= 32 && key_count < MOST; k = k / 2 / STEP * STEP)
        keys[key_count++] = k;
    return attention_cross_tiles(queries, query_count, keys, key_count, out);
}

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
    const float *q; /* [head_dim][32] */
    float *o;       /* [pitch][32] */
    float *largest, *sum;
    int64_t query;
} panel;

/* Scores of the first `rows` keys to s[rows][32]; the panel's maximum over them joins `largest`. */
LANES_INLINE void score(const work *w, const panel *at, const float *k, int64_t rows, int64_t clear,
                        const __m512i limit[2], float *s, __m512 largest[2]) {
    for (int64_t j = 0; j < rows; j += STEP) {
        attention_sums sums;
        sums_clear(sums);
        sums_add(2, sums, w->p.head_dim, k + j * w->pitch, w->pitch, 1, at->q, PANEL);
        if (j + STEP > clear)
            for (int r = 0; r < STEP; r++)
                for (int i = 0; i < 2; i++)
                    sums[r][i] = _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY),
                                                    lanes_that_see(limit[i], j + r), sums[r][i]);
        for (int r = 0; r < STEP; r++)
            for (int i = 0; i < 2; i++)
                largest[i] = _mm512_max_ps(largest[i], sums[r][i]);
        sums_store(2, sums, s + j * PANEL, PANEL);
    }
}

/* s becomes P; the panel's sums take it in. */
LANES_INLINE void take_scores(const panel *at, int64_t rows, const __m512 largest[2], float *s,
                              __m512 shrink[2]) {
    __m512 reference[2], total[2];
    for (int i = 0; i < 2; i++) {
        /* While all scores are -infinity, any finite reference keeps them out of the sums. */
        __mmask16 is_none = _mm512_cmp_ps_mask(largest[i], _mm512_set1_ps(-INFINITY), _CMP_EQ_OQ);
        reference[i] = _mm512_mask_mov_ps(largest[i], is_none, _mm512_setzero_ps());
        shrink[i] =
            lanes_exp2(_mm512_sub_ps(_mm512_loadu_ps(at->largest + i * LANES), reference[i]));
        total[i] = _mm512_setzero_ps();
    }
    for (int64_t j = 0; j < rows; j++)
        for (int i = 0; i < 2; i++) {
            float *x = s + j * PANEL + i * LANES;
            __m512 p = lanes_exp2(_mm512_sub_ps(_mm512_loadu_ps(x), reference[i]));
            total[i] = _mm512_add_ps(total[i], p);
            _mm512_storeu_ps(x, p);
        }
    for (int i = 0; i < 2; i++) {
        float *sum = at->sum + i * LANES;
        _mm512_storeu_ps(sum, _mm512_fmadd_ps(_mm512_loadu_ps(sum), shrink[i], total[i]));
        _mm512_storeu_ps(at->largest + i * LANES, largest[i]);
    }
}

LANES_INLINE void add_values(const work *w, const panel *at, const float *v, int64_t rows,
                             int64_t clear, const __m512i limit[2], const float *p,
                             const __m512 shrink[2]) {
    for (int64_t d = 0; d < w->p.head_dim; d += STEP) {
        attention_sums sums;
        sums_load(2, sums, at->o + d * PANEL, PANEL);
        for (int r = 0; r < STEP; r++)
            for (int i = 0; i < 2; i++)
                sums[r][i] = _mm512_mul_ps(sums[r][i], shrink[i]);
        sums_add(2, sums, clear, v + d, 1, w->pitch, p, PANEL);
        sums_add_seen(sums, rows - clear, v + clear * w->pitch + d, 1, w->pitch, p + clear * PANEL,
                      PANEL, limit, clear);
        sums_store(2, sums, at->o + d * PANEL, PANEL);
    }
}

LANES_TARGET static void attend_keys(const work *w, const panel *at, const float *k, const float *v,
                                     int64_t first, int64_t count, float *s) {
    int64_t rows = panel_rows(&w->p, at->query, first, count);
    if (rows == 0)
        return;
    __m512 largest[2] = {_mm512_loadu_ps(at->largest), _mm512_loadu_ps(at->largest + LANES)};
    __m512 shrink[2];
    int64_t clear = panel_clear_rows(&w->p, at->query, first, count);
    __m512i limit[2];
    panel_limits(&w->p, at->query, first, limit);
    score(w, at, k, rows, clear, limit, s, largest);
    take_scores(at, rows, largest, s, shrink);
    add_values(w, at, v, rows, attention_smaller(clear, rows), limit, s, shrink);
}

LANES_TARGET static void finish(const work *w, int64_t b, int64_t h, const panel *at, float *rows) {
    const tensor *out = w->args->outputs;
    float inverse[PANEL], *lse = attention_lse(&out[1], b, h) + at->query;
    int64_t count = attention_smaller(PANEL, w->p.queries - at->query);
    for (int i = 0; i < PANEL; i++)
        inverse[i] = at->sum[i] == 0 ? 0 : 1 / at->sum[i];
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
        tile_load(&in[ATTENTION_Q], &p->q_rotation, b, h, at->query,
                  attention_smaller(PANEL, p->queries - at->query), PANEL, w->pitch,
                  p->scale * LOG2_E, k);
        tile_to_panel(k, w->pitch, p->head_dim, q + i * w->pitch);
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
        tile_load(&w->k, &w->k_rotation, b, kv, first, count, rows, w->pitch, 1, k);
        tile_load(&in[ATTENTION_V], NULL, b, kv, first, count, rows, w->pitch, 1, v);
        for (int64_t i = 0; i < panel_count; i++)
            attend_keys(w, &panels[i], k, v, first, count, s);
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
    w.panels = tile.queries / PANEL;
    w.query_tiles = (w.p.queries + w.panels * PANEL - 1) / (w.panels * PANEL);
    threads_for_each(w.p.batch * w.p.heads * w.query_tiles, attend_units, &w);
    return DYNO_OK;
}

#endif

const kernel attention_avx512 = {.name = "attention_avx512",
                                 .target = TARGET_CPU,
                                 .reject = attention_reject_avx512,
#if defined(__x86_64__)
                                 .workspace_bytes = workspace_bytes,
                                 .run = run,
                                 .variants = variants,
#endif
                                 .writes_strided = true};
