/* attention_avx2.c - attention_panels_forward.h for AVX2. */
#define LANES_AVX2
#include "ops/attention/cpu/attention_panels_forward.h"

static const char *reject(const kernel_args *args) {
    const char *why = target_reject(args->target, ISA_AVX2);
    return why ? why : attention_reject_layout(args);
}

const kernel attention_avx2 = {.name = "attention_avx2",
                               .target = TARGET_CPU,
                               .reject = reject,
#if defined(__x86_64__)
                               .workspace_bytes = workspace_bytes,
                               .run = run,
                               .variants = variants,
#endif
                               .writes_strided = true};
