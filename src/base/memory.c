#include "base/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void give_up(size_t count, size_t size) {
    fprintf(stderr, "dyno: the system refused %zu x %zu bytes for bookkeeping; giving up\n", count,
            size);
    abort();
}

void *memory_allocate(size_t count, size_t size) {
    void *block = calloc(count ? count : 1, size ? size : 1);
    if (!block)
        give_up(count, size);
    return block;
}

void *memory_resize(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        give_up(count, size);
    void *resized = realloc(block, bytes ? bytes : 1);
    if (!resized)
        give_up(count, size);
    return resized;
}

char *memory_copy_string(const char *text) {
    size_t bytes = strlen(text) + 1;
    return memcpy(memory_allocate(bytes, 1), text, bytes);
}

void *memory_try_allocate(size_t bytes) { return malloc(bytes ? bytes : 1); }
