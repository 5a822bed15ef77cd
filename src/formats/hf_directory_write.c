/* hf_directory_write.c - a model's directory, all files of which appear together.
 *
 * Each is complete on the disk, under a temporary name, before the first is renamed: a disk that
 * fills does so while nothing shows. model.safetensors wins over an index, in transformers as here,
 * so that its rename alone replaces a model in several files; these are removed after that. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "formats/config_json.h"
#include "formats/hf_directory.h"
#include "formats/safetensors.h"

/* ---- what is there ---- */

bool hf_directory_writes(const char *name) {
    return strcmp(name, "config.json") == 0 || strcmp(name, HF_INDEX_NAME) == 0 ||
           hf_is_shard_name(name) || hf_companions_include(name);
}

static bool has(const char *directory, const char *name) {
    text path = {0};
    text_format(&path, "%s/%s", directory, name);
    bool found = file_exists(path.data);
    text_release(&path);
    return found;
}

static const char *find_existing(const char *path, const hf_companions *companions) {
    static const char *const names[] = {"config.json", HF_WEIGHTS_NAME, HF_INDEX_NAME};
    for (int i = 0; i < 3; i++)
        if (has(path, names[i]))
            return names[i];
    for (int i = 0; companions && i < companions->count; i++)
        if (has(path, companions->files[i].name))
            return companions->files[i].name;
    return NULL;
}

static dyno_status refuse_existing(const char *path, const hf_companions *companions) {
    const char *found = find_existing(path, companions);
    if (!found)
        return DYNO_OK;
    return dyno_fail(DYNO_INVALID,
                     "'%s' has a model already (%s is there); save to another directory, or give "
                     "--force to replace it",
                     path, text_quote(found).text);
}

/* The nearest directory that is there must be one that can be written in, which is tried. */
static dyno_status check_can_make(const char *path) {
    char *part = memory_copy_string(path);
    for (char *end; !file_exists(part) && (end = strrchr(part, '/')) && end > part;)
        *end = '\0';
    if (!file_exists(part))
        strcpy(part, part[0] == '/' ? "/" : ".");
    text probe = {0};
    text_format(&probe, "%s/.dyno-probe-XXXXXX", part);
    int error = mkdtemp(probe.data) ? 0 : errno;
    if (!error)
        rmdir(probe.data);
    text_release(&probe);
    dyno_status result = DYNO_OK;
    if (error)
        result = dyno_fail(DYNO_IO, "cannot save to '%s': '%s': %s", path, part, strerror(error));
    free(part);
    return result;
}

dyno_status hf_directory_check_write(const char *path, const hf_companions *companions,
                                     bool is_new) {
    if (!path[0])
        return dyno_fail(DYNO_INVALID, "the output directory's name is empty");
    RETURN_IF_FAILED(check_can_make(path));
    return is_new ? refuse_existing(path, companions) : DYNO_OK;
}

/* The index of a model in several files, and these. */
static void remove_shards(const char *path) {
    text index = {0};
    json_t *root;
    text_format(&index, "%s/%s", path, HF_INDEX_NAME);
    if (file_exists(index.data) && json_read_file(index.data, &root) == DYNO_OK) {
        const char *tensor;
        json_t *value, *map = json_object_get(root, "weight_map");
        json_object_foreach(map, tensor, value) {
            const char *name = json_string_value(value);
            if (!name || !hf_is_shard_name(name) || strcmp(name, HF_WEIGHTS_NAME) == 0)
                continue;
            text shard = {0};
            text_format(&shard, "%s/%s", path, name);
            unlink(shard.data);
            text_release(&shard);
        }
        json_decref(root);
        unlink(index.data);
    }
    text_release(&index);
}

/* ---- the files on their way ---- */

typedef struct pending_files {
    file_writer **files;
    int count, capacity;
} pending_files;

static dyno_status add_file(pending_files *pending, const char *directory, const char *name,
                            const char *bytes, size_t size, bool is_new) {
    text path = {0};
    file_writer *writer;
    text_format(&path, "%s/%s", directory, name);
    dyno_status status = file_writer_create_as(path.data, is_new, &writer);
    text_release(&path);
    if (status != DYNO_OK)
        return status;
    MEMORY_GROW(pending->files, pending->count, pending->capacity);
    pending->files[pending->count++] = writer;
    return file_writer_append(writer, bytes, size);
}

static dyno_status add_config(pending_files *pending, const char *path, const model_config *config,
                              const hf_write_options *how) {
    if (how->companions)
        return add_file(pending, path, "config.json", how->companions->config.bytes,
                        how->companions->config.size, how->is_new);
    if (how->config) {
        char *carried = hf_config_as_f32(how->config);
        dyno_status status =
            add_file(pending, path, "config.json", carried, strlen(carried), how->is_new);
        free(carried);
        return status;
    }
    json_t *root = model_config_to_json(config);
    char *dump = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(root);
    if (!dump)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "no memory for the text of config.json");
    text whole = {0};
    text_format(&whole, "%s\n", dump);
    free(dump);
    dyno_status status =
        add_file(pending, path, "config.json", whole.data, whole.length, how->is_new);
    text_release(&whole);
    return status;
}

static dyno_status create_weights(const char *path, const model_config *config,
                                  const hf_write_options *how, safetensors_writer **out) {
    int count = model_parameter_count(config);
    model_parameter *parameters = memory_allocate((size_t)count, sizeof *parameters);
    safetensors_tensor *tensors = memory_allocate((size_t)count, sizeof *tensors);
    for (int i = 0; i < count; i++) {
        parameters[i] = model_parameter_at(config, i);
        tensors[i] = (safetensors_tensor){
            .name = parameters[i].name, .type = DTYPE_F32, .shape = parameters[i].shape};
    }
    json_t *metadata = json_pack("{s:s}", "format", "pt"); /* transformers insists on it */
    dyno_status status = DYNO_OK;
    if (how->note && json_object_set_new(metadata, "note", json_string(how->note)) != 0)
        status = dyno_fail(DYNO_INVALID, "the note is not valid UTF-8");
    text name = {0};
    text_format(&name, "%s/%s", path, HF_WEIGHTS_NAME);
    if (status == DYNO_OK)
        status =
            safetensors_writer_create_as(name.data, tensors, count, metadata, how->is_new, out);
    text_release(&name);
    json_decref(metadata);
    free(tensors);
    free(parameters);
    return status;
}

static dyno_status add_weights(pending_files *pending, const char *path, const model_config *config,
                               const hf_write_options *how, hf_parameter_source *source,
                               void *context) {
    safetensors_writer *weights;
    RETURN_IF_FAILED(create_weights(path, config, how, &weights));
    dyno_status status = DYNO_OK;
    for (int i = 0; i < model_parameter_count(config) && status == DYNO_OK; i++) {
        model_parameter parameter = model_parameter_at(config, i);
        const float *data = NULL;
        status = source(context, i, &parameter, &data);
        if (status == DYNO_OK)
            status = safetensors_writer_append(
                weights, data, (size_t)shape_elements(&parameter.shape) * sizeof *data);
    }
    if (status != DYNO_OK) {
        safetensors_writer_abandon(weights);
        return status;
    }
    MEMORY_GROW(pending->files, pending->count, pending->capacity);
    RETURN_IF_FAILED(safetensors_writer_release(weights, &pending->files[pending->count]));
    pending->count++;
    return DYNO_OK;
}

static dyno_status fill_pending(pending_files *pending, const char *path,
                                const model_config *config, const hf_write_options *how,
                                hf_parameter_source *source, void *context) {
    RETURN_IF_FAILED(add_config(pending, path, config, how));
    for (int i = 0; how->companions && i < how->companions->count; i++) {
        const hf_companion *file = &how->companions->files[i];
        RETURN_IF_FAILED(add_file(pending, path, file->name, file->bytes, file->size, how->is_new));
    }
    return add_weights(pending, path, config, how, source, context);
}

static dyno_status write_files(const char *path, const model_config *config,
                               const hf_write_options *how, hf_parameter_source *source,
                               void *context) {
    pending_files pending = {0};
    dyno_status status = fill_pending(&pending, path, config, how, source, context);
    if (status == DYNO_OK)
        status = file_writer_commit_all(pending.files, pending.count);
    else
        for (int i = 0; i < pending.count; i++)
            file_writer_abandon(pending.files[i]);
    free(pending.files);
    return status;
}

dyno_status hf_directory_write_as(const char *path, const model_config *config,
                                  const hf_write_options *how, hf_parameter_source *source,
                                  void *context) {
    RETURN_IF_FAILED(model_config_check(config));
    if (how->is_new)
        RETURN_IF_FAILED(refuse_existing(path, how->companions));
    bool was_there = file_exists(path);
    RETURN_IF_FAILED(file_make_output_directory(path));
    if (!was_there)
        file_add_made_directory(path);
    dyno_status status = write_files(path, config, how, source, context);
    if (!was_there)
        file_remove_made_directory(path, status == DYNO_OK);
    if (status == DYNO_OK)
        remove_shards(path);
    return status;
}

dyno_status hf_directory_write(const char *path, const model_config *config,
                               hf_parameter_source *source, void *context) {
    return hf_directory_write_as(path, config, &(hf_write_options){0}, source, context);
}
