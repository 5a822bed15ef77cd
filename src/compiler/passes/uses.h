/* uses.h - which nodes read each value, kept up to date while a pass rewrites a graph.
 *
 * Made once for a pass, so that finding the readers of a value takes no walk over the graph. Nodes
 * that the pass adds are taken in by themselves; inputs of nodes that were there before are changed
 * through the functions here. Valid until graph_set_order renumbers the graph. */
#ifndef COMPILER_PASSES_USES_H
#define COMPILER_PASSES_USES_H

#include "graph/graph.h"

typedef struct uses uses;

uses *uses_create(const graph *g);
void uses_destroy(uses *u);

/* The number of node inputs that are this value. */
int uses_count(uses *u, const value *v);
/* The first node that reads it, after `previous` in the graph's order (NULL: of all); NULL when
 * there is none. A node that reads it twice comes once. */
node *uses_next_reader(uses *u, const value *v, const node *previous);

/* The producer of v if it is of that kind and v has one reader; else NULL. */
node *uses_private_maker(uses *u, const value *v, const op *kind);

/* The node reads `v` as that input from now on. */
void uses_set_input(uses *u, node *n, int index, value *v);
/* The node has these inputs from now on; the array belongs to the graph's arena. */
void uses_set_inputs(uses *u, node *n, value **inputs, int count);

/* Every node that reads `from` reads `to` instead. The external identity of `from` (role of a
 * gradient or saved, name, being an output, being the gradient of a parameter) is transferred to
 * `to`, unless that is a leaf. */
void uses_replace(uses *u, value *from, value *to);

#endif
