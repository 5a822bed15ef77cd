/* hf_directory.h - a Hugging Face Llama model as a directory.
 *
 *   config.json
 *   model.safetensors                       or
 *   model.safetensors.index.json + the files it names
 *
 * An open directory has every parameter of its configuration, in the right shape and a float
 * type, and no tensor that the model does not know: reading one can fail on the disk only. */
#ifndef FORMATS_HF_DIRECTORY_H
#define FORMATS_HF_DIRECTORY_H

#include <stdbool.h>

#include "base/status.h"
#include "formats/hf_companions.h"
#include "model/config.h"
#include "model/parameters.h"

#define HF_WEIGHTS_NAME "model.safetensors"
#define HF_INDEX_NAME "model.safetensors.index.json"

/* Whether an index may name this file: names come from a file and must not lead out of the
 * directory. */
bool hf_is_shard_name(const char *name);

typedef struct hf_directory hf_directory;

/* On success *out belongs to the caller; on failure it is NULL. */
NODISCARD dyno_status hf_directory_open(const char *path, hf_directory **out);
void hf_directory_close(hf_directory *directory);
const model_config *hf_directory_config(const hf_directory *directory);
/* What it holds beside the weights, which is the caller's then; a second call gives NULL. */
hf_companions *hf_directory_take_companions(hf_directory *directory);
/* Fills `destination` with the parameter of this name, converted to f32. */
NODISCARD dyno_status hf_directory_read(const hf_directory *directory, const char *name,
                                        float *destination);

/* Points *data at the values of a parameter; they must stay until the next call. */
typedef dyno_status hf_parameter_source(void *context, int index, const model_parameter *parameter,
                                        const float **data);

typedef struct hf_write_options {
    const hf_companions *companions; /* of the model that was loaded; NULL: it was not */
    const char *config;              /* its config.json then, but for the type; NULL: made anew */
    bool is_new;                     /* a model that is there is DYNO_INVALID */
    const char *note;                /* in the weights' metadata; NULL: none */
} hf_write_options;

/* Makes the directory if needed and writes config.json, the companions, and model.safetensors in
 * f32, asking for each parameter once, in order. All appear together when everything is on the
 * disk, in place of what was there, also of a model in several files; on failure none does, and a
 * directory that was made is removed again. */
NODISCARD dyno_status hf_directory_write_as(const char *path, const model_config *config,
                                            const hf_write_options *how,
                                            hf_parameter_source *source, void *context);
/* The same for a model that was not loaded, replacing what is there. */
NODISCARD dyno_status hf_directory_write(const char *path, const model_config *config,
                                         hf_parameter_source *source, void *context);

/* Whether writing a model may write or remove a file of this name. */
bool hf_directory_writes(const char *name);
/* Fails where writing would: the directory cannot be made or written in, or (is_new) has a model.
 * Nothing is changed. */
NODISCARD dyno_status hf_directory_check_write(const char *path, const hf_companions *companions,
                                               bool is_new);

#endif
