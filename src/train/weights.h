/* weights.h - a model's parameters between storage and everywhere else. */
#ifndef TRAIN_WEIGHTS_H
#define TRAIN_WEIGHTS_H

#include "runtime/storage.h"
#include "train/hf_directory.h"

/* First values, the same for a seed whatever the number of threads. */
void weights_init(storage *s, const model_config *config, uint64_t seed);
NODISCARD dyno_status weights_load(storage *s, const hf_directory *directory);
/* As a Hugging Face directory. */
NODISCARD dyno_status weights_save(const storage *s, const model_config *config, const char *path);

#endif
