/* reduction_splits.h - into how many parts a reduction on a GPU is split at most, shared by the
 * plan (C) and the kernel (C++). Few results of many elements each would leave most of a GPU idle:
 * partial results go to the workspace, as f32, and are combined in order. */
#ifndef OPS_REDUCTION_SPLITS_H
#define OPS_REDUCTION_SPLITS_H

#include <stdint.h>

/* Depends on the shape alone, so that the order of every sum does. */
static inline int64_t reduction_most_splits(int64_t results, int64_t length) {
    const int64_t shortest = 256, most = 512, enough_results = 16384;
    int64_t splits = length / shortest;
    splits = splits < most ? splits : most;
    splits = splits < enough_results / results ? splits : enough_results / results;
    return splits > 1 ? splits : 1;
}

#endif
