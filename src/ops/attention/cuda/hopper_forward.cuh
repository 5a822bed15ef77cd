/* hopper_forward.cuh - the tiles of queries attention_hopper.cu works on: their order, who gets
 * which, and what is copied for them and from them. */
#ifndef OPS_ATTENTION_CUDA_HOPPER_FORWARD_CUH
#define OPS_ATTENTION_CUDA_HOPPER_FORWARD_CUH

#include "ops/attention/cuda/attention_cuda.cuh"
#include "ops/attention/cuda/hopper_tile.cuh"

enum { STAGES = 2 };

/* The order of work. Where all queries see all keys, one head after the other. Where not, heads in
 * bundles whose keys and values fit the L2 cache; in a bundle, the last queries, which see the most
 * keys, first. Blocks take a bundle in rounds, every other one backwards, and begin every other
 * bundle backwards, so that none always gets the longest. */
typedef struct work_order {
    int unseeing; /* the first queries of a head, whole tiles of them, that see no key */
    int tiles;    /* of the other queries, in a head */
    int heads;    /* of all batches */
    int bundle;   /* heads */
    int rounds;   /* in a bundle */
} work_order;

typedef struct forward_maps {
    CUtensorMap q, k, v, o;
} forward_maps;

/* A tile of queries. */
typedef struct work_item {
    int batch, head, first; /* first query */
    int tiles, unmasked;    /* of keys: to be seen at all; of these, to be seen by all queries */
} work_item;

/* With two places for queries, a tile's rows of O go to the place of its Q, and a warp of the
 * copying warpgroup lets them leave from there; with one they leave from registers. */
template <int DIM, int CONSUMERS, int KEYS, int PLACES> struct forward_storage {
    enum {
        QUERIES = CONSUMERS * 64,
        Q_BYTES = slab_tile_bytes(64, DIM), /* of one consumer in one place */
        Q_PLACE_BYTES = CONSUMERS * Q_BYTES,
        KEY_BYTES = slab_tile_bytes(KEYS, DIM), /* of a tile of K or V */
        K_AT = PLACES * Q_PLACE_BYTES,
        V_AT = K_AT + STAGES * KEY_BYTES,
        BARRIERS_AT = V_AT + STAGES * KEY_BYTES,
        /* Where the barriers are. Each consumer has its own for its queries. */
        Q_FULL = 0,
        Q_EMPTY = Q_FULL + PLACES * CONSUMERS,
        O_FULL = Q_EMPTY + PLACES * CONSUMERS,
        K_FULL = O_FULL + PLACES * CONSUMERS,
        K_EMPTY = K_FULL + STAGES,
        V_FULL = K_EMPTY + STAGES,
        V_EMPTY = V_FULL + STAGES,
        BARRIERS = V_EMPTY + STAGES,
        BYTES = BARRIERS_AT + 8 * BARRIERS,
        ASKED = BYTES + 1024 /* to begin at a multiple of 1024 */
    };
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* What the block has next, from round *round on; tiles are 0 when there is nothing more. All
 * warpgroups find it by themselves: what follows from parameters alone is known to be the same in
 * all lanes, and loops over it take fewer instructions. */
template <int QUERIES, int KEYS>
__device__ __forceinline__ work_item next_work(const attention_call &call, const work_order &order,
                                               int *round) {
    int blocks = (int)gridDim.x, block = (int)blockIdx.x, head, tile;
    work_item item = {};
    if (call.is_causal) {
        int begin, heads, at;
        do {
            int bundle = *round / order.rounds, in_bundle = *round % order.rounds;
            begin = bundle * order.bundle;
            if (begin >= order.heads)
                return item;
            heads = order.heads - begin < order.bundle ? order.heads - begin : order.bundle;
            at = in_bundle * blocks + ((bundle + in_bundle) & 1 ? blocks - 1 - block : block);
            ++*round;
        } while (at >= heads * order.tiles);
        head = begin + at % heads;
        tile = order.tiles - 1 - at / heads;
    } else {
        int at = (*round)++ * blocks + block;
        head = at / order.tiles;
        tile = at % order.tiles;
        if (head >= order.heads)
            return item;
    }
    item.batch = head / call.heads;
    item.head = head % call.heads;
    item.first = order.unseeing + tile * QUERIES;
    int end = item.first + QUERIES;
    int last = (end < call.queries ? end : call.queries) - 1;
    item.tiles = (visible_keys(call, last) + KEYS - 1) / KEYS;
    item.unmasked = visible_keys(call, item.first) / KEYS;
    return item;
}

/* ---- copying ---- */

template <int DIM, int CONSUMERS, int KEYS, int PLACES>
__device__ __forceinline__ void produce(const attention_call &call, const work_order &order,
                                        const forward_maps &maps, uint32_t shared) {
    typedef forward_storage<DIM, CONSUMERS, KEYS, PLACES> at;
    uint32_t barriers = shared + at::BARRIERS_AT;
    ring_place k = {0, 1}, v = {0, 1}; /* the rings begin empty: nothing to wait for */
    uint32_t number = 0;               /* of the next item */
    auto copy_keys = [&](int tile, int head, int batch) {
        uint32_t full = barriers + 8 * (at::K_FULL + k.stage);
        barrier_wait(barriers + 8 * (at::K_EMPTY + k.stage), k.phase, "a free place for K");
        barrier_expect(full, at::KEY_BYTES);
        copy_tile<KEYS, DIM>(shared + at::K_AT + k.stage * at::KEY_BYTES, &maps.k, full,
                             tile * KEYS, head, batch);
        step_ring<STAGES>(&k);
    };
    auto copy_values = [&](int tile, int head, int batch) {
        uint32_t full = barriers + 8 * (at::V_FULL + v.stage);
        barrier_wait(barriers + 8 * (at::V_EMPTY + v.stage), v.phase, "a free place for V");
        barrier_expect(full, at::KEY_BYTES);
        copy_tile<KEYS, DIM>(shared + at::V_AT + v.stage * at::KEY_BYTES, &maps.v, full,
                             tile * KEYS, head, batch);
        step_ring<STAGES>(&v);
    };
    auto copy_queries = [&](const work_item &item) {
        int place = (int)(number % PLACES);
        for (int c = 0; c < CONSUMERS; c++) {
            int at_place = place * CONSUMERS + c;
            uint32_t full = barriers + 8 * (at::Q_FULL + at_place);
            barrier_wait(barriers + 8 * (at::Q_EMPTY + at_place), (int)(number / PLACES & 1) ^ 1,
                         "a free place for Q");
            barrier_expect(full, at::Q_BYTES);
            copy_tile<64, DIM>(shared + at_place * at::Q_BYTES, &maps.q, full, item.first + c * 64,
                               item.head, item.batch);
        }
        number++;
    };

    /* V is wanted one step after K: the first tile of an item is copied with the next's last. */
    int round = 0, head = 0, batch = 0;
    for (;;) {
        work_item item = next_work<at::QUERIES, KEYS>(call, order, &round);
        if (item.tiles == 0)
            break;
        int head_before = head, batch_before = batch;
        head = item.head / call.group;
        batch = item.batch;
        int tile = item.tiles - 1;
        copy_keys(tile, head, batch);
        copy_queries(item);
        if (number > 1)
            copy_values(0, head_before, batch_before);
        for (; tile > 0; tile--) {
            copy_keys(tile - 1, head, batch);
            copy_values(tile, head, batch);
        }
    }
    if (number > 0)
        copy_values(0, head, batch);
}

/* Lets rows of O leave that consumers wrote to the place of their queries, which is then free. */
template <int DIM, int CONSUMERS, int KEYS, int PLACES>
__device__ __forceinline__ void store_results(const attention_call &call, const work_order &order,
                                              const forward_maps &maps, uint32_t shared) {
    typedef forward_storage<DIM, CONSUMERS, KEYS, PLACES> at;
    uint32_t barriers = shared + at::BARRIERS_AT;
    int round = 0;
    for (uint32_t number = 0;; number++) {
        work_item item = next_work<at::QUERIES, KEYS>(call, order, &round);
        if (item.tiles == 0)
            return;
        for (int c = 0; c < CONSUMERS; c++) {
            int at_place = (int)(number % PLACES) * CONSUMERS + c;
            barrier_wait(barriers + 8 * (at::O_FULL + at_place), (int)(number / PLACES & 1), "O");
            store_tile<64, DIM>(&maps.o, shared + at_place * at::Q_BYTES, item.first + c * 64,
                                item.head, item.batch);
            stores_wait_read();
            barrier_arrive(barriers + 8 * (at::Q_EMPTY + at_place));
        }
    }
}

/* O and LSE of whole tiles of queries that see no key, by all consumers of all blocks. */
template <int CONSUMERS>
__device__ __forceinline__ void store_unseeing(const attention_call &call, const work_order &order,
                                               int consumer) {
    int64_t threads = (int64_t)gridDim.x * CONSUMERS * WARPGROUP;
    int64_t thread =
        ((int64_t)blockIdx.x * CONSUMERS + consumer) * WARPGROUP + threadIdx.x % WARPGROUP;
    int pieces = call.head_dim / 8;
    int64_t all = (int64_t)order.heads * order.unseeing * pieces;
    for (int64_t i = thread; i < all; i += threads) {
        int piece = (int)(i % pieces), row = (int)(i / pieces % order.unseeing);
        int head = (int)(i / pieces / order.unseeing);
        int batch = head / call.heads;
        head %= call.heads;
        *(uint4 *)(rows_of<uint16_t>(call.o, batch, head) + row * call.o.row + piece * 8) =
            make_uint4(0, 0, 0, 0);
        if (piece == 0)
            rows_of<float>(call.lse, batch, head)[row] = -INFINITY;
    }
}

#endif
#endif
