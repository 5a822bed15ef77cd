/* cuda_module_absent.c - stands in for src/runtime/cuda/load.c. */
#include "runtime/cuda/module.h"

dyno_status cuda_module_load(const cuda_module **out) {
    *out = NULL;
    return dyno_fail(DYNO_UNSUPPORTED, "this build has no CUDA module");
}
