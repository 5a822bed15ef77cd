/* step_inputs.h - what a step that is measured gets to read. */
#ifndef EXPERIMENTS_STEP_INPUTS_H
#define EXPERIMENTS_STEP_INPUTS_H

#include "model/config.h"
#include "runtime/executor.h"

/* Random tokens, of which each rank has its own slice, and a learning rate that hardly moves the
 * weights, which cells share. */
NODISCARD dyno_status step_inputs_fill(executor *e, const model_config *config, uint64_t seed,
                                       int rank);

#endif
