/* attention_workspace.h - what attention's gradient on a GPU asks of the plan and can do, for the
 * library that plans and the module that runs: read by C and by C++.
 *
 * f32 numbers, the queries of a head counted up to a multiple of ATTENTION_ROWS_PADDED:
 *   D        one for each query      rowsum(O dO)
 *   LSE      one for each query
 *   dQ       ATTENTION_SUM_COLUMNS for each query, where key tiles add to it in turns
 *   turns    one for every ATTENTION_ROWS_PER_TURN queries, then a few counters
 *   angles   as many as the head size for each query of one head, where gradients are rotated back
 */
#ifndef OPS_ATTENTION_ATTENTION_WORKSPACE_H
#define OPS_ATTENTION_ATTENTION_WORKSPACE_H

#include <stdint.h>

/* Head sizes whose gradients can be rotated back: those that kernels of sm_90a are compiled for, in
 * whose accumulators a lane has a column and its partner. Larger ones leave no registers for it. */
static inline int attention_turns_back(int64_t head_dim) {
    return head_dim == 64 || head_dim == 80 || head_dim == 96 || head_dim == 128;
}

enum { ATTENTION_ROWS_PADDED = 128, ATTENTION_ROWS_PER_TURN = 64, ATTENTION_COUNTER_BYTES = 16 };

/* The head size that kernels with sums in turns compute with; 0 where there are none. */
static inline int attention_sum_columns(int64_t head_dim) {
    return head_dim > 32 && head_dim <= 64 ? 64 : head_dim > 96 && head_dim <= 128 ? 128 : 0;
}

/* Whether P is computed once for all three gradients, and dQ is a sum in memory: where contexts are
 * long, and enough key tiles of enough heads run beside one another for none to wait long for its
 * turn. heads: of keys, in all batches. */
static inline int attention_sums_in_turns(int64_t heads, int64_t queries, int64_t keys,
                                          int64_t head_dim) {
    return attention_sum_columns(head_dim) > 0 && queries >= 2048 && keys >= 2048 && heads >= 4 &&
           heads * keys >= 4 * 8192;
}

/* The tile of those kernels: so many queries by ATTENTION_ONCE_KEYS keys. */
enum { ATTENTION_ONCE_KEYS = 128 };
static inline int attention_once_queries(int64_t head_dim) {
    return attention_sum_columns(head_dim) == 64 ? 128 : 64;
}

/* Whether a call goes to them: for the tile that is asked for, else (0 x 0) for its sizes. */
static inline int attention_is_once(int64_t heads, int64_t queries, int64_t keys, int64_t head_dim,
                                    int tile_queries, int tile_keys) {
    if (tile_queries == 0)
        return attention_sums_in_turns(heads, queries, keys, head_dim);
    return attention_sum_columns(head_dim) > 0 && tile_keys == ATTENTION_ONCE_KEYS &&
           tile_queries == attention_once_queries(head_dim);
}

static inline int64_t attention_padded_rows(int64_t queries) {
    return (queries + ATTENTION_ROWS_PADDED - 1) / ATTENTION_ROWS_PADDED * ATTENTION_ROWS_PADDED;
}

/* heads: of queries, in all batches; columns: of the sums, 0 without. */
static inline int64_t attention_workspace_bytes(int64_t heads, int64_t queries, int columns) {
    int64_t rows = heads * attention_padded_rows(queries);
    int64_t turns = columns > 0 ? rows / ATTENTION_ROWS_PER_TURN : 0;
    return (rows * (2 + columns) + turns) * 4 + ATTENTION_COUNTER_BYTES;
}

/* Where the angles begin, behind all else, and how many bytes they are. */
static inline int64_t attention_angles_at(int64_t heads, int64_t queries, int columns) {
    return (attention_workspace_bytes(heads, queries, columns) + 15) / 16 * 16;
}
static inline int64_t attention_angle_bytes(int64_t queries, int64_t head_dim) {
    return attention_padded_rows(queries) * head_dim * 4;
}

#endif
