/* gemm_lanes.h - products by vectors of floats: the source of gemm_avx2.c and gemm_avx512.c, which multiply
 * f32, bf16 and f16 with FMAs, and of gemm_avx512_dots.c, which multiplies pairs of bf16. They say LANES_AVX2 or
 * LANES_AVX512, LANES_DOTS for pairs, and the engine's name, ENGINE, before they include this.
 *
 * A strip is [step along K][line] in lanes of four bytes. With FMAs a step is one k, and a lane is a float: narrow
 * types are widened once, while packing, and cost the multiplication nothing. With dot products a step is two k, and
 * a lane is a pair of bf16. A strip of B' is two vectors wide. One of A' is as wide as suits the problem, up to the
 * rows of sums that fit into the registers beside two vectors of B' and one lane of A', and takes a whole
 * vector for each step so that stores are aligned. A block computes the rows it has and no others.
 *
 * Lanes past the last line of a strip hold anything: no sum of theirs is stored. */
#include "ops/lanes.h"
#include "ops/matmul/gemm_engine.h"
#if defined(LANES_DOTS)
#include "ops/matmul/gemm_dots_pack.h"
#else
#include "ops/matmul/gemm_lanes_pack.h"
#endif

enum {
    ROWS = LANES_REGISTERS / 2 - 2,
    ROW_PITCH = LANES,
    COLUMNS = 2 * LANES,
    THIRDS = (ROWS + 2) / 3
};

/* ---- multiplying ---- */

/* Four bytes of an operand, a float or a pair of bf16, where they lie. */
typedef float step __attribute__((may_alias, aligned(2)));

/* One strip of A' of a block, and where it is along K. */
typedef struct cursor {
    const step *a, *b;
    float *packed;
    const float *start;
    float *sum;
} cursor;

/* Where the operands of a block are. ARE_PACKED: both are packed. PACK_B: B' is read in place, and its strip
 * is packed by the way, for the blocks to come. READ_A: A' is read in place. */
typedef enum operands { ARE_PACKED, PACK_B, READ_A } operands;

#if defined(LANES_DOTS)

#define STEP_TYPE DTYPE_BF16
enum { PANEL_DEPTH = 1024, DEPTH_STEP = 2 };

LANES_INLINE lanes multiply_add(lanes a, lanes b, lanes sum) { return lanes_dot(a, b, sum); }

/* A step of B' in place, of dense columns: two rows, side by side. */
LANES_INLINE lanes load_in_place(const gemm_block *x, const step *b, int vector) {
    const uint16_t *row = (const uint16_t *)(const void *)b + vector * LANES;
    return _mm512_castsi512_ps(_mm512_or_si512(
        load_halves(row, LANES), _mm512_slli_epi32(load_halves(row + x->b_deep, LANES), 16)));
}

LANES_INLINE void prefetch_in_place(const gemm_block *x, const step *b) {
    const uint16_t *row = (const uint16_t *)(const void *)b;
    _mm_prefetch((const char *)row, _MM_HINT_T0);
    _mm_prefetch((const char *)(row + x->b_deep), _MM_HINT_T0);
}

#else

#define STEP_TYPE DTYPE_F32
enum { PANEL_DEPTH = 512, DEPTH_STEP = 1 };

LANES_INLINE lanes multiply_add(lanes a, lanes b, lanes sum) { return lanes_fma(a, b, sum); }

LANES_INLINE lanes load_in_place(const gemm_block *x, const step *b, int vector) {
    (void)x;
    return lanes_load(b + vector * LANES);
}

LANES_INLINE void prefetch_in_place(const gemm_block *x, const step *b) {
    (void)x;
    _mm_prefetch((const char *)b, _MM_HINT_T0);
    _mm_prefetch((const char *)(b + LANES), _MM_HINT_T0);
}

#endif

/* `depth` more steps along K. In place a step of B' is x->b_deep times four bytes further, in either type. */
LANES_INLINE cursor multiply_depth(int rows, int vectors, operands way, const gemm_block *x,
                                   int64_t depth, cursor at, lanes sum[ROWS][2]) {
    enum { AHEAD = 24 };
    bool packs = way == PACK_B;
    int64_t b_step = packs ? x->b_deep : COLUMNS;
    int64_t a_step = way == READ_A ? 1 : ROW_PITCH;
    int64_t along = way == READ_A ? x->a_along : 1;
    for (; depth > 0; depth -= GEMM_PREFETCH_DEPTH) {
        int64_t steps = depth < GEMM_PREFETCH_DEPTH ? depth : GEMM_PREFETCH_DEPTH;
        if (x->next)
            gemm_prefetch_next(x->next);
        /* Every third row of A', so that few registers reach all of them. */
        const step *third[THIRDS];
        LANES_FOR(i, THIRDS)
            third[i] = at.a + 3 * i * along;
        for (const step *end = at.a + steps * a_step; at.a < end; at.a += a_step) {
            lanes right[2];
            LANES_FOR(j, vectors)
                right[j] = packs ? load_in_place(x, at.b, j) : lanes_load(at.b + j * LANES);
            if (packs) {
                LANES_FOR(j, vectors)
                    lanes_store(at.packed + j * LANES, right[j]);
                prefetch_in_place(x, at.b + AHEAD * b_step);
            }
            LANES_FOR(i, rows) {
                lanes left = lanes_set(way == READ_A ? third[i / 3][i % 3 * along] : at.a[i]);
                LANES_FOR(j, vectors)
                    sum[i][j] = multiply_add(left, right[j], sum[i][j]);
            }
            at.b += b_step;
            at.packed += packs ? COLUMNS : 0;
            if (way == READ_A)
                LANES_FOR(i, THIRDS) {
                    /* Hides that they advance together: the compiler would keep a stride for each row. */
                    __asm__("" : "+r"(third[i]));
                    third[i]++;
                }
        }
    }
    return at;
}

/* Stores that miss the L1 hold up the loads behind them. The lines of the sums are prefetched while
 * the last k are multiplied: had they been prefetched earlier, the strips would have displaced
 * them. */
LANES_INLINE void multiply_rows(int rows, int vectors, operands way, const gemm_block *x,
                                cursor at) {
    enum { LAST = 64 };
    int64_t last = x->depth < LAST ? x->depth : LAST;
    lanes sum[ROWS][2];
    LANES_FOR(i, rows)
        LANES_FOR(j, vectors)
            sum[i][j] = lanes_zero();
    at = multiply_depth(rows, vectors, way, x, x->depth - last, at, sum);
    for (int i = 0; i < rows && !x->streams; i++)
        for (int j = 0; j < vectors; j++)
            __builtin_prefetch(at.sum + i * x->sum_ld + j * LANES, 1, 3);
    multiply_depth(rows, vectors, way, x, last, at, sum);
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

#define STRIP_FUNCTIONS(N)                                                                         \
    LANES_TARGET static void packed_##N(const gemm_block *x, const cursor *at) {                   \
        multiply_rows(N, 2, ARE_PACKED, x, *at);                                                   \
    }                                                                                              \
    LANES_TARGET static void packed_narrow_##N(const gemm_block *x, const cursor *at) {            \
        multiply_rows(N, 1, ARE_PACKED, x, *at);                                                   \
    }                                                                                              \
    LANES_TARGET static void packing_##N(const gemm_block *x, const cursor *at) {                  \
        multiply_rows(N, 2, PACK_B, x, *at);                                                       \
    }                                                                                              \
    LANES_TARGET static void reading_##N(const gemm_block *x, const cursor *at) {                  \
        multiply_rows(N, 2, READ_A, x, *at);                                                       \
    }                                                                                              \
    LANES_TARGET static void reading_narrow_##N(const gemm_block *x, const cursor *at) {           \
        multiply_rows(N, 1, READ_A, x, *at);                                                       \
    }

#define STRIP_ROW(N) {packed_##N, packed_narrow_##N, packing_##N, reading_##N, reading_narrow_##N},

#define EACH_COUNT_TO_6(DO) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6)
#if defined(LANES_AVX512)
#define EACH_COUNT(DO) EACH_COUNT_TO_6(DO) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14)
#else
#define EACH_COUNT(DO) EACH_COUNT_TO_6(DO)
#endif

EACH_COUNT(STRIP_FUNCTIONS)
enum { PACKED, PACKED_NARROW, PACKING, READING, READING_NARROW, STRIP_WAYS };
static strip_function *const STRIP_OF[ROWS][STRIP_WAYS] = {EACH_COUNT(STRIP_ROW)};

/* One strip of B' times all strips of A'. */
LANES_INLINE void multiply_column(const gemm_block *x, int column) {
    bool is_wide = x->columns - column > LANES;
    int later = x->reads_a ? (is_wide ? READING : READING_NARROW)
                : is_wide  ? PACKED
                           : PACKED_NARROW;
    int way = x->packed ? PACKING : later;
    int64_t a_step = x->reads_a ? x->width * x->a_along : x->depth * ROW_PITCH;
    cursor at = {.a = x->a,
                 .b = (const step *)x->b + column * x->depth,
                 .packed = x->packed,
                 .start = x->start ? x->start + column : NULL,
                 .sum = x->sum + column};
    for (int rows = x->rows;;) {
        STRIP_OF[(rows < x->width ? rows : x->width) - 1][way](x, &at);
        if ((rows -= x->width) <= 0)
            break;
        way = later;
        at.b = x->packed ? x->packed : at.b;
        at.a += a_step;
        at.start = at.start ? at.start + x->width * x->start_ld : NULL;
        at.sum += x->width * x->sum_ld;
    }
}

LANES_TARGET static void multiply(const gemm_block *x) {
    for (int column = 0; column < x->columns; column += COLUMNS)
        multiply_column(x, column);
}

/* Non-temporal stores become visible before any later store. */
LANES_TARGET static void end(void) { _mm_sfence(); }

/* ---- results ---- */

#if defined(LANES_DOTS)
#define FINISH gemm_finish_avx512_bf16
#else
#define FINISH finish

LANES_INLINE void store(dtype type, void *to, lanes x) {
    if (type == DTYPE_F32)
        lanes_store(to, x);
    else if (type == DTYPE_BF16)
        lanes_store_bf16(to, x);
    else
        lanes_store_f16(to, x);
}

LANES_INLINE void finish_typed(dtype type, const gemm_target *to, const float *sum, int64_t ld,
                               int64_t rows, int64_t columns) {
    lanes alpha = lanes_set(to->alpha);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += LANES) {
            int64_t count = columns - j;
            char *out = (char *)to->data + (i * to->ld + j) * bytes_of(type);
            lanes x = lanes_mul(alpha, lanes_load(sum + i * ld + j));
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

#endif

const gemm_engine ENGINE = {.rows = ROWS,
                            .row_pitch = ROW_PITCH,
                            .columns = COLUMNS,
                            .packs_by_the_way = true,
                            .reads_in_place = true,
                            .streams = true,
                            .depth_step = DEPTH_STEP,
                            .step_type = STEP_TYPE,
                            .element_bytes = 4,
                            .panel_depth = PANEL_DEPTH,
                            .a_weight = 12,
                            .b_weight = 3,
                            .pack_a = pack,
                            .pack_b = pack,
                            .multiply = multiply,
                            .finish = FINISH,
                            .end = end};
