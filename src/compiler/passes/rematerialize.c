/* rematerialize.c - one walk forwards decides, one walk through the backward re-emits.
 *
 * Decisions are made for the owner of a memory: views are free, so all views of one owner are saved
 * or dropped together.
 *
 *   held(o)      the backward reads o or a view of it, or o is the smaller value from which a held
 *                one was cast, or which was cast and added to another held one to make it
 *   small(o)     the reduction of something much larger: a row's sum or maximum
 *   cheap(o)     computed from available values, element by element or by a product that is much
 *                larger than its operands (attention scores: few FLOPs, many bytes), or inside an
 *                MLP that is recomputed
 *   available(o) a leaf, held, small, or cheap
 *
 * All that is held and cheap can be dropped at once: following the inputs of a cheap value down
 * ends at leaves, at small values, and at held values that are not cheap, and those stay. So there
 * is no choice to make.
 *
 * Copies serve the backward of one block and are recomputed for another, so that none lives
 * across blocks. */
#include "compiler/passes/rematerialize.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "compiler/passes/mark_saved.h"
#include "compiler/passes/reemit.h"
#include "graph/op.h"
#include "ops/cast/cast.h"
#include "ops/op_list.h"

typedef struct rematerialization {
    graph *g;
    const rematerialize_options *options;
    value **owner;            /* by value: the owner of its memory */
    bool *is_held, *is_cheap; /* by owner */
    int *additions;           /* by owner: how many bring back a sum of the residual stream */
    int *mlp;                 /* by node: the block whose MLP is recomputed with it; -1: none */
    bool *leaves_mlp;         /* by value: read in the forward outside of the MLP that makes it */
    value **copy;             /* by value: for the current block */
    int *copied;              /* the ids of the values that have one */
    int copied_count, copied_capacity;
} rematerialization;

/* As lowering will place them: a view shares memory unless no strides can express it. */
static void find_owners(rematerialization *r) {
    const graph *g = r->g;
    tensor *layout = memory_allocate((size_t)g->value_count, sizeof *layout);
    for (int i = 0; i < g->value_count; i++) {
        r->owner[i] = g->values[i];
        layout[i] = tensor_contiguous(NULL, g->values[i]->type, &g->values[i]->shape);
    }
    for (int i = 0; i < g->node_count; i++) {
        const node *n = g->nodes[i];
        for (int j = 0; n->op->view && j < n->output_count; j++) {
            tensor view;
            int64_t offset = 0;
            if (!n->op->view(n, j, &layout[n->inputs[0]->id], &view, &offset))
                continue;
            layout[n->outputs[j]->id] = view;
            r->owner[n->outputs[j]->id] = r->owner[n->inputs[0]->id];
        }
    }
    free(layout);
}

static double bytes_of(const value *v) {
    return (double)shape_elements(&v->shape) * dtype_bytes(v->type);
}

/* The bytes that a value occupies: fewer than its elements if it is broadcast, fewer than its owner
 * if it is a part of that. */
static double stored_bytes(const rematerialization *r, const value *v) {
    return fmin(bytes_of(r->owner[v->id]), bytes_of(v));
}

/* A product worth recomputing: its result takes several times the memory of its operands. */
static bool is_expanding_product(const rematerialization *r, const node *n) {
    enum { LEAST_EXPANSION = 3 };
    if (n->op->class != OP_CLASS_MATMUL || n->outputs[0]->shape.rank < 3)
        return false;
    double operands = stored_bytes(r, n->inputs[0]) + stored_bytes(r, n->inputs[1]);
    return bytes_of(n->outputs[0]) >= LEAST_EXPANSION * operands;
}

static bool is_inner_product(const rematerialization *r, const node *n) {
    return n->op->class == OP_CLASS_MATMUL && r->mlp[n->id] >= 0 &&
           !r->leaves_mlp[n->outputs[0]->id];
}

static bool may_run_again(const rematerialization *r, const node *n) {
    if (n->phase != PHASE_FORWARD || (!r->options->is_everywhere && r->mlp[n->id] < 0))
        return false;
    return op_is_cheap(n->op) || is_expanding_product(r, n) || is_inner_product(r, n);
}

static bool is_small(const value *o) {
    enum { LEAST_REDUCTION = 16 };
    const node *n = o->producer;
    return n && n->op->class == OP_CLASS_REDUCTION &&
           bytes_of(o) * LEAST_REDUCTION <= bytes_of(n->inputs[0]);
}

/* Of a cast and what it was cast from, the smaller is the one to keep; a piece of something larger
 * counts as the piece, its neighbours being cast as well. */
static void hold_cast_sources(rematerialization *r) {
    for (int i = r->g->node_count - 1; i >= 0; i--) {
        const node *n = r->g->nodes[i];
        if (n->phase != PHASE_FORWARD || n->op != &op_cast || !r->is_held[n->outputs[0]->id])
            continue;
        const value *source = r->owner[n->inputs[0]->id];
        if (stored_bytes(r, n->inputs[0]) < bytes_of(n->outputs[0]))
            r->is_held[source->id] = true;
    }
}

/* What a cast widened, if `v` is its result. */
static const value *narrow_source(const rematerialization *r, const value *v) {
    const node *n = r->owner[v->id]->producer;
    if (!n || n->phase != PHASE_FORWARD || n->op != &op_cast)
        return NULL;
    const value *source = r->owner[n->inputs[0]->id];
    return bytes_of(source) < bytes_of(r->owner[v->id]) ? source : NULL;
}

/* A sum of the residual stream and a block's result in a low type: where both sides of the addition
 * are wanted, the narrow result is kept in place of the second. The input of every so many blocks
 * stays: bringing a sum back never takes all additions since the embedding. */
static void hold_narrow_addends(rematerialization *r) {
    int longest =
        2 * r->options->blocks - 1; /* a block adds twice; the last sum is the next one's input */
    for (int i = 0; i < r->g->node_count; i++) {
        const node *n = r->g->nodes[i];
        const value *sum = n->outputs[0];
        if (n->phase != PHASE_FORWARD || n->op != &op_add || !r->is_held[sum->id] || sum->is_output)
            continue;
        for (int j = 0; j < 2 && !r->additions[sum->id]; j++) {
            const value *other = r->owner[n->inputs[1 - j]->id];
            const value *source = narrow_source(r, n->inputs[j]);
            if (!source || !r->is_held[other->id] || r->additions[other->id] >= longest)
                continue;
            r->is_held[source->id] = true;
            r->additions[sum->id] = r->additions[other->id] + 1;
        }
    }
}

static void find_mlps(rematerialization *r) {
    const graph *g = r->g;
    int every = r->options->mlp_every, blocks = 0;
    for (int i = 0; i < g->node_count; i++) {
        int block = g->scopes[g->nodes[i]->scope].block;
        blocks = block >= blocks ? block + 1 : blocks;
    }
    for (int i = 0; i < g->node_count; i++) {
        const node *n = g->nodes[i];
        const graph_scope *scope = &g->scopes[n->scope];
        bool is_mlp = n->phase == PHASE_FORWARD && scope->part == BLOCK_MLP;
        bool is_taken =
            is_mlp && every > 0 && scope->block % every == 0 && scope->block < blocks - 1;
        r->mlp[n->id] = is_taken ? scope->block : -1;
        for (int j = 0; n->phase == PHASE_FORWARD && j < n->input_count; j++) {
            const node *maker = n->inputs[j]->producer;
            if (maker && r->mlp[maker->id] != r->mlp[n->id])
                r->leaves_mlp[n->inputs[j]->id] = true;
        }
    }
}

static void decide(rematerialization *r) {
    const graph *g = r->g;
    for (int i = 0; i < g->node_count; i++) {
        const node *n = g->nodes[i];
        for (int j = 0; n->phase != PHASE_FORWARD && j < n->input_count; j++)
            r->is_held[r->owner[n->inputs[j]->id]->id] = true;
    }
    for (int i = 0; i < g->value_count; i++) /* for the caller, to the end */
        if (g->values[i]->is_output)
            r->is_held[r->owner[i]->id] = true;
    if (r->options->is_everywhere) {
        hold_cast_sources(r);
        hold_narrow_addends(r);
    }
    for (int i = 0; i < g->node_count; i++) {
        const node *n = g->nodes[i];
        if (!may_run_again(r, n) || r->owner[n->outputs[0]->id] != n->outputs[0])
            continue;
        bool is_cheap = true;
        for (int j = 0; j < n->input_count; j++) {
            const value *o = r->owner[n->inputs[j]->id];
            is_cheap = is_cheap &&
                       (!o->producer || is_small(o) || r->is_held[o->id] || r->is_cheap[o->id]);
        }
        r->is_cheap[n->outputs[0]->id] = is_cheap;
    }
    for (int i = 0; i < g->value_count; i++)
        if (g->values[i]->is_output)
            r->is_cheap[r->owner[i]->id] = false;
}

static bool is_brought_back(const rematerialization *r, const value *v) {
    return v->producer && v->producer->phase == PHASE_FORWARD && r->is_cheap[r->owner[v->id]->id];
}

/* What a backward node reads in place of `v`; adds the nodes that compute it. The parts of a
 * recomputed sum serve it alone: shared, they would be written to memory and stay alive. */
static value *stand_in(rematerialization *r, value *v, bool is_part) {
    if (!is_brought_back(r, v))
        return v;
    if (r->copy[v->id] && !is_part)
        return r->copy[v->id];
    const node *n = v->producer;
    value **inputs = memory_allocate((size_t)n->input_count, sizeof *inputs);
    for (int i = 0; i < n->input_count; i++)
        inputs[i] = stand_in(r, n->inputs[i], is_part || r->additions[v->id] > 0);
    value *again = reemit_node(r->g, n, inputs)->outputs[v->output_index];
    free(inputs);
    if (!is_part) {
        r->copy[v->id] = again;
        MEMORY_GROW(r->copied, r->copied_count, r->copied_capacity);
        r->copied[r->copied_count++] = v->id;
    }
    return again;
}

static void forget_copies(rematerialization *r) {
    for (int i = 0; i < r->copied_count; i++)
        r->copy[r->copied[i]] = NULL;
    r->copied_count = 0;
}

static void redirect_backward(rematerialization *r) {
    graph *g = r->g;
    int nodes = g->node_count, order_capacity = nodes, count = 0, block = -1;
    node **order = memory_allocate((size_t)order_capacity, sizeof *order);
    for (int i = 0; i < nodes; i++) {
        node *n = g->nodes[i];
        if (n->phase == PHASE_BACKWARD) {
            int added = g->node_count, reader = g->scopes[n->scope].block;
            if (reader != block)
                forget_copies(r);
            block = reader;
            for (int j = 0; j < n->input_count; j++)
                n->inputs[j] = stand_in(r, n->inputs[j], false);
            for (; added < g->node_count; added++) {
                MEMORY_GROW(order, count, order_capacity);
                order[count++] = g->nodes[added];
            }
        }
        MEMORY_GROW(order, count, order_capacity);
        order[count++] = n;
    }
    graph_set_order(g, order, count);
    free(order);
}

dyno_status rematerialize_apply(graph *g, const rematerialize_options *options) {
    size_t values = (size_t)g->value_count;
    rematerialization r = {.g = g,
                           .options = options,
                           .owner = memory_allocate(values, sizeof *r.owner),
                           .is_held = memory_allocate(values, sizeof *r.is_held),
                           .is_cheap = memory_allocate(values, sizeof *r.is_cheap),
                           .additions = memory_allocate(values, sizeof *r.additions),
                           .mlp = memory_allocate((size_t)g->node_count, sizeof *r.mlp),
                           .leaves_mlp = memory_allocate(values, sizeof *r.leaves_mlp),
                           .copy = memory_allocate(values, sizeof *r.copy)};
    find_owners(&r);
    find_mlps(&r);
    decide(&r);
    redirect_backward(&r);
    free(r.owner);
    free(r.is_held);
    free(r.is_cheap);
    free(r.additions);
    free(r.mlp);
    free(r.leaves_mlp);
    free(r.copy);
    free(r.copied);
    RETURN_IF_FAILED(graph_status(g));
    return mark_saved_activations(g);
}
