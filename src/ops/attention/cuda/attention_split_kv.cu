/* attention_splits.cu - puts together what splits of attention have left in the workspace
 * (attention_workspace.h): each number by one thread, which adds in the splits' order.
 *
 * O and LSE of splits p, each of its own keys, are those of all of them by
 *   LSE = log sum_p e^LSE_p      O = sum_p e^(LSE_p - LSE) O_p
 * Gradients are sums. */
#include "ops/attention/cuda/attention_cuda.cuh"
#include "ops/attention/cuda/mma.cuh"

enum { COMBINE_THREADS = 128, QUAD = 4 }; /* QUAD: numbers of a thread */

/* A thread's row of [B, heads, rows] and the first of its columns. */
typedef struct quad_place {
    int b, head, row, column;
} quad_place;

__device__ __forceinline__ quad_place find_quad(int64_t quad, int heads, int rows, int columns) {
    int64_t row = quad / (columns / QUAD);
    quad_place at = {(int)(row / rows / heads), (int)(row / rows % heads), (int)(row % rows),
                     (int)(quad % (columns / QUAD)) * QUAD};
    return at;
}

__device__ __forceinline__ const float4 *quad_of(const attention_partials &partials, quad_place at) {
    return (const float4 *)(rows_of<float>(partials.rows, at.b, at.head) + at.row * partials.rows.row +
                            at.column);
}

template <int TYPE>
__device__ __forceinline__ void store_quad(const attention_rows &to, quad_place at, float4 x,
                                           int head_dim, int is_aligned) {
    int64_t place = at.row * to.row + at.column;
    float numbers[QUAD] = {x.x, x.y, x.z, x.w};
    if (TYPE == CUDA_DTYPE_F32) {
        float *row = rows_of<float>(to, at.b, at.head) + place;
        if (is_aligned) {
            *(float4 *)row = x;
        } else {
            for (int i = 0; i < QUAD && at.column + i < head_dim; i++)
                row[i] = numbers[i];
        }
    } else {
        uint16_t *row = rows_of<uint16_t>(to, at.b, at.head) + place;
        if (is_aligned) {
            *(uint2 *)row = make_uint2(pack<TYPE>(x.x, x.y), pack<TYPE>(x.z, x.w));
        } else {
            for (int i = 0; i < QUAD && at.column + i < head_dim; i++)
                row[i] = (uint16_t)pack<TYPE>(numbers[i], 0);
        }
    }
}

/* ---- O and LSE ---- */

template <int TYPE>
static __global__ void __launch_bounds__(COMBINE_THREADS)
    attention_split_kv_combine(const attention_call call, const attention_tile tile) {
    int columns = (int)call.o_partials.rows.row;
    int64_t quad = (int64_t)blockIdx.x * COMBINE_THREADS + threadIdx.x;
    if (quad >= (int64_t)call.batch * call.heads * call.queries * (columns / QUAD))
        return;
    quad_place at = find_quad(quad, call.heads, call.queries, columns);
    int steps =
        steps_over_keys(call, at.row / tile.queries * tile.queries, tile.queries, tile.keys);
    int count = count_splits(steps, (call.keys + tile.keys - 1) / tile.keys, call.key_splits);
    const float4 *partials = quad_of(call.o_partials, at);
    const float *log_sums = rows_of<float>(call.lse_partials.rows, at.b, at.head) + at.row;
    float4 o = make_float4(0, 0, 0, 0);
    float largest = -INFINITY, sum = 0;
#pragma unroll 4
    for (int split = 0; split < count; split++) {
        float log_sum = log_sums[split * call.lse_partials.apart];
        float4 part = partials[split * (call.o_partials.apart / QUAD)];
        float top = fmaxf(largest, log_sum);
        /* While nothing is seen, any finite reference keeps it out of the sums. */
        float reference = top == -INFINITY ? 0 : top;
        float shrink = exp2_fast((largest - reference) * LOG2_E);
        float weight = exp2_fast((log_sum - reference) * LOG2_E);
        o.x = o.x * shrink + part.x * weight;
        o.y = o.y * shrink + part.y * weight;
        o.z = o.z * shrink + part.z * weight;
        o.w = o.w * shrink + part.w * weight;
        sum = sum * shrink + weight;
        largest = top;
    }
    float inverse = sum == 0 ? 0 : 1 / sum;
    float4 whole = make_float4(o.x * inverse, o.y * inverse, o.z * inverse, o.w * inverse);
    store_quad<TYPE>(call.o, at, whole, call.head_dim, call.is_aligned);
    if (at.column == 0)
        rows_of<float>(call.lse, at.b, at.head)[at.row] =
            sum == 0 ? -INFINITY : largest + logf(sum);
}

static int count_blocks(int64_t quads) { return (int)((quads + COMBINE_THREADS - 1) / COMBINE_THREADS); }

void attention_combine_outputs(const attention_call *call, attention_tile tile, cudaStream_t stream) {
    if (call->key_splits == 1)
        return;
    int64_t rows = (int64_t)call->batch * call->heads * call->queries;
    int blocks = count_blocks(rows * (call->o_partials.rows.row / QUAD));
    if (call->type == CUDA_DTYPE_F32)
        attention_split_kv_combine<CUDA_DTYPE_F32><<<blocks, COMBINE_THREADS, 0, stream>>>(*call, tile);
    else if (call->type == CUDA_DTYPE_BF16)
        attention_split_kv_combine<CUDA_DTYPE_BF16><<<blocks, COMBINE_THREADS, 0, stream>>>(*call, tile);
    else
        attention_split_kv_combine<CUDA_DTYPE_F16><<<blocks, COMBINE_THREADS, 0, stream>>>(*call, tile);
}

/* ---- dQ, dK and dV ---- */

/* The first blocks of the grid have dQ, then as many dK as dV. */
typedef struct combine_order {
    attention_tile of_queries, of_keys;
    int query_blocks, key_blocks;
} combine_order;

__device__ __forceinline__ float4 add_partials(const float4 *partials, int64_t apart, int count) {
    float4 sum = partials[0];
#pragma unroll 4
    for (int split = 1; split < count; split++) {
        float4 part = partials[split * (apart / QUAD)];
        sum = make_float4(sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w);
    }
    return sum;
}

template <int TYPE>
static __global__ void __launch_bounds__(COMBINE_THREADS)
    attention_gradient_split_kv_combine(const attention_call call, const combine_order order) {
    int columns = (int)call.dq_partials.rows.row, block = (int)blockIdx.x;
    bool is_of_keys = block >= order.query_blocks, is_of_values = false;
    if (is_of_keys) {
        block -= order.query_blocks;
        is_of_values = block >= order.key_blocks;
        block -= is_of_values ? order.key_blocks : 0;
    }
    const attention_partials &partials = !is_of_keys    ? call.dq_partials
                                   : is_of_values ? call.dv_partials
                                                  : call.dk_partials;
    const attention_rows &to = !is_of_keys ? call.d_q : is_of_values ? call.d_v : call.d_k;
    int heads = is_of_keys ? call.kv_heads : call.heads;
    int rows = is_of_keys ? call.keys : call.queries, count;
    int64_t quad = (int64_t)block * COMBINE_THREADS + threadIdx.x;
    if (quad >= (int64_t)call.batch * heads * rows * (columns / QUAD))
        return;
    quad_place at = find_quad(quad, heads, rows, columns);
    if (is_of_keys) {
        int first = at.row / order.of_keys.keys * order.of_keys.keys;
        int taken = order.of_keys.queries;
        count = count_splits(steps_over_queries(call, first, taken),
                             (call.queries + taken - 1) / taken * call.group, call.query_splits);
    } else {
        int first = at.row / order.of_queries.queries * order.of_queries.queries;
        int taken = order.of_queries.keys;
        count = count_splits(steps_over_keys(call, first, order.of_queries.queries, taken),
                             (call.keys + taken - 1) / taken, call.key_splits);
    }
    store_quad<TYPE>(to, at, add_partials(quad_of(partials, at), partials.apart, count), call.head_dim,
                     call.is_aligned);
}

void attention_combine_gradients(const attention_call *call, attention_tile of_queries, attention_tile of_keys,
                              cudaStream_t stream) {
    int64_t quads = call->dq_partials.rows.row / QUAD;
    int64_t queries = call->key_splits > 1 ? (int64_t)call->batch * call->heads * call->queries : 0;
    int64_t keys = call->query_splits > 1 ? (int64_t)call->batch * call->kv_heads * call->keys : 0;
    combine_order order = {of_queries, of_keys, count_blocks(queries * quads),
                        count_blocks(keys * quads)};
    int blocks = order.query_blocks + 2 * order.key_blocks;
    if (blocks == 0)
        return;
    if (call->type == CUDA_DTYPE_F32)
        attention_gradient_split_kv_combine<CUDA_DTYPE_F32><<<blocks, COMBINE_THREADS, 0, stream>>>(*call, order);
    else if (call->type == CUDA_DTYPE_BF16)
        attention_gradient_split_kv_combine<CUDA_DTYPE_BF16><<<blocks, COMBINE_THREADS, 0, stream>>>(*call, order);
    else
        attention_gradient_split_kv_combine<CUDA_DTYPE_F16><<<blocks, COMBINE_THREADS, 0, stream>>>(*call, order);
}
