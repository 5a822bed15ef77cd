/* lowering.h - what the parts of the lowering share: where each value lies. */
#ifndef COMPILER_LOWER_LOWERING_H
#define COMPILER_LOWER_LOWERING_H

#include "base/text.h"
#include "compiler/lower/choose_kernel.h"
#include "compiler/lower/lower_place.h"
#include "graph/graph.h"
#include "ops/kernel.h"
#include "plan/plan.h"

typedef struct lowering {
    const graph *g;
    const target *target;
    const kernel_options *kernels;
    plan *p;
    plan_operand *placed; /* by value id */
    text source;          /* of generated kernels */
    bool *escapes;        /* by value id: a fused value that somebody outside its group reads */
    placement *wanted; /* by value id: where it is to be made; NULL: all in memory of their own */
    bool *is_begun;    /* by value id: it has memory already, in which others are being made */
} lowering;

/* A dense buffer of the value's own, born at that launch. */
plan_operand lowering_place_dense(lowering *l, const value *v, int scope, int born);

/* Where the value is to be made, by a launch of that number: memory of its own, or its place in
 * another's. */
plan_operand lowering_place_output(lowering *l, const value *v, int scope, int born);

/* A buffer made for an activation may turn out to hold, through a view, something that lives
 * longer; its role follows the longest-lived value in it. */
void lowering_adopt_role(lowering *l, const value *v);

/* The operands' buffers are in use at that launch. */
void lowering_touch(lowering *l, const plan_operand *operands, int count, int launch);

/* Places the output of a view node, if strides can express it. */
bool lowering_place_view(lowering *l, const node *n);

/* Makes one launch of the group whose members, with the views between them, are
 * g->nodes[begin .. end). */
NODISCARD dyno_status lower_group(lowering *l, int begin, int end);

/* Fills l->escapes. */
void lower_find_escapes(lowering *l);

/* Whether the node, or what the view shows, is a constant that only fused kernels read: they
 * write it out. */
bool lower_is_inlined_constant(const lowering *l, const node *n);

#endif
