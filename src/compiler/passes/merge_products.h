/* merge_products.h - products of one x by several weights become one product.
 *
 *   q = x Wq^T                        y = x concat(Wq, Wk, Wv)^T
 *   k = x Wk^T            ==>         q, k, v = split(y)
 *   v = x Wv^T
 *
 * where the weights are neighbours in a family, so that side by side is how they lie in memory
 * anyway. Where the results go on as heads, the split is into heads and the rotations become one,
 * over all of them:
 *
 *   rope(transpose(reshape q))        r = rope(reshape y, heads of q and k)
 *   rope(transpose(reshape k))  ==>   transpose(split(r)) for each
 *   transpose(reshape v)
 *
 * Gradients follow from the rules: one product for dx, one for all dW. Runs on the forward alone,
 * before precision and autodiff. */
#ifndef COMPILER_PASSES_MERGE_PRODUCTS_H
#define COMPILER_PASSES_MERGE_PRODUCTS_H

#include "graph/graph.h"

/* `takes_any_heads`: attention will be one op, which takes heads of any strides; else queries that
 * share a key head, which are stacked as rows, are left out: they would be copied. */
NODISCARD dyno_status merge_products(graph *g, bool takes_any_heads);

#endif
