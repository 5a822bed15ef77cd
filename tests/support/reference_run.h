/* reference_run.h - a whole graph in double, each node through its op's reference: the oracle
 * for kernels, passes and executors. */
#ifndef TESTS_SUPPORT_REFERENCE_RUN_H
#define TESTS_SUPPORT_REFERENCE_RUN_H

#include "graph/graph.h"

typedef struct reference_run reference_run;

/* Runs all nodes in order. leaves[i] is the data of value i, row-major; only leaves are looked
 * at, and all of them must be there. They are borrowed until reference_run_destroy. */
reference_run *reference_run_create(const graph *g, const double *const *leaves);
void reference_run_destroy(reference_run *run);

/* Any value's elements, row-major. An op in place leaves the value it overwrites as it was. */
const double *reference_run_value(const reference_run *run, const value *v);

#endif
