#include "base/target_rates.h"

#include <stdlib.h>

#define GPU_LAUNCHES 5e-6, 2e-6

static const struct {
    const char *name;
    target_rates rates;
} GPUS[] = {
    {"h200", {67e12, 494e12, 989e12, 4.8e12, 450e9, GPU_LAUNCHES}},
    {"h100", {67e12, 494e12, 989e12, 3.35e12, 450e9, GPU_LAUNCHES}},
    {"a100", {19.5e12, 156e12, 312e12, 2.04e12, 300e9, GPU_LAUNCHES}},
    {"4090", {82.6e12, 82.6e12, 165e12, 1.008e12, 32e9, GPU_LAUNCHES}},
};
enum { GPU_COUNT = sizeof GPUS / sizeof *GPUS };

/* The same capability counts most, then memory. */
static double distance(const target *a, const target *b) {
    double capability = abs(a->capability - b->capability);
    double memory = (double)llabs((long long)(a->memory_bytes - b->memory_bytes)) / 0x1p40;
    return capability + memory;
}

static target_rates of_gpu(const target *t) {
    int nearest = 0;
    double least = 0;
    for (int i = 0; i < GPU_COUNT; i++) {
        const target *named;
        if (target_find(GPUS[i].name, &named) != DYNO_OK)
            continue;
        double d = distance(t, named);
        if (i == 0 || d < least) {
            nearest = i;
            least = d;
        }
    }
    return GPUS[nearest].rates;
}

/* Two fused multiply-adds a cycle on vectors of 8 or 16, at an ordinary clock; a core reads so many
 * bytes a second until a few of them saturate the memory; a network of 100 Gbit/s. */
static target_rates of_cpu(const target *t) {
    enum { SATURATING_CORES = 8 };
    double clock = 2.5e9, cores = t->cores > 0 ? t->cores : 1;
    double flops = target_has(t, ISA_AVX512) ? 64 : target_has(t, ISA_AVX2) ? 32 : 8;
    double low = target_has(t, ISA_AMX_BF16)      ? 16
                 : target_has(t, ISA_AVX512_BF16) ? 2
                                                  : 1; /* times fp32 */
    double reading = cores < SATURATING_CORES ? cores : SATURATING_CORES;
    return (target_rates){.fp32 = flops * clock * cores,
                          .tf32 = flops * clock * cores,
                          .low = low * flops * clock * cores,
                          .memory = 12e9 * reading,
                          .link = 12.5e9,
                          .launch = 1e-6,
                          .planned_launch = 1e-6};
}

target_rates target_rates_of(const target *t) { return target_is_cuda(t) ? of_gpu(t) : of_cpu(t); }
