/* same_gradients.h - two graphs that should compute the same. */
#ifndef TESTS_SUPPORT_SAME_GRADIENTS_H
#define TESTS_SUPPORT_SAME_GRADIENTS_H

#include "graph/graph.h"

/* Differentiates both, runs them in double on the same drawn leaves (integers below `vocab`), and
 * fails the test unless each output of the first is that of the second. Takes the graphs. */
void expect_same_gradients(graph *first, graph *second, int64_t vocab, uint64_t seed);
/* The same for graphs that have their backward already. */
void expect_same_outputs(graph *first, graph *second, int64_t vocab, uint64_t seed);

#endif
