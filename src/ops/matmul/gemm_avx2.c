/* gemm_avx2.c - f32, bf16 and f16 by FMAs of AVX2: blocks of 6 x 16 sums. */
#if defined(__x86_64__)

#define LANES_AVX2
#include "ops/matmul/gemm_lanes.h"

const gemm_engine gemm_avx2 = {.rows = ROWS,
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
