#define LANES_AVX512
#include "support/lane_functions_table.h"

#if defined(__x86_64__)
const lane_functions lane_functions_avx512 = {ISA_AVX512, LANES, exp2_of, rough_exp2_of,
                                              panel_exp2_of};
#endif
