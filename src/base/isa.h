/* isa.h - which instruction sets this process may use, and why not when it may not.
 *
 * An instruction set is usable when the CPU has the instructions and the operating system saves
 * their registers; AMX also needs a permission for the process and a trial product that is right.
 * */
#ifndef BASE_ISA_H
#define BASE_ISA_H

#include <stdbool.h>

typedef enum isa {
    ISA_AVX2,        /* AVX2, FMA and the rest of x86-64-v3 */
    ISA_AVX512,      /* F, BW, VL and the rest of x86-64-v4 */
    ISA_AVX512_BF16, /* and BF16 dot products */
    ISA_AMX_BF16,    /* tiles, BF16 products; asking requests the kernel's permission */
    ISA_NEON,        /* of aarch64: vectors of 16 bytes, which every such CPU has */
    ISA_SVE,         /* of aarch64: vectors as long as the CPU has them */
    ISA_COUNT
} isa;

/* "x86-64", "aarch64", or "neither x86-64 nor aarch64": what this program was compiled for. */
const char *isa_this_architecture(void);
bool isa_is_of_this_architecture(isa which);

typedef struct isa_answer {
    bool is_usable;
    char why_not[160]; /* "" when usable */
} isa_answer;

isa_answer isa_check(isa which);
/* "AVX2", "AVX-512 (F, BW, VL, DQ, CD)", ... */
const char *isa_name(isa which);

/* The first instruction set this program was compiled to use and the CPU does not offer, or
 * NULL. Called before anything that could use it. */
const char *isa_missing_for_this_build(void);

#endif
