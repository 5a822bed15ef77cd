#include "ops/levels.h"

#include <string.h>

#include "ops/op_list.h"

typedef const op *op_at(int index);

typedef struct level {
    const char *name;
    isa needs;
    op_at *ops; /* op_list_at of src/ops as compiled for the level (CMakeLists.txt) */
} level;

#if defined(__x86_64__)
op_at op_list_at_v3, op_list_at_v4;
static const level LEVELS[] = {{"x86-64-v4", ISA_AVX512, op_list_at_v4},
                               {"x86-64-v3", ISA_AVX2, op_list_at_v3}};
enum { LEVEL_COUNT = 2 };
static const char *const BASELINE = "x86-64";
#else
static const level LEVELS[1];
enum { LEVEL_COUNT = 0 };
#if defined(__aarch64__)
static const char *const BASELINE = "armv8-a";
#else
static const char *const BASELINE = "any CPU of the architecture";
#endif
#endif

/* NULL: the level of every machine. */
static const level *highest_level(const target *chip) {
    for (int i = 0; i < LEVEL_COUNT; i++)
        if (target_has(chip, LEVELS[i].needs))
            return &LEVELS[i];
    return NULL;
}

const char *level_name(const target *chip) {
    const level *l = highest_level(chip);
    return l ? l->name : BASELINE;
}

/* On aarch64 what the target has says all that generated loops can use. "native" would say no more,
 * and a compiler for another machine (a cross compiler under qemu) does not know it. */
const char *level_of_generated(const target *chip) {
#if defined(__aarch64__)
    return target_has(chip, ISA_SVE) ? "armv8.2-a+sve" : level_name(chip);
#else
    return target_is_this_cpu(chip) ? "native" : level_name(chip);
#endif
}

/* Kernels are told apart by name: a level that lacks one leaves it to that for every machine. */
const kernel *level_kernel(const kernel *k, const target *chip) {
    const level *l = highest_level(chip);
    const op *at;
    for (int i = 0; l && (at = l->ops(i)); i++)
        for (int j = 0; at->kernels && at->kernels[j]; j++)
            if (strcmp(at->kernels[j]->name, k->name) == 0)
                return at->kernels[j];
    return k;
}
