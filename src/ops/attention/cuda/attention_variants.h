/* attention_variants.h - the tiles that attention's CUDA kernels are compiled for. The library lists
 * them as variants while it plans, the module instantiates its templates from the same rows: read by
 * C and by C++.
 *
 * A row: the head size compiled for, queries, keys, then what else the kernel's template takes. A
 * call uses the rows of the smallest head size that holds its own. The first row of a head size is
 * what is taken when no variant is asked for, but where a function below says otherwise. */
#ifndef OPS_ATTENTION_CUDA_ATTENTION_VARIANTS_H
#define OPS_ATTENTION_CUDA_ATTENTION_VARIANTS_H

#include "ops/attention/attention_tile.h"
#include "ops/attention/cuda/attention_workspace.h"

/* Places of Q in shared memory. */
#define FOR_EACH_ATTENTION_HOPPER(X)                                                               \
    X(64, 192, 128, 2)                                                                             \
    X(64, 128, 128, 2)                                                                             \
    X(80, 128, 128, 2)                                                                             \
    X(96, 128, 128, 2)                                                                             \
    X(128, 128, 128, 2)                                                                            \
    X(128, 128, 176, 1)                                                                            \
    X(192, 128, 112, 1)                                                                            \
    X(256, 128, 80, 1)

/* Also of the row with split-KV. More queries to a block are better for large heads if there are
 * enough of them. */
#define FOR_EACH_ATTENTION_MMA(X)                                                                  \
    X(32, 64, 64)                                                                                  \
    X(32, 128, 64)                                                                                 \
    X(64, 64, 64)                                                                                  \
    X(64, 128, 64)                                                                                 \
    X(80, 64, 64)                                                                                  \
    X(80, 128, 64)                                                                                 \
    X(96, 64, 64)                                                                                  \
    X(96, 128, 64)                                                                                 \
    X(128, 128, 64)                                                                                \
    X(128, 64, 64)                                                                                 \
    X(192, 64, 64)                                                                                 \
    X(192, 32, 64)                                                                                 \
    X(256, 64, 64)                                                                                 \
    X(256, 32, 64)

/* Each product in three of tf32, and in one; blocks for each multiprocessor. Shared memory stays
 * within 99 KiB, which every GPU since sm_86 has. */
#define FOR_EACH_ATTENTION_3TF32(X)                                                                \
    X(32, 64, 64, 3)                                                                               \
    X(32, 64, 32, 3)                                                                               \
    X(64, 64, 64, 3)                                                                               \
    X(64, 64, 32, 3)                                                                               \
    X(80, 64, 64, 2)                                                                               \
    X(80, 64, 32, 2)                                                                               \
    X(96, 64, 32, 2)                                                                               \
    X(96, 64, 16, 2)                                                                               \
    X(128, 64, 32, 2)                                                                              \
    X(128, 64, 16, 2)                                                                              \
    X(192, 64, 32, 1)                                                                              \
    X(256, 64, 16, 1)
#define FOR_EACH_ATTENTION_TF32(X)                                                                 \
    X(32, 128, 64, 2)                                                                              \
    X(32, 128, 32, 2)                                                                              \
    X(64, 128, 64, 2)                                                                              \
    X(64, 128, 32, 2)                                                                              \
    X(80, 128, 32, 2)                                                                              \
    X(80, 128, 16, 2)                                                                              \
    X(96, 64, 64, 2)                                                                               \
    X(96, 64, 32, 2)                                                                               \
    X(128, 64, 64, 2)                                                                              \
    X(128, 64, 32, 2)                                                                              \
    X(192, 64, 32, 1)                                                                              \
    X(256, 64, 16, 1)

/* Of dK and dV; dQ the other way round. Warps that share the columns of dK and dV, stages. */
#define FOR_EACH_ATTENTION_GRADIENT_MMA(X)                                                         \
    X(32, 64, 64, 1, 2)                                                                            \
    X(32, 32, 64, 1, 2)                                                                            \
    X(64, 64, 64, 1, 2)                                                                            \
    X(64, 32, 64, 1, 2)                                                                            \
    X(80, 32, 64, 1, 2)                                                                            \
    X(80, 16, 64, 1, 2)                                                                            \
    X(96, 32, 64, 1, 2)                                                                            \
    X(96, 16, 64, 1, 2)                                                                            \
    X(128, 32, 64, 1, 2)                                                                           \
    X(128, 16, 64, 1, 2)                                                                           \
    X(192, 16, 64, 2, 1)                                                                           \
    X(256, 16, 64, 2, 1)

/* Head sizes from 33 to 64 and from 97 to 128: attention_single_pass_columns. */
#define FOR_EACH_ATTENTION_GRADIENT_SINGLE_PASS(X)                                                 \
    X(64, 128, 128)                                                                                \
    X(128, 64, 128)

/* Of dQ; dK and dV the other way round. */
#define FOR_EACH_ATTENTION_GRADIENT_HOPPER(X)                                                      \
    X(64, 128, 64)                                                                                 \
    X(80, 128, 64)                                                                                 \
    X(96, 128, 64)                                                                                 \
    X(128, 128, 64)
#define FOR_EACH_ATTENTION_GRADIENT_WIDE(X)                                                        \
    X(192, 128, 64)                                                                                \
    X(256, 128, 64)

/* ---- what a call can have ---- */

enum { ATTENTION_MOST_TILES = 4 };

typedef struct attention_tile_row {
    int head_dim;
    attention_tile tile;
} attention_tile_row;
#define ATTENTION_TILE_ROW(HEAD, QUERIES, KEYS, ...) {HEAD, {QUERIES, KEYS}},

/* The rows of the smallest head size that holds this one. */
static inline int attention_tiles_for_head(const attention_tile_row *rows, int count,
                                           int64_t head_dim, attention_tile *out) {
    int found = 0, compiled = 0;
    for (int i = 0; i < count; i++)
        if (rows[i].head_dim >= head_dim && (!compiled || rows[i].head_dim == compiled)) {
            compiled = rows[i].head_dim;
            out[found++] = rows[i].tile;
        }
    return found;
}

/* The second comes first. */
static inline void attention_prefer_second(attention_tile *tiles) {
    attention_tile first = tiles[0];
    tiles[0] = tiles[1];
    tiles[1] = first;
}

typedef int attention_list_tiles(const attention_sizes *s, attention_tile *out);

#define ATTENTION_TILES(NAME, FOR_EACH)                                                            \
    static inline int NAME(const attention_sizes *s, attention_tile *out) {                        \
        static const attention_tile_row rows[] = {FOR_EACH(ATTENTION_TILE_ROW)};                   \
        return attention_tiles_for_head(rows, (int)(sizeof rows / sizeof *rows), s->head_dim,      \
                                        out);                                                      \
    }
ATTENTION_TILES(attention_tiles_hopper_in_order, FOR_EACH_ATTENTION_HOPPER)
ATTENTION_TILES(attention_tiles_mma_in_order, FOR_EACH_ATTENTION_MMA)
ATTENTION_TILES(attention_tiles_3tf32, FOR_EACH_ATTENTION_3TF32)
ATTENTION_TILES(attention_tiles_1tf32, FOR_EACH_ATTENTION_TF32)
ATTENTION_TILES(attention_tiles_gradient_mma, FOR_EACH_ATTENTION_GRADIENT_MMA)
ATTENTION_TILES(attention_tiles_gradient_single_pass, FOR_EACH_ATTENTION_GRADIENT_SINGLE_PASS)
ATTENTION_TILES(attention_tiles_gradient_hopper, FOR_EACH_ATTENTION_GRADIENT_HOPPER)
ATTENTION_TILES(attention_tiles_gradient_wide, FOR_EACH_ATTENTION_GRADIENT_WIDE)
#undef ATTENTION_TILES

static inline int attention_tiles_hopper(const attention_sizes *s, attention_tile *out) {
    int count = attention_tiles_hopper_in_order(s, out);
    if (count == 2 && (s->head_dim <= 64 ? s->queries <= 1024 : !s->is_causal))
        attention_prefer_second(out);
    return count;
}

/* Few rows are cut into more blocks. */
static inline int attention_tiles_split_kv(const attention_sizes *s, attention_tile *out) {
    int count = attention_tiles_mma_in_order(s, out);
    if (s->head_dim > 96 && s->head_dim <= 128)
        attention_prefer_second(out);
    return count;
}
static inline int attention_tiles_mma(const attention_sizes *s, attention_tile *out) {
    return attention_is_few(s) ? attention_tiles_split_kv(s, out)
                               : attention_tiles_mma_in_order(s, out);
}

static inline int attention_tiles_tf32(const attention_sizes *s, attention_tile *out) {
    return s->is_tf32 ? attention_tiles_1tf32(s, out) : attention_tiles_3tf32(s, out);
}

#endif
