/* hash.h - content hashes as names of cached files and kernels. Not cryptographic. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { HASH_TEXT_BYTES = 33 };

typedef struct {
    char text[HASH_TEXT_BYTES]; /* 128 bits in hexadecimal */
} hash_string;

hash_string hash_text(const char *bytes, size_t count);

#endif
