/* config_check.h - the check behind model_config_check, in the words of whoever asks.
 *
 * A flag is called --heads and a field of config.json num_attention_heads; the message must
 * name the one that the user can change. For config.c and config_json.c only. */
#ifndef MODEL_CONFIG_CHECK_H
#define MODEL_CONFIG_CHECK_H

#include "model/config.h"

typedef struct config_field_names {
    const char *d_model, *d_ff, *layers, *heads, *kv_heads, *head_dim, *vocab, *norm_eps,
        *rope_theta;
} config_field_names;

NODISCARD dyno_status config_check(const model_config *config, const config_field_names *names);

#endif
