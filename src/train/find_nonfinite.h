/* find_nonfinite.h - where NaN or Inf shows first in a step, once its loss or gradients have it. */
#ifndef TRAIN_FIND_NONFINITE_H
#define TRAIN_FIND_NONFINITE_H

#include "base/text.h"
#include "model/config.h"
#include "runtime/executor.h"
#include "runtime/storage.h"

/* DYNO_NOT_FINITE with a message where a weight is not finite; `when` begins it. A weight whose
 * moments are not finite either had a gradient that was not, in step `last` or one before it: the
 * last such parameter of the model is then named, which the backward reaches first. */
NODISCARD dyno_status find_nonfinite_weight(const storage *s, const model_config *config,
                                            const char *when, int64_t last);

/* Runs the executor's step again, its inputs being those of the step in question, and appends to
 * `out` in which launch NaN or Inf shows first. Nothing is appended where it does not. The step is
 * not completed. */
NODISCARD dyno_status find_nonfinite_launch(executor *e, const plan *p, text *out);

#endif
