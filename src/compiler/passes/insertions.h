/* insertions.h - nodes that a pass adds between those that are there. They are built at the end, as all
 * nodes are, and brought to their places together. */
#ifndef COMPILER_PASSES_INSERTIONS_H
#define COMPILER_PASSES_INSERTIONS_H

#include "graph/graph.h"

typedef struct insertions {
    int first; /* of the new nodes in g->nodes */
    /* By new node: the position of the old node that it comes behind; -1: before all, `first`: behind
     * all, new ones included. */
    int *behind;
    int count, capacity;
} insertions;

insertions insertions_begin(const graph *g);
/* The nodes built since the last call come behind `behind`, an old node; NULL: before all of them.
 * Those behind the same node keep their order. */
void insertions_note(const graph *g, insertions *made, const node *behind);
/* They come behind all others, old and new. */
void insertions_note_last(const graph *g, insertions *made);
/* Reorders the graph, and releases what `made` holds. */
void insertions_apply(graph *g, insertions *made);

#endif
