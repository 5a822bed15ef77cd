/* attention_cuda.cuh - what the CUDA kernels of attention have in common. Symbols: attention.h. */
#ifndef OPS_ATTENTION_CUDA_ATTENTION_CUDA_CUH
#define OPS_ATTENTION_CUDA_ATTENTION_CUDA_CUH

#include <stdint.h>

#include "ops/attention/cuda/attention_workspace.h"
#include "runtime/cuda/cuda_call.h"

/* An operand [B, heads, rows, S]; strides in elements, that of the last dimension is 1. */
typedef struct attention_rows {
    void *data;
    int64_t batch, head, row;
} attention_rows;

/* The tables of angles that rows of Q and K were rotated by, S / 2 numbers for each row; NULL where
 * they were not. */
typedef struct attention_turn {
    const float *cosine, *sine;
} attention_turn;

/* The same rows in the workspace, of each piece of what a row goes over, `apart` numbers one behind
 * the other; attention_workspace.h. */
typedef struct attention_parts {
    attention_rows rows;
    int64_t apart;
} attention_parts;

/* Both ops; of the forward, what has a d before it is empty. */
typedef struct attention_call {
    attention_rows q, k, v, o, d_o, d_q, d_k, d_v;
    attention_rows lse;  /* f32 [B, H, T]; its `row` is 1 */
    attention_turn turn; /* of the gradient, which rotates dQ and dK back */
    void *workspace;     /* attention_workspace.h */
    float *mean;         /* of the gradient its beginning: f32 [B, H, T], D = rowsum(O dO) */
    int is_few;          /* so few heads that blocks do not fill a GPU, or are pieces */
    /* 1: a block's rows are its own, and nothing is in pieces. */
    int key_pieces, query_pieces;
    attention_parts o_parts, lse_parts, dq_parts; /* of each piece of the keys */
    attention_parts dk_parts, dv_parts;           /* of the queries */
    int type;                                     /* enum cuda_dtype */
    int is_tf32; /* f32 operands of products may be rounded to tf32 */
    int batch, heads, kv_heads, group;
    int queries, keys, head_dim;
    int is_causal;
    float scale;
    cuda_tile tile; /* asked for: one of those that the way lists; 0 x 0: the way's own */
    int is_aligned; /* rows of all operands begin at multiples of 16 bytes and end there */
} attention_call;

/* ---- ways to compute it; each enqueues ---- */

/* Which kernels bf16 and f16 go to. ATTENTION_BEST unless a benchmark compares them: on sm_90 those
 * for this chip however few heads there are, gradients with P computed twice, or once. */
enum attention_way { ATTENTION_BEST, ATTENTION_MMA, ATTENTION_TWICE, ATTENTION_ONCE };
extern enum attention_way attention_way;

void attention_forward_mma(const attention_call *call, cudaStream_t stream);
void attention_backward_mma(const attention_call *call, cudaStream_t stream);
/* f32, or products of operands rounded to tf32 where the call allows it. */
void attention_forward_f32(const attention_call *call, cudaStream_t stream);
void attention_backward_f32(const attention_call *call, cudaStream_t stream);
/* For sm_90; 0: not for this device, head size or layout, and nothing was enqueued. */
int attention_forward_hopper(const attention_call *call, cudaStream_t stream);
int attention_backward_hopper(const attention_call *call, cudaStream_t stream);
int attention_backward_hopper_once(const attention_call *call, cudaStream_t stream);
/* Of head sizes above 128; attention_backward_hopper has found that the call is for this chip. */
int attention_backward_hopper_wide(const attention_call *call, cudaStream_t stream);
/* Rotates dQ and dK back where they lie, for kernels that do not as they write them. */
void attention_backward_turn(const attention_call *call, cudaStream_t stream);
/* call->mean from O and dO. */
void attention_backward_means(const attention_call *call, cudaStream_t stream);

/* Puts together what a kernel with this tile has left of its pieces; enqueues nothing where there
 * is only one. */
void attention_join_outputs(const attention_call *call, cuda_tile tile, cudaStream_t stream);
/* of_queries: the tile of the kernel for dQ, queries by the keys it takes at a time; of_keys: that
 * for dK and dV. */
void attention_join_gradients(const attention_call *call, cuda_tile of_queries, cuda_tile of_keys,
                              cudaStream_t stream);

/* The tiles of each, its own choice first; of hopper 0 where it is not for this call. */
int attention_forward_mma_tiles(const attention_call *call, cuda_tile *out);
int attention_backward_mma_tiles(const attention_call *call, cuda_tile *out);
int attention_forward_f32_tiles(const attention_call *call, cuda_tile *out);
int attention_forward_hopper_tiles(const attention_call *call, cuda_tile *out);
int attention_backward_hopper_tiles(const attention_call *call, cuda_tile *out);

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

/* Into how many pieces these steps are cut, when the longest row of all has `longest`, and `most`
 * pieces. */
__device__ __forceinline__ int count_pieces(int steps, int longest, int most) {
    int length = (longest + most - 1) / most;
    return steps > length ? (steps + length - 1) / length : 1;
}
/* A piece's part of them. 0: there is no such piece. */
__device__ __forceinline__ bool find_piece(int piece, int longest, int most, int *begin, int *end) {
    if (most == 1)
        return true;
    int steps = *end, count = count_pieces(steps, longest, most);
    *begin = steps * piece / count;
    *end = steps * (piece + 1) / count;
    return piece < count;
}
/* Where a block's rows go. */
__device__ __forceinline__ attention_rows target_rows(const attention_rows &whole,
                                                      const attention_parts &parts, int pieces,
                                                      int piece) {
    if (pieces == 1)
        return whole;
    attention_rows rows = parts.rows;
    rows.data = (float *)rows.data + piece * parts.apart;
    return rows;
}

template <typename NUMBER>
__device__ __forceinline__ NUMBER *rows_of(const attention_rows &rows, int batch, int head) {
    return (NUMBER *)rows.data + batch * rows.batch + head * rows.head;
}

#endif
