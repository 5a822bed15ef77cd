/* launch_plan.h - what a plan knows of the launches that records are of: names, scopes, phases and
 * costs. */
#ifndef PROFILE_LAUNCH_PLAN_H
#define PROFILE_LAUNCH_PLAN_H

#include "plan/plan.h"
#include "profile/launch_log.h"

/* "attention_avx512 64x128": with the variant, where it is not the kernel's own choice. */
const char *launch_plan_name(launch_log *log, const plan_launch *launch);

/* Completes the records of a settled log, which may outlive the plan. Where a launch left several
 * records in each step, the one that runs longest stands for it and the others are further ones. Which
 * of them does how much of the launch's work is not known: its cost is divided among them in proportion
 * to their time, so that each has the launch's rate, and is above its floor by its part. */
void launch_plan_describe(launch_log *log, const plan *p);

#endif
