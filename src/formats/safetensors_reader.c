/* safetensors_reader.c - an open file: entries by name, data converted while it is read. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/threads.h"
#include "formats/input_file.h"
#include "formats/safetensors.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors data is little-endian and is used as it is read"
#endif

/* Converting goes through a piece of the file at a time; a piece is split among threads. */
enum { PIECE_ELEMENTS = 1 << 20, CONVERT_GRAIN = 1 << 14 };

struct safetensors_file {
    input_file input;
    safetensors_header header;
};

static dyno_status read_header(safetensors_file *file) {
    const input_file *input = &file->input;
    /* The length alone first: it is checked against the file before memory is asked for. */
    unsigned char prefix[8] = {0};
    size_t prefix_bytes = input->size < 8 ? (size_t)input->size : 8;
    RETURN_IF_FAILED(input_file_read(input, 0, prefix, prefix_bytes));
    uint64_t length;
    memcpy(&length, prefix, sizeof length);
    if (input->size < 8 || length > (uint64_t)SAFETENSORS_MAX_HEADER_BYTES ||
        length > (uint64_t)(input->size - 8))
        return safetensors_parse_header(prefix, prefix_bytes, input->size, input->path,
                                        &file->header);
    size_t bytes = 8 + (size_t)length;
    char *header = memory_try_allocate(bytes);
    if (!header)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "'%s': no memory for its header of %zu bytes",
                         input->path, bytes);
    dyno_status status = input_file_read(input, 0, header, bytes);
    if (status == DYNO_OK)
        status = safetensors_parse_header(header, bytes, input->size, input->path, &file->header);
    free(header);
    return status;
}

dyno_status safetensors_open(const char *path, safetensors_file **out) {
    *out = NULL;
    safetensors_file *file = memory_allocate(1, sizeof *file);
    dyno_status status = input_file_open(path, &file->input);
    if (status == DYNO_OK)
        status = read_header(file);
    if (status != DYNO_OK) {
        safetensors_close(file);
        return status;
    }
    *out = file;
    return DYNO_OK;
}

void safetensors_close(safetensors_file *file) {
    if (!file)
        return;
    input_file_close(&file->input);
    safetensors_header_release(&file->header);
    free(file);
}

int safetensors_count(const safetensors_file *file) { return file->header.count; }

const safetensors_entry *safetensors_at(const safetensors_file *file, int index) {
    assert(index >= 0 && index < file->header.count);
    return &file->header.entries[index];
}

const safetensors_entry *safetensors_find(const safetensors_file *file, const char *name) {
    const safetensors_header *header = &file->header;
    int low = 0, high = header->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        const safetensors_entry *entry = &header->entries[header->by_name[middle]];
        int order = strcmp(name, entry->name);
        if (order == 0)
            return entry;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *safetensors_metadata(const safetensors_file *file, const char *key) {
    const json_t *metadata = json_object_get(file->header.root, "__metadata__");
    return json_string_value(json_object_get(metadata, key));
}

dyno_status safetensors_read(const safetensors_file *file, const safetensors_entry *entry,
                             void *destination) {
    return input_file_read(&file->input, entry->offset, destination, (size_t)entry->bytes);
}

typedef struct convert_job {
    const void *source;
    dtype from, to;
    void *destination;
} convert_job;

static void convert_range(void *context, int64_t begin, int64_t end) {
    const convert_job *job = context;
    if (job->to == DTYPE_F64) {
        double *to = job->destination;
        for (int64_t i = begin; i < end; i++)
            to[i] = dtype_load(job->from, job->source, i);
        return;
    }
    float *to = job->destination;
    dtype_load_floats(job->from, job->source, begin, end - begin, to + begin);
}

static dyno_status read_converted(const safetensors_file *file, const safetensors_entry *entry,
                                  dtype to, void *destination) {
    if (!dtype_is_float(entry->type))
        return dyno_fail(
            DYNO_UNSUPPORTED, "'%s': tensor '%s' has dtype %s, it must be F64, F32, BF16 or F16",
            file->input.path, text_quote(entry->name).text, dtype_table[entry->type].safetensors);
    if (entry->type == to)
        return safetensors_read(file, entry, destination);
    int64_t from_bytes = dtype_bytes(entry->type), elements = entry->bytes / from_bytes;
    int64_t piece = elements < PIECE_ELEMENTS ? elements : PIECE_ELEMENTS;
    void *buffer = memory_allocate((size_t)piece, (size_t)from_bytes);
    dyno_status status = DYNO_OK;
    for (int64_t done = 0; done < elements && status == DYNO_OK; done += piece) {
        int64_t count = elements - done < piece ? elements - done : piece;
        status = input_file_read(&file->input, entry->offset + done * from_bytes, buffer,
                                 (size_t)(count * from_bytes));
        convert_job job = {.source = buffer,
                           .from = entry->type,
                           .to = to,
                           .destination = (char *)destination + done * dtype_bytes(to)};
        if (status == DYNO_OK)
            threads_for(count, CONVERT_GRAIN, convert_range, &job);
    }
    free(buffer);
    return status;
}

dyno_status safetensors_read_f32(const safetensors_file *file, const safetensors_entry *entry,
                                 float *destination) {
    return read_converted(file, entry, DTYPE_F32, destination);
}

dyno_status safetensors_read_f64(const safetensors_file *file, const safetensors_entry *entry,
                                 double *destination) {
    return read_converted(file, entry, DTYPE_F64, destination);
}
