/* gemm_avx512.c - f32, bf16 and f16 by FMAs of AVX-512: blocks of 14 x 32 sums. */
#if defined(__x86_64__)

#define LANES_AVX512
#define ENGINE gemm_avx512
#include "ops/matmul/gemm_lanes.h"

#endif
