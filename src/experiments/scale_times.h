/* scale_times.h - how long each launch of a plan takes: by the rates of a chip, or as a profile of it says. */
#ifndef EXPERIMENTS_SCALE_TIMES_H
#define EXPERIMENTS_SCALE_TIMES_H

#include "base/target_rates.h"
#include "measure/results.h"
#include "plan/plan.h"

/* The cores of a host, where its ranks share them: what they take from each other. */
typedef struct scale_host {
    int cores;                   /* 0: each rank has a chip of its own */
    int ranks;                   /* on the host */
    int threads;                 /* of each rank */
    double alone_bytes_a_second; /* of the memory, with one rank reading and writing */
    double all_bytes_a_second;   /* with all cores at it */
} scale_host;

/* Times of `dyno profile` by kind of launch. */
typedef struct scale_profile {
    results *run;
    const results_breakdown *kinds;
    double step_ns; /* of the profile */
} scale_profile;

/* Reads DIR/run.json, of `dyno profile`: the cell of this model, whole steps. On failure nothing is to be
 * released. */
typedef struct scale_wanted {
    const char *model, *mode, *math;
    int64_t batch, context;
} scale_wanted;
NODISCARD dyno_status scale_profile_read(const char *directory, const scale_wanted *wanted,
                                         scale_profile *out);
void scale_profile_release(scale_profile *profile);

/* By launch, collectives excepted: the least time at these rates (plan/least_time.h). With a profile, launches that it does not know take what the rates say;
 * the number of these is returned. `profile` may be NULL. */
int scale_times_of_plan(const plan *p, const target_rates *rates, const scale_profile *profile,
                        double *launch_ns);

/* The same launches with the memory's bandwidth shared among the ranks that run at the same time: one that
 * moves more than its part of it takes longer in proportion. What moves more than the memory can give has
 * its data in a cache and shares nothing; neither do ranks whose memory fits the last cache together. */
void scale_share_memory(const plan *p, const scale_host *host, double *launch_ns);

#endif
