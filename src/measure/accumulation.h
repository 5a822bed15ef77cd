/* accumulation.h - what becomes of a sum of many small numbers when its terms and its running
 * total are kept in 16 bits. Every addition is exact and then rounded once to nearest even, as
 * hardware does it, on any machine. */
#ifndef MEASURE_ACCUMULATION_H
#define MEASURE_ACCUMULATION_H

#include "tensor/dtype.h"

typedef struct accumulation {
    const char *name;        /* "fp16 into fp32" */
    dtype term, total;       /* what each is kept in */
    bool is_term_cast_first; /* the term is cast to the total's type before the addition */
} accumulation;

/* The ways to add up that are worth comparing. */
int accumulation_count(void);
const accumulation *accumulation_at(int index);

/* `term`, rounded to its type, added `count` times to a total that starts at 0. */
double accumulation_run(const accumulation *a, double term, int64_t count);

#endif
