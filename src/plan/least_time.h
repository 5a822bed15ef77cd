/* least_time.h - how long a step takes if each launch is as fast as arithmetic and memory allow: for
 * comparing ways to run it before anything runs. */
#ifndef PLAN_LEAST_TIME_H
#define PLAN_LEAST_TIME_H

#include "base/target_rates.h"
#include "plan/plan.h"

/* The longer of its FLOPs and its bytes at the chip's rates; products in the rate of their type. */
double least_time_of_launch(const plan_launch *l, const target_rates *rates);

/* Seconds of a phase, or with PHASE_COUNT of the step, at the rates of the plan's target. No launch is
 * shorter than the host takes to start one. */
double least_time_of_plan(const plan *p, phase which);

#endif
