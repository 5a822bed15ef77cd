/* attention.h - exact attention that never holds the matrix of scores.
 *
 *   B batches, H query heads, K key/value heads (H a multiple of K: query head h reads key/value
 *   head h / (H / K)), T queries, T2 keys, S head size
 *
 *   S_ij = scale * Q_i . K_j      P = softmax(S) over j      O = P V      LSE_i = log sum_j e^S_ij
 *
 * Causal: query i sees keys j <= i + T2 - T, so the last query sees all of them. A query that sees
 * none has O = 0 and LSE = -infinity, and passes no gradient on.
 *
 * Rotated: Q and K are rotated first as ops/rope would rotate and store them, each row by the row
 * of the tables that is its position, and the gradients are of what they were before. The last
 * query and the last key stand at the same position, the tables' last: query i at i + max(T2 - T,
 * 0), key j at j + max(T - T2, 0).
 *
 * Gradients alone rotated back: Q and K come rotated, with the tables they were rotated by, and dQ
 * and dK are of what they were before. So says the attribute "inverse_rope" of the gradient. */
#ifndef OPS_ATTENTION_H
#define OPS_ATTENTION_H

#include "graph/graph.h"
#include "ops/attention/attention_tile.h"
#include "ops/kernel.h"
#include "ops/rope/rope.h"

enum { ATTENTION_MAX_HEAD_DIM = 256 };

/* q [B,H,T,S], k and v [B,K,T2,S], of one type. Gives O like q; the producer's second output is
 * LSE, f32 [B,H,T]. */
value *build_attention_node(graph *g, value *q, value *k, value *v, bool is_causal, double scale);

/* The same rotated; the tables are of max(T, T2) positions. */
value *build_rotated_attention(graph *g, value *q, value *k, value *v, rope_table table,
                               bool is_causal, double scale);

/* dQ, dK and dV, outputs 0 to 2 of the producer of what it returns, from what the node took
 * and gave and the gradient of O, of q's type. */
value *build_attention_gradient(graph *g, const node *attention, value *output_gradient);

/* ---- for kernels ---- */

/* Where operands stand, in both ops alike; behind an op's last may stand the tables of cos and
 * sin. */
enum { ATTENTION_Q, ATTENTION_K, ATTENTION_V, ATTENTION_O, ATTENTION_DO, ATTENTION_LSE };
enum { ATTENTION_TABLES = 2 };

/* How rows of Q or of K are rotated. */
typedef struct attention_rotation {
    const float *cosine, *sine; /* of row 0, the next `half` numbers of row 1; NULL: not at all */
    int64_t half;
} attention_rotation;

typedef struct attention_problem {
    int64_t batch, heads, kv_heads, queries, keys, head_dim;
    int64_t group; /* query heads that share a key/value head */
    bool is_causal;
    float scale;
    attention_rotation q_rotation, k_rotation;   /* rows are to be rotated so */
    attention_rotation dq_rotation, dk_rotation; /* and their gradients back */
} attention_problem;

attention_problem attention_describe(const kernel_args *args);

/* Keys that query i sees: the first so many. */
static inline int64_t attention_visible_keys(const attention_problem *p, int64_t query) {
    int64_t seen = p->is_causal ? query + 1 + p->keys - p->queries : p->keys;
    return seen < 0 ? 0 : seen;
}
/* The first query that sees key j. */
static inline int64_t attention_first_query(const attention_problem *p, int64_t key) {
    int64_t first = p->is_causal ? key + p->queries - p->keys : 0;
    return first < 0 ? 0 : first;
}

/* Tiles of queries[0 .. query_count) x keys[0 .. key_count), in this order. */
int attention_cross_tiles(const int *queries, int query_count, const int *keys, int key_count,
                          attention_tile *out);
/* For kernel.variants: tiles by their names. */
int attention_name_tiles(const attention_tile *tiles, int count, kernel_variant *out);
/* The tile that the launch's variant names, or the first of the kernel's list. */
attention_tile attention_tile_taken(const kernel_args *args,
                                    int (*list)(const kernel_args *args, attention_tile *out));

/* The ops differ in the number of their outputs: O and LSE, or dQ, dK and dV. */
bool attention_is_gradient(const kernel_args *args);
/* Whether Q and K are to be rotated. */
bool attention_is_rotated(const kernel_args *args);
/* Whether they come rotated, and their gradients are to be rotated back. */
bool attention_has_inverse_rope(const kernel_args *args);

/* Whether kernels for a GPU split keys or queries among blocks, because heads are few
 * (cuda/attention_workspace.h). */
bool attention_is_split(const kernel_args *args);

/* The reason when rows of operands are not dense or a head is too large, else NULL. */
const char *attention_reject_layout(const kernel_args *args);

extern const kernel attention_bf16_amx, attention_bf16_dot;
extern const kernel attention_gradient_bf16_amx, attention_gradient_bf16_dot;
extern const kernel attention_avx512, attention_gradient_avx512;
extern const kernel attention_avx2, attention_gradient_avx2;
extern const kernel attention_tiled, attention_gradient_tiled; /* any machine */

/* ---- cuda/attention_kernels.c ---- */
extern const kernel attention_split_kv, attention_gradient_split_kv; /* few heads, any chip */
extern const kernel attention_hopper;
extern const kernel attention_gradient_hopper_single_pass; /* P once, dQ added up in memory */
extern const kernel attention_gradient_hopper, attention_gradient_hopper_wide; /* P twice */
extern const kernel attention_mma, attention_gradient_mma;                     /* bf16 and f16 */
extern const kernel attention_tf32, attention_gradient_tf32;                   /* f32 */

void attention_reference(const node *n, const double *const *inputs, double *const *outputs);
void attention_gradient_reference(const node *n, const double *const *inputs,
                                  double *const *outputs);

#endif
