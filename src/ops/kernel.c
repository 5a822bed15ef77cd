#include "ops/kernel.h"

const char *backend_name(backend b) {
    static const char *const names[BACKEND_COUNT] = {"cpu", "cuda"};
    return names[b];
}

const char *kernel_reject_unless_f32(const kernel_args *args) {
    for (int i = 0; i < args->input_count; i++)
        if (args->inputs[i].type != DTYPE_F32)
            return "computes in f32 only";
    return NULL;
}
