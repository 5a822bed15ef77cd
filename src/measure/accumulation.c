#include "measure/accumulation.h"

static const accumulation ways[] = {
    {"fp32", DTYPE_F32, DTYPE_F32, false},
    {"fp16", DTYPE_F16, DTYPE_F16, false},
    {"fp16 into fp32", DTYPE_F16, DTYPE_F32, false},
    {"fp16 cast, then into fp32", DTYPE_F16, DTYPE_F32, true},
    {"bf16", DTYPE_BF16, DTYPE_BF16, false},
    {"bf16 into fp32", DTYPE_BF16, DTYPE_F32, false},
    {"bf16 cast, then into fp32", DTYPE_BF16, DTYPE_F32, true},
};

int accumulation_count(void) { return (int)(sizeof ways / sizeof *ways); }

const accumulation *accumulation_at(int index) { return &ways[index]; }

static double rounded(dtype type, double number) {
    double held = 0;
    dtype_store(type, &held, 0, number);
    return dtype_load(type, &held, 0);
}

double accumulation_run(const accumulation *a, double term, int64_t count) {
    double total = 0, each = rounded(a->term, term);
    /* Mixed operands are promoted to the wider type, which is what the cast does too. */
    if (a->is_term_cast_first)
        each = rounded(a->total, each);
    for (int64_t i = 0; i < count; i++)
        /* A double has more than twice a float's digits, so that rounding to it first is as if
         * the exact sum were rounded once. */
        total = rounded(a->total, total + each);
    return total;
}
