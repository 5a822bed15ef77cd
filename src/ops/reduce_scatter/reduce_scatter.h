#ifndef OPS_REDUCE_SCATTER_H
#define OPS_REDUCE_SCATTER_H

#include "ops/collectives.h"

/* The sum over ranks of a value [n] (f32, bf16, f16), of which each rank gets its part [n / ranks].
 * `written` are values inside of `whole`, made in place, that have to be there before. */
value *build_reduce_scatter(graph *g, value *whole, value *const *written, int count,
                            const collective_place *place);

#endif
