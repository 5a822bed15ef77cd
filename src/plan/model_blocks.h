/* model_blocks.h - what each block of a model has in memory. */
#ifndef PLAN_MODEL_BLOCKS_H
#define PLAN_MODEL_BLOCKS_H

#include "plan/plan.h"

typedef enum block_column {
    BLOCK_WEIGHTS,
    BLOCK_GRADIENTS,     /* as the backward computes them */
    BLOCK_GRADIENT_SUMS, /* what micro-batches and ranks add gradients up in: sums, buckets, shards */
    BLOCK_STATE,
    BLOCK_SAVED, /* for the backward, when it begins */
    BLOCK_COLUMN_COUNT
} block_column;

typedef struct model_block_bytes {
    int64_t of[BLOCK_COLUMN_COUNT];
} model_block_bytes;

/* A row for each block, and behind the last one what belongs to none. Every buffer is counted once, with
 * all its bytes: one that several blocks share is divided by whose values lie where in it. What a row
 * has need not be alive at the same time. `blocks` becomes the number of blocks; the caller frees the
 * rows. */
model_block_bytes *model_blocks_of(const plan *p, int *blocks);

#endif
