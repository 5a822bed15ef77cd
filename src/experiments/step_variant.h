/* step_variant.h - the flags that say how a step is run: mode, precision, attention, recompute,
 * gradients. */
#ifndef EXPERIMENTS_STEP_VARIANT_H
#define EXPERIMENTS_STEP_VARIANT_H

#include "base/flags.h"
#include "compiler/pipeline.h"
#include "measure/results.h"

/* To be put into a flag table. */
#define STEP_FLAGS                                                                                 \
    {"mode",                                                                                       \
     "LIST",                                                                                       \
     FLAG_CHOICE_LIST,                                                                             \
     "eager",                                                                                      \
     .help = "eager: a launch for each op; compiled: fused kernels, memory planned beforehand",    \
     .choices = STEP_MODE_CHOICES},                                                                \
        {"precision",                                                                              \
         "LIST",                                                                                   \
         FLAG_CHOICE_LIST,                                                                         \
         "fp32",                                                                                   \
         .help = "of matrix products; norms, softmax, loss and weights stay fp32",                 \
         .choices = PRECISION_CHOICES},                                                            \
        {"attention",                                                                              \
         "LIST",                                                                                   \
         FLAG_CHOICE_LIST,                                                                         \
         "flash",                                                                                  \
         .help = "of compiled mode; flash: the scores never exist together; naive: they do",       \
         .choices = ATTENTION_WAY_CHOICES},                                                        \
        {"gradients",                                                                              \
         "TYPE",                                                                                   \
         FLAG_CHOICE,                                                                              \
         "low",                                                                                    \
         .help = "of weights, compiled in low precision: low, as the products give them, or fp32", \
         .choices = GRADIENTS_CHOICES},                                                            \
    {                                                                                              \
        "recompute", "LIST", FLAG_TEXT_LIST, "none",                                               \
            .help = "what the backward runs again to save memory: none, mlp:K (gate and up of "    \
                    "every K-th block), every:K (segments of K blocks), full, nested"              \
    }

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
/* For those who run one: more than one is an error. */
NODISCARD dyno_status step_variant_resolve(const flags *given, step_variant *out);

void step_variant_apply(const step_variant *variant, pipeline_options *options);
/* Sets the parameters mode, math, attention, recompute and gradients. */
void step_variant_describe(const step_variant *variant, results_cell *cell);

#endif
