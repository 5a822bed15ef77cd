/* hf_companions.h - what a model's directory holds beside its weights, so that a model that was
 * loaded is saved with it: config.json as it was read, generation_config.json, and the files of the
 * tokenizer and its chat template.
 *
 * They are read when the model is, and kept: hours later the directory may be gone. The directory
 * is somebody else's: only regular files of a sane size are taken, and no link that leads out of
 * it, but for those of the Hugging Face cache. */
#ifndef FORMATS_HF_COMPANIONS_H
#define FORMATS_HF_COMPANIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct hf_companion {
    char *name; /* within the directory */
    char *bytes;
    size_t size;
} hf_companion;

typedef struct hf_companions {
    hf_companion config; /* that its weights are f32, otherwise as it was read */
    hf_companion *files; /* sorted by name */
    int count, capacity;
    char *left_out; /* sentences about what is there and was not taken, with reasons; "" */
} hf_companions;

/* Whether a file of this name is one. */
bool hf_companions_include(const char *name);

/* `config` is the text of config.json, which is valid JSON. Fails where the directory cannot be
 * read; a file that is not taken is no failure. */
NODISCARD dyno_status hf_companions_read(const char *directory, const char *config,
                                         hf_companions **out);
void hf_companions_destroy(hf_companions *c);

/* The text of a config.json in which "torch_dtype" and "dtype" of the outermost object, where they
 * are strings, say "float32"; every other byte stays. The caller frees it. */
char *hf_config_as_f32(const char *json);

#endif
