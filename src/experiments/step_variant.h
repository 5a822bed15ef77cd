/* step_variant.h - what the flags that say how a step is run stand for: mode, precision, attention,
 * recompute, gradients. */
#ifndef EXPERIMENTS_STEP_VARIANT_H
#define EXPERIMENTS_STEP_VARIANT_H

#include "experiments/shared_flags.h"
#include "measure/results.h"

/* One way to run a step. */
typedef struct step_variant {
    step_mode mode;
    precision precision;
    attention_way attention; /* ATTENTION_NAIVE in eager mode */
    recompute_options recompute;
    gradients_type gradients;
} step_variant;

/* Every combination of what the flags list; the caller frees *out. */
NODISCARD dyno_status step_variants_resolve(const flags *given, step_variant **out, int *count);
/* One of them from words; those that are NULL take their defaults. */
NODISCARD dyno_status step_variant_parse(const char *mode, const char *math, const char *attention,
                                         const char *recompute, const char *gradients,
                                         step_variant *out);

void step_variant_apply(const step_variant *variant, pipeline_options *options);
/* Sets the parameters mode, math, attention, recompute and gradients. */
void step_variant_describe(const step_variant *variant, results_cell *cell);

#endif
