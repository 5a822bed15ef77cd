/* attention_gradient_hopper_single_pass.cu - attention's gradients on sm_90a for long contexts, bf16 and
 * f16, head sizes around 64 and 128: P is computed once, which takes five products a tile.
 *
 * An item is 128 keys, going over the queries that see them; two consumers have 64 keys each.
 * Scores are computed transposed, so that P^T and dS^T are in registers the way dV += P^T dO and
 * dK += dS^T Q want their left operand. dS also goes through shared memory, for dQ = dS K sums over
 * the keys of both consumers; each computes half of it, a step later, so that neither waits for the
 * other. What a key tile gives to dQ is added in memory (hopper_single_pass.cuh), and a last kernel makes
 * dQ of the sums.
 *
 * A consumer asks for products in this order, and computes what is beside it while that product is
 * under way:
 *   dK, dQ of the step before
 *   S of the next step           dQ to shared memory
 *   dP                           P
 *   dV                           dS
 * P is kept as its 16-bit numbers only, and dS computed from those: with S, P and dP of a step in
 * registers beside dK and dV there would be too many.
 *
 * In the loop no product but dV is under way from one turn to the next: of others that are, the
 * assembler does not find out when they are done, and lets every product wait for the last. */
#include <limits.h>

#include "ops/attention/cuda/attention_launch.cuh"
#include "ops/attention/cuda/hopper_host.cuh"
#include "ops/attention/cuda/hopper_single_pass.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Consumers compute P by turns, so that one does while the other's products are under way: barriers
 * of the hardware, at which each waits for its turn and gives it to the other. */
__device__ __forceinline__ void wait_to_weigh(int consumer) {
    if (consumer == 0) /* barriers known when compiled take no registers */
        named_barrier_sync(1, CONSUMERS * WARPGROUP);
    else
        named_barrier_sync(2, CONSUMERS * WARPGROUP);
}
__device__ __forceinline__ void let_weigh(int consumer) {
    if (consumer == 0)
        named_barrier_arrive(1, CONSUMERS * WARPGROUP);
    else
        named_barrier_arrive(2, CONSUMERS * WARPGROUP);
}

/* dQ's accumulator of a step to shared memory, once that place is free; then that it is there. */
template <int DIM>
__device__ __forceinline__ void store_dq(const consumer_state *me, const float (&dq)[32],
                                         int step) {
    typedef single_pass_storage<DIM> at;
    int stage = step % at::DQ_STAGES;
    wait_empty<at::DQ_STAGES>(me, at::DQ_EMPTY, step, "a free place for dQ");
    float4 *to =
        (float4 *)(me->base + at::DQ_AT + stage * at::DQ_BYTES + me->number * (at::DQ_BYTES / 2)) +
        me->thread;
#pragma unroll
    for (int i = 0; i < 8; i++)
        to[i * WARPGROUP] = make_float4(dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
}
template <int DIM> __device__ __forceinline__ void pass_dq_on(const consumer_state *me, int step) {
    typedef single_pass_storage<DIM> at;
    fence_shared_for_copies();
    __syncwarp();
    leave(me, at::DQ_FULL + step % at::DQ_STAGES);
}

/* A consumer's rows of dS^T to shared memory. */
template <int DIM, int COUNT>
__device__ __forceinline__ void store_ds(const consumer_state *me, const uint32_t (&ds)[COUNT]) {
    typedef single_pass_storage<DIM> at;
    int lane = me->thread % 32, row = me->number * 64 + me->thread / 32 * 16 + lane % 16;
    uint32_t to = shared_address(me->base) + at::DS_AT + me->steps % at::DS_STAGES * at::DS_BYTES +
                  row * SLAB_ROW_BYTES;
#pragma unroll
    for (int i = 0; i < COUNT / 4; i++) { /* 16 queries */
        int piece = i % 4 * 2 + lane / 16;
        stmatrix_x4(to + i / 4 * ROWS * SLAB_ROW_BYTES + (piece ^ row % 8) * 16, ds + 4 * i);
    }
}

/* Scores of keys that queries do not see, of a step that begins with `query`. */
template <int COUNT>
__device__ __forceinline__ void hide(float (&s)[COUNT], const attention_call &call, int key,
                                     int query) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int seen_from = call.is_causal            ? key + 8 * r + call.queries - call.keys
                        : key + 8 * r < call.keys ? 0
                                                  : INT_MAX;
#pragma unroll
        for (int i = 2 * r; i < COUNT; i += 4)
#pragma unroll
            for (int j = 0; j < 2; j++)
                if (query + i / 4 * 8 + j < seen_from)
                    s[i + j] = -INFINITY;
    }
}

template <int TYPE, int DIM>
__device__ __forceinline__ void differentiate(const attention_call &call, const row_sums &sums,
                                              const gradient_item *item, consumer_state *me) {
    typedef single_pass_storage<DIM> at;
    constexpr int QUERIES = at::QUERY_STEP, OWN = 64 * SLAB_ROW_BYTES, SLAB = ROWS * SLAB_ROW_BYTES;
    uint32_t shared = shared_address(me->base);
    uint64_t k_rows = tile_descriptor(shared + at::K_AT + me->number * OWN, 16);
    uint64_t v_rows = tile_descriptor(shared + at::V_AT + me->number * OWN, 16);
    uint64_t q_rows = tile_descriptor(shared + at::Q_AT, 16);
    uint64_t do_rows = tile_descriptor(shared + at::DO_AT, 16);
    uint64_t q_columns = tile_descriptor(shared + at::Q_AT, QUERIES * SLAB_ROW_BYTES);
    uint64_t do_columns = tile_descriptor(shared + at::DO_AT, QUERIES * SLAB_ROW_BYTES);
    /* This consumer's half of dQ: its slab of dS's queries, or of K's columns. */
    uint64_t ds_columns =
        tile_descriptor(shared + at::DS_AT + (QUERIES == 128 ? me->number * SLAB : 0), SLAB);
    uint64_t k_columns =
        tile_descriptor(shared + at::K_AT + (QUERIES == 128 ? 0 : me->number * SLAB), SLAB);
    float factor = call.scale * LOG2_E;
    int other = 1 - me->number;
    int column = me->thread % 4 * 2, first = item->first + me->number * 64;
    int key = first + me->thread / 32 * 16 + me->thread % 32 / 4;
    /* From this query on, all keys of this consumer are seen. */
    int all = call.is_causal            ? first + 63 + call.queries - call.keys
              : first + 64 <= call.keys ? 0
                                        : INT_MAX;
    float dk[DIM / 2], dv[DIM / 2], s[QUERIES / 2], dp[QUERIES / 2], dq[32];
    uint32_t p[QUERIES / 4], ds[QUERIES / 4];

    auto ask_scores = [&](int step) {
        wait_full<at::STAGES>(me, at::STEP_FULL, step, "tiles of a step");
        products_begin();
        wgmma_rows_by_rows<TYPE, DIM, ROWS, QUERIES>(
            s, k_rows, q_rows + along<at::STAGES, at::STEP_BYTES>(step));
        products_commit();
    };
    /* dP, P from S, and dV; of_before: dQ of a step before is to be passed on. */
    auto begin_step = [&](int query, bool of_before) {
        const float *lse =
            (const float *)(me->base + at::LSE_AT) + me->steps % at::STAGES * QUERIES + column;
        products_begin();
        wgmma_rows_by_rows<TYPE, DIM, ROWS, QUERIES>(
            dp, v_rows, do_rows + along<at::STAGES, at::STEP_BYTES>(me->steps));
        products_commit();
        if (of_before)
            pass_dq_on<DIM>(me, me->steps - 2);
        products_wait<1>(); /* S */
        hold(s);
        wait_to_weigh(me->number);
        if (query < all)
            hide(s, call, key, query + column);
        weigh_transposed(s, lse, factor);
        pack_all<TYPE>(p, s);
        products_begin();
        wgmma_registers_by_columns<TYPE, QUERIES>(
            dv, p, do_columns + along<at::STAGES, at::STEP_BYTES>(me->steps));
        products_commit();
        let_weigh(other);
        products_wait<1>(); /* dP */
        hold(dp);
    };
    /* dS from P and dP, and dK. */
    auto end_step = [&]() {
        int buffer = me->steps % at::DS_STAGES;
        const float *mean =
            (const float *)(me->base + at::MEAN_AT) + me->steps % at::STAGES * QUERIES + column;
#pragma unroll
        for (int i = 0; i < QUERIES / 2; i += 4)
            pack_gradients<TYPE>(ds + i / 2, p + i / 2, dp + i, mean + 2 * i);
        wait_empty<at::DS_STAGES>(me, at::DS_EMPTY + other * at::DS_STAGES, me->steps,
                                  "dS to be read");
        store_ds<DIM>(me, ds);
        products_begin();
        wgmma_registers_by_columns<TYPE, QUERIES>(
            dk, ds, q_columns + along<at::STAGES, at::STEP_BYTES>(me->steps));
        products_commit();
        fence_shared_for_copies();
        __syncwarp();
        leave(me, at::DS_FULL + me->number * at::DS_STAGES + buffer);
        products_wait<1>(); /* dV: what it took is room for S */
    };
    auto wait_for_ds = [&](int step) {
        wait_full<at::DS_STAGES>(me, at::DS_FULL + other * at::DS_STAGES, step,
                                 "dS of the other consumer");
    };
    auto ask_dq = [&](int buffer) {
        products_begin();
        wgmma_columns_by_columns<TYPE, ROWS>(
            dq, ds_columns + (uint32_t)(buffer * (at::DS_BYTES >> 4)), k_columns);
        products_commit();
    };
    auto leave_ds = [&](int step) {
        leave(me, at::DS_EMPTY + me->number * at::DS_STAGES + step % at::DS_STAGES);
    };

#pragma unroll
    for (int i = 0; i < DIM / 2; i++)
        dk[i] = dv[i] = 0;
    hold(dk); /* here, not between products that are under way */
    hold(dv);
    int query = item->last;
    bool is_first = true;
    barrier_wait(me->barriers + 8 * at::K_FULL, me->items & 1, "K");
    ask_scores(me->steps);
    barrier_wait(me->barriers + 8 * at::V_FULL, me->items & 1, "V");
    begin_step(query, false);
    for (int step = item->steps; step > 1; step--) {
        end_step();
        if (!is_first)
            wait_for_ds(me->steps - 1);
        ask_dq((me->steps + 1) % at::DS_STAGES); /* after the first, of nothing, and for nobody */
        ask_scores(me->steps + 1);
        go_up<QUERIES>(item, &query);
        products_wait<1>(); /* all but S */
        hold(dq);
        leave_each(me, at::STEP_EMPTY + me->steps % at::STAGES);
        if (!is_first) {
            leave_ds(me->steps - 1);
            store_dq<DIM>(me, dq, me->steps - 1);
        }
        me->steps++;
        begin_step(query, !is_first);
        is_first = false;
    }
    leave(me, at::V_EMPTY);
    end_step();
    if (!is_first) {
        wait_for_ds(me->steps - 1);
        ask_dq((me->steps + 1) % at::DS_STAGES);
        products_wait<0>();
        hold(dq);
        leave_ds(me->steps - 1);
        store_dq<DIM>(me, dq, me->steps - 1);
        pass_dq_on<DIM>(me, me->steps - 1);
    }
    wait_for_ds(me->steps);
    ask_dq(me->steps % at::DS_STAGES);
    products_wait<0>();
    hold(dq);
    hold(dk);
    hold(dv);
    leave_ds(me->steps);
    leave(me, at::K_EMPTY);
    leave_each(me, at::STEP_EMPTY + me->steps % at::STAGES);
    store_dq<DIM>(me, dq, me->steps);
    pass_dq_on<DIM>(me, me->steps);
    me->steps++;
    store_gradient<TYPE>(dv, 1, call, call.d_v, item, key, call.keys);
    if (sums.angles)
        rotate_rows_back(dk, sums.angles, key);
    store_gradient<TYPE>(dk, call.scale, call, call.d_k, item, key, call.keys);
}

template <int TYPE, int DIM>
__device__ __forceinline__ void consume_items(const attention_call &call, const row_sums &sums,
                                             unsigned char *base, int consumer) {
    typedef single_pass_storage<DIM> at;
    consumer_state me = begin_consumer<at>(base, consumer);
    if (consumer == 1)
        let_weigh(0);
    for (;; me.items++) {
        const gradient_item *item = wait_for_item<at>(base, me.items);
        if (item->kind == NO_MORE)
            return;
        differentiate<TYPE, DIM>(call, sums, item, &me);
        __syncwarp();
        leave(&me, at::ITEM_EMPTY + me.items % ITEM_PLACES);
    }
}

#endif

template <int TYPE, int DIM>
static __global__ void __launch_bounds__((CONSUMERS + 1) * WARPGROUP, 1)
    attention_gradient_hopper_single_pass(const __grid_constant__ attention_call call,
                  const __grid_constant__ gradient_order order,
                  const __grid_constant__ row_sums sums,
                  const __grid_constant__ gradient_maps maps) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef single_pass_storage<DIM> at;
    extern __shared__ __align__(1024) unsigned char slabs[];
    unsigned char *base = slabs;
    if (threadIdx.x == 0)
        begin_block<at>(maps, base);
    __syncthreads();
    wait_for_kernel_before();
    let_next_kernel_begin(); /* as soon as blocks leave */
    int group = warpgroup_number();
    if (group == 0) {
        setmaxnreg_dec<24>();
        if (threadIdx.x == 0)
            copy_tiles<DIM>(call, sums, maps, base);
        else if (threadIdx.x == 32)
            hand_out<at, false>(call, order, sums, base);
        else if (threadIdx.x == 64 || threadIdx.x == 96)
            add_in_turns<DIM>(call, sums, base, threadIdx.x == 96);
    } else {
        setmaxnreg_inc<240>();
        consume_items<TYPE, DIM>(call, sums, base, group - 1);
    }
#endif
}

/* ---- dQ from its sums ---- */

/* A block for each step of queries. A thread has, of two rows, four blocks of 8 columns in each
 * half of a row, so that it can rotate them back. */
template <int TYPE, int DIM>
static __global__ void __launch_bounds__(CONSUMERS *WARPGROUP)
    attention_gradient_hopper_round_dq(const __grid_constant__ attention_call call, const __grid_constant__ row_sums sums) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    constexpr int QUERIES = single_pass_storage<DIM>::QUERY_STEP, SHARE = 8 * WARPGROUP;
    wait_for_kernel_before();
    int64_t row = (int64_t)blockIdx.x * QUERIES;
    int head = (int)(row / sums.pitch), query = (int)(row % sums.pitch);
    int half = (int)threadIdx.x / WARPGROUP, thread = (int)threadIdx.x % WARPGROUP;
    bool is_seen = query >= first_query(call, 0) / QUERIES * QUERIES; /* else nobody added */
    /* Of the share of a consumer, or of both consumers' shares. */
    int from_half = half * (QUERIES == 128 ? SHARE : SHARE / 2);
    int from_piece = QUERIES == 128 ? SHARE / 2 : SHARE;
    const float4 *from = (const float4 *)(sums.dq + row * DIM) + from_half + thread;
    float dq[32], scale[2] = {call.scale, call.scale};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float4 *at = from + i / 4 * from_piece + i % 4 * WARPGROUP;
        float4 x = is_seen ? __ldcs(at) : make_float4(0, 0, 0, 0);
        dq[4 * i] = x.x;
        dq[4 * i + 1] = x.y;
        dq[4 * i + 2] = x.z;
        dq[4 * i + 3] = x.w;
    }
    int column = QUERIES == 128 ? 0 : half * 32;
    query += thread / 32 * 16 + thread % 32 / 4 + (QUERIES == 128 ? half * 64 : 0);
    if (sums.angles) {
        row_angles<4> turns;
        load_angles<DIM / 2>(&turns, sums.angles, query, column / 8);
        rotate_back(dq, turns, 0);
    }
    uint16_t *to = rows_of<uint16_t>(call.d_q, head / call.heads, head % call.heads) + column;
    const float(*pieces)[16] = (const float(*)[16])dq;
#pragma unroll
    for (int i = 0; i < 2; i++)
        store_accumulator<TYPE>(pieces[i], scale, to + i * DIM / 2, call.d_q.row, query,
                                call.queries, call.head_dim - column - i * DIM / 2);
#endif
}

/* ---- launching ---- */

/* Key tiles of a head that run at the same time read and add to the same queries one shortly after
 * the other, so that these come from the L2 cache; but they wait for one another at first. */
static gradient_order order_items(const attention_call *call) {
    int tiles_at_once = call->is_causal ? 4 : 8; /* measured */
    gradient_order order = hopper_order_items(call, OF_KEYS, ROWS);
    int64_t bytes = (int64_t)call->queries * call->group * call->head_dim * 8; /* Q, dO, dQ */
    int fit = hopper_heads_at_once(bytes, order.kv_heads),
        few = hopper_multiprocessors() / tiles_at_once + 1;
    int most = fit > few ? fit : few, bundles = (order.kv_heads + most - 1) / most;
    order.bundle = (order.kv_heads + bundles - 1) / bundles;
    return order;
}

template <int TYPE, int DIM, int QUERIES, int KEYS>
static dyno_status launch(const attention_call *call, cudaStream_t stream) {
    typedef single_pass_storage<DIM> at;
    static_assert(QUERIES == at::QUERY_STEP && KEYS == ROWS, "there is one tile only");
    auto kernel = attention_gradient_hopper_single_pass<TYPE, DIM>;
    static int known;
    gradient_maps maps;
    if (!hopper_is_ready(kernel, at::BYTES, &known) ||
        !hopper_describe_gradient(&maps, call, at::QUERY_STEP, ROWS))
        return hopper_refuse("attention_gradient_hopper_single_pass");
    row_sums sums = hopper_row_sums(call, DIM);
    gradient_order order = order_items(call);
    hopper_sum_rows(call, &sums, stream);
    hopper_launch_items(kernel, at::BYTES, call, &order, &sums, &maps, stream);
    launch_early(attention_gradient_hopper_round_dq<TYPE, DIM>,
                 call->batch * call->heads * sums.pitch / at::QUERY_STEP, CONSUMERS * WARPGROUP, 0,
                 stream, *call, sums);
    return cuda_launch_status();
}

template <int TYPE> static dyno_status launch_type(const attention_call *call, cudaStream_t stream) {
#define INSTANCE(HEAD, QUERIES, KEYS)                                                              \
    {HEAD, {QUERIES, KEYS}, launch<TYPE, HEAD, QUERIES, KEYS>},
    static const attention_instance instances[] = {
        FOR_EACH_ATTENTION_GRADIENT_SINGLE_PASS(INSTANCE)};
#undef INSTANCE
    return launch_instance(instances, call, stream);
}

dyno_status attention_backward_single_pass(const attention_call *call, cudaStream_t stream) {
    RETURN_IF_FAILED(hopper_check(call));
    return call->type == CUDA_DTYPE_BF16 ? launch_type<CUDA_DTYPE_BF16>(call, stream)
                                         : launch_type<CUDA_DTYPE_F16>(call, stream);
}
