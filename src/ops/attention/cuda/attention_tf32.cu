/* attention_tf32.cu - attention of f32 on the tensor cores of sm_80 and up.
 *
 * Both --precision tf32, products of operands rounded to tf32, and fp32, each product in three of
 * tf32 (tf32_tile.cuh; docs/decisions/0018 has the errors of both). The way of attention_mma.cu: a
 * block has a tile of queries, 16 ROWS for each warp, and goes over the keys it sees, a tile at a
 * time. K and V have one buffer each: V's tile arrives under the product with K, the next tile of K
 * under the product with V. Of few heads, a block has a split of those keys. */
#include "ops/attention/cuda/attention_launch.cuh"
#include "ops/attention/cuda/tf32_tile.cuh"

/* What a lane knows of its two rows, g and g+8 of 16. */
typedef struct row_state {
    float largest[2]; /* of the scores so far, not yet scaled */
    float sum[2];     /* of this lane's columns */
} row_state;

/* Scores to weights; shrink: what sums up to here have to be multiplied by. Scores of thousands are
 * exact only when the maximum is subtracted before anything is multiplied. */
template <int KEYS>
__device__ __forceinline__ void take_scores(float (*s)[4], float factor, row_state *state,
                                            float *shrink) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float top = state->largest[r], total = 0;
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
            top = fmaxf(top, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
        top = row_max(top);
        /* While nothing is seen, any finite reference keeps it out of the sums. */
        float reference = top == -INFINITY ? 0 : top;
        shrink[r] = exp2_fast((state->largest[r] - reference) * factor);
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int e = 2 * r; e < 2 * r + 2; e++) {
                s[j][e] = exp2_fast((s[j][e] - reference) * factor);
                total += s[j][e];
            }
        state->sum[r] = state->sum[r] * shrink[r] + total;
        state->largest[r] = top;
    }
}

template <int MATH, int DIM, int WARPS, int ROWS, int KEYS, int BLOCKS>
static __global__ void __launch_bounds__(WARPS * 32, BLOCKS) attention_tf32(const attention_call call) {
    constexpr int MINE = ROWS * TILE_ROWS, QUERIES = WARPS * MINE, THREADS = WARPS * 32;
    extern __shared__ __align__(16) unsigned char shared[];
    float *q_tile = (float *)shared, *k_tile = q_tile + tile_floats<DIM>(QUERIES);
    float *v_tile = k_tile + tile_floats<DIM>(KEYS);
    block_place at = find_queries<QUERIES>(call, (int)blockIdx.x);
    int begin = 0, end = steps_over_keys(call, at.first, QUERIES, KEYS);
    if (!find_split(at.split, (call.keys + KEYS - 1) / KEYS, call.key_splits, &begin, &end))
        return;
    int lane = (int)threadIdx.x % 32, mine = (int)threadIdx.x / 32 * MINE;
    const float *k = rows_of<float>(call.k, at.b, at.head / call.group);
    const float *v = rows_of<float>(call.v, at.b, at.head / call.group);
    int seen_by_all = visible_keys(call, at.first);

    float o[ROWS][DIM / 8][4] = {}, factor = call.scale * LOG2_E;
    row_state state[ROWS];
#pragma unroll
    for (int m = 0; m < ROWS; m++)
        state[m] = {{-INFINITY, -INFINITY}, {0, 0}};
    load_tile<QUERIES, DIM, THREADS>(q_tile, rows_of<float>(call.q, at.b, at.head), call.q.row,
                                     at.first, call.queries, call.head_dim, call.is_aligned);
    load_tile<KEYS, DIM, THREADS>(k_tile, k, call.k.row, (end - 1) * KEYS, end ? call.keys : 0,
                                  call.head_dim, call.is_aligned);
    copy_async_commit();
    int key = end * KEYS;
    for (int left = end - begin; left; left--) {
        key -= KEYS;
        float s[ROWS][KEYS / 8][4], shrink[ROWS][2];
        copy_async_wait<0>();
        __syncthreads(); /* K is there; nobody reads V any more */
        load_tile<KEYS, DIM, THREADS>(v_tile, v, call.v.row, key, call.keys, call.head_dim,
                                      call.is_aligned);
        copy_async_commit();
        multiply_rows<MATH, DIM, ROWS, KEYS>(s, q_tile + tile_floats<DIM>(mine), k_tile);
        if (key + KEYS > seen_by_all)
#pragma unroll
            for (int m = 0; m < ROWS; m++) {
                int row = at.first + mine + lane / 4 + m * TILE_ROWS;
                int limit[2] = {visible_keys(call, row), visible_keys(call, row + 8)};
                hide<KEYS>(s[m], key, limit);
            }
#pragma unroll
        for (int m = 0; m < ROWS; m++)
            take_scores<KEYS>(s[m], factor, &state[m], shrink[m]);
        copy_async_wait<0>();
        __syncthreads(); /* V is there; nobody reads K any more */
        if (left > 1)
            load_tile<KEYS, DIM, THREADS>(k_tile, k, call.k.row, key - KEYS, call.keys,
                                          call.head_dim, call.is_aligned);
        copy_async_commit();
        multiply_columns<MATH, DIM, ROWS, KEYS>(o, s, v_tile, shrink);
    }

    copy_async_wait<0>();
    at = find_queries<QUERIES>(call, read_block());
    int row = at.first + read_thread() / 32 * MINE + read_thread() % 32 / 4;
    attention_rows to = target_rows(call.o, call.o_partials, call.key_splits, at.split);
    float *to_lse = rows_of<float>(target_rows(call.lse, call.lse_partials, call.key_splits, at.split),
                                   at.b, at.head);
#pragma unroll
    for (int i = 0; i < 2 * ROWS; i++, row += 8) {
        float sum = row_sum(state[i / 2].sum[i % 2]), largest = state[i / 2].largest[i % 2];
        if (row >= call.queries)
            continue;
        store_row<MATH, DIM>(rows_of<float>(to, at.b, at.head) + row * to.row, o[i / 2], i % 2,
                             sum == 0 ? 0 : 1 / sum, call.head_dim, call.is_aligned);
        if (read_thread() % 4 == 0)
            to_lse[row] = sum == 0 ? -INFINITY : largest * call.scale + logf(sum);
    }
}

template <int MATH, int DIM, int QUERIES, int KEYS, int BLOCKS>
static dyno_status launch(const attention_call *call, cudaStream_t stream) {
    constexpr int WARPS = 4, ROWS = QUERIES / (WARPS * TILE_ROWS);
    int bytes = tile_floats<DIM>(QUERIES + 2 * KEYS) * (int)sizeof(float);
    int tiles = (call->queries + QUERIES - 1) / QUERIES;
    launch_blocks(attention_tf32<MATH, DIM, WARPS, ROWS, KEYS, BLOCKS>,
                  tiles * call->batch * call->heads * call->key_splits, WARPS * 32, bytes, call,
                  stream);
    attention_combine_outputs(call, call->tile, stream);
    return cuda_launch_status();
}

dyno_status attention_forward_tf32(const attention_call *call, cudaStream_t stream) {
#define INSTANCE_3TF32(HEAD, QUERIES, KEYS, BLOCKS)                                                \
    {HEAD, {QUERIES, KEYS}, launch<MATH_3TF32, HEAD, QUERIES, KEYS, BLOCKS>},
#define INSTANCE_TF32(HEAD, QUERIES, KEYS, BLOCKS)                                                 \
    {HEAD, {QUERIES, KEYS}, launch<MATH_TF32, HEAD, QUERIES, KEYS, BLOCKS>},
    static const attention_instance exact[] = {FOR_EACH_ATTENTION_3TF32(INSTANCE_3TF32)};
    static const attention_instance rounded[] = {FOR_EACH_ATTENTION_TF32(INSTANCE_TF32)};
#undef INSTANCE_3TF32
#undef INSTANCE_TF32
    return call->is_tf32 ? launch_instance(rounded, call, stream)
                         : launch_instance(exact, call, stream);
}
