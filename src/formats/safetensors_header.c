/* safetensors_header.c - every statement of a header is checked before anything relies on it.
 *
 * Order of the checks: the length against the file, the JSON, each entry alone (types, product
 * of the shape, range inside the data), then all together: sorted by offset each tensor must
 * begin where the one before ended and the last end where the file does. That one chain
 * excludes overlaps, holes and trailing bytes at once. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "base/text.h"
#include "formats/safetensors.h"

enum { PREFIX_BYTES = 8 };

/* What is being parsed, passed down for ranges and messages. */
typedef struct scan {
    const char *what;
    int64_t data_offset, data_bytes;
} scan;

static dyno_status read_length(const unsigned char *bytes, size_t size, int64_t file_size,
                               const char *what, int64_t *length) {
    if (file_size < PREFIX_BYTES || size < PREFIX_BYTES)
        return dyno_fail(DYNO_CORRUPT,
                         "%s: the file is %" PRId64 " bytes, a safetensors file has at least 8",
                         what, file_size);
    uint64_t header = 0;
    for (int i = PREFIX_BYTES - 1; i >= 0; i--)
        header = header << 8 | bytes[i];
    if (header > (uint64_t)SAFETENSORS_MAX_HEADER_BYTES)
        return dyno_fail(DYNO_CORRUPT,
                         "%s: the header claims %" PRIu64 " bytes, the limit is %" PRId64
                         "; this may not be a safetensors file",
                         what, header, SAFETENSORS_MAX_HEADER_BYTES);
    if (header > (uint64_t)(file_size - PREFIX_BYTES))
        return dyno_fail(DYNO_CORRUPT,
                         "%s: the header claims %" PRIu64 " bytes, the file has %" PRId64
                         " after the length; it is truncated",
                         what, header, file_size - PREFIX_BYTES);
    *length = (int64_t)header;
    return DYNO_OK;
}

static dyno_status read_dtype(const scan *in, const char *name, const json_t *entry, dtype *out) {
    const char *word = json_string_value(json_object_get(entry, "dtype"));
    if (!word)
        return dyno_fail(DYNO_CORRUPT, "%s: tensor '%s' has no dtype that is a string", in->what,
                         text_quote(name).text);
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(word, dtype_table[i].safetensors) == 0) {
            *out = (dtype)i;
            return DYNO_OK;
        }
    return dyno_fail(
        DYNO_UNSUPPORTED,
        "%s: tensor '%s' has dtype '%s'; known are F64, F32, BF16, F16, I64, I32, U16, "
        "U8 and BOOL",
        in->what, text_quote(name).text, text_quote(word).text);
}

static dyno_status read_shape(const scan *in, const char *name, const json_t *entry, shape *out) {
    const json_t *dims = json_object_get(entry, "shape");
    if (!json_is_array(dims))
        return dyno_fail(DYNO_CORRUPT, "%s: tensor '%s' has no shape that is an array", in->what,
                         text_quote(name).text);
    size_t rank = json_array_size(dims);
    if (rank > SHAPE_MAX_RANK)
        return dyno_fail(DYNO_UNSUPPORTED, "%s: tensor '%s' has %zu dimensions, the limit is %d",
                         in->what, text_quote(name).text, rank, SHAPE_MAX_RANK);
    *out = (shape){.rank = (int)rank};
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(dims, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return dyno_fail(DYNO_CORRUPT,
                             "%s: tensor '%s': dimension %zu of its shape is not an integer from 0",
                             in->what, text_quote(name).text, i);
        out->dim[i] = json_integer_value(dim);
    }
    return DYNO_OK;
}

static dyno_status read_offsets(const scan *in, const char *name, const json_t *entry,
                                int64_t *begin, int64_t *end) {
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !json_is_integer(json_array_get(offsets, 0)) ||
        !json_is_integer(json_array_get(offsets, 1)))
        return dyno_fail(DYNO_CORRUPT, "%s: tensor '%s' has no data_offsets of two integers",
                         in->what, text_quote(name).text);
    *begin = json_integer_value(json_array_get(offsets, 0));
    *end = json_integer_value(json_array_get(offsets, 1));
    if (*begin < 0 || *begin > *end || *end > in->data_bytes)
        return dyno_fail(DYNO_CORRUPT,
                         "%s: tensor '%s' claims bytes %" PRId64 " to %" PRId64
                         ", the data is %" PRId64 " bytes",
                         in->what, text_quote(name).text, *begin, *end, in->data_bytes);
    return DYNO_OK;
}

static dyno_status read_entry(const scan *in, const char *name, const json_t *value,
                              safetensors_entry *out) {
    if (!json_is_object(value))
        return dyno_fail(DYNO_CORRUPT, "%s: tensor '%s' is not described by an object", in->what,
                         text_quote(name).text);
    safetensors_entry entry = {.name = name};
    RETURN_IF_FAILED(read_dtype(in, name, value, &entry.type));
    RETURN_IF_FAILED(read_shape(in, name, value, &entry.shape));
    int64_t begin = 0, end = 0;
    RETURN_IF_FAILED(read_offsets(in, name, value, &begin, &end));
    /* In the order of shape_elements, so that whoever calls that later cannot overflow either. */
    int64_t elements = 1, bytes;
    bool fits = true;
    for (int i = 0; i < entry.shape.rank && fits; i++)
        fits = checked_multiply(elements, entry.shape.dim[i], &elements);
    if (!fits || !checked_multiply(elements, dtype_bytes(entry.type), &bytes))
        return dyno_fail(DYNO_CORRUPT, "%s: tensor '%s' of shape [%s] does not fit 64 bits",
                         in->what, text_quote(name).text, shape_format(&entry.shape).text);
    if (bytes != end - begin)
        return dyno_fail(DYNO_CORRUPT,
                         "%s: tensor '%s' of shape [%s] in %s is %" PRId64
                         " bytes, its data_offsets span %" PRId64,
                         in->what, text_quote(name).text, shape_format(&entry.shape).text,
                         dtype_table[entry.type].safetensors, bytes, end - begin);
    entry.offset = in->data_offset + begin;
    entry.bytes = bytes;
    *out = entry;
    return DYNO_OK;
}

static dyno_status check_metadata(const scan *in, json_t *metadata) {
    if (!json_is_object(metadata))
        return dyno_fail(DYNO_CORRUPT, "%s: __metadata__ is not an object", in->what);
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return dyno_fail(DYNO_CORRUPT, "%s: __metadata__: '%s' is not a string", in->what,
                             text_quote(key).text);
    }
    return DYNO_OK;
}

static int compare_offsets(const void *left, const void *right) {
    const safetensors_entry *a = left, *b = right;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    if (a->bytes != b->bytes) /* an empty tensor goes before the one that begins there */
        return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int compare_names(const void *left, const void *right, void *context) {
    const safetensors_entry *entries = context;
    return strcmp(entries[*(const int *)left].name, entries[*(const int *)right].name);
}

static dyno_status check_chain(const scan *in, const safetensors_header *header) {
    int64_t expected = in->data_offset;
    const char *before = "the header";
    for (int i = 0; i < header->count; i++) {
        const safetensors_entry *entry = &header->entries[i];
        if (entry->offset != expected)
            return dyno_fail(DYNO_CORRUPT,
                             "%s: tensor '%s' %s '%s': it begins at %" PRId64
                             ", the one before ends at %" PRId64,
                             in->what, text_quote(entry->name).text,
                             entry->offset < expected ? "overlaps" : "leaves a hole after",
                             text_quote(before).text, entry->offset - in->data_offset,
                             expected - in->data_offset);
        expected += entry->bytes;
        before = entry->name;
    }
    int64_t used = expected - in->data_offset;
    if (used != in->data_bytes)
        return dyno_fail(DYNO_CORRUPT,
                         "%s: the tensors take %" PRId64 " bytes, the file has %" PRId64
                         " after the header",
                         in->what, used, in->data_bytes);
    return DYNO_OK;
}

static dyno_status read_entries(const scan *in, safetensors_header *header) {
    size_t fields = json_object_size(header->root);
    header->entries = memory_allocate(fields, sizeof *header->entries);
    header->by_name = memory_allocate(fields, sizeof *header->by_name);
    const char *name;
    json_t *value;
    json_object_foreach(header->root, name, value) {
        if (strcmp(name, "__metadata__") == 0) {
            RETURN_IF_FAILED(check_metadata(in, value));
            continue;
        }
        RETURN_IF_FAILED(read_entry(in, name, value, &header->entries[header->count]));
        header->count++;
    }
    size_t count = (size_t)header->count;
    qsort(header->entries, count, sizeof *header->entries, compare_offsets);
    for (int i = 0; i < header->count; i++)
        header->by_name[i] = i;
    qsort_r(header->by_name, count, sizeof *header->by_name, compare_names, header->entries);
    return check_chain(in, header);
}

dyno_status safetensors_parse_header(const void *bytes, size_t size, int64_t file_size,
                                     const char *what, safetensors_header *out) {
    *out = (safetensors_header){0};
    int64_t length = 0;
    RETURN_IF_FAILED(read_length(bytes, size, file_size, what, &length));
    if (size - PREFIX_BYTES < (uint64_t)length)
        return dyno_fail(DYNO_CORRUPT, "%s: %zu bytes were given, the header needs %" PRId64, what,
                         size, length + PREFIX_BYTES);
    const char *json = (const char *)bytes + PREFIX_BYTES;
    if (length == 0 || json[0] != '{')
        return dyno_fail(DYNO_CORRUPT, "%s: the header does not begin with '{'", what);
    dyno_status status = json_parse(json, (size_t)length, what, &out->root);
    if (status == DYNO_OK) {
        scan in = {.what = what,
                   .data_offset = PREFIX_BYTES + length,
                   .data_bytes = file_size - PREFIX_BYTES - length};
        status = read_entries(&in, out);
    }
    if (status != DYNO_OK)
        safetensors_header_release(out);
    return status;
}

void safetensors_header_release(safetensors_header *header) {
    free(header->entries);
    free(header->by_name);
    json_decref(header->root);
    *header = (safetensors_header){0};
}
