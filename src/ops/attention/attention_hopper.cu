/* attention_hopper.cu - attention on sm_90a, bf16 and f16, head sizes up to 128.
 *
 * A block stays for the whole launch and takes tiles of queries one after the other. One warpgroup
 * copies: Q once a tile, K and V through two rings of tiles. The others have 64 queries each. They
 * go over the keys from the last to the first, so that only the first few tiles want a mask, and
 * each time ask for the scores of a tile and at once for the product of the weights before with V;
 * while that runs they turn the scores into weights. They take turns at asking, so that one's
 * exponentials run under the other's products. */
#include "ops/attention/attention_cuda.cuh"
#include "ops/attention/hopper.cuh"
#include "ops/attention/hopper_host.cuh"
#include "ops/attention/hopper_tile.cuh"

enum { STAGES = 2 };

/* The order of work: heads in bundles whose keys and values fit the L2 cache; in a bundle, the last
 * queries, which see the most keys, first. Blocks take it in stripes, every other one backwards,
 * so that none always gets the longest. */
typedef struct work_order {
    int tiles;  /* of queries, in a head */
    int heads;  /* of all batches */
    int bundle; /* heads */
} work_order;

typedef struct forward_maps {
    CUtensorMap q, k, v;
} forward_maps;

template <int DIM, int CONSUMERS, int KEYS> struct forward_storage {
    enum {
        QUERIES = CONSUMERS * 64,
        Q_BYTES = slab_tile_bytes(QUERIES, DIM),
        KEY_BYTES = slab_tile_bytes(KEYS, DIM), /* of a tile of K or V */
        K_AT = Q_BYTES,
        V_AT = K_AT + STAGES * KEY_BYTES,
        BARRIERS_AT = V_AT + STAGES * KEY_BYTES,
        BYTES = BARRIERS_AT + 8 * (2 + 4 * STAGES),
        ASKED = BYTES + 1024 /* to begin at a multiple of 1024 */
    };
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* The tile a block has in a round. */
typedef struct work_item {
    int batch, head, first; /* first query */
    int tiles, unmasked;    /* of keys: to be seen at all; of these, to be seen by all queries */
} work_item;

template <int QUERIES, int KEYS>
__device__ __forceinline__ bool next_work(const attention_call &call, const work_order &order,
                                          int round, work_item *item) {
    int blocks = (int)gridDim.x, block = (int)blockIdx.x;
    int at = round * blocks + (round & 1 ? blocks - 1 - block : block);
    if (at >= order.tiles * order.heads)
        return false;
    int bundle = at / (order.bundle * order.tiles), rest = at % (order.bundle * order.tiles);
    int begin = bundle * order.bundle;
    int heads = order.heads - begin < order.bundle ? order.heads - begin : order.bundle;
    int head = begin + rest % heads;
    item->batch = head / call.heads;
    item->head = head % call.heads;
    item->first = (order.tiles - 1 - rest / heads) * QUERIES;
    int end = item->first + QUERIES;
    int last = (end < call.queries ? end : call.queries) - 1;
    item->tiles = (visible_keys(call, last) + KEYS - 1) / KEYS;
    item->unmasked = visible_keys(call, item->first) / KEYS;
    return true;
}

/* Where the barriers are. */
enum {
    Q_FULL,
    Q_EMPTY,
    K_FULL,
    K_EMPTY = K_FULL + STAGES,
    V_FULL = K_EMPTY + STAGES,
    V_EMPTY = V_FULL + STAGES,
    BARRIERS = V_EMPTY + STAGES
};

/* ---- copying ---- */

template <int DIM, int CONSUMERS, int KEYS>
__device__ __forceinline__ void produce(const attention_call &call, const work_order &order,
                                        const forward_maps &maps, uint32_t shared) {
    typedef forward_storage<DIM, CONSUMERS, KEYS> at;
    uint32_t barriers = shared + at::BARRIERS_AT;
    ring_place k = {0, 1}, v = {0, 1}; /* the rings begin empty: nothing to wait for */
    int q_phase = 1;
    work_item item;
    for (int round = 0; next_work<at::QUERIES, KEYS>(call, order, round, &item); round++) {
        if (item.tiles == 0)
            continue;
        int kv = item.head / call.group;
        for (int tile = item.tiles - 1; tile >= -1; tile--) {
            if (tile >= 0) {
                uint32_t full = barriers + 8 * (K_FULL + k.stage);
                barrier_wait(barriers + 8 * (K_EMPTY + k.stage), k.phase, "a free place for K");
                barrier_expect(full, at::KEY_BYTES);
                copy_tile<KEYS, DIM>(shared + at::K_AT + k.stage * at::KEY_BYTES, &maps.k, full,
                                     tile * KEYS, kv, item.batch);
                step_ring<STAGES>(&k);
            }
            if (tile == item.tiles - 1) {
                barrier_wait(barriers + 8 * Q_EMPTY, q_phase, "a free place for Q");
                barrier_expect(barriers + 8 * Q_FULL, at::Q_BYTES);
                copy_tile<at::QUERIES, DIM>(shared, &maps.q, barriers + 8 * Q_FULL, item.first,
                                            item.head, item.batch);
                q_phase ^= 1;
            } else {
                /* V is wanted one step after K. */
                uint32_t full = barriers + 8 * (V_FULL + v.stage);
                barrier_wait(barriers + 8 * (V_EMPTY + v.stage), v.phase, "a free place for V");
                barrier_expect(full, at::KEY_BYTES);
                copy_tile<KEYS, DIM>(shared + at::V_AT + v.stage * at::KEY_BYTES, &maps.v, full,
                                     (tile + 1) * KEYS, kv, item.batch);
                step_ring<STAGES>(&v);
            }
        }
    }
}

/* ---- scores to weights ---- */

/* What a lane knows of its two rows. */
typedef struct row_state {
    float largest[2]; /* of the scores so far, not yet scaled; sums are relative to it */
    float sum[2];     /* of this lane's columns */
} row_state;

/* Hides what a lane's rows, `row` and the eighth after it, do not see. */
template <int COUNT>
__device__ __forceinline__ void hide(float (&s)[COUNT], const attention_call &call, int row,
                                     int first_key) {
    int limit[2] = {visible_keys(call, row), visible_keys(call, row + 8)};
    int column = first_key + (int)threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        if (column + i / 4 * 8 + (i & 1) >= limit[i >> 1 & 1])
            s[i] = -INFINITY;
}

/* Scores to weights; shrink: what to multiply earlier sums with. */
template <int COUNT>
__device__ __forceinline__ void take_scores(float (&s)[COUNT], float factor, row_state *state,
                                            float *shrink) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float top = state->largest[r];
#pragma unroll
        for (int i = 2 * r; i < COUNT; i += 4)
            top = fmaxf(top, fmaxf(s[i], s[i + 1]));
        top = row_max(top);
        /* While nothing is seen, any finite reference keeps it out of the sums. */
        float reference = top == -INFINITY ? 0 : top * factor;
        shrink[r] = exp2_fast(state->largest[r] * factor - reference);
        state->largest[r] = top;
        float total = 0;
#pragma unroll
        for (int i = 2 * r; i < COUNT; i += 4) {
            s[i] = exp2_fast(s[i] * factor - reference);
            s[i + 1] = exp2_fast(s[i + 1] * factor - reference);
            total += s[i] + s[i + 1];
        }
        state->sum[r] = state->sum[r] * shrink[r] + total;
    }
}

template <int COUNT>
__device__ __forceinline__ void scale_rows(float (&o)[COUNT], const float *by) {
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        o[i] *= by[i >> 1 & 1];
}

/* ---- computing ---- */

template <int TYPE, int DIM, int CONSUMERS, int KEYS>
__device__ __forceinline__ void consume(const attention_call &call, const work_order &order,
                                        uint32_t shared, int consumer) {
    typedef forward_storage<DIM, CONSUMERS, KEYS> at;
    constexpr int TURN = 1; /* named barriers TURN + consumer: it is this one's turn to ask */
    uint32_t barriers = shared + at::BARRIERS_AT;
    uint64_t q_tile = tile_descriptor(shared + consumer * 64 * SLAB_ROW_BYTES, 16);
    uint64_t k_tiles = tile_descriptor(shared + at::K_AT, 16);
    uint64_t v_tiles = tile_descriptor(shared + at::V_AT, KEYS * SLAB_ROW_BYTES);
    int thread = (int)threadIdx.x % WARPGROUP, lane = thread % 32;
    float factor = call.scale * LOG2_E;
    ring_place k = {0, 0}, v = {0, 0};
    int q_phase = 0;
    work_item item;
    if (consumer == 0)
        named_barrier_arrive(TURN, 2 * WARPGROUP);
    for (int round = 0; next_work<at::QUERIES, KEYS>(call, order, round, &item); round++) {
        float o[DIM / 2], shrink[2];
        row_state state = {{-INFINITY, -INFINITY}, {0, 0}};
        int row = item.first + consumer * 64 + thread / 32 * 16 + lane / 4;
#pragma unroll
        for (int i = 0; i < DIM / 2; i++)
            o[i] = 0;
        if (item.tiles) {
            float s[KEYS / 2];
            uint32_t p[KEYS / 4];
            auto release = [&](int barrier) {
                if (lane == 0)
                    barrier_arrive(barriers + 8 * barrier);
            };
            auto ask_scores = [&]() {
                products_begin();
                ask_rows_by_rows<TYPE, DIM, at::QUERIES, KEYS>(
                    s, q_tile, k_tiles + (uint32_t)(k.stage * (at::KEY_BYTES >> 4)));
                products_commit();
            };
            auto ask_sums = [&]() {
                products_begin();
                ask_registers_by_columns<TYPE, KEYS>(
                    o, p, v_tiles + (uint32_t)(v.stage * (at::KEY_BYTES >> 4)));
                products_commit();
            };
            auto take_tile = [&](int tile, auto is_masked) {
                barrier_wait(barriers + 8 * (K_FULL + k.stage), k.phase, "K");
                named_barrier_sync(TURN + consumer, 2 * WARPGROUP);
                ask_scores();
                barrier_wait(barriers + 8 * (V_FULL + v.stage), v.phase, "V");
                ask_sums();
                named_barrier_arrive(TURN + (consumer + 1) % CONSUMERS, 2 * WARPGROUP);
                products_wait<1>();
                hold(s);
                release(K_EMPTY + k.stage);
                step_ring<STAGES>(&k);
                if (is_masked)
                    hide(s, call, row, tile * KEYS);
                take_scores(s, factor, &state, shrink);
                compute_before_wait(state.sum[0] + state.sum[1], shared); /* under the products */
                products_wait<0>();
                hold(o);
                release(V_EMPTY + v.stage);
                step_ring<STAGES>(&v);
                pack_all<TYPE>(p, s);
                scale_rows(o, shrink);
            };

            barrier_wait(barriers + 8 * Q_FULL, q_phase, "Q");
            q_phase ^= 1;
            barrier_wait(barriers + 8 * (K_FULL + k.stage), k.phase, "the first K");
            ask_scores();
            products_wait<0>();
            hold(s);
            release(K_EMPTY + k.stage);
            step_ring<STAGES>(&k);
            hide(s, call, row, (item.tiles - 1) * KEYS);
            take_scores(s, factor, &state, shrink);
            pack_all<TYPE>(p, s);
            int tile = item.tiles - 2;
            for (; tile >= item.unmasked; tile--)
                take_tile(tile, true);
            for (; tile >= 0; tile--)
                take_tile(tile, false);
            release(Q_EMPTY);
            barrier_wait(barriers + 8 * (V_FULL + v.stage), v.phase, "the last V");
            ask_sums();
            products_wait<0>();
            hold(o);
            release(V_EMPTY + v.stage);
            step_ring<STAGES>(&v);
        }
        float inverse[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float sum = row_sum(state.sum[r]);
            inverse[r] = sum == 0 ? 0 : 1 / sum;
            float lse = sum == 0 ? -INFINITY : (state.largest[r] * factor + log2f(sum)) * LN_2;
            if (lane % 4 == 0 && row + 8 * r < call.queries)
                rows_of<float>(call.lse, item.batch, item.head)[row + 8 * r] = lse;
        }
        store_accumulator<TYPE>(o, inverse, rows_of<uint16_t>(call.o, item.batch, item.head),
                                call.o.row, row, call.queries, call.head_dim);
    }
}

#endif

template <int TYPE, int DIM, int CONSUMERS, int KEYS>
static __global__ void __launch_bounds__((CONSUMERS + 1) * WARPGROUP, 1)
    forward(const __grid_constant__ attention_call call, const __grid_constant__ work_order order,
            const __grid_constant__ forward_maps maps) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef forward_storage<DIM, CONSUMERS, KEYS> at;
    extern __shared__ unsigned char storage[];
    uint32_t shared = (shared_address(storage) + 1023) & ~1023u;
    uint32_t barriers = shared + at::BARRIERS_AT;
    if (threadIdx.x == 0) {
        prefetch_map(&maps.q);
        prefetch_map(&maps.k);
        prefetch_map(&maps.v);
        for (int i = 0; i < BARRIERS; i++) {
            bool is_empty = i == Q_EMPTY || (i >= K_EMPTY && i < V_FULL) || i >= V_EMPTY;
            barrier_init(barriers + 8 * i, is_empty ? CONSUMERS * 4 : 1); /* a warp, one arrival */
        }
        barrier_init_fence();
    }
    __syncthreads();
    /* The same in all lanes, and known to be: kept in a uniform register. */
    int group = __shfl_sync(0xffffffffu, (int)(threadIdx.x / WARPGROUP), 0);
    if (group == 0) {
        registers_give_back<CONSUMERS == 3 ? 32 : 24>();
        if (threadIdx.x == 0)
            produce<DIM, CONSUMERS, KEYS>(call, order, maps, shared);
    } else {
        registers_take<CONSUMERS == 3 ? 160 : 240>();
        consume<TYPE, DIM, CONSUMERS, KEYS>(call, order, shared, group - 1);
    }
#endif
}

/* ---- launching ---- */

template <int TYPE, int DIM, int CONSUMERS, int KEYS>
static int launch(const attention_call *call, cudaStream_t stream) {
    typedef forward_storage<DIM, CONSUMERS, KEYS> at;
    auto kernel = forward<TYPE, DIM, CONSUMERS, KEYS>;
    static int is_there; /* 1 yes, -1 no */
    if (!is_there)
        is_there = is_compiled(kernel) ? 1 : -1;
    forward_maps maps;
    if (is_there < 0 ||
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, at::ASKED) !=
            cudaSuccess ||
        !hopper_describe_rows(&maps.q, &call->q, call, call->heads, call->queries, at::QUERIES) ||
        !hopper_describe_rows(&maps.k, &call->k, call, call->kv_heads, call->keys, KEYS) ||
        !hopper_describe_rows(&maps.v, &call->v, call, call->kv_heads, call->keys, KEYS))
        return 0;
    work_order order;
    order.tiles = (call->queries + at::QUERIES - 1) / at::QUERIES;
    order.heads = call->batch * call->heads;
    order.bundle =
        hopper_heads_at_once((int64_t)call->keys * call->head_dim * 4 / call->group, order.heads);
    int blocks = hopper_multiprocessors(), work = order.tiles * order.heads;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)(work < blocks ? work : blocks));
    config.blockDim = dim3((CONSUMERS + 1) * WARPGROUP);
    config.dynamicSmemBytes = at::ASKED;
    config.stream = stream;
    cudaLaunchKernelEx(&config, kernel, *call, order, maps);
    return 1;
}

template <int TYPE> static int launch_for_head(const attention_call *call, cudaStream_t stream) {
    int dim = call->head_dim;
    if (dim <= 64)
        return call->queries > 1024 ? launch<TYPE, 64, 3, 128>(call, stream)
                                    : launch<TYPE, 64, 2, 128>(call, stream);
    if (dim <= 80)
        return launch<TYPE, 80, 2, 128>(call, stream);
    if (dim <= 96)
        return launch<TYPE, 96, 2, 128>(call, stream);
    return call->is_causal ? launch<TYPE, 128, 2, 128>(call, stream)
                           : launch<TYPE, 128, 2, 176>(call, stream);
}

int attention_forward_hopper(const attention_call *call, cudaStream_t stream) {
    if (!hopper_takes(call))
        return 0;
    return call->type == CUDA_DTYPE_BF16 ? launch_for_head<CUDA_DTYPE_BF16>(call, stream)
                                         : launch_for_head<CUDA_DTYPE_F16>(call, stream);
}
