/* memory.h - all host memory: descriptions (graphs, plans, text), and buffers of a user's sizes.
 *
 * Descriptions are kilobytes; a machine that cannot give them cannot go on, so a failure ends the
 * process (docs/decisions/0001). Memory for tensors comes from the runtime's allocator, and buffers
 * sized by a file are checked against the file first; their failures are reported by a status.
 *
 * For tests (scripts/attack) all requests are counted when DYNO_FAIL_ALLOCATION is set: to N, the
 * N-th is refused as by a system without memory; to "count", their number is printed at the end; to
 * "ask", a preloaded library's `bool dyno_refuses_allocation(unsigned long number)` decides. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed; free() releases it. */
void *memory_allocate(size_t count, size_t size);
void *memory_resize(void *block, size_t count, size_t size);
char *memory_copy_string(const char *text);

/* For what a user's sizes decide: files, copies of tensors. Not zeroed; NULL when the system
 * refuses. */
void *memory_try_allocate(size_t bytes);
/* The block stays as it is when the system refuses. */
void *memory_try_resize(void *block, size_t bytes);
/* The same for memory that does not come from the heap: whether this request is to be refused. */
bool memory_is_refused(void);

/* What happens when there is no memory for descriptions: `end` gets the message, without a newline,
 * and does not return. Without one the message goes to stderr and the process aborts. */
void memory_on_failure(void (*end)(const char *message));

/* From now on freed memory stays with the process. For programs that make one description after
 * another: the system would zero and map the same pages again for each. It is a setting of the whole
 * process, so a library leaves it alone. Does nothing where the C library has no such setting. */
void memory_keep_freed(void);
/* Gives the system what is freed by now: before the memory of the process itself is measured. */
void memory_return_freed(void);

/* Makes room for one more element in a growing array: doubles when full. */
#define MEMORY_GROW(array, count, capacity)                                                        \
    do {                                                                                           \
        if ((count) == (capacity)) {                                                               \
            (capacity) = (capacity) ? (capacity)*2 : 16;                                           \
            (array) = memory_resize((array), (size_t)(capacity), sizeof *(array));                 \
        }                                                                                          \
    } while (0)

/* Makes room for `count` elements in an array that is used again and again. */
#define MEMORY_RESERVE(array, count, capacity)                                                     \
    do {                                                                                           \
        if ((count) > (capacity)) {                                                                \
            (capacity) = 2 * (count);                                                              \
            (array) = memory_resize((array), (size_t)(capacity), sizeof *(array));                 \
        }                                                                                          \
    } while (0)

#endif
