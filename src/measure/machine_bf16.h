/* machine_bf16.h - loops of bf16 products in registers, for machine.c to time. */
#ifndef MEASURE_MACHINE_BF16_H
#define MEASURE_MACHINE_BF16_H

#include <stdint.h>

#include "base/target.h"

typedef struct machine_loop {
    /* `seed` is 1, but opaque to the compiler. */
    float (*run)(int64_t iterations, float seed);
    int64_t flops; /* of an iteration */
    const char *by;
} machine_loop;

/* The fastest that `chip` has, whose instruction sets this process may use; run is NULL where there is none. */
machine_loop machine_loop_bf16(const target *chip);

#endif
