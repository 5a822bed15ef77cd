/* attention_gradient_mma.cu - attention's gradients on the tensor cores of sm_80 and up.
 *
 * Two kernels, each the only one to add up what it writes, in a fixed order: a block of the first
 * has a tile of keys, goes over the queries that see them and keeps dK and dV; a block of the
 * second has a tile of queries and keeps dQ. P is computed in both, from LSE (formulas:
 * attention_tiled.c). Of few heads, a block has a split of what its tile goes over, and both
 * kernels are one.
 *
 * For dK and dV scores are computed transposed, a row for each key: so P^T and dS^T are in
 * registers the way the products with dO and Q want their left operand. */
#include "ops/attention/cuda/attention_launch.cuh"
#include "ops/attention/cuda/mma_tile.cuh"

/* A tile's log-sum-exps to base 2 and means. What sees nothing, or is not there, has the
 * exponential 0. */
template <int ROWS>
__device__ __forceinline__ void load_row_sums(float *lse, float *mean, const float *from_lse,
                                              const float *from_mean, int first, int limit) {
    for (int i = (int)threadIdx.x; i < ROWS; i += (int)blockDim.x) {
        bool is_there = first + i < limit;
        float log_sum = is_there ? from_lse[first + i] : -INFINITY;
        lse[i] = log_sum == -INFINITY ? INFINITY : log_sum * LOG2_E;
        mean[i] = is_there ? from_mean[first + i] : 0;
    }
}

/* One score's P and dS, from S and dP. */
__device__ __forceinline__ void differentiate(float *s, float *dp, float factor, float lse,
                                              float mean, bool is_seen) {
    float p = is_seen ? exp2_fast(*s * factor - lse) : 0;
    *dp = p * (*dp - mean);
    *s = p;
}

/* ---- dK and dV ---- */

enum { KEY_ROWS = 64, KEY_WARPS = KEY_ROWS / MMA_ROWS };

/* COLUMN_WARPS warps share 16 keys, each with its part of the columns of dK and dV: of large heads
 * these would not fit one warp's registers. */
template <int TYPE, int DIM, int QUERIES, int COLUMN_WARPS, int STAGES>
__device__ __forceinline__ void differentiate_key_tile(const attention_call &call, int block) {
    constexpr int THREADS = KEY_WARPS * COLUMN_WARPS * 32, COLUMNS = DIM / COLUMN_WARPS;
    extern __shared__ __align__(16) unsigned char shared[];
    uint16_t *k_tile = (uint16_t *)shared, *v_tile = k_tile + tile_size<DIM>(KEY_ROWS);
    uint16_t *q_tiles = v_tile + tile_size<DIM>(KEY_ROWS);
    uint16_t *do_tiles = q_tiles + STAGES * tile_size<DIM>(QUERIES);
    float *lse_tiles = (float *)(do_tiles + STAGES * tile_size<DIM>(QUERIES));
    float *mean_tiles = lse_tiles + STAGES * QUERIES;
    int heads = call.batch * call.kv_heads, head = block % heads;
    int splits = call.query_splits, split = block / heads % splits, first_step = 0;
    /* The first keys are seen by the most queries; they go first. */
    int first = block / (heads * splits) * KEY_ROWS;
    int steps = steps_over_queries(call, first, QUERIES);
    if (!find_split(split, (call.queries + QUERIES - 1) / QUERIES * call.group, splits, &first_step,
                    &steps))
        return;
    int b = head / call.kv_heads, kv = head % call.kv_heads;
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32 % KEY_WARPS;
    int part = (int)threadIdx.x / 32 / KEY_WARPS * COLUMNS;
    uint16_t *my_k = k_tile + tile_size<DIM>(warp * MMA_ROWS);
    uint16_t *my_v = v_tile + tile_size<DIM>(warp * MMA_ROWS);
    int begin = first_query(call, first) / QUERIES;
    int tiles = (call.queries + QUERIES - 1) / QUERIES - begin;
    float factor = call.scale * LOG2_E, dk[COLUMNS / 8][4] = {}, dv[COLUMNS / 8][4] = {};

    /* Step i is query tile begin + i % tiles of head i / tiles of the group. */
    auto load_step = [&](int step) {
        int h = kv * call.group + step / tiles, at = (begin + step % tiles) * QUERIES;
        int stage = step % STAGES;
        load_tile<QUERIES, DIM, THREADS>(q_tiles + stage * tile_size<DIM>(QUERIES),
                                         rows_of<uint16_t>(call.q, b, h), call.q.row, at,
                                         call.queries, call.head_dim, call.is_aligned);
        load_tile<QUERIES, DIM, THREADS>(do_tiles + stage * tile_size<DIM>(QUERIES),
                                         rows_of<uint16_t>(call.d_o, b, h), call.d_o.row, at,
                                         call.queries, call.head_dim, call.is_aligned);
        load_row_sums<QUERIES>(lse_tiles + stage * QUERIES, mean_tiles + stage * QUERIES,
                               rows_of<float>(call.lse, b, h),
                               call.mean + (int64_t)(b * call.heads + h) * call.queries, at,
                               call.queries);
    };

    load_tile<KEY_ROWS, DIM, THREADS>(k_tile, rows_of<uint16_t>(call.k, b, kv), call.k.row, first,
                                      call.keys, call.head_dim, call.is_aligned);
    load_tile<KEY_ROWS, DIM, THREADS>(v_tile, rows_of<uint16_t>(call.v, b, kv), call.v.row, first,
                                      call.keys, call.head_dim, call.is_aligned);
    if (STAGES == 2 && first_step < steps)
        load_step(first_step);
    copy_async_commit();
    for (int step = first_step; step < steps; step++) {
        int next = step + STAGES - 1;
        if (next < steps)
            load_step(next);
        copy_async_commit();
        copy_async_wait<STAGES - 1>();
        __syncthreads();
        const uint16_t *q_tile = q_tiles + step % STAGES * tile_size<DIM>(QUERIES);
        const uint16_t *do_tile = do_tiles + step % STAGES * tile_size<DIM>(QUERIES);
        const float *lse = lse_tiles + step % STAGES * QUERIES + lane % 4 * 2;
        const float *mean = mean_tiles + step % STAGES * QUERIES + lane % 4 * 2;
        /* Key j is seen by query i when j <= i + keys - queries. */
        int query = (begin + step % tiles) * QUERIES, key = first + warp * MMA_ROWS + lane / 4;
        int lead = call.is_causal ? query + lane % 4 * 2 + call.keys - call.queries - key : 1 << 30;
        float p[QUERIES / 8][4], ds[QUERIES / 8][4];
        multiply_rows<TYPE, DIM, QUERIES>(p, my_k, q_tile);
        multiply_rows<TYPE, DIM, QUERIES>(ds, my_v, do_tile);
#pragma unroll
        for (int j = 0; j < QUERIES / 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int i = j * 8 + (e & 1);
                differentiate(&p[j][e], &ds[j][e], factor, lse[i], mean[i],
                              lead + i - (e >> 1) * 8 >= 0);
            }
        multiply_columns<TYPE, DIM, QUERIES, COLUMNS>(dv, p, do_tile + part);
        multiply_columns<TYPE, DIM, QUERIES, COLUMNS>(dk, ds, q_tile + part);
        __syncthreads();
    }

    copy_async_wait<0>();
    if (splits > 1) {
        attention_rows to_k = target_rows(call.d_k, call.dk_partials, splits, split);
        attention_rows to_v = target_rows(call.d_v, call.dv_partials, splits, split);
        int row = first + warp * MMA_ROWS;
        store_sums<COLUMNS>(to_k, b, kv, row, call.keys, part, dk, call.scale, call.scale);
        store_sums<COLUMNS>(to_v, b, kv, row, call.keys, part, dv, 1, 1);
        return;
    }
    __syncthreads();
    round_to_tile<TYPE, DIM, COLUMNS>(my_k + part, dk, call.scale, call.scale);
    round_to_tile<TYPE, DIM, COLUMNS>(my_v + part, dv, 1, 1);
    __syncthreads();
    if (part)
        return;
    store_rows<DIM>(my_k, rows_of<uint16_t>(call.d_k, b, kv), call.d_k.row, first + warp * MMA_ROWS,
                    MMA_ROWS, call.keys, call.head_dim, call.is_aligned);
    store_rows<DIM>(my_v, rows_of<uint16_t>(call.d_v, b, kv), call.d_v.row, first + warp * MMA_ROWS,
                    MMA_ROWS, call.keys, call.head_dim, call.is_aligned);
}

/* ---- dQ ---- */

enum { QUERY_ROWS = 64, QUERY_WARPS = QUERY_ROWS / MMA_ROWS };

template <int TYPE, int DIM, int KEYS, int STAGES>
__device__ __forceinline__ void differentiate_query_tile(const attention_call &call, int block) {
    constexpr int THREADS = QUERY_WARPS * 32;
    extern __shared__ __align__(16) unsigned char shared[];
    uint16_t *q_tile = (uint16_t *)shared, *do_tile = q_tile + tile_size<DIM>(QUERY_ROWS);
    uint16_t *k_tiles = do_tile + tile_size<DIM>(QUERY_ROWS);
    uint16_t *v_tiles = k_tiles + STAGES * tile_size<DIM>(KEYS);
    int heads = call.batch * call.heads, head = block % heads;
    int splits = call.key_splits, split = block / heads % splits, first_step = 0;
    int tile = (call.queries + QUERY_ROWS - 1) / QUERY_ROWS - 1 - block / (heads * splits);
    int first = tile * QUERY_ROWS, steps = steps_over_keys(call, first, QUERY_ROWS, KEYS);
    if (!find_split(split, (call.keys + KEYS - 1) / KEYS, splits, &first_step, &steps))
        return;
    int b = head / call.heads, h = head % call.heads, kv = h / call.group;
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    uint16_t *my_q = q_tile + tile_size<DIM>(warp * MMA_ROWS);
    const uint16_t *my_do = do_tile + tile_size<DIM>(warp * MMA_ROWS);
    float factor = call.scale * LOG2_E, dq[DIM / 8][4] = {}, lse[2], mean[2];
    int limit[2];
    for (int r = 0; r < 2; r++) {
        int row = first + warp * MMA_ROWS + lane / 4 + r * 8;
        bool is_there = row < call.queries;
        float log_sum = is_there ? rows_of<float>(call.lse, b, h)[row] : -INFINITY;
        int64_t at = (int64_t)(b * call.heads + h) * call.queries + row;
        lse[r] = log_sum == -INFINITY ? INFINITY : log_sum * LOG2_E;
        mean[r] = is_there ? call.mean[at] : 0;
        limit[r] = visible_keys(call, row);
    }

    auto load_step = [&](int step) {
        int stage = step % STAGES;
        load_tile<KEYS, DIM, THREADS>(k_tiles + stage * tile_size<DIM>(KEYS),
                                      rows_of<uint16_t>(call.k, b, kv), call.k.row, step * KEYS,
                                      call.keys, call.head_dim, call.is_aligned);
        load_tile<KEYS, DIM, THREADS>(v_tiles + stage * tile_size<DIM>(KEYS),
                                      rows_of<uint16_t>(call.v, b, kv), call.v.row, step * KEYS,
                                      call.keys, call.head_dim, call.is_aligned);
    };

    load_tile<QUERY_ROWS, DIM, THREADS>(q_tile, rows_of<uint16_t>(call.q, b, h), call.q.row, first,
                                        call.queries, call.head_dim, call.is_aligned);
    load_tile<QUERY_ROWS, DIM, THREADS>(do_tile, rows_of<uint16_t>(call.d_o, b, h), call.d_o.row,
                                        first, call.queries, call.head_dim, call.is_aligned);
    if (STAGES == 2 && first_step < steps)
        load_step(first_step);
    copy_async_commit();
    for (int step = first_step; step < steps; step++) {
        int next = step + STAGES - 1;
        if (next < steps)
            load_step(next);
        copy_async_commit();
        copy_async_wait<STAGES - 1>();
        __syncthreads();
        const uint16_t *k_tile = k_tiles + step % STAGES * tile_size<DIM>(KEYS);
        const uint16_t *v_tile = v_tiles + step % STAGES * tile_size<DIM>(KEYS);
        float s[KEYS / 8][4], ds[KEYS / 8][4];
        multiply_rows<TYPE, DIM, KEYS>(s, my_q, k_tile);
        multiply_rows<TYPE, DIM, KEYS>(ds, my_do, v_tile);
        int key = step * KEYS + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                differentiate(&s[j][e], &ds[j][e], factor, lse[e >> 1], mean[e >> 1],
                              key + j * 8 + (e & 1) < limit[e >> 1]);
        multiply_columns<TYPE, DIM, KEYS, DIM>(dq, ds, k_tile);
        __syncthreads();
    }

    copy_async_wait<0>();
    if (splits > 1) {
        attention_rows to = target_rows(call.d_q, call.dq_partials, splits, split);
        store_sums<DIM>(to, b, h, first + warp * MMA_ROWS, call.queries, 0, dq, call.scale,
                        call.scale);
        return;
    }
    __syncthreads();
    round_to_tile<TYPE, DIM, DIM>(my_q, dq, call.scale, call.scale);
    __syncwarp();
    store_rows<DIM>(my_q, rows_of<uint16_t>(call.d_q, b, h), call.d_q.row, first + warp * MMA_ROWS,
                    MMA_ROWS, call.queries, call.head_dim, call.is_aligned);
}

/* ---- kernels ---- */

template <int TYPE, int DIM, int QUERIES, int COLUMN_WARPS, int STAGES>
static __global__ void __launch_bounds__(KEY_WARPS *COLUMN_WARPS * 32, 1)
    attention_gradient_mma_keys(const attention_call call) {
    differentiate_key_tile<TYPE, DIM, QUERIES, COLUMN_WARPS, STAGES>(call, (int)blockIdx.x);
}

template <int TYPE, int DIM, int KEYS, int STAGES>
static __global__ void __launch_bounds__(QUERY_WARPS * 32, 1)
    attention_gradient_mma_queries(const attention_call call) {
    differentiate_query_tile<TYPE, DIM, KEYS, STAGES>(call, (int)blockIdx.x);
}

static __host__ __device__ int count_key_blocks(const attention_call &call) {
    return (call.keys + KEY_ROWS - 1) / KEY_ROWS * call.batch * call.kv_heads * call.query_splits;
}
static __host__ __device__ int count_query_blocks(const attention_call &call) {
    return (call.queries + QUERY_ROWS - 1) / QUERY_ROWS * call.batch * call.heads * call.key_splits;
}

/* blockIdx.y: which of the two; x: as theirs. */
template <int TYPE, int DIM, int TILE, int STAGES>
static __global__ void __launch_bounds__(KEY_WARPS * 32, 1)
    attention_gradient_mma_both(const attention_call call) {
    static_assert(KEY_WARPS == QUERY_WARPS, "blocks are of one size");
    int block = (int)blockIdx.x;
    if (blockIdx.y == 0 && block < count_key_blocks(call))
        differentiate_key_tile<TYPE, DIM, TILE, 1, STAGES>(call, block);
    if (blockIdx.y == 1 && block < count_query_blocks(call))
        differentiate_query_tile<TYPE, DIM, TILE, STAGES>(call, block);
}

/* ---- launching ---- */

/* TILE: rows of the other side taken at a time. */
template <int TYPE, int DIM, int TILE, int KEYS, int COLUMN_WARPS, int STAGES>
static dyno_status launch(const attention_call *call, cudaStream_t stream) {
    static_assert(KEYS == KEY_ROWS, "there are tiles of so many keys only");
    int key_blocks = count_key_blocks(*call), query_blocks = count_query_blocks(*call);
    int tile_bytes = tile_size<DIM>(2 * KEY_ROWS + STAGES * 2 * TILE) * (int)sizeof(uint16_t);
    int bytes = tile_bytes + STAGES * 2 * TILE * (int)sizeof(float);
    constexpr int SMALL = COLUMN_WARPS == 1 ? DIM : 32; /* larger ones are not compiled */
    if (call->is_few && COLUMN_WARPS == 1) {
        dim3 blocks((unsigned)(key_blocks > query_blocks ? key_blocks : query_blocks), 2);
        launch_blocks(attention_gradient_mma_both<TYPE, SMALL, TILE, STAGES>, blocks, KEY_WARPS * 32, bytes,
                      call, stream);
    } else {
        launch_blocks(attention_gradient_mma_keys<TYPE, DIM, TILE, COLUMN_WARPS, STAGES>, key_blocks,
                      KEY_WARPS * COLUMN_WARPS * 32, bytes, call, stream);
        launch_blocks(attention_gradient_mma_queries<TYPE, DIM, TILE, STAGES>, query_blocks,
                      QUERY_WARPS * 32, tile_bytes, call, stream);
    }
    attention_tile of_queries = {QUERY_ROWS, TILE}, of_keys = {TILE, KEY_ROWS};
    attention_combine_gradients(call, of_queries, of_keys, stream);
    return cuda_launch_status();
}

template <int TYPE> static dyno_status launch_type(const attention_call *call, cudaStream_t stream) {
#define INSTANCE(HEAD, QUERIES, KEYS, COLUMN_WARPS, STAGES)                                        \
    {HEAD, {QUERIES, KEYS}, launch<TYPE, HEAD, QUERIES, KEYS, COLUMN_WARPS, STAGES>},
    static const attention_instance instances[] = {FOR_EACH_ATTENTION_GRADIENT_MMA(INSTANCE)};
#undef INSTANCE
    return launch_instance(instances, call, stream);
}

dyno_status attention_backward_mma(const attention_call *call, cudaStream_t stream) {
    return call->type == CUDA_DTYPE_BF16 ? launch_type<CUDA_DTYPE_BF16>(call, stream)
                                         : launch_type<CUDA_DTYPE_F16>(call, stream);
}

/* ---- D = rowsum(O dO) ---- */

enum { MEAN_WARPS = 4 };

template <typename NUMBER> __device__ __forceinline__ float number_at(const NUMBER *p, int type) {
    return type == CUDA_DTYPE_BF16 ? unpack<CUDA_DTYPE_BF16>(*p) : unpack<CUDA_DTYPE_F16>(*p);
}
template <> __device__ __forceinline__ float number_at<float>(const float *p, int) { return *p; }

/* A warp for each row. */
template <typename NUMBER>
static __global__ void __launch_bounds__(MEAN_WARPS * 32) attention_gradient_row_sums(const attention_call call) {
    int64_t row = (int64_t)blockIdx.x * MEAN_WARPS + threadIdx.x / 32;
    if (row >= (int64_t)call.batch * call.heads * call.queries)
        return;
    int query = (int)(row % call.queries), head = (int)(row / call.queries);
    int b = head / call.heads, h = head % call.heads, lane = (int)threadIdx.x % 32;
    const NUMBER *o = rows_of<NUMBER>(call.o, b, h) + query * call.o.row;
    const NUMBER *d_o = rows_of<NUMBER>(call.d_o, b, h) + query * call.d_o.row;
    float sum = 0;
    for (int i = lane; i < call.head_dim; i += 32)
        sum += number_at(o + i, call.type) * number_at(d_o + i, call.type);
    for (int apart = 16; apart; apart /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, apart);
    if (lane == 0)
        call.mean[row] = sum;
}

void attention_backward_means(const attention_call *call, cudaStream_t stream) {
    int64_t rows = (int64_t)call->batch * call->heads * call->queries;
    int blocks = (int)((rows + MEAN_WARPS - 1) / MEAN_WARPS);
    launch_blocks(call->type == CUDA_DTYPE_F32 ? attention_gradient_row_sums<float> : attention_gradient_row_sums<uint16_t>, blocks,
                  MEAN_WARPS * 32, 0, call, stream);
}
