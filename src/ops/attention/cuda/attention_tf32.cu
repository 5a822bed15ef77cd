/* attention_tf32.cu - attention of f32 on the tensor cores of sm_80 and up.
 *
 * Both --precision tf32, products of operands rounded to tf32, and fp32, each product in three of
 * tf32 (tf32_tile.cuh; docs/decisions/0018 has the errors of both). The way of attention_mma.cu: a
 * block has a tile of queries, 16 ROWS for each warp, and goes over the keys it sees, a tile at a
 * time. K and V have one buffer each: V's tile arrives under the product with K, the next tile of K
 * under the product with V. Of few heads, a block has a piece of those keys. */
#include "ops/attention/cuda/attention_choices.cuh"
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
static __global__ void __launch_bounds__(WARPS * 32, BLOCKS) attend_f32(const attention_call call) {
    constexpr int MINE = ROWS * TILE_ROWS, QUERIES = WARPS * MINE, THREADS = WARPS * 32;
    extern __shared__ __align__(16) unsigned char shared[];
    float *q_tile = (float *)shared, *k_tile = q_tile + tile_floats<DIM>(QUERIES);
    float *v_tile = k_tile + tile_floats<DIM>(KEYS);
    block_place at = find_queries<QUERIES>(call, (int)blockIdx.x);
    int begin = 0, end = steps_over_keys(call, at.first, QUERIES, KEYS);
    if (!find_piece(at.piece, (call.keys + KEYS - 1) / KEYS, call.key_pieces, &begin, &end))
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
    attention_rows to = target_rows(call.o, call.o_parts, call.key_pieces, at.piece);
    float *to_lse = rows_of<float>(target_rows(call.lse, call.lse_parts, call.key_pieces, at.piece),
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

template <int MATH, int DIM, int WARPS, int ROWS, int KEYS, int BLOCKS>
static int launch(const attention_call *call, cudaStream_t stream) {
    constexpr int QUERIES = WARPS * ROWS * TILE_ROWS;
    int bytes = tile_floats<DIM>(QUERIES + 2 * KEYS) * (int)sizeof(float);
    int tiles = (call->queries + QUERIES - 1) / QUERIES;
    launch_blocks(attend_f32<MATH, DIM, WARPS, ROWS, KEYS, BLOCKS>,
                  tiles * call->batch * call->heads * call->key_pieces, WARPS * 32, bytes, call,
                  stream);
    cuda_tile tile = {QUERIES, KEYS};
    attention_join_outputs(call, tile, stream);
    return 1;
}

/* Up to head size 128 also half as many keys at a time. */
template <int MATH, int DIM, int WARPS, int ROWS, int KEYS, int BLOCKS>
static attention_choices choices_of(void) {
    constexpr int QUERIES = WARPS * ROWS * TILE_ROWS, FEWER = DIM <= 128 ? KEYS / 2 : KEYS;
    attention_choices choices = {
        {{{QUERIES, KEYS}, launch<MATH, DIM, WARPS, ROWS, KEYS, BLOCKS>},
         {{QUERIES, FEWER}, launch<MATH, DIM, WARPS, ROWS, FEWER, BLOCKS>}},
        FEWER < KEYS ? 2 : 1};
    return choices;
}

/* Shared memory stays within 99 KiB, which every GPU since sm_86 has. */
static attention_choices choices_3tf32(int dim) {
    return dim <= 32    ? choices_of<MATH_3TF32, 32, 4, 1, 64, 3>()
           : dim <= 64  ? choices_of<MATH_3TF32, 64, 4, 1, 64, 3>()
           : dim <= 80  ? choices_of<MATH_3TF32, 80, 4, 1, 64, 2>()
           : dim <= 96  ? choices_of<MATH_3TF32, 96, 4, 1, 32, 2>()
           : dim <= 128 ? choices_of<MATH_3TF32, 128, 4, 1, 32, 2>()
           : dim <= 192 ? choices_of<MATH_3TF32, 192, 4, 1, 32, 1>()
                        : choices_of<MATH_3TF32, 256, 4, 1, 16, 1>();
}

static attention_choices choices_tf32(int dim) {
    return dim <= 32    ? choices_of<MATH_TF32, 32, 4, 2, 64, 2>()
           : dim <= 64  ? choices_of<MATH_TF32, 64, 4, 2, 64, 2>()
           : dim <= 80  ? choices_of<MATH_TF32, 80, 4, 2, 32, 2>()
           : dim <= 96  ? choices_of<MATH_TF32, 96, 4, 1, 64, 2>()
           : dim <= 128 ? choices_of<MATH_TF32, 128, 4, 1, 64, 2>()
           : dim <= 192 ? choices_of<MATH_TF32, 192, 4, 1, 32, 1>()
                        : choices_of<MATH_TF32, 256, 4, 1, 16, 1>();
}

static attention_choices choices_for(const attention_call *call) {
    return call->is_tf32 ? choices_tf32(call->head_dim) : choices_3tf32(call->head_dim);
}

int attention_forward_f32_tiles(const attention_call *call, cuda_tile *out) {
    attention_choices choices = choices_for(call);
    return list_choices(&choices, out);
}

void attention_forward_f32(const attention_call *call, cudaStream_t stream) {
    attention_choices choices = choices_for(call);
    launch_choice(&choices, call, stream);
}
