/* attention_mma.cu - attention on the tensor cores of sm_80 and up, bf16 and f16.
 *
 * A block has a tile of queries, 16 for each warp, and goes over the keys it sees, a tile at a
 * time. K and V have one buffer each: V's tile arrives under the product with K, the next tile of K
 * under the product with V. Scores and their exponentials stay in registers, which hold them the
 * way the second product wants its left operand.
 *
 * Exponents are to base 2, with scale * log2(e) folded into the subtraction of the maximum. */
#include "ops/attention/attention_choices.cuh"
#include "ops/attention/mma_tile.cuh"

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

template <int TYPE, int DIM, int WARPS>
static __global__ void __launch_bounds__(WARPS * 32, 1) forward(const attention_call call) {
    constexpr int QUERIES = WARPS * MMA_ROWS, THREADS = WARPS * 32;
    extern __shared__ __align__(16) unsigned char shared[];
    uint16_t *q_tile = (uint16_t *)shared, *k_tile = q_tile + tile_size<DIM>(QUERIES);
    uint16_t *v_tile = k_tile + tile_size<DIM>(KEYS);
    int heads = call.batch * call.heads, head = (int)blockIdx.x % heads;
    /* The last queries have the most keys; they go first. */
    int first = (int)(gridDim.x / heads - 1 - blockIdx.x / heads) * QUERIES;
    int b = head / call.heads, h = head % call.heads, kv = h / call.group;
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const uint16_t *q = rows_of<uint16_t>(call.q, b, h);
    const uint16_t *k = rows_of<uint16_t>(call.k, b, kv), *v = rows_of<uint16_t>(call.v, b, kv);
    int rows[2] = {first + warp * MMA_ROWS + lane / 4, first + warp * MMA_ROWS + lane / 4 + 8};
    int limit[2] = {visible_keys(call, rows[0]), visible_keys(call, rows[1])};
    int last = first + QUERIES < call.queries ? first + QUERIES - 1 : call.queries - 1;
    int tiles = (visible_keys(call, last) + KEYS - 1) / KEYS;
    int seen_by_all = visible_keys(call, first);

    float o[DIM / 8][4] = {};
    row_state state = {{-INFINITY, -INFINITY}, {-INFINITY, -INFINITY}, {0, 0}};
    float factor = call.scale * LOG2_E;
    load_tile<QUERIES, DIM, THREADS>(q_tile, q, call.q.row, first, call.queries, call.head_dim,
                                     call.is_aligned);
    load_tile<KEYS, DIM, THREADS>(k_tile, k, call.k.row, (tiles - 1) * KEYS, tiles ? call.keys : 0,
                                  call.head_dim, call.is_aligned);
    copy_async_commit();
    for (int tile = tiles - 1; tile >= 0; tile--) {
        float s[KEYS / 8][4];
        copy_async_wait<0>();
        __syncthreads(); /* K is there; nobody reads V any more */
        load_tile<KEYS, DIM, THREADS>(v_tile, v, call.v.row, tile * KEYS, call.keys, call.head_dim,
                                      call.is_aligned);
        copy_async_commit();
        multiply_rows<TYPE, DIM, KEYS>(s, q_tile + tile_size<DIM>(warp * MMA_ROWS), k_tile);
        if ((tile + 1) * KEYS > seen_by_all)
            hide<KEYS>(s, tile * KEYS, limit);
        take_scores<DIM>(s, factor, &state, o);
        copy_async_wait<0>();
        __syncthreads(); /* V is there; nobody reads K any more */
        if (tile > 0)
            load_tile<KEYS, DIM, THREADS>(k_tile, k, call.k.row, (tile - 1) * KEYS, call.keys,
                                          call.head_dim, call.is_aligned);
        copy_async_commit();
        multiply_columns<TYPE, DIM, KEYS, DIM>(o, s, v_tile);
    }

    copy_async_wait<0>();
    __syncthreads();
    float inverse[2];
    for (int r = 0; r < 2; r++) {
        float sum = row_sum(state.sum[r]);
        inverse[r] = sum == 0 ? 0 : 1 / sum;
        float lse = sum == 0 ? -INFINITY : (state.reference[r] + log2f(sum)) * LN_2;
        if (lane % 4 == 0 && rows[r] < call.queries)
            rows_of<float>(call.lse, b, h)[rows[r]] = lse;
    }
    uint16_t *mine = q_tile + tile_size<DIM>(warp * MMA_ROWS);
    round_to_tile<TYPE, DIM, DIM>(mine, o, inverse[0], inverse[1]);
    __syncwarp();
    store_rows<DIM>(mine, rows_of<uint16_t>(call.o, b, h), call.o.row, first + warp * MMA_ROWS,
                    MMA_ROWS, call.queries, call.head_dim, call.is_aligned);
}

template <int TYPE, int DIM, int WARPS>
static int launch(const attention_call *call, cudaStream_t stream) {
    constexpr int QUERIES = WARPS * MMA_ROWS;
    int bytes = tile_size<DIM>(QUERIES + 2 * KEYS) * (int)sizeof(uint16_t);
    int tiles = (call->queries + QUERIES - 1) / QUERIES;
    launch_blocks(forward<TYPE, DIM, WARPS>, tiles * call->batch * call->heads, WARPS * 32, bytes,
                  call, stream);
    return 1;
}

/* The same keys; more or fewer queries to a block. */
template <int TYPE, int DIM, int WARPS> static attention_choices choices_of(void) {
    attention_choices choices = {{{{WARPS * MMA_ROWS, KEYS}, launch<TYPE, DIM, WARPS>},
                                  {{WARPS / 2 * MMA_ROWS, KEYS}, launch<TYPE, DIM, WARPS / 2>}},
                                 2};
    return choices;
}

template <int TYPE> static attention_choices choices_for_head(int dim) {
    return dim <= 32    ? choices_of<TYPE, 32, 8>()
           : dim <= 64  ? choices_of<TYPE, 64, 8>()
           : dim <= 80  ? choices_of<TYPE, 80, 8>()
           : dim <= 96  ? choices_of<TYPE, 96, 8>()
           : dim <= 128 ? choices_of<TYPE, 128, 8>()
           : dim <= 192 ? choices_of<TYPE, 192, 4>()
                        : choices_of<TYPE, 256, 4>();
}

static attention_choices choices_for(const attention_call *call) {
    return call->type == CUDA_DTYPE_BF16 ? choices_for_head<CUDA_DTYPE_BF16>(call->head_dim)
                                         : choices_for_head<CUDA_DTYPE_F16>(call->head_dim);
}

int attention_forward_mma_tiles(const attention_call *call, cuda_tile *out) {
    attention_choices choices = choices_for(call);
    return list_choices(&choices, out);
}

void attention_forward_mma(const attention_call *call, cudaStream_t stream) {
    attention_choices choices = choices_for(call);
    launch_choice(&choices, call, stream);
}
