/* hopper_two_pass.cuh - where the blocks of attention_gradient_hopper.cu keep their tiles, and what
 * they copy. */
#ifndef OPS_ATTENTION_CUDA_HOPPER_TWO_PASS_CUH
#define OPS_ATTENTION_CUDA_HOPPER_TWO_PASS_CUH

#include "ops/attention/cuda/hopper_gradient.cuh"

template <int DIM> struct two_pass_storage {
    enum {
        KIND = OF_BOTH,    /* or of one alone: of items */
        QUERY_STEP = STEP, /* queries that go by at a time */
        KEY_ROWS = ROWS,   /* of an item of keys */
        ITEM_COPIED = 0,   /* a barrier that it does not have */
        /* Small heads' own tiles are free again as soon as their rows are in registers; where they
         * are not, and contexts are short, the next item's must be on their way before. */
        BUFFERS = DIM == 80 || DIM == 96 ? 2 : 1,
        STAGES = BUFFERS == 2 ? 3 : 4,
        TILE_BYTES = slab_tile_bytes(ROWS, DIM), /* of K or V, or Q or dO */
        STEP_BYTES = slab_tile_bytes(STEP, DIM), /* of the two others */
        LEFT_AT = 2 * BUFFERS * TILE_BYTES,
        RIGHT_AT = LEFT_AT + STAGES * STEP_BYTES,
        LSE_AT = RIGHT_AT + STAGES * STEP_BYTES,
        MEAN_AT = LSE_AT + STAGES * STEP * 4,
        ITEMS_AT = MEAN_AT + STAGES * STEP * 4,
        BARRIERS_AT = ITEMS_AT + ITEM_PLACES * 32,
        /* Barriers, by number. */
        TILE_FULL = 0,
        TILE_EMPTY = TILE_FULL + BUFFERS,
        STEP_FULL = TILE_EMPTY + BUFFERS,
        STEP_EMPTY = STEP_FULL + STAGES,
        ITEM_FULL = STEP_EMPTY + STAGES,
        ITEM_EMPTY = ITEM_FULL + ITEM_PLACES,
        BARRIERS = ITEM_EMPTY + ITEM_PLACES,
        BYTES = BARRIERS_AT + 8 * BARRIERS,
        ASKED = BYTES + 1024 /* to begin at a multiple of 1024 */
    };
    static_assert((int)ASKED <= 227 * 1024, "more than a block can have");
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Every lane has read the item, so every lane releases it where registers allow. In larger heads
 * that spills: there one lane does it behind __syncwarp, which orders its warp's reads just as
 * well, although racecheck does not follow it. */
template <int DIM> __device__ constexpr bool every_lane_releases_items() { return DIM <= 96; }

/* How many arrive. One lane of each warp that computes; every lane for steps, of which each has
 * read sums; the copying thread reads items, too. */
template <int DIM>
__device__ __forceinline__ int count_arrivals(const two_pass_storage<DIM> *, int barrier) {
    typedef two_pass_storage<DIM> at;
    bool is_of_tiles = barrier >= at::TILE_EMPTY && barrier < at::STEP_FULL;
    bool is_of_steps = barrier >= at::STEP_EMPTY && barrier < at::ITEM_FULL;
    return is_of_steps                 ? CONSUMERS * WARPGROUP
           : is_of_tiles               ? CONSUMERS * 4
           : barrier >= at::ITEM_EMPTY ? CONSUMERS * (every_lane_releases_items<DIM>() ? WARPGROUP : 4) + 1
                                       : 1;
}

/* An item's own tile, in pieces as large as the ring's. */
template <int DIM>
__device__ __forceinline__ void copy_item_tile(uint32_t to, const CUtensorMap *map,
                                               uint32_t barrier, int row, int head, int batch) {
#pragma unroll
    for (int slab = 0; slab < slabs_of(DIM); slab++)
#pragma unroll
        for (int i = 0; i < ROWS; i += STEP)
            copy_slab(to + (slab * ROWS + i) * SLAB_ROW_BYTES, map, barrier, slab * SLAB_COLUMNS,
                      row + i, head, batch);
}

template <int DIM>
__device__ __forceinline__ void produce(const attention_call &call, const row_sums &sums,
                                        const gradient_maps &maps, unsigned char *base) {
    typedef two_pass_storage<DIM> at;
    uint32_t shared = shared_address(base), barriers = shared + at::BARRIERS_AT;
    /* So many are behind us; places are empty at first, and nothing is to be waited for. */
    int items = 0, tiles = 0, steps = 0;
    for (;; items++) {
        gradient_item item = take_item<at>(base, items);
        if (item.kind == NO_MORE)
            return;
        if (item.steps == 0)
            continue;
        bool is_of_keys = item.kind == OF_KEYS;
        const CUtensorMap *own = is_of_keys ? maps.of_keys : maps.of_queries;
        const CUtensorMap *other = is_of_keys ? maps.of_queries : maps.of_keys;
        int buffer = tiles % at::BUFFERS;
        uint32_t to = shared + buffer * 2 * at::TILE_BYTES;
        uint32_t full = barriers + 8 * (at::TILE_FULL + buffer);
        barrier_wait(barriers + 8 * (at::TILE_EMPTY + buffer), ~(tiles / at::BUFFERS) & 1,
                     "a free place for the item's tiles");
        tiles++;
        barrier_expect(full, 2 * at::TILE_BYTES);
        copy_item_tile<DIM>(to, &own[0], full, item.first, item.head, item.batch);
        copy_item_tile<DIM>(to + at::TILE_BYTES, &own[1], full, item.first, item.head, item.batch);
        int row = item.begin * STEP;
        for (; item.steps > 0; item.steps--, steps++) {
            int stage = steps % at::STAGES;
            full = barriers + 8 * (at::STEP_FULL + stage);
            barrier_wait(barriers + 8 * (at::STEP_EMPTY + stage), ~(steps / at::STAGES) & 1,
                         "a free stage");
            barrier_expect(full, 2 * at::STEP_BYTES + (is_of_keys ? 2 * STEP * 4 : 0));
            copy_tile<STEP, DIM>(shared + at::LEFT_AT + stage * at::STEP_BYTES, &other[0], full,
                                 row, item.other_head, item.batch);
            copy_tile<STEP, DIM>(shared + at::RIGHT_AT + stage * at::STEP_BYTES, &other[1], full,
                                 row, item.other_head, item.batch);
            if (is_of_keys) {
                int64_t from = (item.batch * call.heads + item.other_head) * sums.pitch + row;
                copy_bytes(shared + at::LSE_AT + stage * STEP * 4, sums.lse + from, STEP * 4, full);
                copy_bytes(shared + at::MEAN_AT + stage * STEP * 4, sums.mean + from, STEP * 4,
                           full);
            }
            row += STEP;
            if (is_of_keys && row >= call.queries) {
                row = item.begin * STEP;
                item.other_head++;
            }
        }
    }
}

#endif
#endif
