/* hopper_wide.cuh - where the blocks of attention_gradient_hopper_wide.cu keep their tiles, and
 * what they copy. All tiles have 64 rows; rows of queries and keys go by through rings, whose
 * places are filled and free each on its own: what is read last is not what was read first. */
#ifndef OPS_ATTENTION_CUDA_HOPPER_WIDE_CUH
#define OPS_ATTENTION_CUDA_HOPPER_WIDE_CUH

#include "ops/attention/cuda/hopper_gradient.cuh"

/* Of items of keys: K and V, a ring of Q and one of dO, and P on its way from one consumer to the
 * other. */
template <int DIM> struct wide_keys_storage {
    enum {
        KIND = OF_KEYS,
        HELD = DIM > 192 ? 8 : 12, /* of K and V */
        QUERY_STEP = STEP,
        KEY_ROWS = 64,
        ITEM_COPIED = 0, /* a barrier that it does not have */
        STAGES = DIM > 192 ? 2 : 3,
        P_PLACES = 2,
        TILE_BYTES = slab_tile_bytes(64, DIM),
        P_BYTES = 64 * STEP * 2,
        K_AT = 0,
        V_AT = K_AT + TILE_BYTES,
        Q_AT = V_AT + TILE_BYTES,
        DO_AT = Q_AT + STAGES * TILE_BYTES,
        P_AT = DO_AT + STAGES * TILE_BYTES,
        LSE_AT = P_AT + P_PLACES * P_BYTES,
        MEAN_AT = LSE_AT + STAGES * STEP * 4,
        ITEMS_AT = MEAN_AT + STAGES * STEP * 4,
        BARRIERS_AT = ITEMS_AT + ITEM_PLACES * 32,
        /* Barriers, by number. */
        K_FULL = 0,
        V_FULL = K_FULL + 1,
        Q_FULL = V_FULL + 1,
        DO_FULL = Q_FULL + STAGES,
        ITEM_FULL = DO_FULL + STAGES,
        K_EMPTY = ITEM_FULL + ITEM_PLACES,
        V_EMPTY = K_EMPTY + 1,
        P_FULL = V_EMPTY + 1,
        P_EMPTY = P_FULL + P_PLACES,
        Q_EMPTY = P_EMPTY + P_PLACES,
        DO_EMPTY = Q_EMPTY + STAGES,
        ITEM_EMPTY = DO_EMPTY + STAGES,
        BARRIERS = ITEM_EMPTY + ITEM_PLACES,
        BYTES = BARRIERS_AT + 8 * BARRIERS
    };
    static_assert((int)BYTES <= 227 * 1024, "more than a block can have");
};

/* Of items of queries: Q and dO of each consumer, a ring of K and one of V, which is read for a
 * short while only. */
template <int DIM> struct wide_queries_storage {
    enum {
        KIND = OF_QUERIES,
        HELD = DIM > 192 ? 7 : 12, /* of Q */
        QUERY_STEP = STEP,
        KEY_ROWS = ROWS,
        ITEM_COPIED = 0,
        K_STAGES = 2,
        V_STAGES = DIM > 192 ? 1 : 2,
        TILE_BYTES = slab_tile_bytes(64, DIM),
        Q_AT = 0,
        DO_AT = Q_AT + CONSUMERS * TILE_BYTES,
        K_AT = DO_AT + CONSUMERS * TILE_BYTES,
        V_AT = K_AT + K_STAGES * TILE_BYTES,
        ITEMS_AT = V_AT + V_STAGES * TILE_BYTES,
        BARRIERS_AT = ITEMS_AT + ITEM_PLACES * 32,
        /* Barriers, by number. */
        Q_FULL = 0,
        DO_FULL = Q_FULL + CONSUMERS,
        K_FULL = DO_FULL + CONSUMERS,
        V_FULL = K_FULL + K_STAGES,
        ITEM_FULL = V_FULL + V_STAGES,
        Q_EMPTY = ITEM_FULL + ITEM_PLACES,
        DO_EMPTY = Q_EMPTY + CONSUMERS,
        K_EMPTY = DO_EMPTY + CONSUMERS,
        V_EMPTY = K_EMPTY + K_STAGES,
        ITEM_EMPTY = V_EMPTY + V_STAGES,
        BARRIERS = ITEM_EMPTY + ITEM_PLACES,
        BYTES = BARRIERS_AT + 8 * BARRIERS
    };
    static_assert((int)BYTES <= 227 * 1024, "more than a block can have");
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* How many arrive. What lanes read or wrote themselves, each of them leaves for itself; what only
 * products read, one lane of a warp. Of keys, all lanes of one consumer have read the sums that lie
 * with Q, and of the other those with dO. Items are read by both and by the copying thread. */
template <int DIM>
__device__ __forceinline__ int count_arrivals(const wide_keys_storage<DIM> *, int barrier) {
    typedef wide_keys_storage<DIM> at;
    return barrier < at::K_EMPTY      ? 1
           : barrier < at::Q_EMPTY    ? WARPGROUP
           : barrier < at::ITEM_EMPTY ? WARPGROUP + 4
                                      : CONSUMERS * 4 + 1;
}
template <int DIM>
__device__ __forceinline__ int count_arrivals(const wide_queries_storage<DIM> *, int barrier) {
    typedef wide_queries_storage<DIM> at;
    return barrier < at::Q_EMPTY      ? 1
           : barrier < at::DO_EMPTY   ? WARPGROUP
           : barrier < at::K_EMPTY    ? 4
           : barrier < at::ITEM_EMPTY ? CONSUMERS * 4
                                      : CONSUMERS * 4 + 1;
}
template <int DIM>
__device__ __forceinline__ void copy_for_keys(const attention_call &call, const row_sums &sums,
                                              const gradient_maps &maps, unsigned char *base) {
    typedef wide_keys_storage<DIM> at;
    uint32_t shared = shared_address(base), barriers = shared + at::BARRIERS_AT;
    ring_place place = {0, 1}; /* empty at first: nothing to wait for */
    for (int items = 0;; items++) {
        gradient_item item = take_item<at>(base, items);
        if (item.kind == NO_MORE)
            return;
        int row = item.begin * STEP;
        auto copy_own = [&](int tile, int to, int full, int empty) {
            barrier_wait(barriers + 8 * empty, ~items & 1, "a free place for the item's tile");
            barrier_expect(barriers + 8 * full, at::TILE_BYTES);
            copy_tile<64, DIM>(shared + to, &maps.of_keys[tile], barriers + 8 * full, item.first,
                               item.head, item.batch);
        };
        auto copy_step = [&](int tile, int to, const float *numbers, int numbers_to, int full,
                             int empty) {
            full = barriers + 8 * (full + place.stage);
            barrier_wait(barriers + 8 * (empty + place.stage), place.phase, "a free stage");
            barrier_expect(full, at::TILE_BYTES + STEP * 4);
            copy_tile<64, DIM>(shared + to + place.stage * at::TILE_BYTES, &maps.of_queries[tile],
                               full, row, item.other_head, item.batch);
            copy_bytes(shared + numbers_to + place.stage * STEP * 4,
                       numbers + (item.batch * call.heads + item.other_head) * sums.pitch + row,
                       STEP * 4, full);
        };
        copy_own(0, at::K_AT, at::K_FULL, at::K_EMPTY);
        for (int step = 0; step < item.steps; step++) {
            copy_step(0, at::Q_AT, sums.lse, at::LSE_AT, at::Q_FULL, at::Q_EMPTY);
            copy_step(1, at::DO_AT, sums.mean, at::MEAN_AT, at::DO_FULL, at::DO_EMPTY);
            if (step == 0) /* after those of the step, for it is the last to be free */
                copy_own(1, at::V_AT, at::V_FULL, at::V_EMPTY);
            step_ring<at::STAGES>(&place);
            row += STEP;
            if (row >= call.queries) { /* the next head that shares these keys */
                row = item.begin * STEP;
                item.other_head++;
            }
        }
    }
}

template <int DIM>
__device__ __forceinline__ void copy_for_queries(const gradient_maps &maps, unsigned char *base) {
    typedef wide_queries_storage<DIM> at;
    uint32_t shared = shared_address(base), barriers = shared + at::BARRIERS_AT;
    int turn = 0; /* of the rings */
    for (int items = 0;; items++) {
        const gradient_item *item = wait_for_item<at>(base, items);
        if (item->kind == NO_MORE)
            return;
        auto copy_own = [&](int tile, int consumer, int to, int full, int empty) {
            full = barriers + 8 * (full + consumer);
            barrier_wait(barriers + 8 * (empty + consumer), ~items & 1,
                         "a free place for the item's tile");
            barrier_expect(full, at::TILE_BYTES);
            copy_tile<64, DIM>(shared + to + consumer * at::TILE_BYTES, &maps.of_queries[tile],
                               full, item->first + consumer * 64, item->head, item->batch);
        };
        auto copy_step = [&](int tile, int step, int places, int to, int full, int empty) {
            full = barriers + 8 * (full + turn % places);
            barrier_wait(barriers + 8 * (empty + turn % places), ~(turn / places) & 1,
                         "a free stage"); /* all are, at first */
            barrier_expect(full, at::TILE_BYTES);
            copy_tile<64, DIM>(shared + to + turn % places * at::TILE_BYTES, &maps.of_keys[tile],
                               full, step * STEP, item->other_head, item->batch);
        };
        for (int step = 0; step == 0 || step < item->steps; step++, turn++) {
            copy_step(0, step, at::K_STAGES, at::K_AT, at::K_FULL, at::K_EMPTY);
            for (int i = 0; step == 0 && i < CONSUMERS; i++)
                copy_own(0, i, at::Q_AT, at::Q_FULL, at::Q_EMPTY);
            copy_step(1, step, at::V_STAGES, at::V_AT, at::V_FULL, at::V_EMPTY);
            for (int i = 0; step == 0 && i < CONSUMERS; i++)
                copy_own(1, i, at::DO_AT, at::DO_FULL, at::DO_EMPTY);
        }
        barrier_arrive(barriers + 8 * (at::ITEM_EMPTY + items % ITEM_PLACES));
    }
}

#endif
#endif
