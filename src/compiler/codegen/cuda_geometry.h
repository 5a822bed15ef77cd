/* cuda_geometry.h - how the elements of a fused kernel are distributed over the threads of a GPU.
 *
 * Flat: a one-dimensional space, `chunks` vectors for each thread, the threads of a block adjacent.
 *
 * Rows: `lanes` threads share a row and `groups` rows share a block. Of its row, lane l has the
 * vectors l, l + lanes, ...: `chunks` of them. Which elements a lane adds up, and in which order,
 * follows from the number of columns alone, so that a sum has the same bits in every kernel. */
#ifndef COMPILER_CODEGEN_CUDA_GEOMETRY_H
#define COMPILER_CODEGEN_CUDA_GEOMETRY_H

#include "compiler/codegen/fused_kernel.h"

typedef struct cuda_geometry {
    bool is_flat;
    int vector; /* vector width in elements: 1, 2, 4 or 8 */
    int64_t chunks;
    int lanes, groups;   /* rows only */
    int64_t rows_a_lane; /* rows processed one after the other: column sums */
    /* The row does not fit in registers: each stage loads it and recomputes what it needs. */
    bool is_streamed;
    bool loads_early;     /* loads all operands before the first stage, not only those it reads */
    bool prefetches_rows; /* prefetches the next row while this one is computed */
    int threads;
    int blocks_at_once; /* resident blocks that registers must suffice for; 0: no bound */
    int64_t units;
} cuda_geometry;

cuda_geometry cuda_geometry_of(const fused_kernel *k);

/* Whether a full value is read in a later stage than its own. */
bool cuda_is_read_later(const fused_kernel *k, int member);
/* The first stage whose loop reads the operand; stage_count if none does. */
int cuda_first_stage(const fused_kernel *k, int operand);
/* Whether the memory is dense in the order of the space: an element's offset is its index. */
bool cuda_is_dense(const fused_kernel *k, int rank, const int64_t *dim, const int64_t *stride,
                   int64_t column_stride);
/* Whether all rows are the same memory. */
bool cuda_is_same_in_rows(int rank, const int64_t *dim, const int64_t *stride);
/* Whether it is one broadcast element. */
bool cuda_is_uniform(int rank, const int64_t *dim, const int64_t *stride, int64_t column_stride);
/* 32-bit words that `elements` of the type take in registers. */
int cuda_words(int elements, dtype type);

#endif
