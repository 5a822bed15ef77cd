/* tensor_file.c - a dyno_tensor_file is a safetensors_writer of f32 tensors. */
#include <stdlib.h>

#include "api/model.h"
#include "api/options.h"
#include "base/checked.h"
#include "base/memory.h"
#include "formats/safetensors.h"

static dyno_status declare(const dyno_tensor *from, safetensors_tensor *to) {
    if (!from->name)
        return dyno_fail(DYNO_INVALID, "dyno_tensor: name is NULL");
    if (from->rank < 0 || from->rank > DYNO_MAX_RANK)
        return dyno_fail(DYNO_INVALID, "tensor '%s': the rank is %d, it must be from 0 to %d",
                         from->name, from->rank, DYNO_MAX_RANK);
    *to = (safetensors_tensor){from->name, DTYPE_F32, api_shape(from)};
    if (!shape_is_valid(&to->shape, sizeof(float)))
        return dyno_fail(DYNO_INVALID, "tensor '%s': [%s] is no shape", from->name,
                         shape_format(&to->shape).text);
    return DYNO_OK;
}

static dyno_status declare_all(const dyno_tensor *tensors, int count, safetensors_tensor **out) {
    *out = NULL;
    if (count < 0)
        return dyno_fail(DYNO_INVALID, "the number of tensors is %d", count);
    *out = memory_allocate((size_t)count, sizeof **out);
    for (int i = 0; i < count; i++)
        RETURN_IF_FAILED(declare(&tensors[i], &(*out)[i]));
    return DYNO_OK;
}

/* NULL where there is no note; a note that is no UTF-8 is DYNO_INVALID. */
static dyno_status make_metadata(const char *note, json_t **out) {
    *out = note ? json_pack("{s:s}", "note", note) : NULL;
    return note && !*out ? dyno_fail(DYNO_INVALID, "the note is not valid UTF-8") : DYNO_OK;
}

dyno_status dyno_tensor_file_create_as(const char *path, const dyno_tensor *tensors, int count,
                                       const dyno_save_options *options, dyno_tensor_file **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(path, tensors, options);
    dyno_save_options known = {0};
    RETURN_IF_FAILED(options_take("dyno_save_options", options, &known, sizeof known));
    safetensors_tensor *list;
    safetensors_writer *writer = NULL;
    json_t *metadata = NULL;
    dyno_status status = declare_all(tensors, count, &list);
    if (status == DYNO_OK)
        status = make_metadata(known.note, &metadata);
    if (status == DYNO_OK)
        status =
            safetensors_writer_create_as(path, list, count, metadata, !known.replaces, &writer);
    json_decref(metadata);
    free(list);
    *out = (dyno_tensor_file *)writer;
    return status_conclude(status);
}

dyno_status dyno_tensor_file_create(const char *path, const dyno_tensor *tensors, int count,
                                    dyno_tensor_file **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(path, tensors);
    return dyno_tensor_file_create_as(
        path, tensors, count,
        &(dyno_save_options){.size = sizeof(dyno_save_options), .replaces = true}, out);
}

dyno_status dyno_tensor_file_redeclare(dyno_tensor_file *file, const dyno_tensor *tensors,
                                       int count, const char *note) {
    RETURN_IF_NULL(file, tensors);
    safetensors_tensor *list;
    json_t *metadata = NULL;
    dyno_status status = declare_all(tensors, count, &list);
    if (status == DYNO_OK)
        status = make_metadata(note, &metadata);
    if (status == DYNO_OK)
        status = safetensors_writer_redeclare((safetensors_writer *)file, list, count, metadata);
    json_decref(metadata);
    free(list);
    return status_conclude(status);
}

dyno_status dyno_tensor_file_append(dyno_tensor_file *file, const float *from, int64_t count) {
    int64_t bytes;
    RETURN_IF_NULL(file, from);
    if (count < 0 || !checked_multiply(count, sizeof *from, &bytes))
        return dyno_fail(DYNO_INVALID, "%lld elements cannot be appended", (long long)count);
    return status_conclude(
        safetensors_writer_append((safetensors_writer *)file, from, (size_t)bytes));
}

dyno_status dyno_tensor_file_commit(dyno_tensor_file *file) {
    RETURN_IF_NULL(file);
    return status_conclude(safetensors_writer_commit((safetensors_writer *)file));
}

void dyno_tensor_file_abandon(dyno_tensor_file *file) {
    safetensors_writer_abandon((safetensors_writer *)file);
}
