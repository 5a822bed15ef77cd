/* gemm_avx2.c - f32, bf16 and f16 by FMAs of AVX2: blocks of 6 x 16 sums. */
#if defined(__x86_64__)

#define LANES_AVX2
#define ENGINE gemm_avx2
#include "ops/matmul/gemm_lanes.h"

#endif
