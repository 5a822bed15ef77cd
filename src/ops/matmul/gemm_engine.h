/* gemm_engine.h - what differs between our ways to multiply: how strips are packed and how two of
 * them are multiplied. Around them is one of two blockings: gemm_regions.c where FMAs multiply, and
 * gemm_shared.c where packing is what takes time.
 *
 * A strip is `rows` lines of A' (or `columns` lines of B', a line being a column there) over a
 * panel of K, packed the way multiply() wants it: lines * depth elements, short ones padded with
 * zeros, K padded to a multiple of depth_step. */
#ifndef OPS_GEMM_ENGINE_H
#define OPS_GEMM_ENGINE_H

#include "ops/matmul/gemm.h"

/* Lines of an operand: `along` is the stride from line to line, `deep` the one along K. */
typedef struct gemm_lines {
    const void *data;
    dtype type;
    int64_t along, deep;
} gemm_lines;

/* Where a block of sums goes. */
typedef struct gemm_target {
    void *data;
    dtype type;
    int64_t ld;
    float alpha;
    bool accumulates;
} gemm_target;

/* Packs `count` lines in strips of `width`, one after the other; each k of a strip has room for
 * `pitch` lines. `depth` is not padded. */
typedef void gemm_pack(const gemm_lines *from, int64_t count, int64_t depth, int64_t width,
                       int64_t pitch, void *to);

/* The prefetch into L2 of lines that are packed next. An engine prefetches some of their cache lines at least every
 * GEMM_PREFETCH_DEPTH steps along K, while it multiplies the blocks before: many prefetches at once would wait for each
 * other. */
enum { GEMM_PREFETCH_DEPTH = 32, GEMM_CACHE_LINE = 64 };
typedef struct gemm_prefetch {
    const char *row;             /* the current row */
    int64_t rows_left, row_step; /* bytes from one row to the next */
    int64_t at, row_bytes;       /* the next cache line of the row */
    int64_t lines_each;          /* cache lines at a time */
} gemm_prefetch;

/* Of `count` lines over a depth, while so many blocks are multiplied over `block_depth` each. Lines without a dense
 * dimension are not prefetched. */
static inline gemm_prefetch gemm_prefetch_begin(const gemm_lines *lines, int64_t count,
                                                int64_t depth, int64_t blocks,
                                                int64_t block_depth) {
    bool is_dense_along_k = lines->deep == 1;
    if (count <= 0 || (!is_dense_along_k && lines->along != 1))
        return (gemm_prefetch){0};
    int64_t bytes = dtype_bytes(lines->type);
    gemm_prefetch p = {.row = lines->data,
                       .rows_left = is_dense_along_k ? count : depth,
                       .row_step = (is_dense_along_k ? lines->along : lines->deep) * bytes,
                       .row_bytes = (is_dense_along_k ? depth : count) * bytes};
    int64_t turns = blocks * ((block_depth + GEMM_PREFETCH_DEPTH - 1) / GEMM_PREFETCH_DEPTH);
    int64_t row_lines = (p.row_bytes + GEMM_CACHE_LINE - 1) / GEMM_CACHE_LINE;
    p.lines_each = (p.rows_left * row_lines + turns - 1) / turns;
    return p;
}

static inline __attribute__((always_inline)) void gemm_prefetch_next(gemm_prefetch *p) {
    for (int64_t i = 0; i < p->lines_each && p->rows_left > 0; i++) {
        __builtin_prefetch(p->row + p->at, 0, 2);
        p->at += GEMM_CACHE_LINE;
        if (p->at >= p->row_bytes) {
            p->at = 0;
            p->row += p->row_step;
            p->rows_left--;
        }
    }
}

/* Strips to multiply: sum[rows][columns] = (start or 0) + a * b, over a padded depth. Packed strips lie one after
 * the other. Engines with shares_packing take one strip of each operand; the others take all strips of A' and one
 * of B', or one strip of A' in place and several of B'. */
typedef struct gemm_block {
    int64_t depth;
    const void *a, *b;
    int rows, columns;
    int width;          /* lines of a strip of A'; not read by engines with shares_packing */
    const float *start; /* may be NULL, and may be sum */
    int64_t start_ld;
    float *sum;
    int64_t sum_ld;
    /* Where the engine finishes sums: they go here and not to sum, which is not used; else NULL. */
    const gemm_target *finish;
    /* Where the engine packs by the way: b is the operand itself, b_type its type, b_deep its stride along
     * K, and the strip is left here; else NULL. */
    float *packed;
    dtype b_type;
    int64_t b_deep;
    /* Where the engine reads A' in place: a is the operand itself, dense along K, and a_along its stride
     * from line to line. */
    bool reads_a;
    int64_t a_along;
    /* The strip of A' is used once while that of B' stays in L1, and should not displace it. */
    bool streams_a;
    gemm_prefetch *next; /* to be prefetched meanwhile; may be NULL */
    gemm_prefetch
        *result;  /* the lines that the sums go to, for engines with result_passes; may be NULL */
    bool streams; /* non-temporal stores; rows of the sum begin at a cache line */
} gemm_block;

/* One strip of A' times one of B', both packed: what a gemm_block of these says, in registers. Blocks of
 * attention are short, and compilers clear a structure with `rep stos`, whose stores are not forwarded to loads. */
typedef void gemm_multiply_pairs(int64_t depth, const void *a, const void *b, const float *start,
                                 int64_t start_ld, float *sum, int64_t sum_ld);

/* Such a block for the code that blocks share; inlined, no compiler puts this structure into memory. */
static inline __attribute__((always_inline)) gemm_block
gemm_block_of_pairs(int64_t depth, const void *a, const void *b, const float *start,
                    int64_t start_ld, float *sum, int64_t sum_ld) {
    return (gemm_block){.depth = depth,
                        .a = a,
                        .b = b,
                        .start = start,
                        .start_ld = start_ld,
                        .sum = sum,
                        .sum_ld = sum_ld};
}

typedef struct gemm_engine {
    int rows, columns; /* of a block, at most */
    int row_pitch;     /* lines of A' for which a strip has room */
    int depth_step;
    int element_bytes; /* of a packed element */
    int panel_depth;   /* K is walked in panels at most so deep */
    /* Packing a number of A', or of B', costs as much as so many multiplications. */
    int a_weight, b_weight;
    gemm_pack *pack_a, *pack_b;
    void (*multiply)(const gemm_block *block);
    gemm_multiply_pairs *multiply_pairs; /* of engines with shares_packing */
    void (*finish)(const gemm_target *to, const float *sum, int64_t ld, int64_t rows,
                   int64_t columns);
    bool finishes_sums; /* takes blocks with `finish` */
    /* gemm_regions.c: a strip of B' whose columns are dense is packed by the first multiplication with it. */
    bool packs_by_the_way;
    /* It can read lines of A' in place: f32 ones in gemm_regions.c, whole strips of bf16 in gemm_shared.c. */
    bool reads_in_place;
    bool streams; /* gemm_regions.c: it can use non-temporal stores */

    /* gemm_shared.c */
    bool shares_packing;
    int own_lines;    /* a task's tile at most: lines it packs itself, */
    int shared_lines; /* and lines packed once for all tasks; their panel should fit in L2 */
    /* Instead of panel_depth and own_lines while the operand that tasks share stays in the caches; 0: as always. */
    int near_panel_depth, near_own_lines;
    /* Which strip stays in L1 while others pass: that of B', or the one the task packed. */
    bool keeps_columns;
    /* The passes over K of a block, in which the engine prefetches the lines of C that its sums go to; 0: it does not,
     * and they are prefetched before. */
    int result_passes;
    void (*begin)(void); /* before a thread's work; may be NULL */
    /* After it, and in gemm_regions.c after non-temporal stores; may be NULL. */
    void (*end)(void);
} gemm_engine;

/* Engines with shares_packing multiply whole blocks; the others as many rows as a block has, and
 * its columns rounded up to what suits them. */
extern const gemm_engine gemm_amx, gemm_avx512_bf16, gemm_avx512, gemm_avx2, gemm_portable;

/* gemm_pairs.c: bf16 packed for AMX and for dot products of pairs, 32 lines a strip. Each step of
 * 32 along K is two halves of 16 lines, each a tile of 1 KiB: A' as [line][32 of K], B' as
 * [pair of K][line][2]. */
enum { PAIRS_LINES = 32, PAIRS_HALF = 16, PAIRS_DEPTH = 32, PAIRS_TILE = PAIRS_HALF * PAIRS_DEPTH };
gemm_pack gemm_pack_pairs_a, gemm_pack_pairs_b;
void gemm_finish_avx512_bf16(const gemm_target *to, const float *sum, int64_t ld, int64_t rows,
                             int64_t columns);

size_t gemm_shared_workspace_bytes(const gemm_engine *e, const gemm_problem *p);
void gemm_run_shared(const gemm_engine *e, const gemm_problem *p, void *workspace);
void gemm_run_regions(const gemm_engine *e, const gemm_problem *p);

/* gemm_onednn.c: see matmul.h for the version. */
const char *gemm_onednn_version(const char **why);
const char *gemm_onednn_reject(const gemm_problem *p);
void gemm_onednn_run(const gemm_problem *p);
/* So many tiles it cuts a product into, where the product is large enough: more cores than that it
 * leaves idle. */
enum { GEMM_ONEDNN_TILES = 16 };

#endif
