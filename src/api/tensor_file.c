/* tensor_file.c - a dyno_tensor_file is a safetensors_writer of f32 tensors. */
#include <stdlib.h>

#include "api/model.h"
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

dyno_status dyno_tensor_file_create(const char *path, const dyno_tensor *tensors, int count,
                                    dyno_tensor_file **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(path, tensors);
    if (count < 0)
        return dyno_fail(DYNO_INVALID, "the number of tensors is %d", count);
    safetensors_tensor *list = memory_allocate((size_t)count, sizeof *list);
    safetensors_writer *writer = NULL;
    dyno_status status = DYNO_OK;
    for (int i = 0; i < count && status == DYNO_OK; i++)
        status = declare(&tensors[i], &list[i]);
    if (status == DYNO_OK)
        status = safetensors_writer_create(path, list, count, NULL, &writer);
    free(list);
    *out = (dyno_tensor_file *)writer;
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
