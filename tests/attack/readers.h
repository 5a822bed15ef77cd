/* readers.h - how attack_formats reads each format: bytes in, whether they were accepted out. A
 * promise that the reader of a format breaks is an abort. */
#ifndef TESTS_ATTACK_READERS_H
#define TESTS_ATTACK_READERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

typedef struct reader {
    const char *name;
    /* Once; `directory` exists and is the reader's own. */
    void (*set_up)(const char *directory);
    /* There is a NUL behind the bytes. */
    bool (*read)(const char *bytes, size_t size);
    /* Makes the number-th good input, false when there is none; after set_up. NULL: they are files. */
    bool (*make)(int number, text *out);
} reader;

/* NULL: there is none. */
const reader *reader_find(const char *name);

#endif
