/* fusion_space.h - the iteration space of a fused group, and how its nodes read one another.
 *
 * A group works on R rows of C columns. Every value in it is full (R x C) or a scalar of the row
 * (R x 1). A node reads another's value through views; what matters is whether element (r, c) of
 * the reader is element (r, c) of the source, or the scalar of row r, or something else. */
#ifndef COMPILER_PASSES_FUSION_SPACE_H
#define COMPILER_PASSES_FUSION_SPACE_H

#include "graph/graph.h"

typedef struct fusion_space {
    int64_t rows, columns;
} fusion_space;

typedef enum fusion_kind {
    FUSION_NONE, /* cannot be fused: a launch of its own */
    FUSION_VIEW, /* launches nothing */
    FUSION_ELEMENTWISE,
    FUSION_ROW_REDUCE,  /* over the last dimension */
    FUSION_BLOCK_REDUCE /* over the middle of [P, rows/P, C]: partial sums of columns */
} fusion_kind;

fusion_kind fusion_kind_of(const node *n);

/* The space a fusable node works in: that of its result, or of what it reduces. */
fusion_space fusion_space_of(const node *n);

typedef enum fusion_access {
    FUSION_SAME,   /* element (r, c) */
    FUSION_OF_ROW, /* the one number of row r */
    FUSION_OTHER   /* reached by strides only: memory */
} fusion_access;

typedef struct fusion_read {
    value *source; /* behind views, as far as they are FUSION_SAME or FUSION_OF_ROW */
    fusion_access access;
} fusion_read;

/* How input `index` of `n` is read in space `s`. A node that makes one number a row reads its
 * own kind as FUSION_OF_ROW. */
fusion_read fusion_read_of(const node *n, int index, fusion_space s);

/* The value behind all views, whatever they do. */
const value *fusion_root_of(const value *v);

/* Whether the value is one number a row in that space. */
bool fusion_is_row_value(const value *v, fusion_space s);

#endif
