#ifndef OPS_ALL_GATHER_H
#define OPS_ALL_GATHER_H

#include "ops/collectives.h"

/* The parts [n] of all ranks, in their order: [n * ranks], of any type. */
value *build_all_gather(graph *g, value *part, const collective_place *place);
/* The same in place of `whole`, in which `part` lies where this rank's belongs. */
value *build_all_gather_into(graph *g, value *part, value *whole, const collective_place *place);

#endif
