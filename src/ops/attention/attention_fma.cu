/* attention_fma.cu - attention in f32 proper, without tensor cores. Formulas and order of sums are
 * those of attention_tiled.c; tiles lie in shared memory, sums in registers. */
#include "ops/attention/attention_cuda.cuh"
#include "ops/attention/fma_tile.cuh"

template <int DIM, int QUERIES, int KEYS>
static __global__ void __launch_bounds__(FMA_THREADS) attend(const attention_call call) {
    constexpr int ROWS = QUERIES / SQUARE, COLUMNS = KEYS / SQUARE, PITCH = DIM + FMA_PAD;
    extern __shared__ __align__(16) unsigned char shared[];
    float *q_tile = (float *)shared, *k_tile = q_tile + QUERIES * PITCH;
    float *v_tile = k_tile + KEYS * PITCH, *p_tile = v_tile + KEYS * PITCH;
    int heads = call.batch * call.heads, head = (int)blockIdx.x % heads;
    int first = (int)(gridDim.x / heads - 1 - blockIdx.x / heads) * QUERIES;
    int b = head / call.heads, h = head % call.heads, kv = h / call.group;
    int last = first + QUERIES < call.queries ? first + QUERIES - 1 : call.queries - 1;
    int end = visible_keys(call, last);
    float4 o[ROWS][DIM / 64] = {};
    float largest[ROWS], sum[ROWS] = {};
    for (int i = 0; i < ROWS; i++)
        largest[i] = -INFINITY;
    load_floats<QUERIES, DIM>(q_tile, rows_of<float>(call.q, b, h), call.q.row, first, call.queries,
                              call.head_dim);
    for (int at = 0; at < end; at += KEYS) {
        __syncthreads(); /* nobody reads the tiles before */
        load_floats<KEYS, DIM>(k_tile, rows_of<float>(call.k, b, kv), call.k.row, at, call.keys,
                               call.head_dim);
        load_floats<KEYS, DIM>(v_tile, rows_of<float>(call.v, b, kv), call.v.row, at, call.keys,
                               call.head_dim);
        __syncthreads();
        float s[ROWS][COLUMNS];
        multiply_float_rows<QUERIES, KEYS, DIM>(s, q_tile, k_tile);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            int row = thread_y() + i * SQUARE, limit = visible_keys(call, first + row);
            float top = largest[i], total = 0;
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                bool is_seen = at + thread_x() + j * SQUARE < limit;
                s[i][j] = is_seen ? s[i][j] * call.scale : -INFINITY;
                top = fmaxf(top, s[i][j]);
            }
            top = square_max(top);
            float reference = top == -INFINITY ? 0 : top;
            float shrink = expf(largest[i] - reference);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                float p = expf(s[i][j] - reference);
                total += p;
                p_tile[row * (KEYS + FMA_PAD) + thread_x() + j * SQUARE] = p;
            }
            sum[i] = sum[i] * shrink + square_sum(total);
            largest[i] = top;
#pragma unroll
            for (int j = 0; j < DIM / 64; j++) {
                o[i][j].x *= shrink;
                o[i][j].y *= shrink;
                o[i][j].z *= shrink;
                o[i][j].w *= shrink;
            }
        }
        __syncwarp(); /* a row's threads are of one warp */
        multiply_float_columns<QUERIES, KEYS, DIM>(o, p_tile, v_tile);
    }
    for (int i = 0; i < ROWS; i++) {
        int row = first + thread_y() + i * SQUARE;
        if (row >= call.queries)
            continue;
        store_float_row<DIM>(o[i], sum[i] == 0 ? 0 : 1 / sum[i],
                             rows_of<float>(call.o, b, h) + row * call.o.row, call.head_dim);
        if (thread_x() == 0)
            rows_of<float>(call.lse, b, h)[row] =
                sum[i] == 0 ? -INFINITY : largest[i] + logf(sum[i]);
    }
}

/* dK and dV of a tile of keys over all queries, or dQ of a tile of queries over all keys: rows are
 * the tile's, columns the other's, S = R C^T and dP = R' C'^T, where (R, R') is (K, V) and (C, C')
 * is (Q, dO), or the other way round. Then dK, or dQ, is the sum of dS C, and dV that of P C'. */
template <int DIM, int ROW_TILE, int COLUMN_TILE, bool IS_OF_KEYS>
static __global__ void __launch_bounds__(FMA_THREADS) differentiate(const attention_call call) {
    constexpr int ROWS = ROW_TILE / SQUARE, COLUMNS = COLUMN_TILE / SQUARE, PITCH = DIM + FMA_PAD;
    constexpr int SCORES = ROW_TILE * (COLUMN_TILE + FMA_PAD);
    extern __shared__ __align__(16) unsigned char shared[];
    float *r_tile = (float *)shared, *r2_tile = r_tile + ROW_TILE * PITCH;
    float *c_tile = r2_tile + ROW_TILE * PITCH, *c2_tile = c_tile + COLUMN_TILE * PITCH;
    float *p_tile = c2_tile + COLUMN_TILE * PITCH, *ds_tile = p_tile + (IS_OF_KEYS ? SCORES : 0);
    int owners = IS_OF_KEYS ? call.kv_heads : call.heads, heads = call.batch * owners;
    int head = (int)blockIdx.x % heads, tile = (int)blockIdx.x / heads;
    int b = head / owners, owner = head % owners;
    int first = (IS_OF_KEYS ? tile : (int)(gridDim.x / heads) - 1 - tile) * ROW_TILE;
    int row_limit = IS_OF_KEYS ? call.keys : call.queries;
    int group = IS_OF_KEYS ? call.group : 1;
    const attention_rows &r = IS_OF_KEYS ? call.k : call.q, &r2 = IS_OF_KEYS ? call.v : call.d_o;
    const attention_rows &c = IS_OF_KEYS ? call.q : call.k, &c2 = IS_OF_KEYS ? call.d_o : call.v;
    int last = first + ROW_TILE < row_limit ? first + ROW_TILE - 1 : row_limit - 1;
    int begin = IS_OF_KEYS ? first_query(call, first) / COLUMN_TILE * COLUMN_TILE : 0;
    int end = IS_OF_KEYS ? call.queries : visible_keys(call, last);
    float4 from_ds[ROWS][DIM / 64] = {}, from_p[ROWS][DIM / 64] = {};
    load_floats<ROW_TILE, DIM>(r_tile, rows_of<float>(r, b, owner), r.row, first, row_limit,
                               call.head_dim);
    load_floats<ROW_TILE, DIM>(r2_tile, rows_of<float>(r2, b, owner), r2.row, first, row_limit,
                               call.head_dim);
    for (int member = 0; member < group; member++) {
        int h = IS_OF_KEYS ? owner * call.group + member : owner; /* the query head */
        int other = IS_OF_KEYS ? h : h / call.group;
        const float *lse = rows_of<float>(call.lse, b, h);
        const float *mean = call.mean + (int64_t)(b * call.heads + h) * call.queries;
        for (int at = begin; at < end; at += COLUMN_TILE) {
            int column_limit = IS_OF_KEYS ? call.queries : call.keys;
            __syncthreads(); /* nobody reads the tiles before */
            load_floats<COLUMN_TILE, DIM>(c_tile, rows_of<float>(c, b, other), c.row, at,
                                          column_limit, call.head_dim);
            load_floats<COLUMN_TILE, DIM>(c2_tile, rows_of<float>(c2, b, other), c2.row, at,
                                          column_limit, call.head_dim);
            __syncthreads();
            float s[ROWS][COLUMNS], dp[ROWS][COLUMNS];
            multiply_float_rows<ROW_TILE, COLUMN_TILE, DIM>(s, r_tile, c_tile);
            multiply_float_rows<ROW_TILE, COLUMN_TILE, DIM>(dp, r2_tile, c2_tile);
#pragma unroll
            for (int i = 0; i < ROWS; i++)
#pragma unroll
                for (int j = 0; j < COLUMNS; j++) {
                    int row = thread_y() + i * SQUARE, column = thread_x() + j * SQUARE;
                    int query = IS_OF_KEYS ? at + column : first + row;
                    int key = IS_OF_KEYS ? first + row : at + column;
                    bool is_seen = query < call.queries && key < visible_keys(call, query);
                    float p = is_seen ? expf(s[i][j] * call.scale - lse[query]) : 0;
                    int place = row * (COLUMN_TILE + FMA_PAD) + column;
                    if (IS_OF_KEYS)
                        p_tile[place] = p;
                    ds_tile[place] = is_seen ? p * (dp[i][j] - mean[query]) : 0;
                }
            __syncwarp();
            multiply_float_columns<ROW_TILE, COLUMN_TILE, DIM>(from_ds, ds_tile, c_tile);
            if (IS_OF_KEYS)
                multiply_float_columns<ROW_TILE, COLUMN_TILE, DIM>(from_p, p_tile, c2_tile);
        }
    }
    const attention_rows &to = IS_OF_KEYS ? call.d_k : call.d_q;
    for (int i = 0; i < ROWS; i++) {
        int row = first + thread_y() + i * SQUARE;
        if (row >= row_limit)
            continue;
        store_float_row<DIM>(from_ds[i], call.scale, rows_of<float>(to, b, owner) + row * to.row,
                             call.head_dim);
        if (IS_OF_KEYS)
            store_float_row<DIM>(from_p[i], 1,
                                 rows_of<float>(call.d_v, b, owner) + row * call.d_v.row,
                                 call.head_dim);
    }
}

template <typename FUNCTION>
static void launch(FUNCTION *function, int64_t blocks, int floats, const attention_call *call,
                   cudaStream_t stream) {
    int bytes = floats * (int)sizeof(float);
    cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3(FMA_THREADS);
    config.dynamicSmemBytes = (size_t)bytes;
    config.stream = stream;
    cudaLaunchKernelEx(&config, function, *call);
}

template <int DIM, int QUERIES, int KEYS>
static void launch_forward(const attention_call *call, cudaStream_t stream) {
    int64_t tiles = (call->queries + QUERIES - 1) / QUERIES;
    int floats = (QUERIES + 2 * KEYS) * (DIM + FMA_PAD) + QUERIES * (KEYS + FMA_PAD);
    launch(attend<DIM, QUERIES, KEYS>, tiles * call->batch * call->heads, floats, call, stream);
}

template <int DIM, int ROW_TILE, int COLUMN_TILE>
static void launch_backward(const attention_call *call, cudaStream_t stream) {
    int64_t key_tiles = (call->keys + ROW_TILE - 1) / ROW_TILE;
    int64_t query_tiles = (call->queries + ROW_TILE - 1) / ROW_TILE;
    int floats = 2 * (ROW_TILE + COLUMN_TILE) * (DIM + FMA_PAD);
    int scores = ROW_TILE * (COLUMN_TILE + FMA_PAD);
    launch(differentiate<DIM, ROW_TILE, COLUMN_TILE, true>,
           key_tiles * call->batch * call->kv_heads, floats + 2 * scores, call, stream);
    launch(differentiate<DIM, ROW_TILE, COLUMN_TILE, false>,
           query_tiles * call->batch * call->heads, floats + scores, call, stream);
}

/* Tiles as large as 99 KiB of shared memory allow, which every GPU since sm_86 has. */
void attention_forward_fma(const attention_call *call, cudaStream_t stream) {
    if (call->head_dim <= 64)
        launch_forward<64, 64, 64>(call, stream);
    else if (call->head_dim <= 128)
        launch_forward<128, 64, 32>(call, stream);
    else
        launch_forward<256, 32, 16>(call, stream);
}

void attention_backward_fma(const attention_call *call, cudaStream_t stream) {
    if (call->head_dim <= 64)
        launch_backward<64, 64, 32>(call, stream);
    else if (call->head_dim <= 128)
        launch_backward<128, 64, 16>(call, stream);
    else
        launch_backward<256, 16, 16>(call, stream);
}
