/* graph.h - one training step as a graph of small operations on typed, shaped values.
 *
 *   value ──┐
 *           ├─> node (op, attributes, scope, phase) ──> value ──> ...
 *   value ──┘
 *
 * A value has exactly one producer, or none (inputs, parameters, optimizer state). Nodes are
 * kept in an order in which they can run. All memory belongs to the graph's arena.
 *
 * Building never returns a status: a node that breaks its op's shape rule fails the graph, the
 * builder hands out a harmless value, and graph_status tells at the end (so that a model reads
 * like arithmetic). */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/name_table.h"
#include "base/status.h"
#include "tensor/attributes.h"
#include "tensor/dtype.h"
#include "tensor/role.h"
#include "tensor/shape.h"

typedef struct op op; /* graph/op.h */
typedef struct graph graph;
typedef struct node node;
typedef struct graph_parameter graph_parameter; /* graph/graph_parameter.h */

/* The part of a block that a scope belongs to. */
typedef enum block_part {
    BLOCK_OTHER, /* its attention and the residual stream; also of scopes outside of blocks */
    BLOCK_MLP    /* its MLP and the norm before that */
} block_part;

/* What passes read of every value comes first: walks over large graphs wait for memory. */
typedef struct value {
    int id;
    dtype type;
    role role;
    int output_index; /* which output of its producer it is */
    node *producer;   /* NULL for inputs, parameters and state */
    const char *name; /* NULL: none */
    /* The parameter whose leaf, gradient, moment or low copy this is; NULL for any other value. */
    graph_parameter *parameter;
    /* Leaves of one family are contiguous in memory, in their order, in every plan; NULL: no
     * family. */
    const char *family;
    bool is_output;  /* kept alive to the end of the step, for the caller to read */
    bool is_dropped; /* a leaf that nobody reads any more: the next graph_set_order removes it */
    shape shape;
} value;

struct node {
    const op *op;
    int id;
    phase phase;
    int input_count, output_count;
    value **inputs, **outputs;
    attributes attributes;
    int scope; /* index into the graph's scopes */
    int group; /* nodes of one number above 0 become one generated kernel; 0: a launch of its own */
};

/* The module path of nodes. A scope inherits the block and the part of its parent. */
typedef struct graph_scope {
    const char *path; /* for people: "layers.3.attn.softmax" */
    int block;        /* -1: outside of the model's blocks */
    block_part part;
} graph_scope;

struct graph {
    arena *memory;
    const char *name;
    node **nodes;
    int node_count, node_capacity;
    value **values; /* values[i]->id == i */
    int value_count, value_capacity;
    graph_parameter **parameters; /* in the order in which the model added them */
    int parameter_count, parameter_capacity;
    /* Where each parameter of the model is, when `parameters` are flat lists of several of them
     * (compiler/passes/shard.h); none otherwise. */
    struct graph_shard *shards;
    int shard_count;
    name_table parameter_names; /* as many as there are parameters, unless some share a name */
    graph_scope *scopes;        /* the path of scopes[0] is "" */
    int scope_count, scope_capacity;
    name_table scope_numbers; /* by path */

    int current_scope; /* given to new nodes */
    phase current_phase;
    dyno_status status; /* of the first failure while building */
    char *message;
};

graph *graph_create(const char *name);
void graph_destroy(graph *g);

/* DYNO_OK, or the first failure with its message. */
NODISCARD dyno_status graph_status(const graph *g);
/* For rules that return no status: the graph has failed with `status` and the thread's message. */
void graph_fail(graph *g, dyno_status status);

/* A value without producer. */
value *graph_add_leaf(graph *g, role r, dtype type, const shape *s, const char *name);

/* Makes a family of leaves of one role and type. */
void graph_join_family(graph *g, value *const *leaves, int count, const char *family);
/* By value id: the next leaf of the same family; -1 after the last, and for values without one. The
 * caller frees it. */
int *graph_link_families(const graph *g);

/* Adds a node at the end; its outputs' types come from the op's shape rule. Attributes are
 * copied. Returns output 0; the others are value->producer->outputs[i]. */
value *graph_add_node(graph *g, const op *kind, value *const *inputs, int input_count,
                      const attribute *items, int attribute_count);

/* Makes `order` the graph's nodes; those left out are dropped, with the values they make (which
 * nobody may read any more). Renumbers nodes and values. */
void graph_set_order(graph *g, node *const *order, int count);

/* Marks the value as one the caller reads after the step, under this name. */
void graph_add_output(graph *g, value *v, const char *name);
/* The leaf or output of that name, NULL when there is none. */
value *graph_find_value(const graph *g, const char *name);

/* Enters the child `name` of the current scope, adding it if new. Returns the scope to go back
 * to: int outer = graph_enter_scope(g, "attn"); ...; graph_leave_scope(g, outer); */
int graph_enter_scope(graph *g, const char *name);
/* The same for the scope "layers.N" of block N, and for a scope that is a part of its block. */
int graph_enter_block(graph *g, int block);
int graph_enter_part(graph *g, const char *name, block_part part);
void graph_leave_scope(graph *g, int outer);
/* The scope of that path, added if new: of the same block and part as the scope `like`. */
int graph_intern_scope(graph *g, const char *path, int like);

#endif
