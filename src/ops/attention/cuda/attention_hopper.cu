/* attention_hopper.cu - attention on sm_90a, bf16 and f16, head sizes from 33 to 256.
 *
 * A block stays for the whole launch and takes tiles of queries one after the other. One warpgroup
 * copies: Q once a tile, K and V through two rings of tiles. The others have 64 queries each. They
 * go over the keys from the last to the first, so that only the first few tiles want a mask, and
 * each time ask for the scores of a tile and at once for the product of the weights before with V;
 * while that runs they turn the scores into weights. They take turns at asking, so that one's
 * exponentials run under the other's products.
 *
 * From one tile of queries to the next nothing stops: the first scores of the next are asked for
 * together with the last product of this one, whose rows then leave through the place in shared
 * memory that its queries had. */
#include "ops/attention/cuda/attention_launch.cuh"
#include "ops/attention/cuda/hopper_forward.cuh"
#include "ops/attention/cuda/hopper_host.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

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

/* LSE of a lane's two rows, the first `in_tile`, to memory; inverse: of their sums. A sum is 0 or
 * has a weight of 1 in it. */
__device__ __forceinline__ void store_lse(const attention_call &call, const work_item &item,
                                          int in_tile, float factor, const row_state &state,
                                          float *inverse) {
    float *to = rows_of<float>(call.lse, item.batch, item.head);
    int row = item.first + in_tile;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float sum = row_sum(state.sum[r]);
        inverse[r] = sum == 0 ? 0 : __fdividef(1, sum);
        float lse = sum == 0 ? -INFINITY : (state.largest[r] * factor + __log2f(sum)) * LN_2;
        if (threadIdx.x % 4 == 0 && row + 8 * r < call.queries)
            to[row + 8 * r] = lse;
    }
}

template <int TYPE, int DIM, int CONSUMERS, int KEYS, int PLACES>
__device__ __forceinline__ void consume(const attention_call &call, const work_order &order,
                                        uint32_t shared, int consumer) {
    typedef forward_storage<DIM, CONSUMERS, KEYS, PLACES> at;
    constexpr int TURN = 1; /* named barriers TURN + consumer: it is this one's turn to ask */
    uint32_t barriers = shared + at::BARRIERS_AT;
    uint64_t q_tiles = tile_descriptor(shared + consumer * at::Q_BYTES, 16);
    uint64_t k_tiles = tile_descriptor(shared + at::K_AT, 16);
    uint64_t v_tiles = tile_descriptor(shared + at::V_AT, KEYS * SLAB_ROW_BYTES);
    int lane = (int)threadIdx.x % 32;
    int row_in_tile = consumer * 64 + (int)threadIdx.x % WARPGROUP / 32 * 16 + lane / 4;
    float factor = call.scale * LOG2_E;
    ring_place q = {0, 0}, k = {0, 0}, v = {0, 0}, q_next = {PLACES - 1, 2 - PLACES};
    float o[DIM / 2], s[KEYS / 2], shrink[2], inverse[2];
    uint32_t p[KEYS / 4];
    row_state state = {{-INFINITY, -INFINITY}, {0, 0}};
    int round = 0;
    work_item item = next_work<at::QUERIES, KEYS>(call, order, &round);
    work_item done = item;
    int tile = item.tiles - 1;

    auto release = [&](int barrier) {
        if (lane == 0)
            barrier_arrive(barriers + 8 * barrier);
    };
    auto await_queries = [&](const ring_place &place) {
        barrier_wait(barriers + 8 * (at::Q_FULL + place.stage * CONSUMERS + consumer), place.phase,
                     "Q");
    };
    auto ask_scores = [&](const ring_place &place) {
        products_begin();
        wgmma_rows_by_rows<TYPE, DIM, 64, KEYS>(
            s, q_tiles + (uint32_t)(place.stage * (at::Q_PLACE_BYTES >> 4)),
            k_tiles + (uint32_t)(k.stage * (at::KEY_BYTES >> 4)));
        products_commit();
    };
    auto ask_sums = [&]() {
        products_begin();
        wgmma_registers_by_columns<TYPE, KEYS>(o, p,
                                             v_tiles + (uint32_t)(v.stage * (at::KEY_BYTES >> 4)));
        products_commit();
    };
    /* Scores that have come to weights. */
    auto take_tile = [&](auto is_masked) {
        hold(s);
        release(at::K_EMPTY + k.stage);
        step_ring<STAGES>(&k);
        if (PLACES == 1 && tile == 0)
            release(at::Q_EMPTY + consumer);
        if (is_masked)
            hide(s, call, item.first + row_in_tile, tile * KEYS);
        take_scores(s, factor, &state, shrink);
    };
    /* O of what is done to where its queries were, or to memory. */
    auto let_leave = [&]() {
        if (PLACES == 1) {
            store_accumulator<TYPE>(o, inverse, rows_of<uint16_t>(call.o, done.batch, done.head),
                                    call.o.row, done.first + row_in_tile, call.queries,
                                    call.head_dim);
            return;
        }
        int at_place = q.stage * CONSUMERS + consumer;
        write_accumulator<TYPE, 64>(o, inverse,
                                    shared + at_place * at::Q_BYTES +
                                        row_in_tile % 64 / 16 * 16 * SLAB_ROW_BYTES);
        fence_shared_for_copies();
        __syncwarp();
        release(at::O_FULL + at_place);
    };
    auto clear = [&]() {
#pragma unroll
        for (int i = 0; i < DIM / 2; i++)
            o[i] = 0;
    };

    /* Asks for the scores of the tile at hand, and for the product of the weights before. */
    auto ask = [&](const ring_place &place) {
        barrier_wait(barriers + 8 * (at::K_FULL + k.stage), k.phase, "K");
        named_barrier_sync(TURN + consumer, 2 * WARPGROUP);
        ask_scores(place);
        barrier_wait(barriers + 8 * (at::V_FULL + v.stage), v.phase, "V");
        ask_sums();
        named_barrier_arrive(TURN + (consumer + 1) % CONSUMERS, 2 * WARPGROUP);
    };
    /* What was asked for comes. */
    auto take = [&](auto is_masked) {
        products_wait<1>();
        take_tile(is_masked);
        compute_before_wait(state.sum[0] + state.sum[1], shared); /* under the products */
        products_wait<0>();
        hold(o);
        release(at::V_EMPTY + v.stage);
        step_ring<STAGES>(&v);
        pack_all<TYPE>(p, s);
    };

    if (item.tiles == 0)
        return;
    if (consumer == 0)
        named_barrier_arrive(TURN, 2 * WARPGROUP);
    clear();
    await_queries(q);
    barrier_wait(barriers + 8 * (at::K_FULL + k.stage), k.phase, "the first K");
    ask_scores(q);
    products_wait<0>();
    take_tile(true);
    pack_all<TYPE>(p, s);
    for (;;) {
        for (tile--; tile >= item.unmasked; tile--) {
            ask(q);
            take(true);
            scale_rows(o, shrink);
        }
        for (; tile >= 0; tile--) {
            ask(q);
            take(false);
            scale_rows(o, shrink);
        }
        done = item;
        item = next_work<at::QUERIES, KEYS>(call, order, &round);
        if (item.tiles == 0)
            break;
        tile = item.tiles - 1;
        await_queries(q_next);
        ask(q_next);
        store_lse(call, done, row_in_tile, factor, state, inverse);
        state = {{-INFINITY, -INFINITY}, {0, 0}};
        take(true);
        let_leave();
        clear();
        q = q_next;
        step_ring<PLACES>(&q_next);
    }
    barrier_wait(barriers + 8 * (at::V_FULL + v.stage), v.phase, "the last V");
    ask_sums();
    store_lse(call, done, row_in_tile, factor, state, inverse);
    products_wait<0>();
    hold(o);
    let_leave();
}

#endif

template <int TYPE, int DIM, int CONSUMERS, int KEYS, int PLACES>
static __global__ void __launch_bounds__((CONSUMERS + 1) * WARPGROUP, 1)
    attention_hopper(const __grid_constant__ attention_call call,
                     const __grid_constant__ work_order order,
                     const __grid_constant__ forward_maps maps) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef forward_storage<DIM, CONSUMERS, KEYS, PLACES> at;
    extern __shared__ unsigned char storage[];
    uint32_t shared = (shared_address(storage) + 1023) & ~1023u;
    uint32_t barriers = shared + at::BARRIERS_AT;
    if (threadIdx.x == 0) {
        prefetch_map(&maps.q);
        prefetch_map(&maps.k);
        prefetch_map(&maps.v);
        if (PLACES > 1)
            prefetch_map(&maps.o);
        for (int i = 0; i < at::BARRIERS; i++) {
            bool is_of_rows = PLACES == 1 ? i >= at::Q_EMPTY && i < at::O_FULL
                                          : i >= at::O_FULL && i < at::K_FULL;
            bool is_of_keys = (i >= at::K_EMPTY && i < at::V_FULL) || i >= at::V_EMPTY;
            /* By copies, one arrival; by consumers, one of each warp. */
            barrier_init(barriers + 8 * i, is_of_keys ? CONSUMERS * 4 : is_of_rows ? 4 : 1);
        }
        barrier_init_fence();
    }
    __syncthreads();
    /* The same in all lanes, and known to be: kept in a uniform register. */
    int group = __shfl_sync(0xffffffffu, (int)(threadIdx.x / WARPGROUP), 0);
    if (group == 0) {
        setmaxnreg_dec<CONSUMERS == 3 ? 32 : 24>();
        if (threadIdx.x == 0)
            produce<DIM, CONSUMERS, KEYS, PLACES>(call, order, maps, shared);
        else if (PLACES > 1 && threadIdx.x == 32)
            store_results<DIM, CONSUMERS, KEYS, PLACES>(call, order, maps, shared);
    } else {
        setmaxnreg_inc<CONSUMERS == 3 ? 160 : 240>();
        if (order.unseeing)
            store_unseeing<CONSUMERS>(call, order, group - 1);
        consume<TYPE, DIM, CONSUMERS, KEYS, PLACES>(call, order, shared, group - 1);
    }
#endif
}

/* ---- launching ---- */

template <int TYPE, int DIM, int QUERIES, int KEYS, int PLACES>
static dyno_status launch(const attention_call *call, cudaStream_t stream) {
    constexpr int CONSUMERS = QUERIES / 64;
    typedef forward_storage<DIM, CONSUMERS, KEYS, PLACES> at;
    static_assert(at::ASKED <= 227 << 10, "more shared memory than a block can have");
    auto kernel = attention_hopper<TYPE, DIM, CONSUMERS, KEYS, PLACES>;
    static int is_there; /* 1 yes, -1 no */
    if (!is_there)
        is_there = is_compiled(kernel) ? 1 : -1;
    forward_maps maps;
    if (is_there < 0 ||
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, at::ASKED) !=
            cudaSuccess ||
        !hopper_describe_rows(&maps.q, &call->q, call, call->heads, call->queries, 64) ||
        !hopper_describe_rows(&maps.k, &call->k, call, call->kv_heads, call->keys, KEYS) ||
        !hopper_describe_rows(&maps.v, &call->v, call, call->kv_heads, call->keys, KEYS) ||
        !hopper_describe_rows(&maps.o, &call->o, call, call->heads, call->queries, 64))
        return hopper_refuse("attention_hopper");
    work_order order;
    order.unseeing = call->is_causal && call->queries > call->keys
                         ? (call->queries - call->keys) / at::QUERIES * at::QUERIES
                         : 0;
    order.tiles = (call->queries - order.unseeing + at::QUERIES - 1) / at::QUERIES;
    order.heads = call->batch * call->heads;
    order.bundle =
        hopper_heads_at_once((int64_t)call->keys * call->head_dim * 4 / call->group, order.heads);
    int bundles = (order.heads + order.bundle - 1) / order.bundle;
    order.bundle = (order.heads + bundles - 1) / bundles;
    int work = order.tiles * order.heads, blocks = hopper_multiprocessors();
    if (work < blocks)
        blocks = work;
    order.rounds = (order.bundle * order.tiles + blocks - 1) / blocks;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3((CONSUMERS + 1) * WARPGROUP);
    config.dynamicSmemBytes = at::ASKED;
    config.stream = stream;
    cudaLaunchKernelEx(&config, kernel, *call, order, maps);
    return cuda_launch_status();
}

template <int TYPE> static dyno_status launch_type(const attention_call *call, cudaStream_t stream) {
#define INSTANCE(HEAD, QUERIES, KEYS, PLACES)                                                      \
    {HEAD, {QUERIES, KEYS}, launch<TYPE, HEAD, QUERIES, KEYS, PLACES>},
    static const attention_instance instances[] = {FOR_EACH_ATTENTION_HOPPER(INSTANCE)};
#undef INSTANCE
    return launch_instance(instances, call, stream);
}

dyno_status attention_forward_hopper(const attention_call *call, cudaStream_t stream) {
    RETURN_IF_FAILED(hopper_check(call));
    return call->type == CUDA_DTYPE_BF16 ? launch_type<CUDA_DTYPE_BF16>(call, stream)
                                         : launch_type<CUDA_DTYPE_F16>(call, stream);
}
