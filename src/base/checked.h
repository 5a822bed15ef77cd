/* checked.h - the one pair of helpers for sizes that may come from a file or a flag. */
#ifndef BASE_CHECKED_H
#define BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each returns false, leaving *result alone, when the exact result does not fit. */
static inline bool checked_multiply(int64_t a, int64_t b, int64_t *result) {
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *result = product;
    return true;
}

static inline bool checked_add(int64_t a, int64_t b, int64_t *result) {
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *result = sum;
    return true;
}

#endif
