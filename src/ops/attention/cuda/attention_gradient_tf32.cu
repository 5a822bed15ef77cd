/* attention_gradient_tf32.cu - attention's gradients of f32 on the tensor cores of sm_80 and up.
 *
 * The way of attention_gradient_mma.cu: a block of the first kernel has a tile of keys, goes over
 * the queries that see them and keeps dK and dV; a block of the second has a tile of queries and
 * keeps dQ. Each number has one owner, which adds in a fixed order. Scores are computed in both,
 * and for dK and dV transposed, a row for each key. Of large heads dK and dV do not fit the
 * registers together: the first kernel runs twice. Of few heads, a block has a split of what its
 * tile goes over, and up to head size 128 both kernels are one. */
#include "ops/attention/cuda/attention_launch.cuh"
#include "ops/attention/cuda/tf32_tile.cuh"

/* What a score's gradient needs of its query, LSE and mean, beside the query in its tile, where
 * rows have room. What sees nothing, or is not there, has the exponential 0. */
template <int DIM> __device__ __forceinline__ float2 *row_sums(float *tile, int row) {
    return (float2 *)(tile + row * (DIM + TILE_PAD) + DIM);
}
template <int QUERIES, int DIM, int THREADS>
__device__ __forceinline__ void load_sums(float *tile, const attention_call &call, int b, int h,
                                          int first) {
    for (int i = (int)threadIdx.x; i < QUERIES; i += THREADS) {
        float2 sums = make_float2(INFINITY, 0);
        if (first + i < call.queries) {
            float lse = rows_of<float>(call.lse, b, h)[first + i];
            int64_t at = (int64_t)(b * call.heads + h) * call.queries + first + i;
            sums = make_float2(lse == -INFINITY ? INFINITY : lse, call.mean[at]);
        }
        *row_sums<DIM>(tile, i) = sums;
    }
}

/* One score's P and dS, from S and dP. */
__device__ __forceinline__ void differentiate(float *s, float *dp, float scale, float lse,
                                              float mean) {
    float p = exp2_fast((*s * scale - lse) * LOG2_E);
    *dp = p * (*dp - mean);
    *s = p;
}

/* ---- dK and dV ---- */

enum { OF_KEYS = 1, OF_VALUES = 2 };

template <int WHAT, int MATH, int DIM, int WARPS, int ROWS, int QUERIES, int STAGES>
__device__ __forceinline__ void differentiate_key_tile(const attention_call &call) {
    constexpr int THREADS = WARPS * 32, MINE = ROWS * TILE_ROWS, KEYS = WARPS * MINE;
    constexpr int STAGE = 2 * tile_floats<DIM>(QUERIES);
    extern __shared__ __align__(16) unsigned char shared[];
    float *k_tile = (float *)shared, *v_tile = k_tile + tile_floats<DIM>(KEYS);
    float *stages = v_tile + tile_floats<DIM>(KEYS);
    block_place at = find_keys<KEYS>(call, (int)blockIdx.x);
    int lane = (int)threadIdx.x % 32, mine = (int)threadIdx.x / 32 * MINE;
    int first_step = 0, steps = steps_over_queries(call, at.first, QUERIES);
    if (!find_split(at.split, (call.queries + QUERIES - 1) / QUERIES * call.group,
                    call.query_splits, &first_step, &steps))
        return;
    int begin = first_query(call, at.first) / QUERIES * QUERIES;
    float dk[ROWS][DIM / 8][4] = {}, dv[ROWS][DIM / 8][4] = {};

    auto load_queries = [&](int stage, int head, int query) {
        float *q_tile = stages + stage * STAGE, *do_tile = q_tile + tile_floats<DIM>(QUERIES);
        load_tile<QUERIES, DIM, THREADS>(q_tile, rows_of<float>(call.q, at.b, head), call.q.row,
                                         query, call.queries, call.head_dim, call.is_aligned);
        load_tile<QUERIES, DIM, THREADS>(do_tile, rows_of<float>(call.d_o, at.b, head),
                                         call.d_o.row, query, call.queries, call.head_dim,
                                         call.is_aligned);
        load_sums<QUERIES, DIM, THREADS>(q_tile, call, at.b, head, query);
        copy_async_commit();
    };

    load_tile<KEYS, DIM, THREADS>(k_tile, rows_of<float>(call.k, at.b, at.head), call.k.row,
                                  at.first, call.keys, call.head_dim, call.is_aligned);
    if (WHAT & OF_KEYS)
        load_tile<KEYS, DIM, THREADS>(v_tile, rows_of<float>(call.v, at.b, at.head), call.v.row,
                                      at.first, call.keys, call.head_dim, call.is_aligned);
    copy_async_commit();
    int head = at.head * call.group, query = begin, stage = 0, left = steps - first_step;
    if (first_step) {
        int in_head = steps_over_queries(call, at.first, QUERIES) / call.group;
        head += first_step / in_head;
        query += first_step % in_head * QUERIES;
    }
    if (STAGES == 2 && left)
        load_queries(stage, head, query);
    /* Key j is seen by query i when j <= i + keys - queries. */
    int lead = lane % 4 * 2 + call.keys - call.queries - at.first - mine - lane / 4;
    for (; left; left--) {
        /* Tile after tile of one head of the group, then of the next head. */
        bool is_last = query + QUERIES >= call.queries;
        int next_query = is_last ? begin : query + QUERIES, next_head = head + is_last;
        if (STAGES == 1)
            load_queries(stage, head, query);
        copy_async_wait<0>();
        __syncthreads();
        if (STAGES == 2 && left > 1)
            load_queries(stage ^ 1, next_head, next_query);
        float *q_tile = stages + stage * STAGE, *do_tile = q_tile + tile_floats<DIM>(QUERIES);
        float p[ROWS][QUERIES / 8][4], ds[ROWS][QUERIES / 8][4] = {};
        multiply_rows<MATH, DIM, ROWS, QUERIES>(p, k_tile + tile_floats<DIM>(mine), q_tile);
        if (WHAT & OF_KEYS)
            multiply_rows<MATH, DIM, ROWS, QUERIES>(ds, v_tile + tile_floats<DIM>(mine), do_tile);
        /* Rows of queries that are not there have an infinite LSE, which hides them. */
        if (call.is_causal && lead + query < MINE)
#pragma unroll
            for (int i = 0; i < ROWS * QUERIES / 2; i++) {
                int m = i / 4 / (QUERIES / 8), j = i / 4 % (QUERIES / 8), e = i % 4;
                if (lead + query + j * 8 + (e & 1) - (e >> 1) * 8 < m * TILE_ROWS)
                    p[m][j][e] = -INFINITY;
            }
#pragma unroll
        for (int j = 0; j < QUERIES / 8; j++) {
            float2 sums[2] = {*row_sums<DIM>(q_tile, j * 8 + lane % 4 * 2),
                              *row_sums<DIM>(q_tile, j * 8 + lane % 4 * 2 + 1)};
#pragma unroll
            for (int m = 0; m < ROWS; m++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    differentiate(&p[m][j][e], &ds[m][j][e], call.scale, sums[e & 1].x,
                                  sums[e & 1].y);
        }
        if (WHAT & OF_VALUES)
            multiply_columns<MATH, DIM, ROWS, QUERIES>(dv, p, do_tile, NULL);
        if (WHAT & OF_KEYS)
            multiply_columns<MATH, DIM, ROWS, QUERIES>(dk, ds, q_tile, NULL);
        query = next_query;
        head = next_head;
        stage ^= STAGES - 1;
        if (STAGES == 1)
            __syncthreads();
    }

    copy_async_wait<0>();
    at = find_keys<KEYS>(call, read_block());
    int row = at.first + read_thread() / 32 * MINE + read_thread() % 32 / 4;
    attention_rows to_k = target_rows(call.d_k, call.dk_partials, call.query_splits, at.split);
    attention_rows to_v = target_rows(call.d_v, call.dv_partials, call.query_splits, at.split);
#pragma unroll
    for (int i = 0; i < 2 * ROWS; i++, row += 8) {
        if (row >= call.keys)
            break;
        if (WHAT & OF_KEYS)
            store_row<MATH, DIM>(rows_of<float>(to_k, at.b, at.head) + row * to_k.row, dk[i / 2],
                                 i % 2, call.scale, call.head_dim, call.is_aligned);
        if (WHAT & OF_VALUES)
            store_row<MATH, DIM>(rows_of<float>(to_v, at.b, at.head) + row * to_v.row, dv[i / 2],
                                 i % 2, 1, call.head_dim, call.is_aligned);
    }
}

/* ---- dQ ---- */

template <int MATH, int DIM, int WARPS, int ROWS, int KEYS, int STAGES>
__device__ __forceinline__ void differentiate_query_tile(const attention_call &call) {
    constexpr int THREADS = WARPS * 32, MINE = ROWS * TILE_ROWS, QUERIES = WARPS * MINE;
    extern __shared__ __align__(16) unsigned char shared[];
    float *q_tile = (float *)shared, *do_tile = q_tile + tile_floats<DIM>(QUERIES);
    float *stages = do_tile + tile_floats<DIM>(QUERIES);
    block_place at = find_queries<QUERIES>(call, (int)blockIdx.x);
    int first_step = 0, steps = steps_over_keys(call, at.first, QUERIES, KEYS);
    if (!find_split(at.split, (call.keys + KEYS - 1) / KEYS, call.key_splits, &first_step, &steps))
        return;
    int kv = at.head / call.group, lane = (int)threadIdx.x % 32;
    int mine = (int)threadIdx.x / 32 * MINE;
    int seen_by_all = visible_keys(call, at.first);
    float dq[ROWS][DIM / 8][4] = {};

    auto load_step = [&](int step) {
        float *k_tile = stages + step % STAGES * tile_floats<DIM>(2 * KEYS);
        load_tile<KEYS, DIM, THREADS>(k_tile, rows_of<float>(call.k, at.b, kv), call.k.row,
                                      step * KEYS, call.keys, call.head_dim, call.is_aligned);
        load_tile<KEYS, DIM, THREADS>(k_tile + tile_floats<DIM>(KEYS),
                                      rows_of<float>(call.v, at.b, kv), call.v.row, step * KEYS,
                                      call.keys, call.head_dim, call.is_aligned);
        copy_async_commit();
    };

    load_tile<QUERIES, DIM, THREADS>(q_tile, rows_of<float>(call.q, at.b, at.head), call.q.row,
                                     at.first, call.queries, call.head_dim, call.is_aligned);
    load_tile<QUERIES, DIM, THREADS>(do_tile, rows_of<float>(call.d_o, at.b, at.head), call.d_o.row,
                                     at.first, call.queries, call.head_dim, call.is_aligned);
    load_sums<QUERIES, DIM, THREADS>(q_tile, call, at.b, at.head, at.first);
    copy_async_commit();
    if (STAGES == 2 && first_step < steps)
        load_step(first_step);
    for (int step = first_step; step < steps; step++) {
        if (STAGES == 1)
            load_step(step);
        copy_async_wait<0>();
        __syncthreads();
        if (STAGES == 2 && step + 1 < steps)
            load_step(step + 1);
        const float *k_tile = stages + step % STAGES * tile_floats<DIM>(2 * KEYS);
        float s[ROWS][KEYS / 8][4], ds[ROWS][KEYS / 8][4];
        multiply_rows<MATH, DIM, ROWS, KEYS>(s, q_tile + tile_floats<DIM>(mine), k_tile);
        multiply_rows<MATH, DIM, ROWS, KEYS>(ds, do_tile + tile_floats<DIM>(mine),
                                             k_tile + tile_floats<DIM>(KEYS));
        if ((step + 1) * KEYS > seen_by_all)
#pragma unroll
            for (int i = 0; i < 2 * ROWS; i++) {
                int limit = visible_keys(call, at.first + mine + lane / 4 + i * 8) - step * KEYS -
                            lane % 4 * 2;
#pragma unroll
                for (int j = 0; j < KEYS / 4; j++)
                    if (j / 2 * 8 + j % 2 >= limit)
                        s[i / 2][j / 2][i % 2 * 2 + j % 2] = -INFINITY;
            }
#pragma unroll
        for (int i = 0; i < 2 * ROWS; i++) {
            float2 sums = *row_sums<DIM>(q_tile, mine + lane / 4 + i * 8);
#pragma unroll
            for (int j = 0; j < KEYS / 4; j++)
                differentiate(&s[i / 2][j / 2][i % 2 * 2 + j % 2],
                              &ds[i / 2][j / 2][i % 2 * 2 + j % 2], call.scale, sums.x, sums.y);
        }
        multiply_columns<MATH, DIM, ROWS, KEYS>(dq, ds, k_tile, NULL);
        if (STAGES == 1)
            __syncthreads();
    }

    copy_async_wait<0>();
    at = find_queries<QUERIES>(call, read_block());
    int row = at.first + read_thread() / 32 * MINE + read_thread() % 32 / 4;
    attention_rows to = target_rows(call.d_q, call.dq_partials, call.key_splits, at.split);
#pragma unroll
    for (int i = 0; i < 2 * ROWS; i++, row += 8)
        if (row < call.queries)
            store_row<MATH, DIM>(rows_of<float>(to, at.b, at.head) + row * to.row, dq[i / 2], i % 2,
                                 call.scale, call.head_dim, call.is_aligned);
}

/* ---- kernels ---- */

template <int WHAT, int MATH, int DIM, int WARPS, int ROWS, int QUERIES, int STAGES, int BLOCKS>
static __global__ void __launch_bounds__(WARPS * 32, BLOCKS)
    attention_gradient_tf32_keys(const attention_call call) {
    differentiate_key_tile<WHAT, MATH, DIM, WARPS, ROWS, QUERIES, STAGES>(call);
}

template <int MATH, int DIM, int WARPS, int ROWS, int KEYS, int STAGES, int BLOCKS>
static __global__ void __launch_bounds__(WARPS * 32, BLOCKS)
    attention_gradient_tf32_queries(const attention_call call) {
    differentiate_query_tile<MATH, DIM, WARPS, ROWS, KEYS, STAGES>(call);
}

template <int KEYS> static __host__ __device__ int count_key_blocks(const attention_call &call) {
    return (call.keys + KEYS - 1) / KEYS * call.batch * call.kv_heads * call.query_splits;
}
template <int QUERIES>
static __host__ __device__ int count_query_blocks(const attention_call &call) {
    return (call.queries + QUERIES - 1) / QUERIES * call.batch * call.heads * call.key_splits;
}

/* blockIdx.y: which of the two, that for keys with K_TILE and K_STAGES; x: as theirs. */
template <int MATH, int DIM, int WARPS, int K_TILE, int K_STAGES, int Q_TILE, int Q_STAGES>
static __global__ void __launch_bounds__(WARPS * 32, 2)
    attention_gradient_tf32_both(const attention_call call) {
    int block = (int)blockIdx.x;
    if (blockIdx.y == 0 && block < count_key_blocks<WARPS * TILE_ROWS>(call))
        differentiate_key_tile<OF_KEYS | OF_VALUES, MATH, DIM, WARPS, 1, K_TILE, K_STAGES>(call);
    if (blockIdx.y == 1 && block < count_query_blocks<WARPS * TILE_ROWS>(call))
        differentiate_query_tile<MATH, DIM, WARPS, 1, Q_TILE, Q_STAGES>(call);
}

/* ---- launching ---- */

template <int WHAT, int MATH, int DIM, int WARPS, int ROWS, int TILE, int STAGES, int BLOCKS>
static void launch_keys(const attention_call *call, cudaStream_t stream) {
    constexpr int KEYS = WARPS * ROWS * TILE_ROWS;
    int floats = tile_floats<DIM>(2 * KEYS + STAGES * 2 * TILE);
    launch_blocks(attention_gradient_tf32_keys<WHAT, MATH, DIM, WARPS, ROWS, TILE, STAGES, BLOCKS>,
                  count_key_blocks<KEYS>(*call), WARPS * 32, floats * (int)sizeof(float), call,
                  stream);
}

template <int MATH, int DIM, int WARPS, int ROWS, int TILE, int STAGES, int BLOCKS>
static void launch_queries(const attention_call *call, cudaStream_t stream) {
    constexpr int QUERIES = WARPS * ROWS * TILE_ROWS;
    int floats = tile_floats<DIM>(2 * QUERIES + STAGES * 2 * TILE);
    launch_blocks(attention_gradient_tf32_queries<MATH, DIM, WARPS, ROWS, TILE, STAGES, BLOCKS>,
                  count_query_blocks<QUERIES>(*call), WARPS * 32, floats * (int)sizeof(float), call,
                  stream);
}

template <int MATH, int DIM, int WARPS, int K_TILE, int K_STAGES, int Q_TILE, int Q_STAGES>
static void launch_both(const attention_call *call, cudaStream_t stream) {
    constexpr int ROWS = WARPS * TILE_ROWS;
    constexpr int MOST =
        K_STAGES * K_TILE > Q_STAGES * Q_TILE ? K_STAGES * K_TILE : Q_STAGES * Q_TILE;
    int key_blocks = count_key_blocks<ROWS>(*call), query_blocks = count_query_blocks<ROWS>(*call);
    dim3 blocks((unsigned)(key_blocks > query_blocks ? key_blocks : query_blocks), 2);
    launch_blocks(attention_gradient_tf32_both<MATH, DIM, WARPS, K_TILE, K_STAGES, Q_TILE, Q_STAGES>,
                  blocks, WARPS * 32, tile_floats<DIM>(2 * ROWS + 2 * MOST) * (int)sizeof(float),
                  call, stream);
    attention_tile of_queries = {ROWS, Q_TILE}, of_keys = {K_TILE, ROWS};
    attention_combine_gradients(call, of_queries, of_keys, stream);
}

/* Rows of 16 for each warp of four, rows of the other side at a time, stages, blocks for each
 * multiprocessor: of the kernel for keys, and of that for queries. Of few heads 16 rows, and two
 * stages wherever they fit. */
template <int MATH, int DIM, int K_ROWS, int K_TILE, int K_STAGES, int K_BLOCKS, int Q_ROWS,
          int Q_TILE, int Q_STAGES, int Q_BLOCKS>
static void launch_small(const attention_call *call, cudaStream_t stream) {
    constexpr int WARPS = 4;
    constexpr bool HAS_ROOM = DIM <= 80;
    if (call->is_few) {
        launch_both<MATH, DIM, WARPS, K_TILE, HAS_ROOM ? 2 : K_STAGES, Q_TILE,
                    HAS_ROOM ? 2 : Q_STAGES>(call, stream);
        return;
    }
    launch_keys<OF_KEYS | OF_VALUES, MATH, DIM, WARPS, K_ROWS, K_TILE, K_STAGES, K_BLOCKS>(call,
                                                                                           stream);
    launch_queries<MATH, DIM, WARPS, Q_ROWS, Q_TILE, Q_STAGES, Q_BLOCKS>(call, stream);
}

/* dK and dV apart, two warps. */
template <int MATH, int DIM, int STAGES>
static void launch_large(const attention_call *call, cudaStream_t stream) {
    constexpr int WARPS = 2, TILE = 16, ROWS = WARPS * TILE_ROWS;
    launch_keys<OF_VALUES, MATH, DIM, WARPS, 1, TILE, STAGES, 1>(call, stream);
    launch_keys<OF_KEYS, MATH, DIM, WARPS, 1, TILE, STAGES, 1>(call, stream);
    launch_queries<MATH, DIM, WARPS, 1, TILE, STAGES, 1>(call, stream);
    attention_tile of_queries = {ROWS, TILE}, of_keys = {TILE, ROWS};
    attention_combine_gradients(call, of_queries, of_keys, stream);
}

/* Shared memory stays within 99 KiB, which every GPU since sm_86 has. */
template <int MATH> static void launch_from_128(const attention_call *call, cudaStream_t stream) {
    int dim = call->head_dim;
    if (dim <= 128)
        launch_small<MATH, 128, 1, 16, 1, 2, 1, 32, 1, 2>(call, stream);
    else if (dim <= 192)
        launch_large<MATH, 192, 2>(call, stream);
    else
        launch_large<MATH, 256, 1>(call, stream);
}

static void launch_3tf32(const attention_call *call, cudaStream_t stream) {
    constexpr int MATH = MATH_3TF32;
    int dim = call->head_dim;
    if (dim <= 32)
        launch_small<MATH, 32, 1, 32, 2, 3, 2, 32, 2, 2>(call, stream);
    else if (dim <= 64)
        launch_small<MATH, 64, 1, 32, 2, 2, 2, 32, 1, 2>(call, stream);
    else if (dim <= 80)
        launch_small<MATH, 80, 1, 32, 2, 2, 1, 32, 2, 2>(call, stream);
    else if (dim <= 96)
        launch_small<MATH, 96, 1, 16, 2, 2, 1, 32, 1, 2>(call, stream);
    else
        launch_from_128<MATH>(call, stream);
}

static void launch_tf32(const attention_call *call, cudaStream_t stream) {
    constexpr int MATH = MATH_TF32;
    int dim = call->head_dim;
    if (dim <= 32)
        launch_small<MATH, 32, 2, 32, 2, 2, 2, 32, 2, 2>(call, stream);
    else if (dim <= 64)
        launch_small<MATH, 64, 2, 32, 1, 2, 2, 32, 1, 2>(call, stream);
    else if (dim <= 80)
        launch_small<MATH, 80, 1, 32, 2, 2, 1, 32, 2, 2>(call, stream);
    else if (dim <= 96)
        launch_small<MATH, 96, 1, 32, 1, 2, 1, 32, 1, 2>(call, stream);
    else
        launch_from_128<MATH>(call, stream);
}

dyno_status attention_backward_tf32(const attention_call *call, cudaStream_t stream) {
    if (call->is_tf32)
        launch_tf32(call, stream);
    else
        launch_3tf32(call, stream);
    return cuda_launch_status();
}
