/* step_order.h - the launches of a plan in the order in which a step runs them: those of a micro-batch
 * as many times as there are micro-batches, then the others. */
#ifndef RUNTIME_STEP_ORDER_H
#define RUNTIME_STEP_ORDER_H

#include "plan/plan.h"

typedef struct step_position {
    int launch, repetition;
} step_position;

/* Consecutive positions [first, last] of one phase. A launch that does work of two phases begins a
 * run, so that its time is known and can be divided. */
typedef struct phase_run {
    phase phase;
    int first, last;
    double flops, backward_flops; /* the second is nothing but in a run of two phases */
} phase_run;

typedef struct step_order {
    step_position *at;
    int count;
    int *first_of; /* by launch: its first position */
    phase_run *runs;
    int run_count, phase_changes;
} step_order;

step_order step_order_create(const plan *p);
void step_order_release(step_order *order);

/* Whether the position is the last of a repetition that another follows. */
bool step_order_ends_repetition(const step_order *order, int position);

#endif
