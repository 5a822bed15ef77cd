/* cuda_geometry.h - how a fused kernel's elements are shared among the threads of a GPU.
 *
 * Flat: elements in one line, each thread `chunks` vectors of them, a block's threads side by side.
 *
 * Rows: `lanes` threads share a row and `groups` rows share a block. Of its row, lane l has the
 * vectors l, l + lanes, ...: `chunks` of them. Which elements a lane adds up, and in which order,
 * follows from the number of columns alone, so that a sum has the same bits in every kernel. */
#ifndef COMPILER_CODEGEN_CUDA_GEOMETRY_H
#define COMPILER_CODEGEN_CUDA_GEOMETRY_H

#include "compiler/codegen/fused_kernel.h"

typedef struct cuda_geometry {
    bool is_flat;
    int vector; /* elements that are treated together: 1, 2, 4 or 8 */
    int64_t chunks;
    int lanes, groups;   /* rows only */
    int64_t rows_a_lane; /* rows one after the other: sums of columns */
    /* The row does not fit in registers: each stage loads it and computes what it needs again. */
    bool is_streamed;
    bool loads_early; /* everything before the first stage, not only what that one reads */
    bool loads_ahead; /* the next row while this one is computed */
    int threads;
    int blocks_at_once; /* that a multiprocessor must have registers for; 0: as it comes */
    int64_t units;
} cuda_geometry;

cuda_geometry cuda_geometry_of(const fused_kernel *k);

/* A full value, needed in a later stage than its own. */
bool cuda_is_read_later(const fused_kernel *k, int member);
/* The first stage whose loop reads the operand; stage_count if none does. */
int cuda_first_stage(const fused_kernel *k, int operand);
/* Every element once, in the order of the space: the place of an element is its number. */
bool cuda_is_dense(const fused_kernel *k, int rank, const int64_t *dim, const int64_t *stride,
                   int64_t column_stride);
/* No row is unlike another. */
bool cuda_is_same_in_rows(int rank, const int64_t *dim, const int64_t *stride);
/* One element everywhere. */
bool cuda_is_uniform(int rank, const int64_t *dim, const int64_t *stride, int64_t column_stride);
/* 32-bit words that `elements` of the type take in registers. */
int cuda_words(int elements, dtype type);

#endif
