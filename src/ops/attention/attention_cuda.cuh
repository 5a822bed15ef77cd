/* attention_cuda.cuh - what the CUDA kernels of attention have in common. Symbols: attention.h. */
#ifndef OPS_ATTENTION_ATTENTION_CUDA_CUH
#define OPS_ATTENTION_ATTENTION_CUDA_CUH

#include <stdint.h>

#include "ops/attention/attention_workspace.h"
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

/* Both ops; of the forward, what has a d before it is empty. */
typedef struct attention_call {
    attention_rows q, k, v, o, d_o, d_q, d_k, d_v;
    attention_rows lse;  /* f32 [B, H, T]; its `row` is 1 */
    attention_turn turn; /* of the gradient, which rotates dQ and dK back */
    void *workspace;     /* of the gradient: attention_workspace.h */
    float *mean;         /* its beginning: f32 [B, H, T], D = rowsum(O dO) */
    int type;            /* enum cuda_dtype */
    int is_tf32;         /* f32 operands of products may be rounded to tf32 */
    int batch, heads, kv_heads, group;
    int queries, keys, head_dim;
    int is_causal;
    float scale;
    cuda_tile tile; /* asked for: one of those that the way lists; 0 x 0: the way's own */
    int is_aligned; /* rows of all operands begin at multiples of 16 bytes and end there */
} attention_call;

/* ---- ways to compute it; each enqueues ---- */

/* Which kernels bf16 and f16 go to. ATTENTION_BEST unless a benchmark compares them: on sm_90
 * gradients with P computed twice, or once. */
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

template <typename NUMBER>
__device__ __forceinline__ NUMBER *rows_of(const attention_rows &rows, int batch, int head) {
    return (NUMBER *)rows.data + batch * rows.batch + head * rows.head;
}

#endif
