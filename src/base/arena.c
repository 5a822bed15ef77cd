#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

typedef struct chunk {
    struct chunk *next;
    size_t used, capacity;
    alignas(max_align_t) unsigned char bytes[];
} chunk;

struct arena {
    chunk *newest;
};

enum { CHUNK_BYTES = 64 * 1024 };

arena *arena_create(void) { return memory_allocate(1, sizeof(arena)); }

void arena_destroy(arena *owner) {
    if (!owner)
        return;
    for (chunk *c = owner->newest; c;) {
        chunk *next = c->next;
        free(c);
        c = next;
    }
    free(owner);
}

void *arena_allocate(arena *owner, size_t count, size_t size) {
    size_t alignment = alignof(max_align_t), bytes = SIZE_MAX;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2)
        bytes = SIZE_MAX / 2; /* memory_allocate below then reports it and aborts */
    bytes = (bytes + alignment - 1) / alignment * alignment;
    chunk *c = owner->newest;
    if (!c || c->capacity - c->used < bytes) {
        size_t capacity = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        c = memory_allocate(1, sizeof(chunk) + capacity);
        c->capacity = capacity;
        c->next = owner->newest;
        owner->newest = c;
    }
    void *block = c->bytes + c->used;
    c->used += bytes;
    return block;
}

char *arena_copy_string(arena *owner, const char *text) {
    size_t bytes = strlen(text) + 1;
    return memcpy(arena_allocate(owner, bytes, 1), text, bytes);
}

/* Written into the rest of the newest chunk, and only if that is too small once more: the rest of a
 * chunk that is not the newest is never given to anybody, so it need not stay zeroed. */
char *arena_format_list(arena *owner, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    chunk *c = owner->newest;
    size_t room = c ? c->capacity - c->used : 0;
    int length = vsnprintf(room ? (char *)c->bytes + c->used : NULL, room, format, again);
    va_end(again);
    char *text = arena_allocate(owner, (size_t)length + 1, 1);
    if ((size_t)length >= room) /* cut off; else it lies there already */
        vsnprintf(text, (size_t)length + 1, format, arguments);
    return text;
}

char *arena_format(arena *owner, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = arena_format_list(owner, format, arguments);
    va_end(arguments);
    return text;
}
