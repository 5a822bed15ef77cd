#define LANES_AVX2
#include "support/lane_functions_table.h"

#if defined(__x86_64__)
const lane_functions lane_functions_avx2 = {ISA_AVX2, LANES, exp2_of, rough_exp2_of, panel_exp2_of};
#endif
