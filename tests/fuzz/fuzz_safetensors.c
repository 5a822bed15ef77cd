/* fuzz_safetensors.c - any bytes as a safetensors file: refused, or every entry can be read.
 *
 * A mutation that changes the header's length is refused at once by the length before it, so
 * each input is tried a second time with that length put right. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/threads.h"
#include "formats/safetensors.h"

static void require(int holds) {
    if (!holds)
        abort();
}

static void check_entries(const safetensors_header *header, int64_t size) {
    int64_t end = header->count ? header->entries[0].offset : size;
    for (int i = 0; i < header->count; i++) {
        const safetensors_entry *entry = &header->entries[i];
        require(entry->offset == end && entry->bytes >= 0 && entry->bytes <= size - end);
        require(shape_elements(&entry->shape) * dtype_bytes(entry->type) == entry->bytes);
        end += entry->bytes;
    }
    require(end == size);
}

static void read_entries(const uint8_t *data, size_t size) {
    int descriptor = memfd_create("fuzz", 0);
    require(descriptor >= 0 && write(descriptor, data, size) == (ssize_t)size);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    safetensors_file *file;
    require(safetensors_open(path, &file) == DYNO_OK);
    for (int i = 0; i < safetensors_count(file); i++) {
        const safetensors_entry *entry = safetensors_at(file, i);
        require(safetensors_find(file, entry->name) == entry);
        size_t elements = (size_t)shape_elements(&entry->shape);
        double *values = malloc(elements * sizeof *values + 1);
        dyno_status single = safetensors_read_f32(file, entry, (float *)values);
        dyno_status wide = safetensors_read_f64(file, entry, values);
        dyno_status expected = dtype_is_float(entry->type) ? DYNO_OK : DYNO_UNSUPPORTED;
        require(single == expected && wide == expected);
        free(values);
    }
    safetensors_close(file);
    close(descriptor);
}

static void try_file(const uint8_t *data, size_t size) {
    safetensors_header header;
    if (safetensors_parse_header(data, size, (int64_t)size, "fuzz", &header) != DYNO_OK) {
        require(header.count == 0 && !header.entries && dyno_error_message()[0]);
        return;
    }
    check_entries(&header, (int64_t)size);
    safetensors_header_release(&header);
    read_entries(data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    threads_set_count(1);
    try_file(data, size);
    const uint8_t *brace = size > 8 ? memrchr(data + 8, '}', size - 8) : NULL;
    if (brace) {
        uint8_t *repaired = malloc(size);
        memcpy(repaired, data, size);
        uint64_t length = (uint64_t)(brace - data) - 7;
        memcpy(repaired, &length, sizeof length);
        try_file(repaired, size);
        free(repaired);
    }
    return 0;
}
