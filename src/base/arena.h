/* arena.h - many small allocations with one lifetime.
 *
 *   chunk ──> chunk ──> chunk      each: [ used ........ | free ]
 *
 * Nothing is freed alone; arena_destroy frees all. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

#include "base/status.h"

typedef struct arena arena;

arena *arena_create(void);
void arena_destroy(arena *owner);

/* Zeroed and aligned for any type. */
void *arena_allocate(arena *owner, size_t count, size_t size);
char *arena_copy_string(arena *owner, const char *text);
char *arena_format(arena *owner, const char *format, ...) PRINTF_LIKE(2, 3);
char *arena_format_list(arena *owner, const char *format, va_list arguments) PRINTF_LIKE(2, 0);

#endif
