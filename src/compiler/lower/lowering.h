/* lowering.h - what the parts of the lowering share: the memory of each value. */
#ifndef COMPILER_LOWER_LOWERING_H
#define COMPILER_LOWER_LOWERING_H

#include "base/text.h"
#include "compiler/lower/choose_kernel.h"
#include "compiler/lower/kernel_memo.h"
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
    kernel_memo kernels_made;
    bool *escapes; /* by value id: a fused value that somebody outside its group reads */
    bool *is_read_from_memory; /* by value id: a launch that is no fused kernel reads it */
    placement *wanted; /* by value id: where it is to be made; NULL: all in memory of their own */
    bool *is_begun;    /* by value id: it has memory already, in which others are being made */
    /* Of the launch that is being made: its operands, and their layouts. */
    plan_operand *operands;
    int operand_capacity;
    tensor *layouts;
    int layout_capacity;
} lowering;

/* A dense buffer of the value's own, born at that launch. */
plan_operand lowering_place_dense(lowering *l, const value *v, int scope, int born);

/* Places the value, written by a launch of that number: in a buffer of its own, or inside another
 * value's. */
plan_operand lowering_place_output(lowering *l, const value *v, int scope, int born);

/* A buffer made for an activation may also hold, through a view, a value that lives longer; the
 * role of the buffer follows its longest-lived value. */
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
/* Fills l->is_read_from_memory: for the values behind views. */
void lower_find_memory_reads(lowering *l);

/* Whether the node, or what the view shows, is a constant that only fused kernels read: it becomes
 * a literal in their source. */
bool lower_is_inlined_constant(const lowering *l, const node *n);

#endif
