#include "tensor/shape.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"

shape shape_make(int rank, const int64_t *dim) {
    assert(rank >= 0 && rank <= SHAPE_MAX_RANK);
    shape s = {.rank = rank};
    memcpy(s.dim, dim, (size_t)rank * sizeof *dim);
    return s;
}

int64_t shape_elements(const shape *s) {
    int64_t elements = 1;
    for (int i = 0; i < s->rank; i++)
        elements *= s->dim[i];
    return elements;
}

bool shape_is_valid(const shape *s, int64_t element_bytes) {
    int64_t bytes = element_bytes;
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 1 || !checked_multiply(bytes, s->dim[i], &bytes))
            return false;
    return true;
}

bool shape_equal(const shape *a, const shape *b) {
    return a->rank == b->rank && memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0;
}

shape_text shape_format(const shape *s) {
    shape_text out = {""};
    size_t used = 0;
    for (int i = 0; i < s->rank; i++)
        used += (size_t)snprintf(out.text + used, sizeof out.text - used, i ? ",%lld" : "%lld",
                                 (long long)s->dim[i]);
    return out;
}
