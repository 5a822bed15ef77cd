/* rewrite.h - what passes that change a graph have in common. */
#ifndef COMPILER_PASSES_REWRITE_H
#define COMPILER_PASSES_REWRITE_H

#include "graph/graph.h"

/* How many inputs of nodes a value is; the nodes' order does not matter. */
int rewrite_count_uses(const graph *g, const value *v);
/* The first node that reads it, after `previous` in the graph's order (NULL: of all); NULL when
 * there is none. A node that reads it twice comes once. */
node *rewrite_next_user(const graph *g, const value *v, const node *previous);

/* The node that makes v for one reader alone, if it is of that kind; else NULL. */
node *rewrite_private_maker(const graph *g, const value *v, const op *kind);

/* Every node that reads `from` reads `to` instead. What the outside knows `from` by (role of a
 * gradient or saved, name, being an output, being the gradient of a parameter) goes over to `to`,
 * unless that is a leaf. */
void rewrite_replace(graph *g, value *from, value *to);

/* Sets the attribute of that name, or adds it. */
void rewrite_set_attribute(graph *g, node *n, attribute item);

/* Gives the node's outputs the types its op's shape rule gives now. */
NODISCARD dyno_status rewrite_infer_types(node *n);

/* Takes the nodes marked (by position) out of the graph; nobody may read what they make. */
void rewrite_drop_nodes(graph *g, const bool *is_dropped);

#endif
