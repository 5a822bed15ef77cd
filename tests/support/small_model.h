/* small_model.h - models that run in a blink, of drawn shapes. */
#ifndef TESTS_SUPPORT_SMALL_MODEL_H
#define TESTS_SUPPORT_SMALL_MODEL_H

#include "model/transformer.h"
#include "runtime/executor.h"
#include "support/draw.h"
#include "train/step_plan.h"

/* Heads grouped or not, a width that need not be heads times head size, sizes that divide
 * nothing. */
model_config small_model_draw(draw *d);
/* One or two sequences of a few tokens. */
transformer_options small_model_draw_size(draw *d);
/* One that is always the same: two layers, heads in two groups. */
extern const model_config small_model_fixed;

/* Its step with everything kept that can be: logits and gradients. */
step_options small_model_step(const model_config *config, int64_t batch, int64_t context,
                              step_extent extent);
/* The plan of small_model_step; aborts when there is none. */
plan *small_model_plan(const model_config *config, int64_t batch, int64_t context,
                       step_extent extent);

/* First values for weights, ids inside the vocabulary, learning rate 1e-3 and step 1. */
void small_model_fill(executor *e, storage *shared, const model_config *config, uint64_t seed);

#endif
