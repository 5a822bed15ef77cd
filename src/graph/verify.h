/* verify.h - the rules every graph obeys, checked between passes. */
#ifndef GRAPH_VERIFY_H
#define GRAPH_VERIFY_H

#include "graph/graph.h"

/* Fails naming the node, or the parameter, and the rule it breaks:
 *   order      a node's inputs are leaves or made by earlier nodes
 *   arity      as many inputs and outputs as the op has
 *   type       outputs have the types the op's shape rule gives
 *   producer   a value knows the node and output that make it; some node makes each output
 *   role       leaves are inputs, parameters or state; nodes make none of these, unless in place
 *   phase      forward nodes read nothing the backward made, nor the backward the optimizer
 *   saved      what a later phase reads of the forward is marked saved
 *   parameter  records have names of their own and lead to values of the parameter's shape, which
 *              lead back; a split parameter has a bf16 low copy and a rest in u16
 *   in place   no node reads a value, or a view of it, after the node that overwrote it */
NODISCARD dyno_status graph_verify(const graph *g);

#endif
