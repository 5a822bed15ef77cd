/* config.h - the sizes that make a model: presets and their limits.
 *
 * The model is the Llama family's shape (RMSNorm, RoPE, SwiGLU, untied head, no
 * biases). */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include <stdint.h>

#include "base/status.h"

typedef struct model_config {
    char name[256]; /* says what it is: "small", "small, vocab 256" */
    int64_t d_model, d_ff, layers, heads, kv_heads, head_dim, vocab;
    double norm_eps, rope_theta;
} model_config;

/* What model_config_check holds a configuration to. They leave room above every published
 * model while keeping all sizes derived from them inside int64. */
#define MODEL_MAX_D_MODEL ((int64_t)1 << 20)
#define MODEL_MAX_D_FF ((int64_t)1 << 22)
#define MODEL_MAX_LAYERS ((int64_t)4096)
#define MODEL_MAX_HEADS ((int64_t)1 << 14)
#define MODEL_MAX_HEAD_DIM ((int64_t)1 << 14)
#define MODEL_MAX_VOCAB ((int64_t)1 << 24)
#define MODEL_MAX_PARAMETERS ((int64_t)1 << 48)

int model_preset_count(void);
/* In order of size; `index` must be below model_preset_count(). */
const model_config *model_preset(int index);
/* An unknown name fails with DYNO_INVALID, the nearest preset and the list of all. */
NODISCARD dyno_status model_config_from_preset(const char *name, model_config *out);

/* Sets kv_heads (to heads) and head_dim (to d_model / heads) where they are 0. Wrong sizes are
 * left for model_config_check to name. */
void model_config_derive(model_config *config);

/* DYNO_INVALID with the field, its value and the limit, unless a model can be built. */
NODISCARD dyno_status model_config_check(const model_config *config);

#endif
