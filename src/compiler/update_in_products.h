/* update_in_products.h - weights updated by the products that make their gradients. */
#ifndef COMPILER_UPDATE_IN_PRODUCTS_H
#define COMPILER_UPDATE_IN_PRODUCTS_H

#include "graph/graph.h"
#include "ops/adamw_many/adamw_many.h"

/* A node of an update, and the position of the node it comes behind. */
typedef struct placed_update {
    node *update;
    int behind;
} placed_update;

/* What the pass reads: the graph before any update, and for each value id the position of the last
 * node that reads it or a view of it (-1: none). */
typedef struct update_setting {
    graph *g;
    const int *last_reader;
    value *learning_rate, *step;
    const adamw_options *options;
} update_setting;

/* Adds a matmul_adamw node for each product that makes the gradient of one parameter, or of several
 * below one another, and makes it for nobody else. Parameters so updated are taken out of the list.
 * The nodes that fall away, the products, are marked in `is_dropped` by position. Returns how many
 * updates there are; `updates` has room for `*count`. */
int update_in_products(const update_setting *s, adamw_parameter *parameters, int *count,
                       placed_update *updates, bool *is_dropped);

/* The position of the last node that reads the parameter's weight or its low copy; -1. */
int update_last_reader(const adamw_parameter *p, const int *last_reader);

#endif
