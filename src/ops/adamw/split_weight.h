/* split_weight.h - an f32 weight as two halves of two bytes: one that products read, and the rest.
 *
 *   high = (bits + 0x8000) >> 16      the weight rounded to bf16, ties away from zero
 *   rest = bits & 0xffff
 *   bits = (high << 16) + (rest as a signed number)
 *
 * Sums wrap, and every weight that is a number comes back as it was. Ties to even would not do: an
 * even high half would then stand for 65537 weights. A NaN stays one, in both halves together and
 * in the high half alone; its lower bits are lost. */
#ifndef OPS_ADAMW_SPLIT_WEIGHT_H
#define OPS_ADAMW_SPLIT_WEIGHT_H

#include "ops/scalar_math.h"

static inline uint32_t split_weight_bits(float weight) {
    uint32_t bits = bits_from_float(weight), quiet = (bits | 0x400000u) & 0xffff0000u;
    return (bits & 0x7fffffffu) > 0x7f800000u ? quiet : bits;
}

/* Every bf16 low copy of a weight is rounded by this, whether the weight is split or not. */
static inline uint16_t split_weight_high(float weight) {
    return (uint16_t)((split_weight_bits(weight) + 0x8000u) >> 16);
}

static inline uint16_t split_weight_rest(float weight) {
    return (uint16_t)split_weight_bits(weight);
}

static inline float split_weight_join(uint16_t high, uint16_t rest) {
    return float_from_bits(((uint32_t)high << 16) + (uint32_t)(int32_t)(int16_t)rest);
}

#endif
