/* weights.h - a model's parameters between storage and everywhere else. How the storage keeps them
 * (whole, with a low copy, in halves) makes no difference here; split_weights.h knows. */
#ifndef TRAIN_WEIGHTS_H
#define TRAIN_WEIGHTS_H

#include "formats/hf_directory.h"
#include "runtime/storage.h"

/* Initial values, the same for a seed whatever the number of threads. */
NODISCARD dyno_status weights_init(storage *s, const model_config *config, uint64_t seed);
/* The same, unless interrupted before the last is drawn: billions take seconds. */
NODISCARD dyno_status weights_init_unless(storage *s, const model_config *config, uint64_t seed,
                                          bool (*should_stop)(void *context), void *context);
NODISCARD dyno_status weights_load(storage *s, const hf_directory *directory);
/* The same, but a weight that holds NaN or Inf is DYNO_NOT_FINITE and named. */
NODISCARD dyno_status weights_load_finite(storage *s, const hf_directory *directory);
/* Rounds every whole parameter into its low copy (compiler/passes/low_copies.h) where the storage
 * has one: for plans that come after the weights. */
NODISCARD dyno_status weights_fill_low_copies(storage *s, const model_config *config);
/* As a Hugging Face directory. */
NODISCARD dyno_status weights_save(const storage *s, const model_config *config, const char *path);
NODISCARD dyno_status weights_save_as(const storage *s, const model_config *config,
                                      const char *path, const hf_write_options *how);
/* What the other ranks do while one saves: where weights are divided among ranks, each gives its part of
 * every weight. */
NODISCARD dyno_status weights_offer(const storage *s, const model_config *config);
/* DYNO_NOT_FINITE where `x`, all of the parameter, holds NaN or Inf, with its name and how many. */
NODISCARD dyno_status weight_check_finite(const model_parameter *parameter, const float *x);

#endif
