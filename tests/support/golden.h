/* golden.h - the cases of tests/golden: training steps whose results a float64 model made with
 * PyTorch (tests/golden/generate.py says how). */
#ifndef TESTS_SUPPORT_GOLDEN_H
#define TESTS_SUPPORT_GOLDEN_H

#include "formats/hf_directory.h"
#include "train/trainer.h"

typedef struct golden {
    char path[512];
    hf_directory *model;
    step_options options; /* eager, in fp32, for the CPU */
    int64_t steps;
    double learning_rate;
    int32_t *ids; /* of all steps, and the last target */
} golden;

/* Calls `check` for every case there is below DIRECTORY/golden. */
void golden_for_each(const char *directory, void (*check)(const golden *c, void *context),
                     void *context);

/* Everything a case's steps compute, in one row of floats: logits and gradients of the first
 * step, each loss, weights after the last. */
typedef struct answers {
    char (*names)[128];
    float **slices; /* into data, one for each name */
    int64_t *sizes;
    int count;
    float *data;
    int64_t used;
} answers;

/* Takes the steps on the device. Leaves the trainer in *model if it is not NULL. */
answers golden_run(const golden *c, device *d, trainer **model);
void answers_release(answers *a);

/* Fails the test when something is off by more than fp32 may be. A gradient that is zero may come
 * out as rounding noise, of which AdamW makes whole steps; where that is `forgiven`, such weights
 * may be as far off as those steps lead. */
void golden_compare(const golden *c, const answers *a, bool is_noise_forgiven);

#endif
