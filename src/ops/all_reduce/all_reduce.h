#ifndef OPS_ALL_REDUCE_H
#define OPS_ALL_REDUCE_H

#include "ops/collectives.h"

/* Sums each value (f32, bf16, f16) over all ranks, in place. Values that are contiguous in memory, in
 * their order, are one collective. Returns the first sum; the others are outputs of its producer. */
value *build_all_reduce(graph *g, value *const *values, int count, const collective_place *place);

#endif
