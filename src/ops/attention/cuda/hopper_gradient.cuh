/* hopper_gradient.cuh - what attention's gradients on sm_90a have in common: their launches, the
 * items they work on, in which order and who gets which, and what consumers do alike. */
#ifndef OPS_ATTENTION_CUDA_HOPPER_GRADIENT_CUH
#define OPS_ATTENTION_CUDA_HOPPER_GRADIENT_CUH

#include "ops/attention/cuda/attention_cuda.cuh"
#include "ops/attention/cuda/hopper_tile.cuh"

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
    float *dq;      /* of the single pass, or NULL: as the accumulators of hopper_single_pass.cuh have them */
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

/* For tiles of so many rows. 0 when the driver does not take them. */
int hopper_describe_gradient(gradient_maps *maps, const attention_call *call, int query_rows,
                             int key_rows);

/* All items of a kind, or of both; key_rows: of an item of keys, one of queries has ROWS. */
gradient_order hopper_order_items(const attention_call *call, int kind, int key_rows);

typedef void gradient_kernel(attention_call call, gradient_order order, row_sums sums,
                             gradient_maps maps);

/* Whether the kernel is there and gets that much shared memory; *known: 1 yes, -1 no, 0 at first.
 */
int hopper_is_ready(gradient_kernel *kernel, int shared_bytes, int *known);
/* Enqueues a kernel, whose blocks may begin before what is before it in the stream has ended. */
void hopper_launch_items(gradient_kernel *kernel, int shared_bytes, const attention_call *call,
                         const gradient_order *order, const row_sums *sums,
                         const gradient_maps *maps, cudaStream_t stream);

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

/* A copy of the item after so many, which is left at once. */
template <typename at>
__device__ __forceinline__ gradient_item take_item(const unsigned char *base, int items) {
    gradient_item item = *wait_for_item<at>(base, items);
    barrier_arrive(shared_address(base) + at::BARRIERS_AT +
                   8 * (at::ITEM_EMPTY + items % ITEM_PLACES));
    return item;
}

/* ---- a block ---- */

/* By one thread. count_arrivals says how many arrive at each of the storage's barriers. */
template <typename at>
__device__ __forceinline__ void begin_block(const gradient_maps &maps, const unsigned char *base) {
    uint32_t barriers = shared_address(base) + at::BARRIERS_AT;
    for (int i = 0; i < 2; i++) {
        prefetch_map(&maps.of_queries[i]);
        prefetch_map(&maps.of_keys[i]);
    }
    for (int i = 0; i < at::BARRIERS; i++)
        barrier_init(barriers + 8 * i, count_arrivals((const at *)NULL, i));
    barrier_init_fence();
}

/* The same in all lanes, and known to be: kept in a uniform register. */
__device__ __forceinline__ int warpgroup_number(void) {
    return __shfl_sync(0xffffffffu, (int)(threadIdx.x / WARPGROUP), 0);
}

/* ---- consumers ---- */

/* A consumer's view of the block. */
typedef struct consumer_state {
    unsigned char *base;
    uint32_t barriers;
    int number, thread; /* consumer, and its thread */
    int items, steps;   /* so many are behind us */
} consumer_state;

template <typename at>
__device__ __forceinline__ consumer_state begin_consumer(unsigned char *base, int number) {
    consumer_state me = {
        base, shared_address(base) + at::BARRIERS_AT, number, (int)threadIdx.x % WARPGROUP, 0, 0};
    return me;
}

/* By one lane of a warp: what only products have read. */
__device__ __forceinline__ void leave(const consumer_state *me, int barrier) {
    if (me->thread % 32 == 0)
        barrier_arrive(me->barriers + 8 * barrier);
}
/* By every lane, for each of them has read or written there. */
template <typename STATE> __device__ __forceinline__ void leave_each(const STATE *me, int barrier) {
    barrier_arrive(me->barriers + 8 * barrier);
}
/* For what comes to the place of a ring that has PLACES of them, at its `turn`. */
template <int PLACES, typename STATE>
__device__ __forceinline__ void wait_full(const STATE *me, int barrier, int turn,
                                          const char *what) {
    barrier_wait(me->barriers + 8 * (barrier + turn % PLACES), turn / PLACES & 1, what);
}
template <int PLACES, typename STATE>
__device__ __forceinline__ void wait_empty(const STATE *me, int barrier, int turn,
                                           const char *what) {
    barrier_wait(me->barriers + 8 * (barrier + turn % PLACES), ~(turn / PLACES) & 1, what);
}
/* From a ring's first tile to that of a turn, for descriptors. */
template <int PLACES, int BYTES> __device__ __forceinline__ uint32_t along(int turn) {
    return (uint32_t)(turn % PLACES * (BYTES >> 4));
}

/* Of a tile of TILE_ROWS rows, a warp's 16 from `first` on: the first columns, as A wants them. */
template <int TILE_ROWS, int COUNT>
__device__ __forceinline__ void take_rows(uint32_t (&rows)[COUNT], const unsigned char *tile,
                                          int first, int lane) {
    int row = first + lane % 16;
#pragma unroll
    for (int k = 0; k < COUNT / 4; k++) {
        int piece = k % 4 * 2 + lane / 16;
        ldmatrix_x4(rows + 4 * k,
                    tile + (k / 4 * TILE_ROWS + row) * SLAB_ROW_BYTES + (piece ^ row % 8) * 16);
    }
}

/* What a lane's two queries of an item of queries bring with them. */
typedef struct query_rows {
    float lse[2], mean[2];
    int limit[2]; /* the first key not seen, counted from the lane's first column */
} query_rows;
__device__ __forceinline__ query_rows load_query_rows(const attention_call &call,
                                                      const row_sums &sums,
                                                      const gradient_item *item, int query,
                                                      int column) {
    query_rows rows;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int64_t row = (item->batch * call.heads + item->head) * sums.pitch + query + 8 * r;
        rows.lse[r] = sums.lse[row];
        rows.mean[r] = sums.mean[row];
        rows.limit[r] = visible_keys(call, query + 8 * r) - column;
    }
    return rows;
}

/* Scores of keys by queries that are not seen; lead: how far beyond the lane's first key its first
 * query sees. */
template <int COUNT> __device__ __forceinline__ void hide_queries(float (&s)[COUNT], int lead) {
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        if (lead + i / 4 * 8 + (i & 1) - (i & 2) * 4 < 0)
            s[i] = -INFINITY;
}
/* Scores of queries by keys from `key` on; limit: of each of the lane's two queries, the first key
 * not seen, counted from the lane's first column. */
template <int COUNT>
__device__ __forceinline__ void hide_keys(float (&s)[COUNT], int key, const int *limit) {
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        if (key + i / 4 * 8 + (i & 1) >= limit[i >> 1 & 1])
            s[i] = -INFINITY;
}

/* dS^T of 8 queries from P^T as its 16-bit numbers and dP^T; mean: of the lane's two queries. */
template <int TYPE>
__device__ __forceinline__ void pack_gradients(uint32_t *ds, const uint32_t *p, const float *dp,
                                               const float *mean) {
    float2 sum = *(const float2 *)mean;
    float2 upper = unpack_both<TYPE>(p[0]), lower = unpack_both<TYPE>(p[1]);
    ds[0] = pack<TYPE>(upper.x * (dp[0] - sum.x), upper.y * (dp[1] - sum.y));
    ds[1] = pack<TYPE>(lower.x * (dp[2] - sum.x), lower.y * (dp[3] - sum.y));
}

/* Rows of dQ, dK or dV, times a factor; row: the lane's first. */
template <int TYPE, int COUNT>
__device__ __forceinline__ void
store_gradient(const float (&d)[COUNT], float factor, const attention_call &call,
               const attention_rows &rows, const gradient_item *item, int row, int limit) {
    float by[2] = {factor, factor};
    store_accumulator<TYPE>(d, by, rows_of<uint16_t>(rows, item->batch, item->head), rows.row, row,
                            limit, call.head_dim);
}

#endif
#endif
