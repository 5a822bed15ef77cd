/* scale_step.h - one step of one of many ranks: its plan, replayed against a network. */
#ifndef EXPERIMENTS_SCALE_STEP_H
#define EXPERIMENTS_SCALE_STEP_H

#include "experiments/scale_times.h"
#include "experiments/scale_way.h"
#include "simulate/limits.h"
#include "simulate/simulate.h"
#include "train/step_plan.h"

typedef struct scale_step {
    int64_t memory_bytes; /* what a rank reserves */
    int64_t tokens;       /* of all ranks */
    double flops, bytes_sent;
    double compute_ns, collectives_ns, exposed_ns, step_ns;
} scale_step;

typedef struct scale_question {
    const step_options *options; /* of the plan; ranks are those of `division.groups` */
    scale_division division;
    const network *network;
    const scale_host *host; /* NULL: each rank has a GPU of its own */
} scale_question;

/* `launch_ns` has the time of every launch that computes, of one rank alone; collectives and tp are added
 * to it. */
void scale_step_replay(const plan *p, const scale_question *asked, double *launch_ns,
                       scale_step *out);

/* What the limits are computed from, for a step of so many tokens: FLOPs of the plan of one rank, bytes of
 * collectives from the plans of ddp-flat and fsdp. */
NODISCARD dyno_status scale_limits_model(const step_options *options, double step_tokens,
                                         double flops_a_second, limits_model *out);

#endif
