/* step_variant.h - what the flags that say how a step is run stand for: mode, precision, attention,
 * recompute, gradients. */
#ifndef EXPERIMENTS_STEP_VARIANT_H
#define EXPERIMENTS_STEP_VARIANT_H

#include "experiments/shared_flags.h"
#include "measure/results.h"
#include "model/config.h"

/* One way to run a step, as it was asked for. */
typedef struct step_variant {
    step_mode mode;
    precision precision;
    attention_way attention;
    recompute_options recompute;
    gradients_type gradients;
    parallel_options parallel;         /* its mode; the number of ranks is not part of a variant */
    bool has_attention, has_gradients; /* they were named; else they follow from the others */
} step_variant;

/* Every combination of what the flags list; the caller frees *out. */
NODISCARD dyno_status step_variants_resolve(const flags *given, step_variant **out, int *count);
/* One of them from words; those that are NULL take their defaults. */
NODISCARD dyno_status step_variant_parse(const char *mode, const char *math, const char *attention,
                                         const char *recompute, const char *gradients,
                                         step_variant *out);

/* The variant for this model: attention that was not named is flash where there is such (compiled
 * mode, head sizes up to that of the kernels), else naive. Fails where what was named cannot be had,
 * so that nothing else runs in its place. */
NODISCARD dyno_status step_variant_settle(const step_variant *asked, const model_config *config,
                                          step_variant *out);
/* For a row of a table: fails where the recompute level would be a name for nothing, because no
 * block is recomputed. */
NODISCARD dyno_status step_variant_check_label(const step_variant *variant,
                                               const model_config *config, step_extent extent);

void step_variant_apply(const step_variant *variant, pipeline_options *options);
/* Sets the parameters mode, math, attention, recompute and gradients. */
void step_variant_describe(const step_variant *variant, results_cell *cell);

#endif
