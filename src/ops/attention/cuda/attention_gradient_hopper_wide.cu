/* attention_gradient_hopper_wide.cu - attention's gradients on sm_90a, bf16 and f16, head sizes
 * above 128: P is computed twice, as in attention_gradient_hopper.cu, by two kernels.
 *
 * Of keys: an item is 64 keys, going over the queries that see them. dK and dV take all registers
 * of a consumer each, so consumers have different parts, and are a step or so apart:
 *   S^T = K Q^T,  P^T,  dV += P^T dO          P goes to the other consumer, by shared memory
 *   dP^T = V dO^T,  dS^T,  dK += dS^T Q
 * Both left operands are in registers the way the products want them, and right operands are as
 * wide as the head: the tensor cores read shared memory the least.
 *
 * Of queries: an item is 128 queries, 64 for each consumer, going over the keys they see, for dQ.
 *
 * The second kernel's blocks begin as soon as some of the first leave: it needs nothing of theirs.
 * It ends after the first, so that what comes next may rely on both. */
#include "ops/attention/cuda/attention_launch.cuh"
#include "ops/attention/cuda/hopper_host.cuh"
#include "ops/attention/cuda/hopper_wide.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- of keys ---- */

/* P of all steps, and dV. */
template <int TYPE, int DIM>
__device__ __forceinline__ void
differentiate_values(const attention_call &call, const gradient_item *item, consumer_state *me) {
    typedef wide_keys_storage<DIM> at;
    uint32_t shared = shared_address(me->base);
    uint64_t k_rows = tile_descriptor(shared + at::K_AT, 16);
    uint64_t q_rows = tile_descriptor(shared + at::Q_AT, 16);
    uint64_t do_columns = tile_descriptor(shared + at::DO_AT, STEP * SLAB_ROW_BYTES);
    float factor = call.scale * LOG2_E;
    int column = me->thread % 4 * 2, query = item->begin * STEP;
    int key = item->first + me->thread / 32 * 16 + me->thread % 32 / 4;
    /* Key j is seen by query i when j <= i + keys - queries; from `all` on they see every key. */
    int lead = call.keys - call.queries - key + column;
    int all = call.is_causal ? item->first + 63 + call.queries - call.keys : 0;
    constexpr int HELD = at::HELD;
    float dv[DIM / 2], s[STEP / 2];
    uint32_t p[STEP / 4], held[4 * HELD];

    auto ask_scores = [&]() {
        wait_full<at::STAGES>(me, at::Q_FULL, me->steps, "Q of a step");
        products_begin();
        ask_both_by_rows<TYPE, DIM, HELD, 64, 64>(
            s, held, k_rows, q_rows + along<at::STAGES, at::TILE_BYTES>(me->steps));
        products_commit();
    };
    clear(dv);
    barrier_wait(me->barriers + 8 * at::K_FULL, me->items & 1, "K");
    take_rows<64>(held, me->base + at::K_AT, me->thread / 32 * 16, me->thread % 32);
    ask_scores();
    for (int step = item->steps;; step--) {
        const float *lse =
            (const float *)(me->base + at::LSE_AT) + me->steps % at::STAGES * STEP + column;
        products_wait<0>(); /* the scores, and dV of the step before */
        hold(s);
        if (step < item->steps)
            leave(me, at::DO_EMPTY + (me->steps - 1) % at::STAGES);
        if (step == 1)
            leave_each(me, at::K_EMPTY);
        if (query < all)
            hide_queries(s, lead + query);
        weigh_transposed(s, lse, factor);
        pack_all<TYPE>(p, s);
        wait_empty<at::P_PLACES>(me, at::P_EMPTY, me->steps, "a free place for P");
        uint4 *to = (uint4 *)(me->base + at::P_AT + me->steps % at::P_PLACES * at::P_BYTES);
#pragma unroll
        for (int i = 0; i < STEP / 16; i++)
            to[i * WARPGROUP + me->thread] =
                make_uint4(p[4 * i], p[4 * i + 1], p[4 * i + 2], p[4 * i + 3]);
        leave_each(me, at::P_FULL + me->steps % at::P_PLACES);
        leave_each(me, at::Q_EMPTY + me->steps % at::STAGES);
        wait_full<at::STAGES>(me, at::DO_FULL, me->steps, "dO of a step");
        products_begin();
        wgmma_registers_by_columns<TYPE, STEP>(
            dv, p, do_columns + along<at::STAGES, at::TILE_BYTES>(me->steps));
        products_commit();
        me->steps++;
        if (step == 1)
            break;
        query += STEP;
        if (query >= call.queries)
            query = item->begin * STEP;
        ask_scores();
    }
    products_wait<0>();
    hold(dv);
    leave(me, at::DO_EMPTY + (me->steps - 1) % at::STAGES);
    store_gradient<TYPE>(dv, 1, call, call.d_v, item, key, call.keys);
}

/* dS of all steps, and dK. */
template <int TYPE, int DIM>
__device__ __forceinline__ void differentiate_keys(const attention_call &call,
                                                   const gradient_item *item, consumer_state *me) {
    typedef wide_keys_storage<DIM> at;
    uint32_t shared = shared_address(me->base);
    uint64_t v_rows = tile_descriptor(shared + at::V_AT, 16);
    uint64_t do_rows = tile_descriptor(shared + at::DO_AT, 16);
    uint64_t q_columns = tile_descriptor(shared + at::Q_AT, STEP * SLAB_ROW_BYTES);
    int column = me->thread % 4 * 2;
    int key = item->first + me->thread / 32 * 16 + me->thread % 32 / 4;
    constexpr int HELD = at::HELD;
    float dk[DIM / 2], dp[STEP / 2];
    uint32_t ds[STEP / 4], held[4 * HELD];

    auto ask_products = [&]() {
        wait_full<at::STAGES>(me, at::DO_FULL, me->steps, "dO of a step");
        products_begin();
        ask_both_by_rows<TYPE, DIM, HELD, 64, 64>(
            dp, held, v_rows, do_rows + along<at::STAGES, at::TILE_BYTES>(me->steps));
        products_commit();
    };
    clear(dk);
    barrier_wait(me->barriers + 8 * at::V_FULL, me->items & 1, "V");
    take_rows<64>(held, me->base + at::V_AT, me->thread / 32 * 16, me->thread % 32);
    ask_products();
    for (int step = item->steps;; step--) {
        const float *mean =
            (const float *)(me->base + at::MEAN_AT) + me->steps % at::STAGES * STEP + column;
        products_wait<0>(); /* dP, and dK of the step before */
        hold(dp);
        if (step < item->steps)
            leave(me, at::Q_EMPTY + (me->steps - 1) % at::STAGES);
        if (step == 1)
            leave_each(me, at::V_EMPTY);
        wait_full<at::P_PLACES>(me, at::P_FULL, me->steps, "P of a step");
        const uint4 *from =
            (const uint4 *)(me->base + at::P_AT + me->steps % at::P_PLACES * at::P_BYTES);
#pragma unroll
        for (int i = 0; i < STEP / 2; i += 8) {
            uint4 p = from[i / 8 * WARPGROUP + me->thread];
            uint32_t both[4] = {p.x, p.y, p.z, p.w};
#pragma unroll
            for (int j = 0; j < 8; j += 4)
                pack_gradients<TYPE>(ds + (i + j) / 2, both + j / 2, dp + i + j,
                                     mean + 2 * (i + j));
        }
        leave_each(me, at::P_EMPTY + me->steps % at::P_PLACES);
        leave_each(me, at::DO_EMPTY + me->steps % at::STAGES);
        wait_full<at::STAGES>(me, at::Q_FULL, me->steps, "Q of a step");
        products_begin();
        wgmma_registers_by_columns<TYPE, STEP>(
            dk, ds, q_columns + along<at::STAGES, at::TILE_BYTES>(me->steps));
        products_commit();
        me->steps++;
        if (step == 1)
            break;
        ask_products();
    }
    products_wait<0>();
    hold(dk);
    leave(me, at::Q_EMPTY + (me->steps - 1) % at::STAGES);
    store_gradient<TYPE>(dk, call.scale, call, call.d_k, item, key, call.keys);
}

/* ---- of queries ---- */

/* NUMBER: of the consumer, known when compiled for descriptors to be in uniform registers. */
template <int TYPE, int DIM, int NUMBER>
__device__ __forceinline__ void
differentiate_queries(const attention_call &call, const row_sums &sums, const gradient_item *item,
                      consumer_state *me) {
    typedef wide_queries_storage<DIM> at;
    uint32_t shared = shared_address(me->base), own = NUMBER * at::TILE_BYTES;
    uint64_t q_rows = tile_descriptor(shared + at::Q_AT + own, 16);
    uint64_t do_rows = tile_descriptor(shared + at::DO_AT + own, 16);
    uint64_t k_rows = tile_descriptor(shared + at::K_AT, 16);
    uint64_t v_rows = tile_descriptor(shared + at::V_AT, 16);
    uint64_t k_columns = tile_descriptor(shared + at::K_AT, STEP * SLAB_ROW_BYTES);
    float factor = call.scale * LOG2_E;
    int column = me->thread % 4 * 2, first = item->first + NUMBER * 64;
    int query = first + me->thread / 32 * 16 + me->thread % 32 / 4;
    int last = first + 63 < call.queries ? first + 63 : call.queries - 1;
    int seen = (visible_keys(call, last) + STEP - 1) / STEP, all = visible_keys(call, first);
    seen = seen > 0 ? seen : 1; /* there is always a step: no branch is around products */
    constexpr int HELD = at::HELD;
    float dq[DIM / 2], s[STEP / 2]; /* s: of scores, then of dP */
    uint32_t ds[STEP / 4], held[4 * HELD];
    clear(dq);
    query_rows these = load_query_rows(call, sums, item, query, column);

    auto ask_scores = [&]() {
        wait_full<at::K_STAGES>(me, at::K_FULL, me->steps, "K of a step");
        products_begin();
        ask_both_by_rows<TYPE, DIM, HELD, 64, 64>(
            s, held, not_in_advance(q_rows),
            k_rows + along<at::K_STAGES, at::TILE_BYTES>(me->steps));
        products_commit();
    };
    barrier_wait(me->barriers + 8 * (at::Q_FULL + NUMBER), me->items & 1, "Q");
    take_rows<64>(held, me->base + at::Q_AT + NUMBER * at::TILE_BYTES, me->thread / 32 * 16,
                  me->thread % 32);
    ask_scores();
    barrier_wait(me->barriers + 8 * (at::DO_FULL + NUMBER), me->items & 1, "dO");
    for (int step = 0;; step++) {
        int key = step * STEP;
        products_wait<0>(); /* the scores, and dQ of the step before */
        hold(s);
        if (step > 0)
            leave(me, at::K_EMPTY + (me->steps - 1) % at::K_STAGES);
        if (step + 1 == seen)
            leave_each(me, at::Q_EMPTY + NUMBER);
        if (key + STEP > all)
            hide_keys(s, key, these.limit);
#pragma unroll
        for (int i = 0; i < STEP / 2; i++)
            s[i] = exp2_fast(s[i] * factor - these.lse[i >> 1 & 1]);
        pack_all<TYPE>(ds, s);
        wait_full<at::V_STAGES>(me, at::V_FULL, me->steps, "V of a step");
        products_begin();
        wgmma_rows_by_rows<TYPE, DIM, 64, 64>(s, not_in_advance(do_rows),
                                            not_in_advance(v_rows) +
                                                along<at::V_STAGES, at::TILE_BYTES>(me->steps));
        products_commit();
        products_wait<0>();
        hold(s);
        leave(me, at::V_EMPTY + me->steps % at::V_STAGES);
        if (step + 1 == seen)
            leave(me, at::DO_EMPTY + NUMBER);
#pragma unroll
        for (int i = 0; i < STEP / 4; i++) {
            float2 p = unpack_both<TYPE>(ds[i]);
            ds[i] = pack<TYPE>(p.x * (s[2 * i] - these.mean[i & 1]),
                               p.y * (s[2 * i + 1] - these.mean[i & 1]));
        }
        products_begin();
        wgmma_registers_by_columns<TYPE, STEP>(
            dq, ds, k_columns + along<at::K_STAGES, at::TILE_BYTES>(me->steps));
        products_commit();
        me->steps++;
        if (step + 1 == seen)
            break;
        ask_scores();
    }
    products_wait<0>();
    hold(dq);
    leave(me, at::K_EMPTY + (me->steps - 1) % at::K_STAGES);
    if (__any_sync(0xffffffffu, seen < item->steps)) { /* by one, which the other consumer sees */
        wait_full<at::K_STAGES>(me, at::K_FULL, me->steps, "K of a step");
        wait_full<at::V_STAGES>(me, at::V_FULL, me->steps, "V of a step");
        __syncwarp(); /* all lanes have seen them before their places can be filled again */
        leave(me, at::K_EMPTY + me->steps % at::K_STAGES);
        leave(me, at::V_EMPTY + me->steps % at::V_STAGES);
        me->steps++;
    }
    store_gradient<TYPE>(dq, call.scale, call, call.d_q, item, query, call.queries);
}

/* ---- kernels ---- */

template <int TYPE, int DIM, int KIND, int NUMBER, typename at>
__device__ __forceinline__ void consume(const attention_call &call, const row_sums &sums,
                                        unsigned char *base) {
    consumer_state me = begin_consumer<at>(base, NUMBER);
    for (;; me.items++) {
        const gradient_item *item = wait_for_item<at>(base, me.items);
        if (item->kind == NO_MORE)
            return;
        if (KIND == OF_QUERIES)
            differentiate_queries<TYPE, DIM, NUMBER>(call, sums, item, &me);
        else if (NUMBER == 0)
            differentiate_values<TYPE, DIM>(call, item, &me);
        else
            differentiate_keys<TYPE, DIM>(call, item, &me);
        __syncwarp();
        leave(&me, at::ITEM_EMPTY + me.items % ITEM_PLACES);
    }
}

#endif

template <int DIM, int KIND> struct storage_of { typedef wide_keys_storage<DIM> type; };
template <int DIM> struct storage_of<DIM, OF_QUERIES> { typedef wide_queries_storage<DIM> type; };

template <int TYPE, int DIM, int KIND>
static __global__ void __launch_bounds__((CONSUMERS + 1) * WARPGROUP, 1)
    attention_gradient_hopper_wide(const __grid_constant__ attention_call call,
                  const __grid_constant__ gradient_order order,
                  const __grid_constant__ row_sums sums,
                  const __grid_constant__ gradient_maps maps) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef typename storage_of<DIM, KIND>::type at;
    extern __shared__ __align__(1024) unsigned char wide_slabs[];
    unsigned char *base = wide_slabs;
    if (threadIdx.x == 0)
        begin_block<at>(maps, base);
    __syncthreads();
    if (KIND == OF_KEYS) {
        wait_for_kernel_before();
        let_next_kernel_begin(); /* as soon as blocks leave */
    }
    int group = warpgroup_number();
    if (group == 0) {
        setmaxnreg_dec<24>();
        if (threadIdx.x == 0 && KIND == OF_KEYS)
            copy_for_keys<DIM>(call, sums, maps, base);
        else if (threadIdx.x == 0)
            copy_for_queries<DIM>(maps, base);
        else if (threadIdx.x == 32) {
            hand_out<at, true>(call, order, sums, base);
            if (KIND == OF_QUERIES)
                wait_for_kernel_before();
        }
    } else {
        setmaxnreg_inc<240>();
        if (group == 1)
            consume<TYPE, DIM, KIND, 0, at>(call, sums, base);
        else
            consume<TYPE, DIM, KIND, 1, at>(call, sums, base);
    }
#endif
}

/* ---- launching ---- */

template <int TYPE, int DIM, int KIND>
static void launch_items(const attention_call *call, row_sums sums, const gradient_maps *maps,
                         cudaStream_t stream) {
    typedef typename storage_of<DIM, KIND>::type at;
    gradient_order order = hopper_order_items(call, KIND, at::KEY_ROWS);
    order.early = order.key_tiles + order.query_tiles;
    if (KIND == OF_QUERIES && call->is_causal) /* those of keys have these after them */
        order.early = (order.early + 1) / 2;
    sums.counter += KIND == OF_QUERIES;
    hopper_launch_items(attention_gradient_hopper_wide<TYPE, DIM, KIND>, at::BYTES, call, &order, &sums, maps,
                        stream);
}

template <int TYPE, int DIM, int KIND> static int is_ready(void) {
    static int known;
    return hopper_is_ready(attention_gradient_hopper_wide<TYPE, DIM, KIND>, storage_of<DIM, KIND>::type::BYTES,
                           &known);
}

template <int TYPE, int DIM, int QUERIES, int KEYS>
static dyno_status launch(const attention_call *call, cudaStream_t stream) {
    static_assert(QUERIES == ROWS && KEYS == STEP, "there is one tile only");
    gradient_maps maps;
    if (!is_ready<TYPE, DIM, OF_KEYS>() || !is_ready<TYPE, DIM, OF_QUERIES>() ||
        !hopper_describe_gradient(&maps, call, STEP, STEP))
        return hopper_refuse("attention_gradient_hopper_wide");
    row_sums sums = hopper_row_sums(call, 0);
    hopper_sum_rows(call, &sums, stream);
    launch_items<TYPE, DIM, OF_KEYS>(call, sums, &maps, stream);
    launch_items<TYPE, DIM, OF_QUERIES>(call, sums, &maps, stream);
    return cuda_launch_status();
}

template <int TYPE> static dyno_status launch_type(const attention_call *call, cudaStream_t stream) {
#define INSTANCE(HEAD, QUERIES, KEYS)                                                              \
    {HEAD, {QUERIES, KEYS}, launch<TYPE, HEAD, QUERIES, KEYS>},
    static const attention_instance instances[] = {FOR_EACH_ATTENTION_GRADIENT_WIDE(INSTANCE)};
#undef INSTANCE
    return launch_instance(instances, call, stream);
}

dyno_status attention_backward_wide(const attention_call *call, cudaStream_t stream) {
    RETURN_IF_FAILED(hopper_check(call));
    return call->type == CUDA_DTYPE_BF16 ? launch_type<CUDA_DTYPE_BF16>(call, stream)
                                         : launch_type<CUDA_DTYPE_F16>(call, stream);
}
