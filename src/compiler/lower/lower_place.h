/* lower_place.h - which values are produced directly inside a larger one.
 *
 * concat wants its inputs contiguous in one buffer; a reshape that no strides can express wants
 * the elements of its input in another order. Where they are the only readers of a value, and its
 * kernel can write with strides, the value is produced there and nothing is copied. */
#ifndef COMPILER_LOWER_LOWER_PLACE_H
#define COMPILER_LOWER_LOWER_PLACE_H

#include "graph/graph.h"
#include "ops/kernel.h"
#include "tensor/tensor.h"

typedef struct placement {
    const value *owner; /* whose dense memory the value is made in; NULL: memory of its own */
    int64_t offset;     /* in elements from the owner's first */
    tensor layout;
} placement;

/* By value id (free). */
placement *lower_plan_placements(const graph *g, const target *chip);

#endif
