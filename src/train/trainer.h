/* trainer.h - a model in memory that takes training steps. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "runtime/executor.h"
#include "train/loss_scale.h"
#include "train/step_plan.h"
#include "train/weights.h"

typedef struct trainer trainer;

/* Plans the step and takes the memory for weights and state, all zero, on the device, which it
 * borrows; the options' target must be the device's. Fails with DYNO_OUT_OF_MEMORY, saying
 * what is needed and what there is, before anything is allocated when it cannot fit
 * `memory_limit`. On failure *out is NULL. */
NODISCARD dyno_status trainer_create(device *d, const step_options *options, int64_t memory_limit,
                                     trainer **out);
/* The same on the ranks that options.pipeline.parallel is for; borrowed. All of them call it, and take the
 * same steps, each on its own data; loss and weights are then the same on all. */
NODISCARD dyno_status trainer_create_on(communicator *c, device *d, const step_options *options,
                                        int64_t memory_limit, trainer **out);
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

/* The same in parts. Data may be given while the previous step runs: on a GPU they arrive when that
 * ends. trainer_finish waits for the step and returns its loss. */
NODISCARD dyno_status trainer_give(trainer *t, const int32_t *tokens, const int32_t *targets);
NODISCARD dyno_status trainer_start(trainer *t, double learning_rate);
NODISCARD dyno_status trainer_finish(trainer *t, float *loss);

/* A step whose loss or gradients are not finite, by the policy of the options' optimizer:
 * NONFINITE_STOP: trainer_finish is DYNO_NOT_FINITE, *loss is set, and the message says in which
 * step and tensor it shows first. Not where gradients of a scaled loss overflow and the scale can
 * go down. NONFINITE_SKIP: trainer_finish succeeds, and the step has changed nothing. */
bool trainer_skipped(const trainer *t); /* whether the last step was one of those */
/* DYNO_NOT_FINITE where a weight is not finite. */
NODISCARD dyno_status trainer_check_weights(const trainer *t);

/* The forward pass alone, by a plan of its own that is made the first time and shares the weights;
 * of several ranks all call it, and the loss is the mean of theirs.
 * `logits` may be NULL. Replaces the data that was given; no step is under way. */
NODISCARD dyno_status trainer_evaluate(trainer *t, const int32_t *tokens, const int32_t *targets,
                                       float *loss, float *logits);

/* The state of loss scaling; NULL where the loss is not scaled. */
const loss_scale *trainer_loss_scale(const trainer *t);

/* An output of the last step, or a leaf: where it lies on the device, and its numbers (all
 * `bytes` of it, as executor_read). */
tensor trainer_find(const trainer *t, const char *name);
NODISCARD dyno_status trainer_read(const trainer *t, const char *name, void *to, int64_t bytes);

#endif
