/* hopper_gradient.cuh - the items attention's gradients on sm_90a work on: their order and who gets
 * which; and what attention_gradient_hopper.cu copies for them. */
#ifndef OPS_ATTENTION_HOPPER_GRADIENT_CUH
#define OPS_ATTENTION_HOPPER_GRADIENT_CUH

#include "ops/attention/attention_cuda.cuh"
#include "ops/attention/hopper_tile.cuh"

enum { CONSUMERS = 2, ROWS = CONSUMERS * 64, STEP = 64, ITEM_PLACES = 2 };

enum item_kind { OF_KEYS, OF_QUERIES, NO_MORE, OF_BOTH = NO_MORE };

/* The order of items: heads in bundles whose rows fit the L2 cache; in a bundle, by rank, the tiles
 * that see or are seen by the most first; of a rank, those of keys before those of queries. */
typedef struct gradient_order {
    int key_tiles, query_tiles;
    int kv_heads, bundle; /* of all batches; heads of keys */
    int items;
    int early; /* of one kind: so many ranks come in bundles, the others, which are the shortest, at
                * last for all heads, so that blocks end together */
} gradient_order;

/* What the first kernel makes for the second. Rows of a head are `pitch` apart, a multiple of the
 * largest tile. */
typedef struct row_sums {
    float *mean;    /* D = rowsum(O dO) */
    float *lse;     /* to base 2; infinity for rows that see nothing or are not there */
    float *dq;      /* sums in turns, or NULL: as the accumulators of hopper_once.cuh have them */
    float4 *angles; /* as accumulators are rotated back by them (hopper_tile.cuh), or NULL */
    int *turns;     /* of each step of queries, the key tile that adds to it next */
    int *counter;   /* [2]: items taken beyond the first of each block, in two launches */
    int64_t pitch;  /* of all */
} row_sums;

/* Places in the workspace; columns: of dQ, or 0. */
row_sums hopper_row_sums(const attention_call *call, int columns);
/* Enqueues the first kernel. */
void hopper_sum_rows(const attention_call *call, const row_sums *sums, cudaStream_t stream);

typedef struct gradient_maps {
    CUtensorMap of_queries[2], of_keys[2]; /* Q and dO, K and V */
} gradient_maps;

template <int DIM> struct gradient_storage {
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

typedef struct gradient_item {
    int kind;        /* enum item_kind */
    int batch, head; /* of keys: a head of keys */
    int first;       /* row */
    int begin;       /* the first tile of the other side */
    int steps;       /* tiles from there on; of keys: in all heads that share them */
    int other_head;  /* of the other side, the first */
    int last;        /* row of queries at which the last step begins */
} gradient_item;

/* Of an item, by its number: what it is of, its head from a first head of keys on, its rank. */
typedef struct item_place {
    int kind, begin, head, rank;
} item_place;

__device__ __forceinline__ item_place find_place(const attention_call &call,
                                                 const gradient_order &order, int at) {
    int per_head = order.key_tiles + call.group * order.query_tiles;
    item_place place;
    place.begin = at / (order.bundle * per_head) * order.bundle;
    int rest = at - place.begin * per_head;
    int left = order.kv_heads - place.begin, keys = left < order.bundle ? left : order.bundle;
    int queries = keys * call.group;
    int both = order.key_tiles < order.query_tiles ? order.key_tiles : order.query_tiles;
    if (rest < both * (keys + queries)) {
        place.rank = rest / (keys + queries);
        place.head = rest % (keys + queries);
        place.kind = place.head < keys ? OF_KEYS : OF_QUERIES;
        place.head -= place.head < keys ? 0 : keys;
    } else {
        rest -= both * (keys + queries);
        place.kind = order.key_tiles > both ? OF_KEYS : OF_QUERIES;
        int heads = order.key_tiles > both ? keys : queries;
        place.rank = both + rest / heads;
        place.head = rest % heads;
    }
    return place;
}

/* Where all are of one kind, and some come early. */
template <int KIND>
__device__ __forceinline__ item_place find_early_or_late(const attention_call &call,
                                                         const gradient_order &order, int at) {
    int share = KIND == OF_KEYS ? 1 : call.group;
    int heads = order.kv_heads * share, bundle = order.bundle * share, begin = 0;
    if (at < heads * order.early) {
        begin = at / (bundle * order.early) * bundle;
        at -= begin * order.early;
        heads = heads - begin < bundle ? heads - begin : bundle;
    }
    item_place place = {KIND, 0, begin + at % heads, at / heads};
    return place;
}

template <typename at>
__device__ __forceinline__ gradient_item find_item(const attention_call &call,
                                                   const gradient_order &order, int number) {
    constexpr int QUERY_STEP = at::QUERY_STEP;
    item_place place = at::KIND == OF_BOTH ? find_place(call, order, number)
                                           : find_early_or_late<at::KIND>(call, order, number);
    gradient_item item;
    item.kind = place.kind;
    if (item.kind == OF_KEYS) {
        place.head += place.begin;
        item.batch = place.head / call.kv_heads;
        item.head = place.head % call.kv_heads;
        item.other_head = item.head * call.group;
        item.first = place.rank * at::KEY_ROWS;
        item.begin = first_query(call, item.first) / QUERY_STEP;
        item.last = (call.queries - 1) / QUERY_STEP * QUERY_STEP;
        item.steps = (item.last / QUERY_STEP + 1 - item.begin) * call.group;
    } else {
        place.head += place.begin * call.group;
        item.batch = place.head / call.heads;
        item.head = place.head % call.heads;
        item.other_head = item.head / call.group;
        item.first = (order.query_tiles - 1 - place.rank) * ROWS;
        int end = item.first + ROWS < call.queries ? item.first + ROWS : call.queries;
        item.begin = 0;
        item.steps = (visible_keys(call, end - 1) + STEP - 1) / STEP;
    }
    return item;
}

/* One thread takes items and tells the block. Eagerly: a block has its first by its number, and
 * takes more while there are places for them. Else it takes each of them when the one before has
 * been copied: among items that wait for earlier ones, none is held back by a block at work on
 * another. */
template <typename at, bool IS_EAGER>
__device__ __forceinline__ void hand_out(const attention_call &call, const gradient_order &order,
                                         const row_sums &sums, unsigned char *base) {
    uint32_t barriers = shared_address(base) + at::BARRIERS_AT;
    ring_place place = {0, 1}; /* empty at first: nothing to wait for */
    int given = IS_EAGER ? (int)gridDim.x : 0;
    for (int items = 0;; items++) {
        if (!IS_EAGER && items > 0)
            barrier_wait(barriers + 8 * at::ITEM_COPIED, ~items & 1, "an item to be copied");
        int number = IS_EAGER && items == 0 ? (int)blockIdx.x : given + atomicAdd(sums.counter, 1);
        bool is_last = number >= order.items;
        gradient_item item = find_item<at>(call, order, is_last ? 0 : number);
        item.kind = is_last ? (int)NO_MORE : item.kind;
        barrier_wait(barriers + 8 * (at::ITEM_EMPTY + place.stage), place.phase,
                     "a place for an item");
        *((gradient_item *)(base + at::ITEMS_AT) + place.stage) = item;
        barrier_arrive(barriers + 8 * (at::ITEM_FULL + place.stage));
        step_ring<ITEM_PLACES>(&place);
        if (is_last)
            return;
    }
}

/* The item after so many, once it is there; it stays until all who read it have left it. */
template <typename at>
__device__ __forceinline__ const gradient_item *wait_for_item(const unsigned char *base,
                                                              int items) {
    uint32_t barriers = shared_address(base) + at::BARRIERS_AT;
    int place = items % ITEM_PLACES;
    barrier_wait(barriers + 8 * (at::ITEM_FULL + place), items / ITEM_PLACES & 1, "an item");
    return (const gradient_item *)(base + at::ITEMS_AT) + place;
}

/* ---- copying ---- */

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
    typedef gradient_storage<DIM> at;
    uint32_t shared = shared_address(base), barriers = shared + at::BARRIERS_AT;
    /* So many are behind us; places are empty at first, and nothing is to be waited for. */
    int items = 0, tiles = 0, steps = 0;
    for (;; items++) {
        gradient_item item = *wait_for_item<at>(base, items);
        barrier_arrive(barriers + 8 * (at::ITEM_EMPTY + items % ITEM_PLACES));
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
