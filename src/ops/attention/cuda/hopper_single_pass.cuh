/* hopper_single_pass.cuh - what attention_gradient_hopper_single_pass.cu's blocks copy: tiles to shared memory,
 * and dQ's terms from there to the sums in memory, in turns.
 *
 * Key tile n adds to a step of queries after key tiles 0 to n - 1: sums have one order. No block
 * waits for ever. Items are handed out by ascending key tile (all heads of a bundle taking turns)
 * to blocks that run, and a block works on its items in that order; so the first item not yet done
 * is always being worked on, and all it can wait for is done.
 *
 * Nor do they wait long. All key tiles begin with the last queries and go up to the first that see
 * them: one that begins a step after its predecessor stays behind it.
 *
 * A step's sums lie as accumulators do: consumer, block of 8 columns, thread, 4 numbers. Consumer
 * c has of a step of 128 queries (head size 64) rows 64 c and on, of one of 64 queries (head size
 * 128) columns 64 c and on. */
#ifndef OPS_ATTENTION_CUDA_HOPPER_SINGLE_PASS_CUH
#define OPS_ATTENTION_CUDA_HOPPER_SINGLE_PASS_CUH

#include "ops/attention/cuda/hopper_gradient.cuh"

template <int DIM> struct single_pass_storage {
    enum {
        KIND = OF_BOTH, /* all are of keys */
        QUERY_STEP = DIM == 64 ? 128 : 64,
        KEY_ROWS = ROWS,
        STAGES = 2,    /* of Q and dO */
        DS_STAGES = 2, /* a consumer writes one while the other may still read the one before */
        DQ_STAGES = 2,
        TILE_BYTES = slab_tile_bytes(ROWS, DIM),       /* of K or V */
        STEP_BYTES = slab_tile_bytes(QUERY_STEP, DIM), /* of Q or dO */
        DS_BYTES = slab_tile_bytes(ROWS, QUERY_STEP),  /* a row for each key */
        DQ_BYTES = QUERY_STEP * DIM * 4,
        K_AT = 0,
        V_AT = K_AT + TILE_BYTES,
        Q_AT = V_AT + TILE_BYTES,
        DO_AT = Q_AT + STAGES * STEP_BYTES,
        DS_AT = DO_AT + STAGES * STEP_BYTES,
        DQ_AT = DS_AT + DS_STAGES * DS_BYTES,
        LSE_AT = DQ_AT + DQ_STAGES * DQ_BYTES,
        MEAN_AT = LSE_AT + STAGES * QUERY_STEP * 4,
        ITEMS_AT = MEAN_AT + STAGES * QUERY_STEP * 4,
        BARRIERS_AT = ITEMS_AT + ITEM_PLACES * 32,
        /* Barriers, by number. */
        K_FULL = 0,
        V_FULL = K_FULL + 1,
        STEP_FULL = V_FULL + 1,
        ITEM_FULL = STEP_FULL + STAGES,
        ITEM_COPIED = ITEM_FULL + ITEM_PLACES,
        DQ_EMPTY = ITEM_COPIED + 1,
        DS_FULL = DQ_EMPTY + DQ_STAGES,     /* the rows of consumer 0, then of consumer 1 */
        DS_EMPTY = DS_FULL + 2 * DS_STAGES, /* read by consumer 0, then by consumer 1 */
        STEP_EMPTY = DS_EMPTY + 2 * DS_STAGES,
        K_EMPTY = STEP_EMPTY + STAGES,
        V_EMPTY = K_EMPTY + 1,
        DQ_FULL = V_EMPTY + 1,
        ITEM_EMPTY = DQ_FULL + DQ_STAGES,
        BARRIERS = ITEM_EMPTY + ITEM_PLACES,
        BYTES = BARRIERS_AT + 8 * BARRIERS
    };
    static_assert((int)BYTES <= 227 * 1024, "more than a block can have");
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Who arrives: one thread; one lane of each warp of a consumer; every lane of both; one of each
 * warp of both; these, the copying thread and those that add. */
template <int DIM>
__device__ __forceinline__ int count_arrivals(const single_pass_storage<DIM> *, int barrier) {
    typedef single_pass_storage<DIM> at;
    return barrier < at::DS_FULL      ? 1
           : barrier < at::STEP_EMPTY ? 4
           : barrier < at::K_EMPTY    ? CONSUMERS * WARPGROUP
           : barrier < at::ITEM_EMPTY ? CONSUMERS * 4
                                      : CONSUMERS * 4 + 1 + at::DQ_STAGES;
}

/* The rows of queries of an item's next step: up to the first that see its keys, then those of the
 * next head that shares them. True when it is another head's. */
template <int QUERY_STEP>
__device__ __forceinline__ bool go_up(const gradient_item *item, int *row) {
    *row -= QUERY_STEP;
    bool is_over = *row < item->begin * QUERY_STEP;
    if (is_over)
        *row = item->last;
    return is_over;
}

template <int DIM>
__device__ __forceinline__ void copy_tiles(const attention_call &call, const row_sums &sums,
                                           const gradient_maps &maps, unsigned char *base) {
    typedef single_pass_storage<DIM> at;
    uint32_t shared = shared_address(base), barriers = shared + at::BARRIERS_AT;
    ring_place place = {0, 1}; /* empty at first: nothing to wait for */
    for (int items = 0;; items++) {
        gradient_item item = take_item<at>(base, items);
        if (item.kind == NO_MORE)
            return;
        int row = item.last;
        for (int step = 0; step < item.steps; step++) {
            uint32_t full = barriers + 8 * (at::STEP_FULL + place.stage);
            uint32_t to = shared + place.stage * at::STEP_BYTES;
            int64_t from = (item.batch * call.heads + item.other_head) * sums.pitch + row;
            barrier_wait(barriers + 8 * (at::STEP_EMPTY + place.stage), place.phase,
                         "a free stage");
            barrier_expect(full, 2 * at::STEP_BYTES + 2 * at::QUERY_STEP * 4);
            copy_tile<at::QUERY_STEP, DIM>(to + at::Q_AT, &maps.of_queries[0], full, row,
                                           item.other_head, item.batch);
            copy_bytes(shared + at::LSE_AT + place.stage * at::QUERY_STEP * 4, sums.lse + from,
                       at::QUERY_STEP * 4, full);
            copy_bytes(shared + at::MEAN_AT + place.stage * at::QUERY_STEP * 4, sums.mean + from,
                       at::QUERY_STEP * 4, full);
            copy_tile<at::QUERY_STEP, DIM>(to + at::DO_AT, &maps.of_queries[1], full, row,
                                           item.other_head, item.batch);
            step_ring<at::STAGES>(&place);
            if (step == 0) { /* after those of the step, for they are the last to be free */
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
            item.other_head += go_up<at::QUERY_STEP>(&item, &row);
        }
        barrier_arrive(barriers + 8 * at::ITEM_COPIED);
    }
}

__device__ __forceinline__ void wait_for_turn(const int *turn, int mine) {
    int now;
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
    typedef single_pass_storage<DIM> at;
    uint32_t shared = shared_address(base), barriers = shared + at::BARRIERS_AT;
    uint32_t from = shared + at::DQ_AT + stage * at::DQ_BYTES;
    int phase = 0, until_mine = stage;
    for (int items = 0;; items++) {
        gradient_item item = take_item<at>(base, items);
        if (item.kind == NO_MORE)
            return;
        int row = item.last, tile = item.first / ROWS;
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
            item.other_head += go_up<at::QUERY_STEP>(&item, &row);
        }
    }
}

#endif
#endif
