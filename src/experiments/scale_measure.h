/* scale_measure.h - the launches of a rank's plan, timed on this machine's CPU in one process. */
#ifndef EXPERIMENTS_SCALE_MEASURE_H
#define EXPERIMENTS_SCALE_MEASURE_H

#include "model/config.h"
#include "plan/plan.h"

typedef struct scale_measure scale_measure;

/* Opens the CPU; so many traced steps each, of which the median of a launch counts, or the fastest step. On
 * failure *out is NULL. */
NODISCARD dyno_status scale_measure_create(int steps, bool takes_least, scale_measure **out);
void scale_measure_destroy(scale_measure *m);

/* By launch the time of one run of it, with so many threads; 0 for collectives, which do
 * nothing (distributed/silent.h). */
NODISCARD dyno_status scale_measure_plan(scale_measure *m, const plan *p,
                                         const model_config *config, int threads,
                                         double *launch_ns);

#endif
