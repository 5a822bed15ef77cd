#include "tensor/finite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 4096 };

/* Written so that it is vectorised: weights of a whole model pass here when they are loaded. */
static bool all_finite(const float *x, int64_t count) {
    const uint32_t exponent = 0x7f800000u;
    uint32_t bad = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bad |= (uint32_t)((bits & exponent) == exponent);
    }
    return !bad;
}

static void count_one(double x, int64_t index, bool allows_minus_infinity, finite_count *c) {
    if (isfinite(x) || (allows_minus_infinity && x < 0))
        return;
    if (c->first < 0)
        c->first = index;
    c->nan += isnan(x) != 0;
    c->infinite += isinf(x) != 0;
}

finite_count finite_check_floats(const float *x, int64_t count) {
    finite_count c = {.elements = count, .first = -1};
    for (int64_t begin = 0; begin < count; begin += BLOCK) {
        int64_t end = begin + BLOCK < count ? begin + BLOCK : count;
        if (all_finite(x + begin, end - begin))
            continue;
        for (int64_t i = begin; i < end; i++)
            count_one((double)x[i], i, false, &c);
    }
    return c;
}

finite_count finite_check(const tensor *t, bool allows_minus_infinity) {
    int64_t elements = shape_elements(&t->shape);
    finite_count c = {.elements = elements, .first = -1};
    if (!dtype_is_float(t->type))
        return c;
    if (t->type == DTYPE_F32 && tensor_is_contiguous(t) && all_finite(t->data, elements))
        return c;
    int64_t at[SHAPE_MAX_RANK] = {0}, offset = 0;
    for (int64_t i = 0; i < elements; i++) {
        count_one(dtype_load(t->type, t->data, offset), i, allows_minus_infinity, &c);
        for (int k = t->shape.rank - 1; k >= 0; k--) {
            offset += t->stride[k];
            if (++at[k] < t->shape.dim[k])
                break;
            offset -= t->stride[k] * t->shape.dim[k];
            at[k] = 0;
        }
    }
    return c;
}

finite_text finite_format(const finite_count *c) {
    finite_text out;
    char both[48];
    snprintf(both, sizeof both, "NaN in %lld and Inf", (long long)c->nan);
    snprintf(out.text, sizeof out.text, "%s in %lld of %lld elements, the first at %lld",
             !c->nan        ? "Inf"
             : !c->infinite ? "NaN"
                            : both,
             (long long)(c->infinite ? c->infinite : c->nan), (long long)c->elements,
             (long long)c->first);
    return out;
}
