/* attention_gradient_hopper.cu - attention's gradients on sm_90a, bf16 and f16, head sizes up to
 * 128: short contexts, and head sizes that attention_gradient_hopper_single_pass.cu does not take. Larger
 * ones: attention_gradient_hopper_wide.cu.
 *
 * Work comes in items of two kinds, each the only one to add up what it writes, in a fixed order:
 *   of keys     128 keys, going over the queries that see them: dK and dV
 *   of queries  128 queries, going over the keys they see: dQ
 * P is computed in both, from LSE (formulas: attention_tiled.c): seven products instead of five,
 * but no sums that blocks must wait for one another to add to, and nothing that leaves registers
 * between products. Of keys the scores are computed transposed, so that P^T and dS^T are in
 * registers the way the products with dO and Q want their left operand.
 *
 * A block stays for the whole launch and takes the next item from a counter, the longest first.
 * One warpgroup copies: the item's own two tiles, then tiles of 64 rows of the other side through a
 * ring. Two have 64 of the item's rows each, and ask for products so that some are always under
 * way while they compute. */
#include "ops/attention/cuda/attention_launch.cuh"
#include "ops/attention/cuda/hopper_host.cuh"
#include "ops/attention/cuda/hopper_two_pass.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- computing ---- */

/* A consumer's view of the block. Other than consumer_state it knows lane and row: computed where
 * they are needed, they took more registers than there are. */
typedef struct two_pass_state {
    unsigned char *base;
    uint32_t barriers;
    int number, lane, row;   /* row: of the item, the lane's first; the other is the eighth after */
    int items, tiles, steps; /* so many are behind us */
} two_pass_state;

__device__ __forceinline__ void leave(const two_pass_state *me, int barrier) {
    if (me->lane == 0)
        barrier_arrive(me->barriers + 8 * barrier);
}
template <int DIM> __device__ __forceinline__ void wait_for_step(const two_pass_state *me) {
    typedef two_pass_storage<DIM> at;
    wait_full<at::STAGES>(me, at::STEP_FULL, me->steps, "a step's tiles");
}
/* Of a step that shows this consumer's rows nothing. */
template <int DIM> __device__ __forceinline__ void pass_over_step(two_pass_state *me) {
    typedef two_pass_storage<DIM> at;
    wait_for_step<DIM>(me);
    leave_each(me, at::STEP_EMPTY + me->steps % at::STAGES);
    me->steps++;
}
/* Where the item's own tiles are, once they are there. */
template <int DIM> __device__ __forceinline__ unsigned char *wait_for_tiles(const two_pass_state *me) {
    typedef two_pass_storage<DIM> at;
    wait_full<at::BUFFERS>(me, at::TILE_FULL, me->tiles, "an item's tiles");
    return me->base + me->tiles % at::BUFFERS * 2 * at::TILE_BYTES;
}
template <int DIM> __device__ __forceinline__ void release_tiles(two_pass_state *me) {
    typedef two_pass_storage<DIM> at;
    leave(me, at::TILE_EMPTY + me->tiles % at::BUFFERS);
    me->tiles++;
}

/* A warpgroup's 64 rows of a tile, once and for all in registers or read by each product: d =
 * rows . b^T. */
template <int DIM> struct rows_in_registers { uint32_t of[DIM / 4]; };
template <int DIM> struct rows_in_memory { uint64_t tile; };

template <int DIM>
__device__ __forceinline__ void take_rows(rows_in_registers<DIM> *rows, const unsigned char *tile,
                                          int first) {
    take_rows<ROWS>(rows->of, tile, first, (int)threadIdx.x % 32);
}
template <int DIM>
__device__ __forceinline__ void take_rows(rows_in_memory<DIM> *rows, const unsigned char *tile,
                                          int first) {
    rows->tile = tile_descriptor(shared_address(tile) + first / 64 * 64 * SLAB_ROW_BYTES, 16);
}
template <int TYPE, int DIM, int COUNT>
__device__ __forceinline__ void ask_rows(float (&d)[COUNT], const rows_in_registers<DIM> &rows,
                                         uint64_t b) {
    ask_registers_by_rows<TYPE, DIM, STEP>(d, rows.of, b);
}
template <int TYPE, int DIM, int COUNT>
__device__ __forceinline__ void ask_rows(float (&d)[COUNT], const rows_in_memory<DIM> &rows,
                                         uint64_t b) {
    wgmma_rows_by_rows<TYPE, DIM, ROWS, STEP>(d, rows.tile, b);
}

/* Where dK and dV leave room for the rows of K and V in registers. */
template <int DIM> struct rows_of_keys { typedef rows_in_memory<DIM> type; };
template <> struct rows_of_keys<64> { typedef rows_in_registers<64> type; };

template <int TYPE, int DIM, bool IS_ROTATED>
__device__ __forceinline__ void differentiate_keys(const attention_call &call, const row_sums &sums,
                                                   const gradient_item *item, two_pass_state *me) {
    typedef two_pass_storage<DIM> at;
    typename rows_of_keys<DIM>::type k_rows, v_rows;
    constexpr bool KEEPS_TILES = sizeof k_rows == sizeof(uint64_t);
    uint32_t shared = shared_address(me->base);
    uint64_t q_rows = tile_descriptor(shared + at::LEFT_AT, 16);
    uint64_t do_rows = tile_descriptor(shared + at::RIGHT_AT, 16);
    uint64_t q_columns = tile_descriptor(shared + at::LEFT_AT, STEP * SLAB_ROW_BYTES);
    uint64_t do_columns = tile_descriptor(shared + at::RIGHT_AT, STEP * SLAB_ROW_BYTES);
    float factor = call.scale * LOG2_E;
    int column = me->lane % 4 * 2;
    /* Key j is seen by query i when j <= i + keys - queries: those before `none` see no key of this
     * consumer, from `all` on they see every key. The last query sees something. */
    int lead = call.keys - call.queries - item->first - me->row;
    int edge = item->first + me->number * 64 + call.queries - call.keys;
    int all = call.is_causal ? edge + 63 : 0;
    int none = !call.is_causal ? 0 : edge < call.queries ? edge : call.queries - 1;
    constexpr bool PASSES = DIM <= 96; /* over steps; large heads have no register to know when */
    constexpr bool TURNS_AT_ONCE = DIM <= 96; /* nor any for angles while there is dV */
    float dk[DIM / 2], dv[DIM / 2], s[STEP / 2], dp[STEP / 2];
    uint32_t p[STEP / 4], ds[STEP / 4];
    clear(dk);
    clear(dv);

    auto ask_scores = [&]() {
        uint32_t there = along<at::STAGES, at::STEP_BYTES>(me->steps);
        wait_for_step<DIM>(me);
        products_begin();
        ask_rows<TYPE>(s, k_rows, q_rows + there);
        products_commit();
        ask_rows<TYPE>(dp, v_rows, do_rows + there);
        products_commit();
    };

    const unsigned char *tiles = wait_for_tiles<DIM>(me);
    take_rows(&k_rows, tiles, me->row - me->lane / 4);
    take_rows(&v_rows, tiles + at::TILE_BYTES, me->row - me->lane / 4);
    if (!KEEPS_TILES) {
        __syncwarp();
        release_tiles<DIM>(me);
    }
    int query = item->begin * STEP, step = item->steps, before = -1;
    for (; PASSES && query + STEP <= none; query += STEP, step--)
        pass_over_step<DIM>(me);
    ask_scores();
    for (;; step--) {
        int stage = me->steps % at::STAGES;
        const float *lse = (const float *)(me->base + at::LSE_AT) + stage * STEP + column;
        const float *mean = (const float *)(me->base + at::MEAN_AT) + stage * STEP + column;
        products_wait<1>(); /* the scores, and what came before them */
        hold(s);
        if (before >= 0)
            leave_each(me, at::STEP_EMPTY + before);
        before = stage;
        if (query < all)
            hide_queries(s, lead + query + column);
        weigh_transposed(s, lse, factor);
        pack_all<TYPE>(p, s);
        uint32_t there = along<at::STAGES, at::STEP_BYTES>(me->steps);
        products_begin();
        wgmma_registers_by_columns<TYPE, STEP>(dv, p, do_columns + there);
        products_commit();
        products_wait<1>(); /* dP */
        hold(dp);
#pragma unroll
        for (int i = 0; i < STEP / 2; i += 4) {
            float2 sum = *(const float2 *)(mean + 2 * i);
            dp[i] = s[i] * (dp[i] - sum.x);
            dp[i + 1] = s[i + 1] * (dp[i + 1] - sum.y);
            dp[i + 2] = s[i + 2] * (dp[i + 2] - sum.x);
            dp[i + 3] = s[i + 3] * (dp[i + 3] - sum.y);
        }
        pack_all<TYPE>(ds, dp);
        products_begin();
        wgmma_registers_by_columns<TYPE, STEP>(dk, ds, q_columns + there);
        products_commit();
        me->steps++;
        query += STEP;
        if (step == 1)
            break;
        if (query >= call.queries) /* the next head that shares these keys */
            for (query = item->begin * STEP; PASSES && query + STEP <= none; query += STEP, step--)
                pass_over_step<DIM>(me);
        if (DIM > 80)
            products_wait<1>(); /* dV: what it took is room for the scores */
        ask_scores();
    }
    int key = item->first + me->row;
    row_angles<DIM / 16> turns;
    if (IS_ROTATED && TURNS_AT_ONCE)
        load_angles<DIM / 2>(&turns, sums.angles, key, 0);
    products_wait<0>();
    hold(dk);
    hold(dv);
    leave_each(me, at::STEP_EMPTY + before);
    if (KEEPS_TILES)
        release_tiles<DIM>(me);
    if (!IS_ROTATED) /* read anew: to keep it took a register more than there are */
        key = item->first + me->row;
    if (!IS_ROTATED)
        store_gradient<TYPE>(dk, call.scale, call, call.d_k, item, key, call.keys);
    store_gradient<TYPE>(dv, 1, call, call.d_v, item, key, call.keys);
    if (IS_ROTATED && TURNS_AT_ONCE) /* by now the angles are there */
        rotate_back(dk, turns, 0);
    else if (IS_ROTATED)
        rotate_rows_back(dk, sums.angles, key);
    if (IS_ROTATED)
        store_gradient<TYPE>(dk, call.scale, call, call.d_k, item, key, call.keys);
}

template <int TYPE, int DIM, bool IS_ROTATED>
__device__ __forceinline__ void differentiate_queries(const attention_call &call,
                                                      const row_sums &sums,
                                                      const gradient_item *item, two_pass_state *me) {
    typedef two_pass_storage<DIM> at;
    rows_in_registers<DIM> q_rows, do_rows;
    uint32_t shared = shared_address(me->base);
    uint64_t k_rows = tile_descriptor(shared + at::LEFT_AT, 16);
    uint64_t v_rows = tile_descriptor(shared + at::RIGHT_AT, 16);
    uint64_t k_columns = tile_descriptor(shared + at::LEFT_AT, STEP * SLAB_ROW_BYTES);
    float factor = call.scale * LOG2_E;
    int column = me->lane % 4 * 2, query = item->first + me->row;
    int seen_by_all = visible_keys(call, item->first + me->number * 64);
    float dq[DIM / 2], s[STEP / 2], dp[STEP / 2];
    uint32_t ds[STEP / 4];
    clear(dq);
    query_rows these = load_query_rows(call, sums, item, query, column);

    auto ask_scores = [&]() {
        uint32_t there = along<at::STAGES, at::STEP_BYTES>(me->steps);
        wait_for_step<DIM>(me);
        products_begin();
        ask_rows<TYPE>(s, q_rows, k_rows + there);
        products_commit();
        ask_rows<TYPE>(dp, do_rows, v_rows + there);
        products_commit();
    };

    int last = item->first + me->number * 64 + 63;
    int seen =
        (visible_keys(call, last < call.queries ? last : call.queries - 1) + STEP - 1) / STEP;
    if (seen) {
        const unsigned char *tiles = wait_for_tiles<DIM>(me);
        take_rows(&q_rows, tiles, me->row - me->lane / 4);
        take_rows(&do_rows, tiles + at::TILE_BYTES, me->row - me->lane / 4);
        __syncwarp();
        release_tiles<DIM>(me);
        ask_scores();
        int before = -1;
        for (int step = 0;; step++) {
            int stage = me->steps % at::STAGES, key = step * STEP;
            products_wait<1>(); /* the scores, and what came before them */
            hold(s);
            if (before >= 0)
                leave_each(me, at::STEP_EMPTY + before);
            before = stage;
            if (key + STEP > seen_by_all)
                hide_keys(s, key, these.limit);
            float weights = 0;
#pragma unroll
            for (int i = 0; i < STEP / 2; i++) {
                s[i] = exp2_fast(s[i] * factor - these.lse[i >> 1 & 1]);
                weights += s[i];
            }
            compute_before_wait(weights, shared);
            products_wait<0>();
            hold(dp);
#pragma unroll
            for (int i = 0; i < STEP / 2; i++)
                dp[i] = s[i] * (dp[i] - these.mean[i >> 1 & 1]);
            pack_all<TYPE>(ds, dp);
            products_begin();
            wgmma_registers_by_columns<TYPE, STEP>(
                dq, ds, k_columns + along<at::STAGES, at::STEP_BYTES>(me->steps));
            products_commit();
            me->steps++;
            if (step + 1 == seen)
                break;
            ask_scores();
        }
        row_angles<DIM / 16> turns;
        if (IS_ROTATED)
            load_angles<DIM / 2>(&turns, sums.angles, query, 0);
        products_wait<0>();
        hold(dq);
        leave_each(me, at::STEP_EMPTY + before);
        if (IS_ROTATED)
            rotate_back(dq, turns, 0);
    } else if (item->steps) {
        wait_for_tiles<DIM>(me);
        __syncwarp();
        release_tiles<DIM>(me);
    }
    for (int step = seen; step < item->steps; step++)
        pass_over_step<DIM>(me);
    store_gradient<TYPE>(dq, call.scale, call, call.d_q, item, query, call.queries);
}

template <int TYPE, int DIM, int KINDS, bool IS_ROTATED>
__device__ __forceinline__ void consume(const attention_call &call, const row_sums &sums,
                                        unsigned char *base, int consumer) {
    typedef two_pass_storage<DIM> at;
    int thread = (int)threadIdx.x % WARPGROUP;
    two_pass_state me = {base,
                      shared_address(base) + at::BARRIERS_AT,
                      consumer,
                      thread % 32,
                      consumer * 64 + thread / 32 * 16 + thread % 32 / 4,
                      0,
                      0,
                      0};
    for (;; me.items++) {
        const gradient_item *item = wait_for_item<at>(base, me.items);
        if (item->kind == NO_MORE)
            return;
        if (KINDS == OF_KEYS || (KINDS == OF_BOTH && item->kind == OF_KEYS))
            differentiate_keys<TYPE, DIM, IS_ROTATED>(call, sums, item, &me);
        else
            differentiate_queries<TYPE, DIM, IS_ROTATED>(call, sums, item, &me);
        if (every_lane_releases_items<DIM>()) {
            leave_each(&me, at::ITEM_EMPTY + me.items % ITEM_PLACES);
        } else {
            __syncwarp();
            leave(&me, at::ITEM_EMPTY + me.items % ITEM_PLACES);
        }
    }
}

#endif

/* KINDS: of items. Registers for both in one kernel there are up to a certain head size. IS_ROTATED:
 * dQ and dK are rotated back. */
template <int TYPE, int DIM, int KINDS, bool IS_ROTATED>
static __global__ void __launch_bounds__((CONSUMERS + 1) * WARPGROUP, 1)
    attention_gradient_hopper(const __grid_constant__ attention_call call,
             const __grid_constant__ gradient_order order, const __grid_constant__ row_sums sums,
             const __grid_constant__ gradient_maps maps) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef two_pass_storage<DIM> at;
    extern __shared__ unsigned char storage[];
    unsigned char *base = storage + (0u - shared_address(storage)) % 1024;
    if (threadIdx.x == 0)
        begin_block<at>(maps, base);
    __syncthreads();
    wait_for_kernel_before();
    int group = warpgroup_number();
    if (group == 0) {
        setmaxnreg_dec<24>();
        if (threadIdx.x == 0)
            produce<DIM>(call, sums, maps, base);
        else if (threadIdx.x == 32)
            hand_out<at, true>(call, order, sums, base);
    } else {
        setmaxnreg_inc<240>();
        consume<TYPE, DIM, KINDS, IS_ROTATED>(call, sums, base, group - 1);
    }
#endif
}

/* ---- launching ---- */

/* Has the first kernel, or the one for other items, before it in the stream. */
template <int TYPE, int DIM, int KINDS, bool IS_ROTATED>
static void launch_items(const attention_call *call, row_sums sums, const gradient_maps *maps,
                         cudaStream_t stream) {
    gradient_order order = hopper_order_items(call, KINDS, ROWS);
    sums.counter += KINDS == OF_QUERIES;
    hopper_launch_items(attention_gradient_hopper<TYPE, DIM, KINDS, IS_ROTATED>, two_pass_storage<DIM>::ASKED, call,
                        &order, &sums, maps, stream);
}

template <int TYPE, int DIM, int KINDS, bool IS_ROTATED> static int is_ready(void) {
    static int known;
    return hopper_is_ready(attention_gradient_hopper<TYPE, DIM, KINDS, IS_ROTATED>, two_pass_storage<DIM>::ASKED,
                           &known);
}

template <int TYPE, int DIM, bool IS_ROTATED>
static dyno_status launch_rotated(const attention_call *call, const row_sums *sums,
                                  cudaStream_t stream) {
    constexpr int FIRST = DIM <= 96 ? OF_BOTH : OF_KEYS, SECOND = DIM <= 96 ? OF_BOTH : OF_QUERIES;
    gradient_maps maps;
    if (!is_ready<TYPE, DIM, FIRST, IS_ROTATED>() || !is_ready<TYPE, DIM, SECOND, IS_ROTATED>() ||
        !hopper_describe_gradient(&maps, call, STEP, STEP))
        return hopper_refuse("attention_gradient_hopper");
    hopper_sum_rows(call, sums, stream);
    launch_items<TYPE, DIM, FIRST, IS_ROTATED>(call, *sums, &maps, stream);
    if (FIRST != SECOND)
        launch_items<TYPE, DIM, SECOND, IS_ROTATED>(call, *sums, &maps, stream);
    return cuda_launch_status();
}

template <int TYPE, int DIM, int QUERIES, int KEYS>
static dyno_status launch(const attention_call *call, cudaStream_t stream) {
    static_assert(QUERIES == ROWS && KEYS == STEP, "there is one tile only");
    row_sums sums = hopper_row_sums(call, 0);
    return sums.angles ? launch_rotated<TYPE, DIM, true>(call, &sums, stream)
                       : launch_rotated<TYPE, DIM, false>(call, &sums, stream);
}

template <int TYPE> static dyno_status launch_type(const attention_call *call, cudaStream_t stream) {
#define INSTANCE(HEAD, QUERIES, KEYS)                                                              \
    {HEAD, {QUERIES, KEYS}, launch<TYPE, HEAD, QUERIES, KEYS>},
    static const attention_instance instances[] = {FOR_EACH_ATTENTION_GRADIENT_HOPPER(INSTANCE)};
#undef INSTANCE
    return launch_instance(instances, call, stream);
}

dyno_status attention_backward_two_pass(const attention_call *call, cudaStream_t stream) {
    RETURN_IF_FAILED(hopper_check(call));
    return call->type == CUDA_DTYPE_BF16 ? launch_type<CUDA_DTYPE_BF16>(call, stream)
                                         : launch_type<CUDA_DTYPE_F16>(call, stream);
}
