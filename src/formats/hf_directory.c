/* hf_directory.c - finding every parameter before any is read.
 *
 * `tensors` says where each parameter is. It is filled once, at opening; whatever of a file no
 * parameter took is a tensor this model would silently drop, and is refused. */
#define _GNU_SOURCE
#include "formats/hf_directory.h"
#include "formats/config_json.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "formats/safetensors.h"

/* Each stays open, and processes may open about a thousand files. */
enum { MAX_FILES = 512 };

static const char single_name[] = HF_WEIGHTS_NAME;
static const char index_name[] = HF_INDEX_NAME;

typedef struct weights_file {
    char *name; /* within the directory */
    safetensors_file *file;
    bool *is_taken; /* by entry, in the file's order */
} weights_file;

typedef struct located_tensor {
    const safetensors_file *file;
    const safetensors_entry *entry;
} located_tensor;

struct hf_directory {
    char *path;
    model_config config;
    json_t *weight_map; /* NULL when there is the single file */
    weights_file *files;
    int file_count, file_capacity;
    located_tensor *tensors; /* of every parameter, sorted by name */
    int tensor_count;
    hf_companions *companions;
};

static char *join(const char *directory, const char *name) {
    text path = {0};
    text_format(&path, "%s/%s", directory, name);
    return path.data;
}

static bool exists(const char *directory, const char *name) {
    char *path = join(directory, name);
    struct stat status;
    bool found = stat(path, &status) == 0;
    free(path);
    return found;
}

bool hf_is_shard_name(const char *name) {
    static const char ending[] = ".safetensors";
    size_t length = strlen(name), ending_length = sizeof ending - 1;
    return length > ending_length && strcmp(name + length - ending_length, ending) == 0 &&
           name[0] != '.' && !strchr(name, '/') && !strchr(name, '\\') && !strstr(name, "..");
}

static weights_file *find_file(const hf_directory *directory, const char *name) {
    for (int i = 0; i < directory->file_count; i++)
        if (strcmp(directory->files[i].name, name) == 0)
            return &directory->files[i];
    return NULL;
}

static dyno_status add_file(hf_directory *directory, const char *name) {
    if (directory->file_count == MAX_FILES)
        return dyno_fail(DYNO_UNSUPPORTED, "'%s/%s' names more than %d files", directory->path,
                         index_name, MAX_FILES);
    char *path = join(directory->path, name);
    safetensors_file *file;
    dyno_status status = safetensors_open(path, &file);
    free(path);
    if (status != DYNO_OK)
        return status;
    MEMORY_GROW(directory->files, directory->file_count, directory->file_capacity);
    directory->files[directory->file_count++] = (weights_file){
        .name = memory_copy_string(name),
        .file = file,
        .is_taken = memory_allocate((size_t)safetensors_count(file), sizeof(bool)),
    };
    return DYNO_OK;
}

static dyno_status open_index(hf_directory *directory) {
    char *path = join(directory->path, index_name);
    json_t *root;
    dyno_status status = json_read_file(path, &root);
    free(path);
    if (status != DYNO_OK)
        return status;
    directory->weight_map = json_incref(json_object_get(root, "weight_map"));
    json_decref(root);
    if (!json_is_object(directory->weight_map))
        return dyno_fail(DYNO_CORRUPT, "'%s/%s' has no weight_map that is an object",
                         directory->path, index_name);
    const char *tensor;
    json_t *value;
    json_object_foreach(directory->weight_map, tensor, value) {
        const char *name = json_string_value(value);
        if (!name || !hf_is_shard_name(name))
            return dyno_fail(DYNO_CORRUPT,
                             "'%s/%s': the file of '%s' is %s%s%s; it must be the plain name of a "
                             ".safetensors file in the directory",
                             directory->path, index_name, text_quote(tensor).text,
                             name ? "'" : "no string", name ? text_quote(name).text : "",
                             name ? "'" : "");
        if (!find_file(directory, name))
            RETURN_IF_FAILED(add_file(directory, name));
    }
    return DYNO_OK;
}

static dyno_status open_files(hf_directory *directory) {
    /* The order of transformers: the single file wins over an index. */
    if (exists(directory->path, single_name))
        return add_file(directory, single_name);
    if (exists(directory->path, index_name))
        return open_index(directory);
    return dyno_fail(
        DYNO_NOT_FOUND,
        "'%s' has neither %s nor %s; weights in other formats (pytorch_model.bin) must "
        "be saved as safetensors first",
        directory->path, single_name, index_name);
}

static dyno_status locate(hf_directory *directory, const model_parameter *parameter,
                          located_tensor *out) {
    weights_file *weights = directory->files;
    if (directory->weight_map) {
        const char *name =
            json_string_value(json_object_get(directory->weight_map, parameter->name));
        if (!name)
            return dyno_fail(
                DYNO_NOT_FOUND,
                "'%s/%s' names no file for the tensor '%s', which config.json asks for",
                directory->path, index_name, parameter->name);
        weights = find_file(directory, name);
    }
    const safetensors_entry *entry = safetensors_find(weights->file, parameter->name);
    if (!entry)
        return dyno_fail(DYNO_NOT_FOUND, "'%s/%s' has no tensor '%s', which config.json asks for",
                         directory->path, weights->name, parameter->name);
    if (!shape_equal(&entry->shape, &parameter->shape))
        return dyno_fail(DYNO_CORRUPT,
                         "'%s/%s': tensor '%s' has shape [%s], config.json makes it [%s]",
                         directory->path, weights->name, parameter->name,
                         shape_format(&entry->shape).text, shape_format(&parameter->shape).text);
    if (!dtype_is_float(entry->type))
        return dyno_fail(DYNO_UNSUPPORTED,
                         "'%s/%s': tensor '%s' is %s, weights must be f64, f32, bf16 or f16",
                         directory->path, weights->name, parameter->name, dtype_name(entry->type));
    weights->is_taken[entry - safetensors_at(weights->file, 0)] = true;
    *out = (located_tensor){.file = weights->file, .entry = entry};
    return DYNO_OK;
}

/* Old exports keep the rotary frequencies, which follow from the configuration. */
static bool is_derived(const char *name) {
    static const char ending[] = "rotary_emb.inv_freq";
    size_t length = strlen(name), ending_length = sizeof ending - 1;
    return length >= ending_length && strcmp(name + length - ending_length, ending) == 0;
}

static dyno_status refuse_extra(const hf_directory *directory) {
    for (int i = 0; i < directory->file_count; i++) {
        const weights_file *weights = &directory->files[i];
        for (int k = 0; k < safetensors_count(weights->file); k++) {
            const char *name = safetensors_at(weights->file, k)->name;
            if (!weights->is_taken[k] && !is_derived(name))
                return dyno_fail(DYNO_UNSUPPORTED,
                                 "'%s/%s' has the tensor '%s', which a Llama with this config.json "
                                 "does not have",
                                 directory->path, weights->name, text_quote(name).text);
        }
    }
    return DYNO_OK;
}

static int compare_tensors(const void *left, const void *right) {
    const located_tensor *a = left, *b = right;
    return strcmp(a->entry->name, b->entry->name);
}

static dyno_status locate_all(hf_directory *directory) {
    int count = model_parameter_count(&directory->config);
    directory->tensors = memory_allocate((size_t)count, sizeof *directory->tensors);
    for (int i = 0; i < count; i++) {
        model_parameter parameter = model_parameter_at(&directory->config, i);
        RETURN_IF_FAILED(locate(directory, &parameter, &directory->tensors[i]));
    }
    directory->tensor_count = count;
    qsort(directory->tensors, (size_t)count, sizeof *directory->tensors, compare_tensors);
    return refuse_extra(directory);
}

dyno_status hf_directory_open(const char *path, hf_directory **out) {
    *out = NULL;
    struct stat status_of_path;
    if (stat(path, &status_of_path) == 0 && !S_ISDIR(status_of_path.st_mode))
        return dyno_fail(DYNO_INVALID,
                         "'%s' is not a directory; give the one that holds config.json", path);
    hf_directory *directory = memory_allocate(1, sizeof *directory);
    directory->path = memory_copy_string(path);
    char *config_path = join(path, "config.json"), *config;
    dyno_status status = model_config_read_text(config_path, &directory->config, &config);
    free(config_path);
    if (status == DYNO_OK)
        status = open_files(directory);
    if (status == DYNO_OK)
        status = locate_all(directory);
    if (status == DYNO_OK)
        status = hf_companions_read(path, config, &directory->companions);
    free(config);
    if (status != DYNO_OK) {
        hf_directory_close(directory);
        return status;
    }
    *out = directory;
    return DYNO_OK;
}

void hf_directory_close(hf_directory *directory) {
    if (!directory)
        return;
    for (int i = 0; i < directory->file_count; i++) {
        safetensors_close(directory->files[i].file);
        free(directory->files[i].is_taken);
        free(directory->files[i].name);
    }
    free(directory->files);
    free(directory->tensors);
    json_decref(directory->weight_map);
    hf_companions_destroy(directory->companions);
    free(directory->path);
    free(directory);
}

const model_config *hf_directory_config(const hf_directory *directory) {
    return &directory->config;
}

hf_companions *hf_directory_take_companions(hf_directory *directory) {
    hf_companions *taken = directory->companions;
    directory->companions = NULL;
    return taken;
}

dyno_status hf_directory_read(const hf_directory *directory, const char *name, float *destination) {
    safetensors_entry wanted = {.name = name};
    located_tensor key = {.entry = &wanted};
    const located_tensor *found = bsearch(&key, directory->tensors, (size_t)directory->tensor_count,
                                          sizeof *directory->tensors, compare_tensors);
    if (!found)
        return dyno_fail(DYNO_NOT_FOUND, "'%s': the model has no parameter '%s'", directory->path,
                         text_quote(name).text);
    return safetensors_read_f32(found->file, found->entry, destination);
}
