/* graph_parameter.h - one record for each parameter of the model.
 *
 * Passes go from a value to its record (value->parameter) and from the record to all that belongs
 * to the parameter; none looks for a value by its name. Names are for people and for storage, and
 * are made here:
 *
 *   "P"        the leaf, as the model named it
 *   "g.P"      its gradient
 *   "m.P"      AdamW's first moment, "v.P" the second
 *   "low.P"    its low copy (compiler/passes/low_copies.h)
 *   "rest.P"   the leaf, when P is split */
#ifndef GRAPH_GRAPH_PARAMETER_H
#define GRAPH_GRAPH_PARAMETER_H

#include "graph/graph.h"

struct graph_parameter {
    const char *name; /* as the model calls it */
    int block;        /* -1: outside of the model's blocks */
    value *value;     /* the leaf */
    /* NULL where there is none, or none yet. */
    value *gradient, *first_moment, *second_moment, *low_copy;
    /* The leaf holds only the 16 bits that the bf16 low copy lacks (ops/adamw/split_weight.h). */
    bool is_split;
    /* Of a list of which this rank updates a part (value and low_copy are that part): the whole,
     * which is the leaf. NULL: value and low copy are the leaves. */
    value *whole, *whole_low;
};

/* A parameter of the model inside of a list. */
typedef struct graph_shard {
    const char *name;
    graph_parameter *list;
    int64_t offset; /* elements before it in the whole list */
    shape shape;
} graph_shard;

/* What belongs to a parameter beside the leaf that the model made. */
typedef enum parameter_part {
    PARAMETER_GRADIENT,
    PARAMETER_FIRST_MOMENT,
    PARAMETER_SECOND_MOMENT,
    PARAMETER_LOW_COPY,
    PARAMETER_REST
} parameter_part;

/* What stands before the parameter's name in that of the part: "g.". */
const char *parameter_part_prefix(parameter_part part);

/* Adds a leaf of the role parameter with its record; its block is that of the current scope. */
value *graph_add_parameter(graph *g, dtype type, const shape *s, const char *name);
/* Adds the record alone, for an existing leaf. */
graph_parameter *graph_record_parameter(graph *g, value *leaf, const char *name, int block);

/* Adds a moment or a low copy: a leaf of the parameter's shape. */
value *graph_add_part(graph *g, graph_parameter *p, parameter_part part, dtype type);
/* Links the record and an existing value with each other. */
void graph_bind_part(graph_parameter *p, parameter_part part, value *v);
/* Binds the gradient, with its role and its name. */
void graph_set_gradient(graph *g, graph_parameter *p, value *gradient);
/* The leaf holds the rest of the low copy from now on. */
void graph_split_parameter(graph *g, graph_parameter *p);

/* The parameter whose leaf the value is; NULL for anything else. */
graph_parameter *graph_leaf_parameter(const value *v);

#endif
