/* trainer.h - a model in memory that takes training steps. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "runtime/executor.h"
#include "train/loss_scale.h"
#include "train/step_plan.h"
#include "train/weights.h"

typedef struct trainer trainer;

/* Plans the step and takes the memory for weights and state, all zero. Fails with
 * DYNO_OUT_OF_MEMORY, saying what is needed and what there is, before anything is allocated
 * when it cannot fit `memory_limit`. On failure *out is NULL. */
NODISCARD dyno_status trainer_create(const step_options *options, int64_t memory_limit,
                                     trainer **out);
void trainer_destroy(trainer *t);

storage *trainer_storage(trainer *t);
const plan *trainer_plan(const trainer *t);

/* One step on batch*context inputs and targets, which must lie inside the vocabulary.
 *
 * In fp16 the loss is scaled. A step whose gradients overflow writes no weight and no state, is
 * not numbered, and the scale goes down; trainer_loss_scale tells. Gradients kept as outputs are
 * those of the scaled loss; without an optimizer the scale is 1. */
NODISCARD dyno_status trainer_step(trainer *t, const int32_t *tokens, const int32_t *targets,
                                   double learning_rate, float *loss);

/* How scaling stands; NULL where the loss is not scaled. */
const loss_scale *trainer_loss_scale(const trainer *t);

/* An output of the last step, or a leaf. */
tensor trainer_find(const trainer *t, const char *name);

#endif
