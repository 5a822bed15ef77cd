/* target.c - the chips with a name, and the CPU of this machine.
 *
 * Sizes of named GPUs are those the driver reports. The named CPUs are instruction sets on this
 * machine's cores and caches, so that one machine can stand in for another. */
#include "base/target.h"

#include <stdio.h>
#include <string.h>
#include <threads.h>
#include <unistd.h>

#include "base/cpu_info.h"
#include "base/system_memory.h"
#include "base/text.h"
#include "base/threads.h"

#define MIB ((int64_t)1 << 20)

const char *target_kind_name(target_kind kind) {
    static const char *const names[TARGET_KIND_COUNT] = {"cpu", "cuda"};
    return names[kind];
}

enum { THIS_CPU, FIRST_GPU = 5, COUNT = 9 };

static target known[COUNT] = {
    {.name = "cpu", .description = "this machine's CPU"},
    {.name = "avx2", .description = "AVX2 and FMA", .instruction_sets = 1u << ISA_AVX2},
    {.name = "avx512",
     .description = "AVX-512 F, BW, VL and DQ",
     .instruction_sets = 1u << ISA_AVX2 | 1u << ISA_AVX512},
    {.name = "amx",
     .description = "AVX-512 with BF16, and AMX tiles of bf16",
     .instruction_sets =
         1u << ISA_AVX2 | 1u << ISA_AVX512 | 1u << ISA_AVX512_BF16 | 1u << ISA_AMX_BF16},
    {.name = "aarch64",
     .description = "any aarch64, with NEON",
     .instruction_sets = 1u << ISA_NEON},
    {.name = "h200",
     .description = "NVIDIA H200, 141 GB",
     .kind = TARGET_CUDA,
     .capability = 90,
     .cores = 132,
     .l1_bytes = 256 << 10,
     .l2_bytes = 60 * MIB,
     .memory_bytes = 143156 * MIB},
    {.name = "h100",
     .description = "NVIDIA H100 SXM, 80 GB",
     .kind = TARGET_CUDA,
     .capability = 90,
     .cores = 132,
     .l1_bytes = 256 << 10,
     .l2_bytes = 50 * MIB,
     .memory_bytes = 81079 * MIB},
    {.name = "a100",
     .description = "NVIDIA A100 SXM, 80 GB",
     .kind = TARGET_CUDA,
     .capability = 80,
     .cores = 108,
     .l1_bytes = 192 << 10,
     .l2_bytes = 40 * MIB,
     .memory_bytes = 81038 * MIB},
    {.name = "4090",
     .description = "NVIDIA GeForce RTX 4090, 24 GB",
     .kind = TARGET_CUDA,
     .capability = 89,
     .cores = 128,
     .l1_bytes = 128 << 10,
     .l2_bytes = 72 * MIB,
     .memory_bytes = 24081 * MIB},
};

/* The C library knows them on x86-64, where a container may hide /sys. */
static int64_t cache_bytes(int64_t told, int name) {
    long bytes = sysconf(name);
    return told > 0 ? told : bytes > 0 ? bytes : 0;
}

static void look_at_this_cpu(void) {
    for (int i = 0; i < ISA_COUNT; i++)
        if (isa_check((isa)i).is_usable)
            known[THIS_CPU].instruction_sets |= 1u << i;
    cpu_info cpu = cpu_info_read("");
    for (int i = THIS_CPU; i < FIRST_GPU; i++) {
        known[i].cores = threads_available();
        known[i].l1_bytes = cache_bytes(cpu.l1_data_bytes, _SC_LEVEL1_DCACHE_SIZE);
        known[i].l2_bytes = cache_bytes(cpu.l2_bytes, _SC_LEVEL2_CACHE_SIZE);
        known[i].l3_bytes = cache_bytes(cpu.l3_bytes, _SC_LEVEL3_CACHE_SIZE);
        known[i].memory_bytes = system_memory_read().total_bytes;
    }
}

target_text target_capability(const target *t) {
    target_text out = {"none known"};
    if (target_is_cuda(t))
        snprintf(out.text, sizeof out.text, "sm_%d", t->capability);
    for (int i = 0; i < ISA_COUNT && !target_is_cuda(t); i++)
        if (target_has(t, (isa)i))
            snprintf(out.text, sizeof out.text, "%s", isa_name((isa)i));
    return out;
}

const target *target_at(int index) {
    static once_flag once = ONCE_FLAG_INIT;
    call_once(&once, look_at_this_cpu);
    return &known[index];
}

const target *target_this_cpu(void) { return target_at(THIS_CPU); }

const char *target_reject(const target *t, isa which) {
    static const char *const why[ISA_COUNT] = {
        "the target has no AVX2 and FMA", "the target has no AVX-512",
        "the target has no AVX-512 BF16", "the target has no AMX BF16",
        "the target has no NEON",         "the target has no SVE"};
    return target_has(t, which) ? NULL : why[which];
}

dyno_status target_check_is_runnable(const target *t) {
    for (isa which = 0; which < ISA_COUNT; which++)
        if (target_has(t, which) && !target_has(target_this_cpu(), which))
            return dyno_fail(DYNO_UNSUPPORTED,
                             "target %s needs %s, which cannot be used here: %s; `dyno plan "
                             "--target %s` can plan for it",
                             t->name, isa_name(which), isa_check(which).why_not, t->name);
    return DYNO_OK;
}

const target *target_usual(target_kind kind) {
    return target_at(kind == TARGET_CUDA ? FIRST_GPU : THIS_CPU);
}

int target_count(void) { return COUNT; }

dyno_status target_find(const char *name, const target **out) {
    *out = NULL;
    text names = {0};
    for (int i = 0; i < COUNT && !*out; i++) {
        if (strcmp(target_at(i)->name, name) == 0)
            *out = target_at(i);
        text_format(&names, "%s%s", i ? ", " : "", known[i].name);
    }
    dyno_status status = *out ? DYNO_OK
                              : dyno_fail(DYNO_INVALID, "there is no target '%s'; there are %s",
                                          name, text_string(&names));
    text_release(&names);
    return status;
}
