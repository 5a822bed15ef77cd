/* step_estimate.h - what a step needs, for comparing many ways to run it.
 *
 * The blocks of a model are alike, so that bytes and FLOPs grow with their number as they do from
 * one short model to another. A model of many blocks is estimated from a few short ones, which takes
 * milliseconds; the way that is chosen is then planned in full (step_needs_exactly). */
#ifndef EXPERIMENTS_STEP_ESTIMATE_H
#define EXPERIMENTS_STEP_ESTIMATE_H

#include "train/step_plan.h"

typedef struct step_needs {
    int64_t bytes; /* reserved */
    double flops;
    double seconds;    /* at the least, at the target's rates on paper (plan/least_time.h) */
    double bytes_sent; /* to other ranks; on top of that time where nothing hides them */
} step_needs;

typedef struct estimated_step {
    step_options options;
    step_needs needs;
} estimated_step;

typedef struct step_estimator {
    /* How long the short models are; 0: every step is planned in full. */
    int64_t scale;
    estimated_step *known; /* short models that were planned already */
    int known_count, known_capacity;
} step_estimator;

/* For a model of so many blocks: few of them are planned in full. */
step_estimator step_estimator_begin(int64_t layers);
void step_estimator_release(step_estimator *e);
/* Makes the short models longer, as far as in full: for when an estimate was wrong. */
void step_estimator_refine(step_estimator *e, int64_t layers);

NODISCARD dyno_status step_estimate(step_estimator *e, const step_options *options,
                                    step_needs *out);
/* By planning all of it. Nothing will run the plan, so that no verifier looks at it. */
NODISCARD dyno_status step_needs_exactly(const step_options *options, step_needs *out);

/* The step compiled, with attention as --mode compiled chooses it: flash where its kernels take the
 * head size. An eager step's attention is naive whatever was asked for, and says nothing. */
step_options step_compiled(const step_options *options);
/* Whether flash attention can take the place of the step's naive one. */
bool step_can_flash(const step_options *options);

#endif
