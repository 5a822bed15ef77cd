/* attention_tiled.c - attention in tiles, in plain C: the algorithm to read, for every type.
 *
 * A tile of queries goes over the keys, a tile at a time, and keeps for each query the largest
 * score so far, the sum of exponentials relative to it, and the sum of values weighted by them. A
 * larger score scales both sums down.
 *
 * The gradients need P again, which LSE gives without another search for the maximum:
 *   P = exp(S - LSE)     dP = dO V^T     D_i = dO_i . O_i     dS = P (dP - D)
 *   dQ = scale dS K      dK = scale dS^T Q     dV = P^T dO
 * dQ is added up by the owner of a query tile and dK, dV by that of a key tile, each in the order
 * of its tiles: P is computed twice, and no sum depends on the number of threads.
 *
 * Numbers are f32 from where they are loaded to where they are stored. Tiles lie on the stack.
 * Rows of Q and K are rotated, if at all, as they are loaded, and rows of dQ and dK rotated back as
 * they are stored: whoever wants one again rotates it again, a few operations for each number
 * beside two for each of a tile's keys or queries. */
#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "ops/attention/cpu/attention_cpu_rows.h"
#include "ops/scalar_math.h"

enum { QUERIES = 32, KEYS = 64, WIDTH = ATTENTION_MAX_HEAD_DIM }; /* room; tiles may be smaller */

typedef struct work {
    const kernel_args *args;
    attention_problem p;
    int64_t queries, keys; /* of a tile */
    int64_t query_tiles, key_tiles;
} work;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- tiles of rows ---- */

static void load_rows(const tensor *t, const attention_rotation *rotation, int64_t b, int64_t h,
                      int64_t first, int64_t count, float (*out)[WIDTH]) {
    for (int64_t i = 0; i < count; i++)
        attention_load_rotated(t, rotation, b, h, first + i, out[i]);
}

/* Column by column, so that a product's inner loop goes over keys. Columns beyond `count` are 0. */
static void load_keys_transposed(const tensor *t, const attention_rotation *rotation, int64_t b,
                                 int64_t h, int64_t first, int64_t count, float (*out)[KEYS]) {
    float row[WIDTH];
    memset(out, 0, sizeof *out * (size_t)t->shape.dim[3]);
    for (int64_t j = 0; j < count; j++) {
        attention_load_rotated(t, rotation, b, h, first + j, row);
        for (int64_t d = 0; d < t->shape.dim[3]; d++)
            out[d][j] = row[d];
    }
}

/* ---- products of tiles ---- */

/* out[rows][keys] = a[rows][depth] b[depth][keys] */
static void multiply_keys(int64_t rows, int64_t depth, int64_t keys, const float (*a)[WIDTH],
                          const float (*b)[KEYS], float (*restrict out)[KEYS]) {
    for (int64_t i = 0; i < rows; i++) {
        memset(out[i], 0, sizeof *out);
        for (int64_t d = 0; d < depth; d++)
            for (int64_t j = 0; j < keys; j++)
                out[i][j] += a[i][d] * b[d][j];
    }
}

/* out += factor * b */
static void add_scaled(int64_t width, float factor, const float *b, float *restrict out) {
    for (int64_t d = 0; d < width; d++)
        out[d] += factor * b[d];
}

/* ---- forward ---- */

typedef struct query_tile {
    int64_t b, h, first, count;
} query_tile;

static query_tile query_tile_at(const work *w, int64_t unit) {
    int64_t first = unit % w->query_tiles * w->queries, head = unit / w->query_tiles;
    return (query_tile){head / w->p.heads, head % w->p.heads, first,
                        smaller(w->queries, w->p.queries - first)};
}

static float *log_sum_exp(const tensor *lse, const query_tile *t, int64_t i) {
    return attention_lse(lse, t->b, t->h) + t->first + i;
}

/* Keys of a tile that query i of another sees. Hidden ones have no part in any sum: 0 times what
 * they hold need not be 0. */
static int64_t seen_keys(const work *w, const query_tile *t, int64_t i, int64_t first,
                         int64_t count) {
    return smaller(count, attention_visible_keys(&w->p, t->first + i) - first);
}

/* Takes one query's scores of a key tile, of which it sees `seen`, into its running sums. On
 * return `scores` are the weights of the tile's values. */
static void take_scores(float scale, int64_t seen, int64_t width, float *scores, float *largest,
                        float *sum, float *restrict o) {
    float top = *largest, total = 0;
    for (int64_t j = 0; j < seen; j++) {
        scores[j] *= scale;
        top = scores[j] > top || scores[j] != scores[j] ? scores[j] : top;
    }
    /* While all scores are -infinity, any finite reference keeps them out of the sums. */
    float reference = top == -INFINITY ? 0 : top;
    float shrink = exp_f32(*largest - reference);
    for (int64_t j = 0; j < seen; j++)
        scores[j] = exp_f32(scores[j] - reference);
    for (int64_t j = 0; j < seen; j++)
        total += scores[j];
    for (int64_t d = 0; d < width; d++)
        o[d] *= shrink;
    *sum = *sum * shrink + total;
    *largest = top;
}

static void finish_query(const work *w, const query_tile *t, int64_t i, float largest, float sum,
                         float *o) {
    float inverse = sum == 0 ? 0 : 1 / sum;
    for (int64_t d = 0; d < w->p.head_dim; d++)
        o[d] *= inverse;
    attention_store_row(&w->args->outputs[0], t->b, t->h, t->first + i, o);
    *log_sum_exp(&w->args->outputs[1], t, i) = sum == 0 ? -INFINITY : largest + log_f32(sum);
}

static void attend(const work *w, const query_tile *t) {
    const attention_problem *p = &w->p;
    const tensor *in = w->args->inputs;
    int64_t width = p->head_dim, kv = t->h / p->group;
    float q[QUERIES][WIDTH], o[QUERIES][WIDTH], largest[QUERIES], sum[QUERIES];
    float k[WIDTH][KEYS], v[KEYS][WIDTH], scores[QUERIES][KEYS];
    load_rows(&in[ATTENTION_Q], &w->p.q_rotation, t->b, t->h, t->first, t->count, q);
    for (int64_t i = 0; i < t->count; i++) {
        memset(o[i], 0, sizeof o[i]);
        largest[i] = -INFINITY;
        sum[i] = 0;
    }
    int64_t end = attention_visible_keys(p, t->first + t->count - 1);
    for (int64_t first = 0; first < end; first += w->keys) {
        int64_t count = smaller(w->keys, end - first);
        load_keys_transposed(&in[ATTENTION_K], &w->p.k_rotation, t->b, kv, first, count, k);
        load_rows(&in[ATTENTION_V], NULL, t->b, kv, first, count, v);
        multiply_keys(t->count, width, count, (const float(*)[WIDTH])q, (const float(*)[KEYS])k,
                      scores);
        for (int64_t i = 0; i < t->count; i++) {
            int64_t seen = seen_keys(w, t, i, first, count);
            if (seen <= 0)
                continue;
            take_scores(p->scale, seen, width, scores[i], &largest[i], &sum[i], o[i]);
            for (int64_t j = 0; j < seen; j++)
                add_scaled(width, scores[i][j], v[j], o[i]);
        }
    }
    for (int64_t i = 0; i < t->count; i++)
        finish_query(w, t, i, largest[i], sum[i], o[i]);
}

static void attend_units(void *context, int64_t begin, int64_t end) {
    const work *w = context;
    for (int64_t unit = begin; unit < end; unit++) {
        query_tile t = query_tile_at(w, unit);
        attend(w, &t);
    }
}

static int list_tiles(const kernel_args *args, attention_tile *out) {
    (void)args;
    static const int queries[] = {QUERIES, QUERIES / 2}, keys[] = {KEYS, KEYS / 2, KEYS / 4};
    return attention_cross_tiles(queries, 2, keys, 3, out);
}

static int variants(const kernel_args *args, kernel_variant *out) {
    attention_tile tiles[KERNEL_MOST_VARIANTS];
    return attention_name_tiles(tiles, list_tiles(args, tiles), out);
}

static work prepare(const kernel_args *args) {
    attention_tile tile = attention_tile_taken(args, list_tiles);
    work w = {
        .args = args, .p = attention_describe(args), .queries = tile.queries, .keys = tile.keys};
    w.query_tiles = (w.p.queries + w.queries - 1) / w.queries;
    w.key_tiles = (w.p.keys + w.keys - 1) / w.keys;
    return w;
}

static dyno_status run(const kernel_args *args) {
    work w = prepare(args);
    threads_for_each(w.p.batch * w.p.heads * w.query_tiles, attend_units, &w);
    return DYNO_OK;
}

const kernel attention_tiled = {.name = "attention_tiled",
                                .target = TARGET_CPU,
                                .reject = attention_reject_layout,
                                .run = run,
                                .variants = variants,
                                .writes_strided = true};

/* ---- gradients ---- */

/* What the backward knows of a tile of queries. */
typedef struct query_rows {
    float q[QUERIES][WIDTH], dy[QUERIES][WIDTH];
    float lse[QUERIES], mean[QUERIES]; /* mean: D, of dP under P */
} query_rows;

static void load_query_rows(const work *w, const query_tile *t, query_rows *r) {
    const tensor *in = w->args->inputs;
    load_rows(&in[ATTENTION_Q], &w->p.q_rotation, t->b, t->h, t->first, t->count, r->q);
    load_rows(&in[ATTENTION_DO], NULL, t->b, t->h, t->first, t->count, r->dy);
    for (int64_t i = 0; i < t->count; i++) {
        float o[WIDTH];
        attention_load_row(&in[ATTENTION_O], t->b, t->h, t->first + i, o);
        r->mean[i] = 0;
        for (int64_t d = 0; d < w->p.head_dim; d++)
            r->mean[i] += r->dy[i][d] * o[d];
        r->lse[i] = *log_sum_exp(&in[ATTENTION_LSE], t, i);
    }
}

/* P and scale * dS of a tile; 0 for a query that sees no key of all. */
static void score_gradients(const work *w, const query_tile *t, const query_rows *r, int64_t first,
                            int64_t count, const float (*k)[KEYS], const float (*v)[KEYS],
                            float (*p)[KEYS], float (*ds)[KEYS]) {
    int64_t width = w->p.head_dim;
    float scale = w->p.scale;
    multiply_keys(t->count, width, count, r->q, k, p);
    multiply_keys(t->count, width, count, r->dy, v, ds);
    for (int64_t i = 0; i < t->count; i++) {
        int64_t seen = seen_keys(w, t, i, first, count);
        if (r->lse[i] == -INFINITY) {
            for (int64_t j = 0; j < seen; j++)
                p[i][j] = ds[i][j] = 0;
            continue;
        }
        for (int64_t j = 0; j < seen; j++)
            p[i][j] = exp_f32(p[i][j] * scale - r->lse[i]);
        for (int64_t j = 0; j < seen; j++)
            ds[i][j] = scale * p[i][j] * (ds[i][j] - r->mean[i]);
    }
}

static void differentiate_queries(const work *w, const query_tile *t) {
    const tensor *in = w->args->inputs;
    int64_t width = w->p.head_dim, kv = t->h / w->p.group;
    query_rows r;
    float dq[QUERIES][WIDTH] = {0}, k[WIDTH][KEYS], v[WIDTH][KEYS], k_rows[KEYS][WIDTH];
    float p[QUERIES][KEYS], ds[QUERIES][KEYS];
    load_query_rows(w, t, &r);
    int64_t end = attention_visible_keys(&w->p, t->first + t->count - 1);
    for (int64_t first = 0; first < end; first += w->keys) {
        int64_t count = smaller(w->keys, end - first);
        load_keys_transposed(&in[ATTENTION_K], &w->p.k_rotation, t->b, kv, first, count, k);
        load_keys_transposed(&in[ATTENTION_V], NULL, t->b, kv, first, count, v);
        load_rows(&in[ATTENTION_K], &w->p.k_rotation, t->b, kv, first, count, k_rows);
        score_gradients(w, t, &r, first, count, (const float(*)[KEYS])k, (const float(*)[KEYS])v, p,
                        ds);
        for (int64_t i = 0; i < t->count; i++)
            for (int64_t j = 0; j < seen_keys(w, t, i, first, count); j++)
                add_scaled(width, ds[i][j], k_rows[j], dq[i]);
    }
    for (int64_t i = 0; i < t->count; i++)
        attention_store_rotated_back(&w->args->outputs[ATTENTION_Q], &w->p.dq_rotation, t->b, t->h,
                                     t->first + i, dq[i]);
}

static void differentiate_keys(const work *w, int64_t b, int64_t kv, int64_t first) {
    const tensor *in = w->args->inputs, *out = w->args->outputs;
    int64_t width = w->p.head_dim, count = smaller(w->keys, w->p.keys - first);
    query_rows r;
    float dk[KEYS][WIDTH] = {0}, dv[KEYS][WIDTH] = {0}, k[WIDTH][KEYS], v[WIDTH][KEYS];
    float p[QUERIES][KEYS], ds[QUERIES][KEYS];
    load_keys_transposed(&in[ATTENTION_K], &w->p.k_rotation, b, kv, first, count, k);
    load_keys_transposed(&in[ATTENTION_V], NULL, b, kv, first, count, v);
    int64_t begin = attention_first_query(&w->p, first) / w->queries;
    for (int64_t h = kv * w->p.group; h < (kv + 1) * w->p.group; h++)
        for (int64_t tile = begin; tile < w->query_tiles; tile++) {
            query_tile t = query_tile_at(w, (b * w->p.heads + h) * w->query_tiles + tile);
            load_query_rows(w, &t, &r);
            score_gradients(w, &t, &r, first, count, (const float(*)[KEYS])k,
                            (const float(*)[KEYS])v, p, ds);
            for (int64_t i = 0; i < t.count; i++)
                for (int64_t j = 0; j < seen_keys(w, &t, i, first, count); j++) {
                    add_scaled(width, p[i][j], r.dy[i], dv[j]);
                    add_scaled(width, ds[i][j], r.q[i], dk[j]);
                }
        }
    for (int64_t j = 0; j < count; j++) {
        attention_store_rotated_back(&out[ATTENTION_K], &w->p.dk_rotation, b, kv, first + j, dk[j]);
        attention_store_row(&out[ATTENTION_V], b, kv, first + j, dv[j]);
    }
}

static void query_units(void *context, int64_t begin, int64_t end) {
    const work *w = context;
    for (int64_t unit = begin; unit < end; unit++) {
        query_tile t = query_tile_at(w, unit);
        differentiate_queries(w, &t);
    }
}

static void key_units(void *context, int64_t begin, int64_t end) {
    const work *w = context;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t head = unit / w->key_tiles;
        differentiate_keys(w, head / w->p.kv_heads, head % w->p.kv_heads,
                           unit % w->key_tiles * w->keys);
    }
}

static dyno_status run_gradient(const kernel_args *args) {
    work w = prepare(args);
    threads_for_each(w.p.batch * w.p.heads * w.query_tiles, query_units, &w);
    threads_for_each(w.p.batch * w.p.kv_heads * w.key_tiles, key_units, &w);
    return DYNO_OK;
}

const kernel attention_gradient_tiled = {.name = "attention_gradient_tiled",
                                         .target = TARGET_CPU,
                                         .reject = attention_reject_layout,
                                         .run = run_gradient,
                                         .variants = variants,
                                         .writes_strided = true};
