/* attention_pieces.cu - puts together what pieces of attention have left in the workspace
 * (attention_workspace.h): each number by one thread, which adds in the pieces' order.
 *
 * O and LSE of pieces p, each of its own keys, are those of all of them by
 *   LSE = log sum_p e^LSE_p      O = sum_p e^(LSE_p - LSE) O_p
 * Gradients are sums. */
#include "ops/attention/cuda/attention_cuda.cuh"
#include "ops/attention/cuda/mma.cuh"

enum { JOIN_THREADS = 128, QUAD = 4 }; /* QUAD: numbers of a thread */

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

__device__ __forceinline__ const float4 *quad_of(const attention_parts &parts, quad_place at) {
    return (const float4 *)(rows_of<float>(parts.rows, at.b, at.head) + at.row * parts.rows.row +
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
static __global__ void __launch_bounds__(JOIN_THREADS)
    join_outputs(const attention_call call, const cuda_tile tile) {
    int columns = (int)call.o_parts.rows.row;
    int64_t quad = (int64_t)blockIdx.x * JOIN_THREADS + threadIdx.x;
    if (quad >= (int64_t)call.batch * call.heads * call.queries * (columns / QUAD))
        return;
    quad_place at = find_quad(quad, call.heads, call.queries, columns);
    int steps =
        steps_over_keys(call, at.row / tile.queries * tile.queries, tile.queries, tile.keys);
    int count = count_pieces(steps, (call.keys + tile.keys - 1) / tile.keys, call.key_pieces);
    const float4 *parts = quad_of(call.o_parts, at);
    const float *log_sums = rows_of<float>(call.lse_parts.rows, at.b, at.head) + at.row;
    float4 o = make_float4(0, 0, 0, 0);
    float largest = -INFINITY, sum = 0;
#pragma unroll 4
    for (int piece = 0; piece < count; piece++) {
        float log_sum = log_sums[piece * call.lse_parts.apart];
        float4 part = parts[piece * (call.o_parts.apart / QUAD)];
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

static int count_blocks(int64_t quads) { return (int)((quads + JOIN_THREADS - 1) / JOIN_THREADS); }

void attention_join_outputs(const attention_call *call, cuda_tile tile, cudaStream_t stream) {
    if (call->key_pieces == 1)
        return;
    int64_t rows = (int64_t)call->batch * call->heads * call->queries;
    int blocks = count_blocks(rows * (call->o_parts.rows.row / QUAD));
    if (call->type == CUDA_DTYPE_F32)
        join_outputs<CUDA_DTYPE_F32><<<blocks, JOIN_THREADS, 0, stream>>>(*call, tile);
    else if (call->type == CUDA_DTYPE_BF16)
        join_outputs<CUDA_DTYPE_BF16><<<blocks, JOIN_THREADS, 0, stream>>>(*call, tile);
    else
        join_outputs<CUDA_DTYPE_F16><<<blocks, JOIN_THREADS, 0, stream>>>(*call, tile);
}

/* ---- dQ, dK and dV ---- */

/* The first blocks of the grid have dQ, then as many dK as dV. */
typedef struct join_order {
    cuda_tile of_queries, of_keys;
    int query_blocks, key_blocks;
} join_order;

__device__ __forceinline__ float4 add_pieces(const float4 *parts, int64_t apart, int count) {
    float4 sum = parts[0];
#pragma unroll 4
    for (int piece = 1; piece < count; piece++) {
        float4 part = parts[piece * (apart / QUAD)];
        sum = make_float4(sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w);
    }
    return sum;
}

template <int TYPE>
static __global__ void __launch_bounds__(JOIN_THREADS)
    join_gradients(const attention_call call, const join_order order) {
    int columns = (int)call.dq_parts.rows.row, block = (int)blockIdx.x;
    bool is_of_keys = block >= order.query_blocks, is_of_values = false;
    if (is_of_keys) {
        block -= order.query_blocks;
        is_of_values = block >= order.key_blocks;
        block -= is_of_values ? order.key_blocks : 0;
    }
    const attention_parts &parts = !is_of_keys    ? call.dq_parts
                                   : is_of_values ? call.dv_parts
                                                  : call.dk_parts;
    const attention_rows &to = !is_of_keys ? call.d_q : is_of_values ? call.d_v : call.d_k;
    int heads = is_of_keys ? call.kv_heads : call.heads;
    int rows = is_of_keys ? call.keys : call.queries, count;
    int64_t quad = (int64_t)block * JOIN_THREADS + threadIdx.x;
    if (quad >= (int64_t)call.batch * heads * rows * (columns / QUAD))
        return;
    quad_place at = find_quad(quad, heads, rows, columns);
    if (is_of_keys) {
        int first = at.row / order.of_keys.keys * order.of_keys.keys;
        int taken = order.of_keys.queries;
        count = count_pieces(steps_over_queries(call, first, taken),
                             (call.queries + taken - 1) / taken * call.group, call.query_pieces);
    } else {
        int first = at.row / order.of_queries.queries * order.of_queries.queries;
        int taken = order.of_queries.keys;
        count = count_pieces(steps_over_keys(call, first, order.of_queries.queries, taken),
                             (call.keys + taken - 1) / taken, call.key_pieces);
    }
    store_quad<TYPE>(to, at, add_pieces(quad_of(parts, at), parts.apart, count), call.head_dim,
                     call.is_aligned);
}

void attention_join_gradients(const attention_call *call, cuda_tile of_queries, cuda_tile of_keys,
                              cudaStream_t stream) {
    int64_t quads = call->dq_parts.rows.row / QUAD;
    int64_t queries = call->key_pieces > 1 ? (int64_t)call->batch * call->heads * call->queries : 0;
    int64_t keys = call->query_pieces > 1 ? (int64_t)call->batch * call->kv_heads * call->keys : 0;
    join_order order = {of_queries, of_keys, count_blocks(queries * quads),
                        count_blocks(keys * quads)};
    int blocks = order.query_blocks + 2 * order.key_blocks;
    if (blocks == 0)
        return;
    if (call->type == CUDA_DTYPE_F32)
        join_gradients<CUDA_DTYPE_F32><<<blocks, JOIN_THREADS, 0, stream>>>(*call, order);
    else if (call->type == CUDA_DTYPE_BF16)
        join_gradients<CUDA_DTYPE_BF16><<<blocks, JOIN_THREADS, 0, stream>>>(*call, order);
    else
        join_gradients<CUDA_DTYPE_F16><<<blocks, JOIN_THREADS, 0, stream>>>(*call, order);
}
