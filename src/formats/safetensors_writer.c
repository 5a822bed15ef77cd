/* safetensors_writer.c - the header is known before the first byte of data, so a model of any
 * size streams through; base/file.h makes the result whole or absent. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "formats/safetensors.h"

struct safetensors_writer {
    file_writer *file;
    char *path;
    bool is_new;
    int64_t header_bytes;      /* before the data */
    int64_t expected, written; /* bytes of data */
};

/* Checked as reading does: sizes must multiply out. */
static bool tensor_bytes(const safetensors_tensor *tensor, int64_t *bytes) {
    int64_t elements = 1;
    for (int i = 0; i < tensor->shape.rank; i++)
        if (tensor->shape.dim[i] < 0 ||
            !checked_multiply(elements, tensor->shape.dim[i], &elements))
            return false;
    return checked_multiply(elements, dtype_bytes(tensor->type), bytes);
}

static dyno_status add_entry(const char *path, const safetensors_tensor *tensor, json_t *root,
                             int64_t *offset) {
    if (strcmp(tensor->name, "__metadata__") == 0 || json_object_get(root, tensor->name))
        return dyno_fail(DYNO_INVALID, "writing '%s': the tensor name '%s' is %s", path,
                         text_quote(tensor->name).text,
                         json_object_get(root, tensor->name) ? "used twice" : "reserved");
    int64_t bytes, end;
    if (!tensor_bytes(tensor, &bytes) || !checked_add(*offset, bytes, &end))
        return dyno_fail(DYNO_INVALID,
                         "writing '%s': tensor '%s' of shape [%s] does not fit 64 bits", path,
                         text_quote(tensor->name).text, shape_format(&tensor->shape).text);
    json_t *dims = json_array();
    for (int i = 0; i < tensor->shape.rank; i++)
        json_array_append_new(dims, json_integer(tensor->shape.dim[i]));
    json_t *entry =
        json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype_table[tensor->type].safetensors, "shape",
                  dims, "data_offsets", (json_int_t)*offset, (json_int_t)end);
    if (!entry || json_object_set_new(root, tensor->name, entry) != 0)
        return dyno_fail(DYNO_INVALID, "writing '%s': the tensor name '%s' is not valid UTF-8",
                         path, text_quote(tensor->name).text);
    *offset = end;
    return DYNO_OK;
}

static dyno_status check_metadata(const char *path, json_t *metadata) {
    if (!json_is_object(metadata))
        return dyno_fail(DYNO_INVALID, "writing '%s': the metadata is not an object", path);
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return dyno_fail(DYNO_INVALID, "writing '%s': metadata '%s' is not a string", path,
                             text_quote(key).text);
    }
    return DYNO_OK;
}

static dyno_status build_header(const char *path, const safetensors_tensor *tensors, int count,
                                const json_t *metadata, json_t *root, int64_t *data_bytes) {
    if (metadata) {
        json_t *copy = json_deep_copy(metadata);
        json_object_set_new(root, "__metadata__", copy);
        RETURN_IF_FAILED(check_metadata(path, copy));
    }
    for (int i = 0; i < count; i++)
        RETURN_IF_FAILED(add_entry(path, &tensors[i], root, data_bytes));
    return DYNO_OK;
}

static dyno_status write_header(safetensors_writer *writer, const json_t *root) {
    char *dump = json_dumps(root, JSON_COMPACT);
    if (!dump)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "writing '%s': no memory for the header",
                         writer->path);
    text header = {0};
    text_append(&header, dump);
    free(dump);
    while (header.length % 8 != 0) /* so that the data is aligned for any type */
        text_append(&header, " ");
    dyno_status status = DYNO_OK;
    if ((int64_t)header.length > SAFETENSORS_MAX_HEADER_BYTES)
        status = dyno_fail(DYNO_INVALID,
                           "writing '%s': the header needs %zu bytes, the format allows %" PRId64,
                           writer->path, header.length, SAFETENSORS_MAX_HEADER_BYTES);
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++)
        prefix[i] = (unsigned char)((uint64_t)header.length >> (8 * i));
    if (status == DYNO_OK)
        status = file_writer_append(writer->file, prefix, sizeof prefix);
    if (status == DYNO_OK)
        status = file_writer_append(writer->file, header.data, header.length);
    writer->header_bytes = (int64_t)(sizeof prefix + header.length);
    text_release(&header);
    return status;
}

dyno_status safetensors_writer_create_as(const char *path, const safetensors_tensor *tensors,
                                         int count, const json_t *metadata, bool is_new,
                                         safetensors_writer **out) {
    *out = NULL;
    safetensors_writer *writer = memory_allocate(1, sizeof *writer);
    writer->path = memory_copy_string(path);
    writer->is_new = is_new;
    json_t *root = json_object();
    dyno_status status = build_header(path, tensors, count, metadata, root, &writer->expected);
    if (status == DYNO_OK)
        status = file_writer_create_as(path, is_new, &writer->file);
    if (status == DYNO_OK)
        status = write_header(writer, root);
    json_decref(root);
    if (status != DYNO_OK) {
        safetensors_writer_abandon(writer);
        return status;
    }
    *out = writer;
    return DYNO_OK;
}

dyno_status safetensors_writer_create(const char *path, const safetensors_tensor *tensors,
                                      int count, const json_t *metadata, safetensors_writer **out) {
    return safetensors_writer_create_as(path, tensors, count, metadata, false, out);
}

dyno_status safetensors_writer_redeclare(safetensors_writer *writer,
                                         const safetensors_tensor *tensors, int count,
                                         const json_t *metadata) {
    safetensors_writer *other;
    RETURN_IF_FAILED(safetensors_writer_create_as(writer->path, tensors, count, metadata,
                                                  writer->is_new, &other));
    dyno_status status = DYNO_OK;
    if (writer->written > other->expected)
        status = dyno_fail(DYNO_INVALID,
                           "writing '%s': %" PRId64 " bytes were given, the tensors declared anew "
                           "take %" PRId64,
                           writer->path, writer->written, other->expected);
    if (status == DYNO_OK)
        status = file_writer_append_from(other->file, writer->file, writer->header_bytes,
                                         writer->written);
    if (status == DYNO_OK) {
        other->written = writer->written;
        safetensors_writer before = *writer;
        *writer = *other;
        *other = before;
    }
    safetensors_writer_abandon(other);
    return status;
}

dyno_status safetensors_writer_append(safetensors_writer *writer, const void *bytes, size_t count) {
    if (count > (uint64_t)(writer->expected - writer->written))
        return dyno_fail(DYNO_INVALID, "writing '%s': %zu bytes more than the %" PRId64 " declared",
                         writer->path, count - (size_t)(writer->expected - writer->written),
                         writer->expected);
    RETURN_IF_FAILED(file_writer_append(writer->file, bytes, count));
    writer->written += (int64_t)count;
    return DYNO_OK;
}

dyno_status safetensors_writer_flush(safetensors_writer *writer) {
    return file_writer_flush(writer->file);
}

dyno_status safetensors_writer_release(safetensors_writer *writer, file_writer **out) {
    *out = NULL;
    dyno_status status = DYNO_OK;
    if (writer->written != writer->expected) {
        status = dyno_fail(DYNO_INVALID,
                           "writing '%s': %" PRId64 " of %" PRId64
                           " declared bytes were given; nothing was written",
                           writer->path, writer->written, writer->expected);
    } else {
        *out = writer->file;
        writer->file = NULL;
    }
    safetensors_writer_abandon(writer);
    return status;
}

dyno_status safetensors_writer_commit(safetensors_writer *writer) {
    file_writer *file;
    RETURN_IF_FAILED(safetensors_writer_release(writer, &file));
    return file_writer_commit(file);
}

void safetensors_writer_abandon(safetensors_writer *writer) {
    if (!writer)
        return;
    file_writer_abandon(writer->file);
    free(writer->path);
    free(writer);
}
