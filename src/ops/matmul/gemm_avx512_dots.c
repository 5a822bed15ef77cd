/* gemm_avx512_dots.c - bf16 by dot products of pairs of AVX-512 BF16: blocks of 14 x 32 sums. */
#if defined(__x86_64__)

#define LANES_AVX512
#define LANES_DOTS
#define ENGINE gemm_avx512_dots
#include "ops/matmul/gemm_lanes.h"

#endif
