/* hopper_sums.cu - the first kernel of attention's gradients on sm_90a and where its sums lie; what
 * the host does before the others. */
#include "ops/attention/cuda/hopper_gradient.cuh"
#include "ops/attention/cuda/hopper_host.cuh"

enum { SUM_THREADS = 128 };

/* Angles as lanes of accumulators want them: of 16 rows and 8 columns there are 32 lanes' cosines,
 * then their sines. Rows that are not there get those of the last. */
static __device__ __forceinline__ void arrange_angles(const attention_call &call,
                                                      const row_sums &sums, int64_t at) {
    int half = call.head_dim / 2, blocks = half / 8;
    int lane = (int)(at % 32), block = (int)(at / 64);
    int64_t last = call.queries - 1, row = (int64_t)(block / blocks) * 16 + lane / 4;
    const float *from =
        (at / 32 % 2 ? call.rotation.sine : call.rotation.cosine) + block % blocks * 8 + lane % 4 * 2;
    float2 upper = *(const float2 *)(from + (row < last ? row : last) * half);
    float2 lower = *(const float2 *)(from + (row + 8 < last ? row + 8 : last) * half);
    sums.angles[at] = make_float4(upper.x, upper.y, lower.x, lower.y);
}

/* Of a row's sum LANES lanes have 8 numbers each. The first blocks arrange angles. */
template <int TYPE, int LANES>
static __global__ void __launch_bounds__(SUM_THREADS)
    attention_gradient_hopper_row_sums(const __grid_constant__ attention_call call, const __grid_constant__ row_sums sums,
             int angle_blocks) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    let_next_kernel_begin();
    int number = (int)blockIdx.x - angle_blocks;
    if (number < 0) {
        arrange_angles(call, sums, (int64_t)blockIdx.x * SUM_THREADS + threadIdx.x);
        return;
    }
    int64_t at = (int64_t)number * (SUM_THREADS / LANES) + threadIdx.x / LANES;
    int query = (int)(at % sums.pitch), head = (int)(at / sums.pitch);
    int column = (int)threadIdx.x % LANES * 8;
    if (at == 0 && column == 0)
        sums.counter[0] = sums.counter[1] = 0;
    if (sums.turns && head < call.batch * call.heads && column == 0 &&
        query % ATTENTION_ROWS_PER_TURN == 0)
        sums.turns[at / ATTENTION_ROWS_PER_TURN] = 0;
    bool is_there = head < call.batch * call.heads && query < call.queries;
    int b = head / call.heads, h = head % call.heads;
    float sum = 0;
    if (is_there && column < call.head_dim) {
        uint4 o = *(const uint4 *)(rows_of<uint16_t>(call.o, b, h) + query * call.o.row + column);
        uint4 d_o =
            *(const uint4 *)(rows_of<uint16_t>(call.d_o, b, h) + query * call.d_o.row + column);
        uint32_t x[4] = {o.x, o.y, o.z, o.w}, y[4] = {d_o.x, d_o.y, d_o.z, d_o.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum += unpack<TYPE>((uint16_t)x[i]) * unpack<TYPE>((uint16_t)y[i]) +
                   unpack<TYPE>((uint16_t)(x[i] >> 16)) * unpack<TYPE>((uint16_t)(y[i] >> 16));
    }
#pragma unroll
    for (int apart = LANES / 2; apart; apart /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, apart);
    if (head >= call.batch * call.heads || column != 0)
        return;
    float log_sum = is_there ? rows_of<float>(call.lse, b, h)[query] : -INFINITY;
    sums.lse[at] = log_sum == -INFINITY ? INFINITY : log_sum * LOG2_E;
    sums.mean[at] = sum;
#endif
}

template <int TYPE, int LANES>
static void launch_sums(const attention_call *call, const row_sums *sums, cudaStream_t stream) {
    int64_t rows = call->batch * call->heads * sums->pitch, at_once = SUM_THREADS / LANES;
    /* Whole blocks, for there are 16 bytes for every 4 columns of 128 rows. */
    int angle_blocks = sums->angles ? (int)(sums->pitch * (call->head_dim / 4) / SUM_THREADS) : 0;
    dim3 blocks((unsigned)(angle_blocks + (rows + at_once - 1) / at_once));
    attention_gradient_hopper_row_sums<TYPE, LANES><<<blocks, SUM_THREADS, 0, stream>>>(*call, *sums, angle_blocks);
}

void hopper_sum_rows(const attention_call *call, const row_sums *sums, cudaStream_t stream) {
    bool is_bf16 = call->type == CUDA_DTYPE_BF16;
    if (call->head_dim <= 64)
        is_bf16 ? launch_sums<CUDA_DTYPE_BF16, 8>(call, sums, stream)
                : launch_sums<CUDA_DTYPE_F16, 8>(call, sums, stream);
    else if (call->head_dim <= 128)
        is_bf16 ? launch_sums<CUDA_DTYPE_BF16, 16>(call, sums, stream)
                : launch_sums<CUDA_DTYPE_F16, 16>(call, sums, stream);
    else
        is_bf16 ? launch_sums<CUDA_DTYPE_BF16, 32>(call, sums, stream)
                : launch_sums<CUDA_DTYPE_F16, 32>(call, sums, stream);
}

row_sums hopper_row_sums(const attention_call *call, int columns) {
    row_sums sums;
    sums.pitch = attention_padded_rows(call->queries);
    int64_t rows = call->batch * call->heads * sums.pitch;
    sums.mean = (float *)call->workspace;
    sums.lse = sums.mean + rows;
    sums.dq = columns ? sums.lse + rows : NULL;
    sums.turns = columns ? (int *)(sums.dq + rows * columns) : NULL;
    sums.counter = columns ? sums.turns + rows / ATTENTION_ROWS_PER_TURN : (int *)(sums.lse + rows);
    int64_t angles_at = attention_angles_at(call->batch * call->heads, call->queries, columns);
    sums.angles = call->rotation.cosine ? (float4 *)((char *)call->workspace + angles_at) : NULL;
    return sums;
}

int hopper_describe_gradient(gradient_maps *maps, const attention_call *call, int query_rows,
                             int key_rows) {
    CUtensorMap *q = maps->of_queries, *k = maps->of_keys;
    return hopper_describe_rows(&q[0], &call->q, call, call->heads, call->queries, query_rows) &&
           hopper_describe_rows(&q[1], &call->d_o, call, call->heads, call->queries, query_rows) &&
           hopper_describe_rows(&k[0], &call->k, call, call->kv_heads, call->keys, key_rows) &&
           hopper_describe_rows(&k[1], &call->v, call, call->kv_heads, call->keys, key_rows);
}

gradient_order hopper_order_items(const attention_call *call, int kind, int key_rows) {
    gradient_order order = {};
    order.key_tiles = kind == OF_QUERIES ? 0 : (call->keys + key_rows - 1) / key_rows;
    order.query_tiles = kind == OF_KEYS ? 0 : (call->queries + ROWS - 1) / ROWS;
    order.kv_heads = call->batch * call->kv_heads;
    int64_t rows = (int64_t)call->queries * call->group + call->keys; /* twice: Q, dO and K, V */
    order.bundle = hopper_heads_at_once(rows * call->head_dim * 4, order.kv_heads);
    order.items = order.kv_heads * (order.key_tiles + call->group * order.query_tiles);
    return order;
}

int hopper_is_ready(gradient_kernel *kernel, int shared_bytes, int *known) {
    if (!*known)
        *known = is_compiled(kernel) &&
                         cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              shared_bytes) == cudaSuccess
                     ? 1
                     : -1;
    return *known > 0;
}

void hopper_launch_items(gradient_kernel *kernel, int shared_bytes, const attention_call *call,
                         const gradient_order *order, const row_sums *sums,
                         const gradient_maps *maps, cudaStream_t stream) {
    int blocks = hopper_multiprocessors();
    launch_early(kernel, order->items < blocks ? order->items : blocks, (CONSUMERS + 1) * WARPGROUP,
                 shared_bytes, stream, *call, *order, *sums, *maps);
}
