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

#include "base/status.h"
#include "model/config.h"
#include "model/parameters.h"

typedef struct hf_directory hf_directory;

/* On success *out belongs to the caller; on failure it is NULL. */
NODISCARD dyno_status hf_directory_open(const char *path, hf_directory **out);
void hf_directory_close(hf_directory *directory);
const model_config *hf_directory_config(const hf_directory *directory);
/* Fills `destination` with the parameter of this name, converted to f32. */
NODISCARD dyno_status hf_directory_read(const hf_directory *directory, const char *name,
                                        float *destination);

/* Points *data at the values of a parameter; they must stay until the next call. */
typedef dyno_status hf_parameter_source(void *context, int index, const model_parameter *parameter,
                                        const float **data);

/* Makes the directory if needed and writes config.json and model.safetensors in f32, asking for
 * each parameter once, in order. Both appear together when all is on the disk; on failure
 * neither does, and a directory that was made is removed again. */
NODISCARD dyno_status hf_directory_write(const char *path, const model_config *config,
                                         hf_parameter_source *source, void *context);

#endif
