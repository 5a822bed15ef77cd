/* memory.h - host memory for descriptions (graphs, plans, text), never for tensors.
 *
 * These are kilobytes; a machine that cannot give them cannot go on, so a failure prints one
 * line and aborts (docs/decisions/0001). Memory for tensors comes from the runtime's
 * allocator, and buffers sized by a file are checked against the file first. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>

/* Zeroed; free() releases it. */
void *memory_allocate(size_t count, size_t size);
void *memory_resize(void *block, size_t count, size_t size);
char *memory_copy_string(const char *text);

/* For what a user's sizes decide: files, tensors. Not zeroed; NULL when the system refuses. */
void *memory_try_allocate(size_t bytes);

/* Makes room for one more element in a growing array: doubles when full. */
#define MEMORY_GROW(array, count, capacity)                                                        \
    do {                                                                                           \
        if ((count) == (capacity)) {                                                               \
            (capacity) = (capacity) ? (capacity)*2 : 16;                                           \
            (array) = memory_resize((array), (size_t)(capacity), sizeof *(array));                 \
        }                                                                                          \
    } while (0)

#endif
