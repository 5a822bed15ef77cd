/* recompute.h - activation checkpointing: the backward recomputes a block's forward, or a part of
 * it, instead of reading saved activations.
 *
 * Blocks are the scopes "layers.N". Results are bitwise those without recompute: the same ops on
 * the same numbers in the same order. */
#ifndef COMPILER_PASSES_RECOMPUTE_H
#define COMPILER_PASSES_RECOMPUTE_H

#include "graph/graph.h"

typedef enum recompute_mode {
    RECOMPUTE_NONE,
    RECOMPUTE_MLP,   /* inside the MLP of every so many blocks: rematerialize_apply does it */
    RECOMPUTE_EVERY, /* segments of `every` blocks; what enters a segment is saved */
    RECOMPUTE_FULL,  /* segments of one block */
    /* By halves: to go back through N blocks, run forward to the middle, go back through the
     * second half, then through the first. O(log N) block inputs are alive at a time, for
     * O(N log N) forward work. */
    RECOMPUTE_NESTED
} recompute_mode;

typedef struct recompute_options {
    recompute_mode mode;
    int every; /* of RECOMPUTE_MLP and RECOMPUTE_EVERY; at least 1 */
} recompute_options;

/* "none", "mlp:K", "every:K", "full" or "nested". */
NODISCARD dyno_status recompute_parse(const char *text, recompute_options *out);

typedef struct recompute_text {
    char text[24];
} recompute_text;
/* What recompute_parse reads. */
recompute_text recompute_format(const recompute_options *options);

/* Fails where the level asks for every K-th of fewer than K blocks, or for segments so long that
 * there is only one, which would not be recomputed. Of one block any level is none. */
NODISCARD dyno_status recompute_check(const recompute_options *options, int64_t blocks);

/* On a graph that ends with the backward, after mark_saved, which it repeats. Does nothing for
 * RECOMPUTE_NONE and RECOMPUTE_MLP. */
NODISCARD dyno_status recompute_apply(graph *g, const recompute_options *options);

#endif
