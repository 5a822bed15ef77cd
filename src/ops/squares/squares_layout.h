/* squares_layout.h - sizes shared by the plan (C) and the kernel (C++). */
#ifndef OPS_SQUARES_LAYOUT_H
#define OPS_SQUARES_LAYOUT_H

enum {
    SQUARES_EXPONENTS = 255,
    SQUARES_LIMBS = 3,
    SQUARES_LENGTH = SQUARES_EXPONENTS * SQUARES_LIMBS,
    /* Elements whose squares of one exponent fit 64 bits: 2^16 x 2^48. */
    SQUARES_BLOCK = 16384
};

#endif
