/* graph_text.h - a graph as text, for people and for the tests of passes.
 *
 *   graph tiny
 *   input %0 i32[8] "tokens"
 *   parameter %1 f32[97,64] "model.embed_tokens.weight"
 *   %2 f32[8,64] saved = gather %1 %0 @forward embed
 *   %3 f32[8,1] activation = mean %2 {axes=[1]} @forward layers.0.norm #1
 *   output %3 "loss"
 *
 * "#1" is the fused group a node belongs to. Values are numbered as they appear: leaves first, then
 * what nodes make. Printing a parsed graph gives the text back.
 *
 * Every leaf of the role parameter is a parameter with a record, unless its name says that it is
 * the low copy of one above it. By their names (graph/graph_parameter.h) moments, split leaves and
 * gradients that are outputs find their records, too. What no name tells is written down:
 *
 *   parameter %1 f32[8] "w" block 3
 *   gradient-of "w" %7
 *
 * A scope "layers.N", or one below it, belongs to block N; "layers.N.mlp" and "layers.N.mlp_norm"
 * are its MLP. */
#ifndef GRAPH_GRAPH_TEXT_H
#define GRAPH_GRAPH_TEXT_H

#include "base/text.h"
#include "graph/graph.h"

void graph_print(const graph *g, text *out);

/* On failure the message names the line, and *out is NULL. The result is not verified. */
NODISCARD dyno_status graph_parse(const char *source, graph **out);

/* The scope of that path, with the block and the part that the path tells. */
int graph_parse_scope(graph *g, const char *path);

#endif
