/* attention_mma.cu - attention on the tensor cores of sm_80 and up, bf16 and f16.
 *
 * A block has a tile of queries, 16 for each warp, and goes over the keys it sees, a tile at a
 * time. K and V have one buffer each: V's tile arrives under the product with K, the next tile of K
 * under the product with V. Blocks of few warps have two of each: the next tiles arrive under all
 * that is computed of one. Scores and their exponentials stay in registers, which hold them the
 * way the second product wants its left operand. Of few heads, a block has a split of those keys.
 *
 * Exponents are to base 2, with scale * log2(e) folded into the subtraction of the maximum. */
#include "ops/attention/cuda/attention_launch.cuh"
#include "ops/attention/cuda/mma_tile.cuh"

enum { KEYS = 64 };

/* What a lane knows of its two rows, g and g+8 of its warp's 16. */
typedef struct row_state {
    float largest[2];   /* of the scores so far, not yet scaled */
    float reference[2]; /* the same times scale * log2(e), rounded: what sums are relative to */
    float sum[2];       /* of this lane's columns */
} row_state;

/* Scores to weights, and what was summed up before to the new maximum. */
template <int DIM>
__device__ __forceinline__ void take_scores(float (*s)[4], float factor, row_state *state,
                                            float (*o)[4]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float top = state->largest[r];
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
            top = fmaxf(top, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
        top = row_max(top);
        /* While nothing is seen, any finite reference keeps it out of the sums. */
        float reference = top == -INFINITY ? 0 : top * factor;
        float shrink = exp2_fast(state->reference[r] - reference);
        float total = 0;
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int e = 2 * r; e < 2 * r + 2; e++) {
                s[j][e] = exp2_fast(s[j][e] * factor - reference);
                total += s[j][e];
            }
        state->sum[r] = state->sum[r] * shrink + total;
        state->largest[r] = top;
        state->reference[r] = top * factor;
#pragma unroll
        for (int j = 0; j < DIM / 8; j++) {
            o[j][2 * r] *= shrink;
            o[j][2 * r + 1] *= shrink;
        }
    }
}

template <int TYPE, int DIM, int WARPS, int STAGES>
static __global__ void __launch_bounds__(WARPS * 32, 1) attention_mma(const attention_call call) {
    constexpr int QUERIES = WARPS * MMA_ROWS, THREADS = WARPS * 32;
    extern __shared__ __align__(16) unsigned char shared[];
    uint16_t *q_tile = (uint16_t *)shared, *k_tiles = q_tile + tile_size<DIM>(QUERIES);
    uint16_t *v_tiles = k_tiles + STAGES * tile_size<DIM>(KEYS);
    int heads = call.batch * call.heads, head = (int)blockIdx.x % heads;
    int splits = call.key_splits, split = (int)blockIdx.x / heads % splits, begin = 0;
    /* The last queries have the most keys; they go first. */
    int first = (int)(gridDim.x / (heads * splits) - 1 - blockIdx.x / (heads * splits)) * QUERIES;
    int end = steps_over_keys(call, first, QUERIES, KEYS);
    if (!find_split(split, (call.keys + KEYS - 1) / KEYS, splits, &begin, &end))
        return;
    int b = head / call.heads, h = head % call.heads, kv = h / call.group;
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const uint16_t *q = rows_of<uint16_t>(call.q, b, h);
    const uint16_t *k = rows_of<uint16_t>(call.k, b, kv), *v = rows_of<uint16_t>(call.v, b, kv);
    int rows[2] = {first + warp * MMA_ROWS + lane / 4, first + warp * MMA_ROWS + lane / 4 + 8};
    int limit[2] = {visible_keys(call, rows[0]), visible_keys(call, rows[1])};
    int seen_by_all = visible_keys(call, first);

    float o[DIM / 8][4] = {};
    row_state state = {{-INFINITY, -INFINITY}, {-INFINITY, -INFINITY}, {0, 0}};
    float factor = call.scale * LOG2_E;
    auto load_keys = [&](int tile) {
        load_tile<KEYS, DIM, THREADS>(k_tiles + tile % STAGES * tile_size<DIM>(KEYS), k, call.k.row,
                                      tile * KEYS, call.keys, call.head_dim, call.is_aligned);
    };
    auto load_values = [&](int tile) {
        load_tile<KEYS, DIM, THREADS>(v_tiles + tile % STAGES * tile_size<DIM>(KEYS), v, call.v.row,
                                      tile * KEYS, call.keys, call.head_dim, call.is_aligned);
    };

    load_tile<QUERIES, DIM, THREADS>(q_tile, q, call.q.row, first, call.queries, call.head_dim,
                                     call.is_aligned);
    if (end > begin)
        load_keys(end - 1);
    if (STAGES == 2 && end > begin)
        load_values(end - 1);
    copy_async_commit();
    for (int tile = end - 1; tile >= begin; tile--) {
        const uint16_t *k_tile = k_tiles + tile % STAGES * tile_size<DIM>(KEYS);
        const uint16_t *v_tile = v_tiles + tile % STAGES * tile_size<DIM>(KEYS);
        float s[KEYS / 8][4];
        copy_async_wait<0>();
        __syncthreads(); /* K is there, of two stages V too; nobody reads V of the step before */
        if (STAGES == 1) {
            load_values(tile);
        } else if (tile > begin) {
            load_keys(tile - 1);
            load_values(tile - 1);
        }
        copy_async_commit();
        multiply_rows<TYPE, DIM, KEYS>(s, q_tile + tile_size<DIM>(warp * MMA_ROWS), k_tile);
        if ((tile + 1) * KEYS > seen_by_all)
            hide<KEYS>(s, tile * KEYS, limit);
        take_scores<DIM>(s, factor, &state, o);
        if (STAGES == 1) {
            copy_async_wait<0>();
            __syncthreads(); /* V is there; nobody reads K any more */
            if (tile > begin)
                load_keys(tile - 1);
            copy_async_commit();
        }
        multiply_columns<TYPE, DIM, KEYS, DIM>(o, s, v_tile);
    }

    copy_async_wait<0>();
    __syncthreads();
    float inverse[2];
    float *to_lse = rows_of<float>(target_rows(call.lse, call.lse_partials, splits, split), b, h);
    for (int r = 0; r < 2; r++) {
        float sum = row_sum(state.sum[r]);
        inverse[r] = sum == 0 ? 0 : 1 / sum;
        float lse = sum == 0 ? -INFINITY : (state.reference[r] + log2f(sum)) * LN_2;
        if (lane % 4 == 0 && rows[r] < call.queries)
            to_lse[rows[r]] = lse;
    }
    if (splits > 1) {
        attention_rows partials = target_rows(call.o, call.o_partials, splits, split);
        store_sums<DIM>(partials, b, h, first + warp * MMA_ROWS, call.queries, 0, o, inverse[0],
                        inverse[1]);
        return;
    }
    uint16_t *mine = q_tile + tile_size<DIM>(warp * MMA_ROWS);
    round_to_tile<TYPE, DIM, DIM>(mine, o, inverse[0], inverse[1]);
    __syncwarp();
    store_rows<DIM>(mine, rows_of<uint16_t>(call.o, b, h), call.o.row, first + warp * MMA_ROWS,
                    MMA_ROWS, call.queries, call.head_dim, call.is_aligned);
}

template <int TYPE, int DIM, int QUERIES, int TILE_KEYS>
static dyno_status launch(const attention_call *call, cudaStream_t stream) {
    static_assert(TILE_KEYS == KEYS, "there are tiles of so many keys only");
    /* Within 99 KiB, which every GPU since sm_86 has. */
    constexpr int WARPS = QUERIES / MMA_ROWS;
    constexpr int STAGES = WARPS <= 4 && tile_size<DIM>(QUERIES + 4 * KEYS) * 2 <= 99 << 10 ? 2 : 1;
    int bytes = tile_size<DIM>(QUERIES + STAGES * 2 * KEYS) * (int)sizeof(uint16_t);
    int tiles = (call->queries + QUERIES - 1) / QUERIES;
    launch_blocks(attention_mma<TYPE, DIM, WARPS, STAGES>,
                  tiles * call->batch * call->heads * call->key_splits, WARPS * 32, bytes, call,
                  stream);
    attention_combine_outputs(call, call->tile, stream);
    return cuda_launch_status();
}

template <int TYPE> static dyno_status launch_type(const attention_call *call, cudaStream_t stream) {
#define INSTANCE(HEAD, QUERIES, KEYS)                                                              \
    {HEAD, {QUERIES, KEYS}, launch<TYPE, HEAD, QUERIES, KEYS>},
    static const attention_instance instances[] = {FOR_EACH_ATTENTION_MMA(INSTANCE)};
#undef INSTANCE
    return launch_instance(instances, call, stream);
}

dyno_status attention_forward_mma(const attention_call *call, cudaStream_t stream) {
    return call->type == CUDA_DTYPE_BF16 ? launch_type<CUDA_DTYPE_BF16>(call, stream)
                                         : launch_type<CUDA_DTYPE_F16>(call, stream);
}
