/* gemm_lanes.h - f32, bf16 and f16 operands packed as floats and multiplied with FMAs: the source
 * of gemm_avx2.c and gemm_avx512.c, which say LANES_AVX2 or LANES_AVX512 and the engine's name, ENGINE,
 * before they include it.
 *
 * A strip is [K][line] in floats: narrow types are widened once, while packing, and cost the
 * multiplication nothing. A strip of B' is two vectors wide. One of A' is as wide as suits the
 * problem, up to the rows of sums that fit into the registers beside two vectors of B' and one
 * number of A', and takes a whole vector for each k so that stores are aligned. A block computes the
 * rows it has and no others.
 *
 * Lanes past the last line of a strip hold anything: no sum of theirs is stored. */
#include "ops/lanes.h"
#include "ops/matmul/gemm_engine.h"

enum {
    ROWS = LANES_REGISTERS / 2 - 2,
    ROW_PITCH = LANES,
    COLUMNS = 2 * LANES,
    THIRDS = (ROWS + 2) / 3,
    NARROW = sizeof(uint16_t),
    /* A strip of B' of AVX2 stays in L1; with AVX-512 it streams from L2 as fast as it is used. */
    PANEL_DEPTH = LANES == 8 ? 384 : 512,
    PREFETCHES_RESULTS = COLUMNS * NARROW >= GEMM_CACHE_LINE, /* rows of a block are whole lines */
    FEW = 8
};

/* ---- packing ---- */

LANES_INLINE int bytes_of(dtype type) { return type == DTYPE_F32 ? (int)sizeof(float) : NARROW; }

LANES_INLINE lanes load(dtype type, const void *from) {
    return type == DTYPE_F32    ? lanes_load(from)
           : type == DTYPE_BF16 ? lanes_load_bf16(from)
                                : lanes_load_f16(from);
}

/* Reads `count` numbers and no further. */
LANES_INLINE lanes load_first(dtype type, const void *from, int64_t count) {
    if (count >= LANES)
        return load(type, from);
    if (type == DTYPE_F32)
        return lanes_load_first(from, count);
    uint16_t part[LANES] = {0};
    memcpy(part, from, (size_t)count * sizeof *part);
    return load(type, part);
}

LANES_INLINE const void *at(dtype type, const gemm_lines *from, int64_t line, int64_t k) {
    return (const char *)from->data + (line * from->along + k * from->deep) * bytes_of(type);
}

/* LANES lines of a strip from `line` on, or the `count` there are, K dense in memory: turned around
 * in the registers. Weights come from far away, and so many lines at once are more than the
 * hardware follows: a few steps ahead are asked for. */
LANES_INLINE void pack_across(dtype type, const gemm_lines *from, int64_t line, int64_t count,
                              int64_t depth, int64_t next, int64_t pitch, float *to) {
    enum { AHEAD = 128 };
    const char *row[LANES];
    for (int i = 0; i < LANES; i++)
        row[i] = at(type, from, line + (i < count ? i : count - 1), 0);
    for (int64_t k = 0; k < depth; k += LANES) {
        lanes v[LANES];
        int64_t ahead = k + AHEAD < depth ? k + AHEAD : k + AHEAD - depth + next * from->along;
        int64_t steps = depth - k < LANES ? depth - k : LANES;
        if (steps == LANES)
            for (int i = 0; i < LANES; i++) {
                v[i] = load(type, row[i] + k * bytes_of(type));
                _mm_prefetch(row[i] + ahead * bytes_of(type), _MM_HINT_T1);
            }
        else
            for (int i = 0; i < LANES; i++)
                v[i] = load_first(type, row[i] + k * bytes_of(type), steps);
        lanes_transpose(v);
        for (int i = 0; i < LANES && i < steps; i++)
            lanes_store(to + (k + i) * pitch, v[i]);
    }
}

/* The same where the lines are dense. */
LANES_INLINE void pack_along(dtype type, const gemm_lines *from, int64_t line, int64_t count,
                             int64_t depth, int64_t pitch, float *to) {
    const char *row = at(type, from, line, 0);
    int64_t step = from->deep * bytes_of(type);
    for (int64_t k = 0; k < depth; k++, row += step) {
        lanes_store(to + k * pitch, load_first(type, row, count));
        _mm_prefetch(row + FEW * step, _MM_HINT_T1);
    }
}

LANES_INLINE void pack_any(dtype type, const gemm_lines *from, int64_t line, int64_t count,
                           int64_t depth, int64_t pitch, float *to) {
    for (int64_t k = 0; k < depth; k++)
        for (int64_t i = 0; i < count && i < LANES; i++)
            to[k * pitch + i] = load_first(type, at(type, from, line + i, k), 1)[0];
}

/* All strips of `count` lines. Where lines are dense, a few k of all strips come before the next
 * ones: memory is read in the order in which it lies. */
LANES_INLINE void pack_typed(dtype type, const gemm_lines *from, int64_t count, int64_t depth,
                             int64_t width, int64_t pitch, float *to) {
    bool is_along = from->along == 1 && from->deep != 1;
    int64_t step = is_along ? FEW : depth;
    for (int64_t k = 0; k < depth; k += step)
        for (int64_t strip = 0; strip * width < count; strip++)
            for (int64_t group = 0; group < width && strip * width + group < count;
                 group += LANES) {
                int64_t line = strip * width + group, now = depth - k < step ? depth - k : step;
                float *out = to + (strip * depth + k) * pitch + group;
                gemm_lines here = *from;
                here.data = at(type, from, 0, k);
                if (is_along)
                    pack_along(type, &here, line, count - line, now, pitch, out);
                else if (from->deep == 1)
                    pack_across(type, &here, line, count - line, now, width < LANES ? width : LANES,
                                pitch, out);
                else
                    pack_any(type, &here, line, count - line, now, pitch, out);
            }
}

LANES_TARGET static void pack(const gemm_lines *from, int64_t count, int64_t depth, int64_t width,
                              int64_t pitch, void *to) {
    if (from->type == DTYPE_F32)
        pack_typed(DTYPE_F32, from, count, depth, width, pitch, to);
    else if (from->type == DTYPE_BF16)
        pack_typed(DTYPE_BF16, from, count, depth, width, pitch, to);
    else
        pack_typed(DTYPE_F16, from, count, depth, width, pitch, to);
}

/* ---- results ---- */

LANES_INLINE void store(dtype type, void *to, lanes x) {
    if (type == DTYPE_F32)
        lanes_store(to, x);
    else if (type == DTYPE_BF16)
        lanes_store_bf16(to, x);
    else
        lanes_store_f16(to, x);
}

LANES_INLINE void finish_vector(dtype type, const gemm_target *to, lanes sum, int64_t count,
                                char *out) {
    lanes x = lanes_mul(lanes_set(to->alpha), sum);
    if (to->accumulates)
        x = lanes_add(load_first(type, out, count), x);
    if (count >= LANES) {
        store(type, out, x);
    } else {
        float part[LANES];
        store(type, part, x);
        memcpy(out, part, (size_t)(count * bytes_of(type)));
    }
}

LANES_INLINE void finish_typed(dtype type, const gemm_target *to, const float *sum, int64_t ld,
                               int64_t rows, int64_t columns) {
    lanes alpha = lanes_set(to->alpha);
    for (int64_t i = 0; i < rows; i++) {
        char *out = (char *)to->data + i * to->ld * bytes_of(type);
        int64_t j = 0;
        for (; j + COLUMNS <= columns && type == DTYPE_BF16 && !to->accumulates; j += COLUMNS)
            lanes_store_bf16_pair((uint16_t *)(void *)out + j,
                                  lanes_mul(alpha, lanes_load(sum + i * ld + j)),
                                  lanes_mul(alpha, lanes_load(sum + i * ld + j + LANES)));
        for (; j < columns; j += LANES)
            finish_vector(type, to, lanes_load(sum + i * ld + j), columns - j,
                          out + j * bytes_of(type));
    }
}

LANES_TARGET static void finish(const gemm_target *to, const float *sum, int64_t ld, int64_t rows,
                                int64_t columns) {
    if (to->type == DTYPE_F32)
        finish_typed(DTYPE_F32, to, sum, ld, rows, columns);
    else if (to->type == DTYPE_BF16)
        finish_typed(DTYPE_BF16, to, sum, ld, rows, columns);
    else
        finish_typed(DTYPE_F16, to, sum, ld, rows, columns);
}

/* ---- multiplying ---- */

/* One strip of A' of a block, and where it is along K. */
typedef struct cursor {
    const float *a;
    const char *b;
    float *packed;
    const float *start;
    float *sum;
    const char *result; /* of sums that are finished; else NULL */
    /* Rows that the sums go to and that are not prefetched yet. */
    const char *row;
    int64_t row_step; /* in bytes */
    int rows_left;
} cursor;

/* Where the operands of a block are. ARE_PACKED: both are packed. PACK_B: B' is read in place, and its strip
 * is packed by the way, for the blocks to come. READ_A: A' is read in place. */
typedef enum operands { ARE_PACKED, PACK_B, READ_A } operands;

LANES_INLINE int bytes_of_sums(const gemm_block *x, const cursor *at) {
    return COLUMNS * (at->result ? bytes_of(x->finish->type) : (int)sizeof(float));
}

/* Prefetches the rows that the sums go to into L2, some at a time. All rows at once would be more misses than L1 can
 * have under way, and the strips' own lines would wait behind them. */
LANES_INLINE void prefetch_next_rows(int row_bytes, cursor *at) {
    enum { ROWS_EACH = ROWS > 8 ? 2 : 1 };
    for (int i = 0; i < ROWS_EACH && at->rows_left > 0; i++, at->rows_left--) {
        for (int offset = 0; offset < row_bytes; offset += GEMM_CACHE_LINE)
            _mm_prefetch(at->row + offset, _MM_HINT_T1);
        at->row += at->row_step;
    }
}

/* `depth` more k. */
LANES_INLINE cursor multiply_depth(int rows, int vectors, operands way, dtype b_type,
                                   const gemm_block *x, int64_t depth, cursor at,
                                   lanes sum[ROWS][2]) {
    enum { AHEAD = 24 };
    bool packs = way == PACK_B;
    int64_t b_step = (packs ? x->b_deep : COLUMNS) * bytes_of(b_type);
    int64_t a_step = way == READ_A ? 1 : ROW_PITCH;
    int64_t along = way == READ_A ? x->a_along : 1;
    int row_bytes = bytes_of_sums(x, &at);
    for (; depth > 0; depth -= GEMM_PREFETCH_DEPTH) {
        int64_t steps = depth < GEMM_PREFETCH_DEPTH ? depth : GEMM_PREFETCH_DEPTH;
        if (x->next)
            gemm_prefetch_next(x->next);
        prefetch_next_rows(row_bytes, &at);
        /* Every third row of A', so that few registers reach all of them. */
        const float *third[THIRDS];
        LANES_FOR(i, THIRDS)
            third[i] = at.a + 3 * i * along;
        for (const float *end = at.a + steps * a_step; at.a < end; at.a += a_step) {
            lanes right[2];
            LANES_FOR(j, vectors) {
                int offset = j * LANES * bytes_of(b_type);
                right[j] = load(b_type, at.b + offset);
                if (packs) {
                    lanes_store(at.packed + j * LANES, right[j]);
                    _mm_prefetch(at.b + AHEAD * b_step + offset, _MM_HINT_T0);
                }
            }
            LANES_FOR(i, rows) {
                lanes left = lanes_set(way == READ_A ? third[i / 3][i % 3 * along] : at.a[i]);
                LANES_FOR(j, vectors)
                    sum[i][j] = lanes_fma(left, right[j], sum[i][j]);
            }
            at.b += b_step;
            at.packed += packs ? COLUMNS : 0;
            if (way == READ_A)
                LANES_FOR(i, THIRDS) {
                    /* The pointers look independent, so that the compiler does not replace them by one
                     * pointer and a stride for each row, for which there are too few registers. */
                    __asm__("" : "+r"(third[i]));
                    third[i]++;
                }
        }
    }
    return at;
}

/* Stores that miss the L1 hold up the loads behind them. Rows that are in L2 come into L1 while the last k are
 * multiplied: earlier, the strips would have displaced them. */
LANES_INLINE void prefetch_sums(int rows, int vectors, const gemm_block *x, const cursor *at) {
    if (PREFETCHES_RESULTS && at->result) {
        int64_t bytes = bytes_of(x->finish->type), step = x->finish->ld * bytes;
        for (int i = 0; i < rows; i++)
            for (int64_t offset = 0; offset < COLUMNS * bytes; offset += GEMM_CACHE_LINE)
                __builtin_prefetch(at->result + i * step + offset, 1, 3);
        return;
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            __builtin_prefetch(at->sum + i * x->sum_ld + j * LANES, 1, 3);
}

LANES_INLINE void multiply_rows(int rows, int vectors, operands way, dtype b_type,
                                const gemm_block *x, cursor at) {
    enum { LAST = 64 };
    int64_t last = x->depth < LAST ? x->depth : LAST;
    lanes sum[ROWS][2];
    LANES_FOR(i, rows)
        LANES_FOR(j, vectors)
            sum[i][j] = lanes_zero();
    if (!x->streams) {
        at.row = at.result ? at.result : (const char *)at.sum;
        at.row_step = at.result ? x->finish->ld * bytes_of(x->finish->type)
                                : x->sum_ld * (int64_t)sizeof(float);
        at.rows_left = rows;
    }
    at = multiply_depth(rows, vectors, way, b_type, x, x->depth - last, at, sum);
    if (!x->streams)
        prefetch_sums(rows, vectors, x, &at);
    multiply_depth(rows, vectors, way, b_type, x, last, at, sum);
    if (at.start)
        LANES_FOR(i, rows)
            LANES_FOR(j, vectors)
                sum[i][j] =
                    lanes_add(lanes_load(at.start + i * x->start_ld + j * LANES), sum[i][j]);
    if (x->streams)
        LANES_FOR(i, rows)
            LANES_FOR(j, vectors)
                lanes_stream(at.sum + i * x->sum_ld + j * LANES, sum[i][j]);
    else
        LANES_FOR(i, rows)
            LANES_FOR(j, vectors)
                lanes_store(at.sum + i * x->sum_ld + j * LANES, sum[i][j]);
}

/* Each number of rows is a function of its own, whose sums are registers. */
typedef void strip_function(const gemm_block *x, const cursor *at);

#define STRIP_FUNCTION(NAME, N, VECTORS, WAY, B_TYPE)                                              \
    LANES_TARGET static void NAME##_##N(const gemm_block *x, const cursor *at) {                   \
        multiply_rows(N, VECTORS, WAY, B_TYPE, x, *at);                                            \
    }
#define STRIP_FUNCTIONS(N)                                                                         \
    STRIP_FUNCTION(packed, N, 2, ARE_PACKED, DTYPE_F32)                                            \
    STRIP_FUNCTION(packed_narrow, N, 1, ARE_PACKED, DTYPE_F32)                                     \
    STRIP_FUNCTION(packing_f32, N, 2, PACK_B, DTYPE_F32)                                           \
    STRIP_FUNCTION(packing_bf16, N, 2, PACK_B, DTYPE_BF16)                                         \
    STRIP_FUNCTION(packing_f16, N, 2, PACK_B, DTYPE_F16)                                           \
    STRIP_FUNCTION(reading, N, 2, READ_A, DTYPE_F32)                                               \
    STRIP_FUNCTION(reading_narrow, N, 1, READ_A, DTYPE_F32)

#define STRIP_ROW(N)                                                                               \
    {packed_##N,      packed_narrow_##N, packing_f32_##N,   packing_bf16_##N,                      \
     packing_f16_##N, reading_##N,       reading_narrow_##N},

#define EACH_COUNT_TO_6(DO) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6)
#if defined(LANES_AVX512)
#define EACH_COUNT(DO) EACH_COUNT_TO_6(DO) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14)
#else
#define EACH_COUNT(DO) EACH_COUNT_TO_6(DO)
#endif

EACH_COUNT(STRIP_FUNCTIONS)
enum {
    PACKED,
    PACKED_NARROW,
    PACKING_F32,
    PACKING_BF16,
    PACKING_F16,
    READING,
    READING_NARROW,
    STRIP_WAYS
};
static strip_function *const STRIP_OF[ROWS][STRIP_WAYS] = {EACH_COUNT(STRIP_ROW)};

/* One strip of B' times all strips of A'. Sums that are finished are in a tile until then. */
LANES_INLINE void multiply_column(const gemm_block *x, int column, bool finishes) {
    bool is_wide = x->columns - column > LANES;
    int later = x->reads_a ? (is_wide ? READING : READING_NARROW)
                : is_wide  ? PACKED
                           : PACKED_NARROW;
    int packing = x->b_type == DTYPE_F32    ? PACKING_F32
                  : x->b_type == DTYPE_BF16 ? PACKING_BF16
                                            : PACKING_F16;
    int way = x->packed ? packing : later;
    int64_t a_step = x->reads_a ? x->width * x->a_along : x->depth * ROW_PITCH;
    cursor at = {.a = x->a,
                 .b = (const char *)x->b + column * x->depth * (int64_t)sizeof(float),
                 .packed = x->packed,
                 .start = x->start ? x->start + column : NULL,
                 .sum = finishes ? x->sum : x->sum + column};
    gemm_target to;
    if (finishes) {
        to = *x->finish;
        to.data = (char *)to.data + column * bytes_of(to.type);
        at.result = to.data;
    }
    for (int row = 0;;) {
        int rows = x->rows - row < x->width ? x->rows - row : x->width;
        STRIP_OF[rows - 1][way](x, &at);
        if (finishes) {
            finish(&to, x->sum, COLUMNS, rows, COLUMNS);
            to.data = (char *)to.data + x->width * to.ld * bytes_of(to.type);
            at.result = to.data;
        }
        if ((row += x->width) >= x->rows)
            break;
        way = later;
        at.b = x->packed ? (const char *)x->packed : at.b;
        at.a += a_step;
        at.start = at.start ? at.start + x->width * x->start_ld : NULL;
        at.sum += finishes ? 0 : x->width * x->sum_ld;
    }
}

LANES_TARGET static void multiply_and_finish(const gemm_block *x) {
    _Alignas(64) float tile[ROWS * COLUMNS];
    gemm_block sums = *x;
    sums.sum = tile;
    sums.sum_ld = COLUMNS;
    sums.streams = false;
    for (int column = 0; column < x->columns; column += COLUMNS)
        multiply_column(&sums, column, true);
}

LANES_TARGET static void multiply(const gemm_block *x) {
    if (x->finish) {
        multiply_and_finish(x);
        return;
    }
    for (int column = 0; column < x->columns; column += COLUMNS)
        multiply_column(x, column, false);
}

/* Non-temporal stores become visible before any later store. */
LANES_TARGET static void end(void) { _mm_sfence(); }

const gemm_engine ENGINE = {.rows = ROWS,
                            .row_pitch = ROW_PITCH,
                            .columns = COLUMNS,
                            .packs_by_the_way = true,
                            .finishes_sums = true,
                            .reads_in_place = true,
                            .streams = true,
                            .depth_step = 1,
                            .element_bytes = 4,
                            .panel_depth = PANEL_DEPTH,
                            .a_weight = 12,
                            .b_weight = 3,
                            .pack_a = pack,
                            .pack_b = pack,
                            .multiply = multiply,
                            .finish = finish,
                            .end = end};
