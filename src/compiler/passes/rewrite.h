/* rewrite.h - helpers of passes that rewrite a graph. */
#ifndef COMPILER_PASSES_REWRITE_H
#define COMPILER_PASSES_REWRITE_H

#include "graph/graph.h"

/* The number of node inputs that are this value; independent of the order of nodes. */
int rewrite_count_uses(const graph *g, const value *v);
/* The first node that reads it, after `previous` in the graph's order (NULL: of all); NULL when
 * there is none. A node that reads it twice comes once. */
node *rewrite_next_user(const graph *g, const value *v, const node *previous);

/* The producer of v if it is of that kind and v has one reader; else NULL. */
node *rewrite_private_maker(const graph *g, const value *v, const op *kind);

/* Every node that reads `from` reads `to` instead. The external identity of `from` (role of a
 * gradient or saved, name, being an output, being the gradient of a parameter) is transferred to
 * `to`, unless that is a leaf. */
void rewrite_replace(graph *g, value *from, value *to);

/* Sets the attribute of that name, or adds it. */
void rewrite_set_attribute(graph *g, node *n, attribute item);

/* Infers the node's output types again, by its op's shape rule. */
NODISCARD dyno_status rewrite_infer_types(node *n);

/* Removes the marked nodes (by position); their outputs must have no readers. */
void rewrite_drop_nodes(graph *g, const bool *is_dropped);

#endif
