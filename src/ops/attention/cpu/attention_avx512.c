/* attention_avx512.c - attention_panels_forward.h for AVX-512. */
#define LANES_AVX512
#include "ops/attention/cpu/attention_panels_forward.h"

static const char *reject(const kernel_args *args) {
    const char *why = target_reject(args->target, ISA_AVX512);
    return why ? why : attention_reject_layout(args);
}

const kernel attention_avx512 = {.name = "attention_avx512",
                                 .target = TARGET_CPU,
                                 .reject = reject,
#if defined(__x86_64__)
                                 .workspace_bytes = workspace_bytes,
                                 .run = run,
                                 .variants = variants,
#endif
                                 .writes_strided = true};
