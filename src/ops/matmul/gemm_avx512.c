/* gemm_avx512.c - f32, bf16 and f16 by FMAs of AVX-512: blocks of 14 x 32 sums. */
#if defined(__x86_64__)

#define LANES_AVX512
#include "ops/matmul/gemm_lanes.h"

const gemm_engine gemm_avx512 = {.rows = ROWS,
                                 .columns = COLUMNS,
                                 .row_pitch = ROW_PITCH,
                                 .packs_by_the_way = true,
                                 .depth_step = 1,
                                 .element_bytes = 4,
                                 .panel_depth = 384,
                                 .packing_weight = 5,
                                 .pack_a = pack,
                                 .pack_b = pack,
                                 .multiply = multiply,
                                 .finish = finish};

#endif
