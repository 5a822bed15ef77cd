/* model_options.h - what the flags by which models are chosen stand for. */
#ifndef EXPERIMENTS_MODEL_OPTIONS_H
#define EXPERIMENTS_MODEL_OPTIONS_H

#include "experiments/shared_flags.h"
#include "measure/results.h"
#include "model/config.h"

/* Sizes that a preset or a configuration may be changed in. */
enum model_size { LAYERS, D_MODEL, D_FF, HEADS, KV_HEADS, HEAD_DIM, VOCAB, MODEL_SIZE_COUNT };
#define MODEL_SIZE_OPEN INT64_MIN /* as it is; 0 is a size that was asked for */

/* Where d_model or heads change, kv_heads and head_dim follow unless they are given. The name
 * then says what differs: "small, vocab 256"; where all sizes are given, these alone. */
void model_options_change(model_config *config, const int64_t sizes[MODEL_SIZE_COUNT]);

/* Sets the parameter model and those of its sizes. */
void model_options_describe(const model_config *config, results_cell *cell);

/* The models asked for, of which at least one can be built; those that cannot (sizes that do not go
 * with the preset) are for the caller to name. The caller frees *out. */
NODISCARD dyno_status model_options_resolve(const flags *given, model_config **out, int *count);

#endif
