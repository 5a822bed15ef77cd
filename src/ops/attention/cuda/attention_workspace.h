/* attention_workspace.h - what attention on a GPU asks of the plan, for the library that plans and
 * the module that runs: read by C and by C++. All of it follows from the problem alone, so that
 * plans are made without a GPU and bits are the same on all of them. */
#ifndef OPS_ATTENTION_CUDA_ATTENTION_WORKSPACE_H
#define OPS_ATTENTION_CUDA_ATTENTION_WORKSPACE_H

#include <stdint.h>

/* ---- kernels for sm_90 ----
 *
 * Of gradients, f32 numbers, the queries of a head counted up to a multiple of
 * ATTENTION_ROWS_PADDED:
 *   D        one for each query      rowsum(O dO)
 *   LSE      one for each query
 *   dQ       attention_single_pass_columns for each query, where key tiles add to it in turns
 *   turns    one for every ATTENTION_ROWS_PER_TURN queries, then a few counters
 *   angles   as many as the head size for each query of one head, where dQ and dK are rotated back
 */

/* Head sizes for which the gradient applies the inverse RoPE to dQ and dK: those that kernels of
 * sm_90a are compiled for, in whose accumulators a lane has a column and its partner. Larger ones
 * leave no registers for it. */
static inline int attention_can_rotate_back(int64_t head_dim) {
    return head_dim == 64 || head_dim == 80 || head_dim == 96 || head_dim == 128;
}

enum { ATTENTION_ROWS_PADDED = 128, ATTENTION_ROWS_PER_TURN = 64, ATTENTION_COUNTER_BYTES = 16 };

/* The head size that the single-pass kernels compute with; 0 where there are none. */
static inline int attention_single_pass_columns(int64_t head_dim) {
    return head_dim > 32 && head_dim <= 64 ? 64 : head_dim > 96 && head_dim <= 128 ? 128 : 0;
}

/* Whether P is computed once for all three gradients, and dQ is a sum in memory: where contexts are
 * long, and enough key tiles of enough heads run beside one another for none to wait long for its
 * turn. heads: of keys, in all batches. */
static inline int attention_single_pass_pays(int64_t heads, int64_t queries, int64_t keys,
                                             int64_t head_dim) {
    return attention_single_pass_columns(head_dim) > 0 && queries >= 2048 && keys >= 2048 &&
           heads >= 4 && heads * keys >= 4 * 8192;
}

static inline int64_t attention_padded_rows(int64_t queries) {
    return (queries + ATTENTION_ROWS_PADDED - 1) / ATTENTION_ROWS_PADDED * ATTENTION_ROWS_PADDED;
}

/* heads: of queries, in all batches; columns: of the sums, 0 without. */
static inline int64_t attention_workspace_bytes(int64_t heads, int64_t queries, int columns) {
    int64_t rows = heads * attention_padded_rows(queries);
    int64_t turns = columns > 0 ? rows / ATTENTION_ROWS_PER_TURN : 0;
    return (rows * (2 + columns) + turns) * 4 + ATTENTION_COUNTER_BYTES;
}

/* Where the angles begin, behind all else, and how many bytes they are. */
static inline int64_t attention_angles_at(int64_t heads, int64_t queries, int columns) {
    return (attention_workspace_bytes(heads, queries, columns) + 15) / 16 * 16;
}
static inline int64_t attention_angle_bytes(int64_t queries, int64_t head_dim) {
    return attention_padded_rows(queries) * head_dim * 4;
}

/* ---- split-KV: kernels for any chip, when heads are few ----
 *
 * A tile of queries, or of keys, is one block of the grid; of few heads these are fewer than
 * multiprocessors, and each goes over the whole other side alone. So that side is split among
 * several blocks: their partial sums lie in the workspace, f32, and are combined in a fixed order by
 * a kernel of its own (attention_split_kv.cu).
 *
 *   forward    O and LSE of each split of the keys
 *   gradient   D, then dQ of each split of the keys, dK and dV of each split of the queries */

typedef struct attention_sizes {
    int64_t batch, heads, kv_heads, queries, keys, head_dim;
    int is_causal, is_f32, is_tf32; /* is_tf32: f32 factors may be rounded to it */
} attention_sizes;

/* What is split: keys, for O, or for dQ; or queries, for dK and dV. */
enum attention_split { ATTENTION_SPLIT_FORWARD, ATTENTION_SPLIT_KEYS, ATTENTION_SPLIT_QUERIES };

/* Pairs of a query and a key it sees, of all heads. */
static inline int64_t attention_pairs_seen(const attention_sizes *s) {
    int64_t heads = s->batch * s->heads, queries = s->queries < s->keys ? s->queries : s->keys;
    if (!s->is_causal)
        return heads * s->queries * s->keys;
    return heads * (queries * (s->keys - queries) + queries * (queries + 1) / 2);
}

/* Whether kernels for sm_90, which work on whole rows, are slower. Their time follows the longest
 * row, that of the others all rows, and combining takes a while; measured on an H200,
 * docs/attention.md. */
static inline int attention_split_pays(const attention_sizes *s, enum attention_split which) {
    int64_t million = 1000000, seen = attention_pairs_seen(s), group = s->heads / s->kv_heads;
    int64_t length = s->keys + (group - 1) * s->queries / 2;
    if (s->is_f32 || s->head_dim <= 32) /* there are none */
        return 1;
    if (which == ATTENTION_SPLIT_FORWARD)
        return seen * s->head_dim + 300 * million < 480000 * s->keys;
    if (s->head_dim <= 96)
        return seen + 2 * million < 3000 * length;
    return s->head_dim <= 128 && seen + million / 2 < 4700 * length;
}

/* How many splits the longest row has, others in proportion: as many as make enough blocks of 64
 * rows, none shorter than pays for combining them. Never more than a few: memory grows with the
 * length, not with its square. */
static inline int attention_splits(const attention_sizes *s, enum attention_split which) {
    if (s->batch * s->heads * s->queries > 1 << 20) /* blocks enough, and products below fit */
        return 1;
    int64_t length =
        which == ATTENTION_SPLIT_QUERIES ? s->queries * (s->heads / s->kv_heads) : s->keys;
    int64_t seen = attention_pairs_seen(s), blocks = length < 8192 ? 256 : 512;
    int64_t least = s->head_dim > 64 ? 32 : 64, most = 8;
    if (which == ATTENTION_SPLIT_FORWARD) {
        least *= 1 + s->batch * s->heads * s->queries / (64 * 64);
        least *= s->is_f32 ? 1 : s->head_dim > 64 ? 4 : 2;
    } else if (s->is_f32) {
        least /= 2;
        most = 16;
    } else if (s->head_dim > 64) {
        blocks /= 2;
    }
    if (seen == 0 || length < 4 * least || !attention_split_pays(s, which))
        return 1;
    int64_t splits = (blocks * 64 * length + seen / 2) / seen;
    splits = splits < length / least ? splits : length / least;
    splits = splits < most ? splits : most;
    return splits > 1 ? (int)splits : 1;
}

/* Blocks of 64 rows fill no GPU, even if none is split. */
static inline int attention_is_few(const attention_sizes *s) {
    return s->batch * s->heads * s->queries <= 64 * 64;
}

/* Whether a call goes to the rows with split-KV. */
static inline int attention_forward_is_split(const attention_sizes *s) {
    return attention_splits(s, ATTENTION_SPLIT_FORWARD) > 1;
}
static inline int attention_gradient_is_split(const attention_sizes *s) {
    return attention_splits(s, ATTENTION_SPLIT_KEYS) > 1 ||
           attention_splits(s, ATTENTION_SPLIT_QUERIES) > 1;
}

/* Numbers of a row in the workspace: of 16 bytes each, however large a head is. */
static inline int64_t attention_partial_columns(int64_t head_dim) { return (head_dim + 3) / 4 * 4; }

static inline int64_t attention_forward_floats(const attention_sizes *s) {
    int splits = attention_splits(s, ATTENTION_SPLIT_FORWARD);
    int64_t rows = s->batch * s->heads * s->queries;
    return splits > 1 ? splits * rows * (attention_partial_columns(s->head_dim) + 1) : 0;
}

/* D, up to where sums begin. */
static inline int64_t attention_mean_floats(const attention_sizes *s) {
    return (s->batch * s->heads * s->queries + 3) / 4 * 4;
}
static inline int64_t attention_gradient_floats(const attention_sizes *s) {
    int of_keys = attention_splits(s, ATTENTION_SPLIT_KEYS);
    int of_queries = attention_splits(s, ATTENTION_SPLIT_QUERIES);
    int64_t rows = 0;
    if (of_keys > 1)
        rows += of_keys * s->batch * s->heads * s->queries;
    if (of_queries > 1)
        rows += 2 * of_queries * s->batch * s->kv_heads * s->keys;
    return attention_mean_floats(s) + rows * attention_partial_columns(s->head_dim);
}

#endif
