/* graph_pass.h - passes tested as text: graph in, graph out. */
#ifndef TESTS_SUPPORT_GRAPH_PASS_H
#define TESTS_SUPPORT_GRAPH_PASS_H

#include "graph/graph.h"

/* The graph of this text, verified; fails the test when it is not one. */
graph *graph_from_text(const char *source);

/* Fails the test unless the verifier passes the graph and it prints as `wanted`. */
void expect_graph_text(const graph *g, const char *wanted);

/* How many nodes are of that kind. */
int graph_count_ops(const graph *g, const op *kind);

/* Fails the test unless `status` is `code` and the message has `part` in it. */
void expect_failure(dyno_status status, dyno_status code, const char *part);

#endif
