/* attention_cuda.cuh - what the CUDA kernels of attention have in common. Symbols: attention.h. */
#ifndef OPS_ATTENTION_CUDA_ATTENTION_CUDA_CUH
#define OPS_ATTENTION_CUDA_ATTENTION_CUDA_CUH

#include <stdint.h>

#include "ops/attention/cuda/attention_variants.h"
#include "runtime/cuda/cuda_call.h"

/* An operand [B, heads, rows, S]; strides in elements, that of the last dimension is 1. */
typedef struct attention_rows {
    void *data;
    int64_t batch, head, row;
} attention_rows;

/* The tables of angles that rows of Q and K were rotated by, S / 2 numbers for each row; NULL where
 * they were not. */
typedef struct attention_rotation {
    const float *cosine, *sine;
} attention_rotation;

/* The same rows in the workspace, of each split of what a row goes over, `apart` numbers one behind
 * the other; attention_workspace.h. */
typedef struct attention_partials {
    attention_rows rows;
    int64_t apart;
} attention_partials;

/* Both ops; of the forward, what has a d before it is empty. */
typedef struct attention_call {
    attention_rows q, k, v, o, d_o, d_q, d_k, d_v;
    attention_rows lse;  /* f32 [B, H, T]; its `row` is 1 */
    attention_rotation rotation; /* of the gradient, which rotates dQ and dK back */
    void *workspace;     /* attention_workspace.h */
    float *mean;         /* of the gradient its beginning: f32 [B, H, T], D = rowsum(O dO) */
    int is_few;          /* so few heads that blocks do not fill a GPU, or are splits */
    /* 1: a block's rows are its own, and nothing is in splits. */
    int key_splits, query_splits;
    attention_partials o_partials, lse_partials, dq_partials; /* of each split of the keys */
    attention_partials dk_partials, dv_partials;           /* of the queries */
    int type;                                     /* enum cuda_dtype */
    int is_tf32; /* f32 operands of products may be rounded to tf32 */
    int batch, heads, kv_heads, group;
    int queries, keys, head_dim;
    int is_causal;
    float scale;
    attention_tile tile; /* of attention_variants.h; 0 x 0 where there is only one */
    int is_aligned; /* rows of all operands begin at multiples of 16 bytes and end there */
} attention_call;

/* ---- what rows of kernels enqueue ---- */

/* Fails where no kernel is compiled for the call's head size and tile, or for this chip. */
dyno_status attention_forward_mma(const attention_call *call, cudaStream_t stream);
dyno_status attention_forward_hopper(const attention_call *call, cudaStream_t stream);
/* f32, or products of operands rounded to tf32 where the call allows it. */
dyno_status attention_forward_tf32(const attention_call *call, cudaStream_t stream);
/* Of gradients, these want call->mean. */
dyno_status attention_backward_mma(const attention_call *call, cudaStream_t stream);
dyno_status attention_backward_tf32(const attention_call *call, cudaStream_t stream);
dyno_status attention_backward_single_pass(const attention_call *call, cudaStream_t stream);
dyno_status attention_backward_two_pass(const attention_call *call, cudaStream_t stream);
dyno_status attention_backward_wide(const attention_call *call, cudaStream_t stream);
/* Rotates dQ and dK back where they lie, for kernels that do not as they write them. */
void attention_rotate_back(const attention_call *call, cudaStream_t stream);
/* call->mean from O and dO. */
void attention_backward_means(const attention_call *call, cudaStream_t stream);

/* Combines the partial results that a kernel with this tile has left of its splits; enqueues nothing
 * where there is only one. */
void attention_combine_outputs(const attention_call *call, attention_tile tile,
                               cudaStream_t stream);
/* of_queries: the tile of the kernel for dQ, queries by the keys it takes at a time; of_keys: that
 * for dK and dV. */
void attention_combine_gradients(const attention_call *call, attention_tile of_queries,
                                 attention_tile of_keys, cudaStream_t stream);

/* ---- in kernels ---- */

static const float LOG2_E = 1.4426950408889634f, LN_2 = 0.6931471805599453f;

/* The first keys that a query sees are these many. */
__device__ __forceinline__ int visible_keys(const attention_call &call, int query) {
    int seen = call.is_causal ? query + 1 + call.keys - call.queries : call.keys;
    return seen < 0 ? 0 : seen < call.keys ? seen : call.keys;
}
/* The first query that sees a key. */
__device__ __forceinline__ int first_query(const attention_call &call, int key) {
    int first = call.is_causal ? key + call.queries - call.keys : 0;
    return first < 0 ? 0 : first;
}

/* Tiles of the other side that a tile of rows goes over, one at a time. */
__device__ __forceinline__ int steps_over_keys(const attention_call &call, int first, int rows,
                                               int keys) {
    int last = first + rows < call.queries ? first + rows - 1 : call.queries - 1;
    return (visible_keys(call, last) + keys - 1) / keys;
}
/* For each head of the group in turn. */
__device__ __forceinline__ int steps_over_queries(const attention_call &call, int first,
                                                  int queries) {
    int steps = (call.queries + queries - 1) / queries - first_query(call, first) / queries;
    return steps > 0 ? steps * call.group : 0;
}

/* Into how many splits these steps are cut, when the longest row of all has `longest`, and `most`
 * splits. */
__device__ __forceinline__ int count_splits(int steps, int longest, int most) {
    int length = (longest + most - 1) / most;
    return steps > length ? (steps + length - 1) / length : 1;
}
/* A split's part of them. 0: there is no such split. */
__device__ __forceinline__ bool find_split(int split, int longest, int most, int *begin, int *end) {
    if (most == 1)
        return true;
    int steps = *end, count = count_splits(steps, longest, most);
    *begin = steps * split / count;
    *end = steps * (split + 1) / count;
    return split < count;
}
/* Where a block's rows go. */
__device__ __forceinline__ attention_rows target_rows(const attention_rows &whole,
                                                      const attention_partials &partials, int splits,
                                                      int split) {
    if (splits == 1)
        return whole;
    attention_rows rows = partials.rows;
    rows.data = (float *)rows.data + split * partials.apart;
    return rows;
}

template <typename NUMBER>
__device__ __forceinline__ NUMBER *rows_of(const attention_rows &rows, int batch, int head) {
    return (NUMBER *)rows.data + batch * rows.batch + head * rows.head;
}

#endif
