/* lane_functions.h - functions of ops/lanes.h and of attention's panels, on arrays: one table for
 * each instruction set, so that a test can go over those that the machine has. */
#ifndef TESTS_SUPPORT_LANE_FUNCTIONS_H
#define TESTS_SUPPORT_LANE_FUNCTIONS_H

#include "base/isa.h"

enum { MOST_LANES = 16 };

typedef struct lane_functions {
    isa needs;
    int lanes; /* that each takes from x and writes to y */
    void (*exp2)(const float *x, float *y);
    void (*exp2_rough)(const float *x, float *y);
    void (*panel_exp2)(const float *x, float *y);
} lane_functions;

#if defined(__x86_64__)
extern const lane_functions lane_functions_avx2, lane_functions_avx512;
#endif

#endif
