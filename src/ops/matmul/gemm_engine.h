/* gemm_engine.h - what differs between our ways to multiply: how strips are packed and how two of
 * them are multiplied. The blocking around it is one (gemm.c).
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

/* Packs `count` lines, strip after strip. `depth` is not padded. */
typedef void gemm_pack(const gemm_lines *from, int64_t count, int64_t depth, void *to);

typedef struct gemm_engine {
    int rows, columns;
    int depth_step;
    int element_bytes;  /* of a packed element */
    int panel_depth;    /* K is walked in panels at most so deep: two strips should fit in L1 */
    int own_lines;      /* a task's tile at most: lines it packs itself, */
    int shared_lines;   /* and lines packed once for all tasks; their panel should fit in L2 */
    int packing_weight; /* packing an element costs as much as so many multiplications */
    /* Which strip stays in L1 while others pass: that of B', or the one the task packed. */
    bool keeps_columns;
    gemm_pack *pack_a, *pack_b;
    /* sum[rows][columns] = (start or 0) + a * b, over a padded depth. */
    void (*multiply)(int64_t depth, const void *a, const void *b, const float *start,
                     int64_t start_ld, float *sum, int64_t sum_ld);
    void (*finish)(const gemm_target *to, const float *sum, int64_t ld, int64_t rows,
                   int64_t columns);
    void (*begin)(void), (*end)(void); /* around a thread's work; may be NULL */
} gemm_engine;

extern const gemm_engine gemm_amx, gemm_avx512_bf16, gemm_avx512, gemm_portable;

/* gemm_pairs.c: bf16 packed for AMX and for dot products of pairs, 32 lines a strip. Each step of
 * 32 along K is two halves of 16 lines, each a tile of 1 KiB: A' as [line][32 of K], B' as
 * [pair of K][line][2]. */
enum { PAIRS_LINES = 32, PAIRS_HALF = 16, PAIRS_DEPTH = 32, PAIRS_TILE = PAIRS_HALF * PAIRS_DEPTH };
gemm_pack gemm_pack_pairs_a, gemm_pack_pairs_b;
void gemm_finish_avx512_bf16(const gemm_target *to, const float *sum, int64_t ld, int64_t rows,
                             int64_t columns);

/* gemm_floats.c: writes a block of sums as the target wants it, in plain C. */
void gemm_finish_portable(const gemm_target *to, const float *sum, int64_t ld, int64_t rows,
                          int64_t columns);

/* gemm_onednn.c: see matmul.h for the version. */
const char *gemm_onednn_version(const char **why);
const char *gemm_onednn_reject(const gemm_problem *p);
void gemm_onednn_run(const gemm_problem *p);

#endif
