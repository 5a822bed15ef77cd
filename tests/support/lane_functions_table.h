/* lane_functions_table.h - the functions of a table, for a file that has said which instruction set
 * as ops/lanes.h wants it. */
#ifndef TESTS_SUPPORT_LANE_FUNCTIONS_TABLE_H
#define TESTS_SUPPORT_LANE_FUNCTIONS_TABLE_H

#include "ops/attention/cpu/attention_panels.h"
#include "support/lane_functions.h"

#if defined(__x86_64__)
LANES_TARGET static void exp2_of(const float *x, float *y) {
    lanes_store(y, lanes_exp2(lanes_load(x)));
}

LANES_TARGET static void rough_exp2_of(const float *x, float *y) {
    lanes_store(y, lanes_exp2_rough(lanes_load(x)));
}

LANES_TARGET static void panel_exp2_of(const float *x, float *y) {
    lanes_store(y, panel_exp2(lanes_load(x)));
}
#endif

#endif
