/* hopper_once.cuh - what attention_gradient_hopper_once.cu's blocks copy: tiles to shared memory,
 * and dQ's terms from there to the sums in memory, in turns.
 *
 * Key tile n adds to a step of queries after key tiles 0 to n - 1: sums have one order. No block
 * waits for ever. Items are handed out by ascending key tile (all heads of a bundle taking turns)
 * to blocks that run, and a block works on its items in that order; so the first item not yet done
 * is always being worked on, and all it can wait for is done. Since key tiles begin one after the
 * other and go over the queries at the same speed, they wait at the very beginning only.
 *
 * A step's sums lie as accumulators do: consumer, block of 8 columns, thread, 4 numbers. Consumer
 * c has of a step of 128 queries (head size 64) rows 64 c and on, of one of 64 queries (head size
 * 128) columns 64 c and on. */
#ifndef OPS_ATTENTION_HOPPER_ONCE_CUH
#define OPS_ATTENTION_HOPPER_ONCE_CUH

#include "ops/attention/hopper_gradient.cuh"

template <int DIM> struct once_storage {
    enum {
        QUERY_STEP = DIM == 64 ? 128 : 64,
        Q_STAGES = 3, /* Q is read by the first product of a step and by the last but one */
        DO_STAGES = 2,
        DQ_STAGES = 2,
        TILE_BYTES = slab_tile_bytes(ROWS, DIM),       /* of K or V */
        STEP_BYTES = slab_tile_bytes(QUERY_STEP, DIM), /* of Q or dO */
        DS_BYTES = slab_tile_bytes(ROWS, QUERY_STEP),  /* a row for each key */
        DQ_BYTES = QUERY_STEP * DIM * 4,
        K_AT = 0,
        V_AT = K_AT + TILE_BYTES,
        Q_AT = V_AT + TILE_BYTES,
        DO_AT = Q_AT + Q_STAGES * STEP_BYTES,
        DS_AT = DO_AT + DO_STAGES * STEP_BYTES,
        DQ_AT = DS_AT + DS_BYTES,
        LSE_AT = DQ_AT + DQ_STAGES * DQ_BYTES,
        MEAN_AT = LSE_AT + Q_STAGES * QUERY_STEP * 4,
        ITEMS_AT = MEAN_AT + Q_STAGES * QUERY_STEP * 4,
        BARRIERS_AT = ITEMS_AT + ITEM_PLACES * 32,
        /* Barriers, by number. */
        K_FULL = 0,
        V_FULL = K_FULL + 1,
        Q_FULL = V_FULL + 1,
        DO_FULL = Q_FULL + Q_STAGES,
        ITEM_FULL = DO_FULL + DO_STAGES,
        DQ_EMPTY = ITEM_FULL + ITEM_PLACES,
        K_EMPTY = DQ_EMPTY + DQ_STAGES,
        V_EMPTY = K_EMPTY + 1,
        Q_EMPTY = V_EMPTY + 1,
        DO_EMPTY = Q_EMPTY + Q_STAGES,
        DQ_FULL = DO_EMPTY + DO_STAGES,
        ITEM_EMPTY = DQ_FULL + DQ_STAGES,
        BARRIERS = ITEM_EMPTY + ITEM_PLACES,
        BYTES = BARRIERS_AT + 8 * BARRIERS,
        ASKED = BYTES + 1024 /* to begin at a multiple of 1024 */
    };
    static_assert((int)ASKED <= 227 * 1024, "more than a block can have");
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Barriers before K_EMPTY have one thread arrive; from there on one lane of each warp that
 * computes, and items are read by the copying thread and those that add, too. */
template <int DIM> __device__ __forceinline__ void init_barriers(uint32_t barriers) {
    typedef once_storage<DIM> at;
    for (int i = 0; i < at::BARRIERS; i++)
        barrier_init(barriers + 8 * i, i < at::K_EMPTY      ? 1
                                       : i < at::ITEM_EMPTY ? CONSUMERS * 4
                                                            : CONSUMERS * 4 + 1 + at::DQ_STAGES);
    barrier_init_fence();
}

template <int DIM>
__device__ __forceinline__ void copy_tiles(const attention_call &call, const row_sums &sums,
                                           const gradient_maps &maps, unsigned char *base) {
    typedef once_storage<DIM> at;
    uint32_t shared = shared_address(base), barriers = shared + at::BARRIERS_AT;
    ring_place q = {0, 1}, d_o = {0, 1}; /* empty at first: nothing to wait for */
    for (int items = 0;; items++) {
        gradient_item item = *wait_for_item<at>(base, items);
        barrier_arrive(barriers + 8 * (at::ITEM_EMPTY + items % ITEM_PLACES));
        if (item.kind == NO_MORE)
            return;
        int row = item.begin * at::QUERY_STEP;
        for (int step = 0; step < item.steps; step++) {
            uint32_t full = barriers + 8 * (at::Q_FULL + q.stage);
            int64_t from = (item.batch * call.heads + item.other_head) * sums.pitch + row;
            barrier_wait(barriers + 8 * (at::Q_EMPTY + q.stage), q.phase, "a free stage of Q");
            barrier_expect(full, at::STEP_BYTES + 2 * at::QUERY_STEP * 4);
            copy_tile<at::QUERY_STEP, DIM>(shared + at::Q_AT + q.stage * at::STEP_BYTES,
                                           &maps.of_queries[0], full, row, item.other_head,
                                           item.batch);
            copy_bytes(shared + at::LSE_AT + q.stage * at::QUERY_STEP * 4, sums.lse + from,
                       at::QUERY_STEP * 4, full);
            copy_bytes(shared + at::MEAN_AT + q.stage * at::QUERY_STEP * 4, sums.mean + from,
                       at::QUERY_STEP * 4, full);
            step_ring<at::Q_STAGES>(&q);
            full = barriers + 8 * (at::DO_FULL + d_o.stage);
            barrier_wait(barriers + 8 * (at::DO_EMPTY + d_o.stage), d_o.phase,
                         "a free stage of dO");
            barrier_expect(full, at::STEP_BYTES);
            copy_tile<at::QUERY_STEP, DIM>(shared + at::DO_AT + d_o.stage * at::STEP_BYTES,
                                           &maps.of_queries[1], full, row, item.other_head,
                                           item.batch);
            step_ring<at::DO_STAGES>(&d_o);
            if (step == 0) { /* last, for they are the last to be free */
                full = barriers + 8 * at::V_FULL;
                barrier_wait(barriers + 8 * at::V_EMPTY, ~items & 1, "a free place for V");
                barrier_expect(full, at::TILE_BYTES);
                copy_tile<ROWS, DIM>(shared + at::V_AT, &maps.of_keys[1], full, item.first,
                                     item.head, item.batch);
                full = barriers + 8 * at::K_FULL;
                barrier_wait(barriers + 8 * at::K_EMPTY, ~items & 1, "a free place for K");
                barrier_expect(full, at::TILE_BYTES);
                copy_tile<ROWS, DIM>(shared + at::K_AT, &maps.of_keys[0], full, item.first,
                                     item.head, item.batch);
            }
            row += at::QUERY_STEP;
            if (row >= call.queries) { /* the next head that shares these keys */
                row = item.begin * at::QUERY_STEP;
                item.other_head++;
            }
        }
    }
}

__device__ __forceinline__ void wait_for_turn(const int *turn, int mine) {
    int now;
#ifdef ATTENTION_NO_TURNS
    return;
#endif
#ifdef ATTENTION_WATCHDOG
    long long begin = clock64();
#endif
    for (;;) {
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(turn) : "memory");
        if (now == mine)
            return;
#ifdef ATTENTION_WATCHDOG
        if (clock64() - begin > 2000000000ll) {
            printf("block %d thread %d waits for turn %d, it is %d's\n", (int)blockIdx.x,
                   (int)threadIdx.x, mine, now);
            __trap();
        }
#endif
    }
}
__device__ __forceinline__ void give_turn(int *turn, int next) {
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(turn), "r"(next) : "memory");
}

/* One thread for each stage of dQ, which has every so manieth step. */
template <int DIM>
__device__ __forceinline__ void add_in_turns(const attention_call &call, const row_sums &sums,
                                             unsigned char *base, int stage) {
    typedef once_storage<DIM> at;
    uint32_t shared = shared_address(base), barriers = shared + at::BARRIERS_AT;
    uint32_t from = shared + at::DQ_AT + stage * at::DQ_BYTES;
    int phase = 0, until_mine = stage;
    for (int items = 0;; items++) {
        gradient_item item = *wait_for_item<at>(base, items);
        barrier_arrive(barriers + 8 * (at::ITEM_EMPTY + items % ITEM_PLACES));
        if (item.kind == NO_MORE)
            return;
        int row = item.begin * at::QUERY_STEP, tile = item.first / ROWS;
        for (int step = 0; step < item.steps; step++) {
            if (until_mine-- == 0) {
                int64_t to = (item.batch * call.heads + item.other_head) * sums.pitch + row;
                int *turn = sums.turns + to / ATTENTION_ROWS_PER_TURN;
                if (tile > 0)
                    wait_for_turn(turn, tile);
                barrier_wait(barriers + 8 * (at::DQ_FULL + stage), phase, "dQ of a step");
                fence_for_copies();
                if (tile > 0)
                    add_bytes(sums.dq + to * DIM, from, at::DQ_BYTES);
                else
                    store_bytes(sums.dq + to * DIM, from, at::DQ_BYTES);
                stores_commit();
                stores_wait_read();
                barrier_arrive(barriers + 8 * (at::DQ_EMPTY + stage));
                stores_wait();
                fence_for_copies();
                give_turn(turn, tile + 1);
                phase ^= 1;
                until_mine = at::DQ_STAGES - 1;
            }
            row += at::QUERY_STEP;
            if (row >= call.queries) {
                row = item.begin * at::QUERY_STEP;
                item.other_head++;
            }
        }
    }
}

#endif
#endif
