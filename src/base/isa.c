/* isa.c - CPUID, XCR0 and, for AMX, the operating system's permission; on aarch64 what the operating
 * system tells every process.
 *
 * Leaf 0x1D, which describes the tiles, is never read: hypervisors exist that hide it while
 * AMX works, and the tile shape is fixed by the palette we program anyway. */
#define _GNU_SOURCE
#include "base/isa.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

const char *isa_name(isa which) {
    static const char *const name[ISA_COUNT] = {
        "AVX2 and FMA", "AVX-512 (F, BW, VL, DQ, CD)", "AVX-512 BF16", "AMX BF16", "NEON", "SVE"};
    return name[which];
}

static const char *architecture_of(isa which) { return which < ISA_NEON ? "x86-64" : "aarch64"; }

const char *isa_this_architecture(void) {
#if defined(__x86_64__)
    return "x86-64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "neither x86-64 nor aarch64";
#endif
}

bool isa_is_of_this_architecture(isa which) {
    return strcmp(isa_this_architecture(), architecture_of(which)) == 0;
}

static isa_answer is_of_another_architecture(isa which) {
    isa_answer answer = {0};
    snprintf(answer.why_not, sizeof answer.why_not, "it is of %s, and this CPU is %s",
             architecture_of(which), isa_this_architecture());
    return answer;
}

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { EAX, EBX, ECX, EDX };

/* What CPUID must report (leaf, subleaf, register, bit) and what the operating system must save. */
typedef struct requirement {
    const char *name;
    unsigned leaf, subleaf;
    int in_register, bit;
} requirement;

static const requirement AVX2_BITS[] = {{"AVX2", 7, 0, EBX, 5},   {"FMA", 1, 0, ECX, 12},
                                        {"BMI1", 7, 0, EBX, 3},   {"BMI2", 7, 0, EBX, 8},
                                        {"F16C", 1, 0, ECX, 29},  {"LZCNT", 0x80000001, 0, ECX, 5},
                                        {"MOVBE", 1, 0, ECX, 22}, {0}};
static const requirement AVX512_BITS[] = {
    {"AVX-512F", 7, 0, EBX, 16},  {"AVX-512DQ", 7, 0, EBX, 17}, {"AVX-512CD", 7, 0, EBX, 28},
    {"AVX-512BW", 7, 0, EBX, 30}, {"AVX-512VL", 7, 0, EBX, 31}, {0}};
static const requirement AVX512_BF16_BITS[] = {
    {"AVX-512F", 7, 0, EBX, 16}, {"AVX-512 BF16", 7, 1, EAX, 5}, {0}};
static const requirement AMX_BITS[] = {{"AMX", 7, 0, EDX, 24}, {"AMX BF16", 7, 0, EDX, 22}, {0}};

static const struct {
    const requirement *bits;
    uint64_t saved_state; /* XCR0: 0x6 SSE and AVX, 0xe0 AVX-512, 0x60000 tiles */
} NEEDS[ISA_NEON] = {
    {AVX2_BITS, 0x6}, {AVX512_BITS, 0xe6}, {AVX512_BF16_BITS, 0xe6}, {AMX_BITS, 0x60000}};

static bool cpu_has(const requirement *need) {
    unsigned registers[4];
    if (!__get_cpuid_count(need->leaf, need->subleaf, &registers[EAX], &registers[EBX],
                           &registers[ECX], &registers[EDX]))
        return false;
    return registers[need->in_register] >> need->bit & 1;
}

static uint64_t state_the_kernel_saves(void) {
    static const requirement osxsave = {"OSXSAVE", 1, 0, ECX, 27};
    if (!cpu_has(&osxsave))
        return 0;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* One tile product of ones: each sum is 32. */
__attribute__((target("amx-tile,amx-bf16"))) static bool tiles_multiply(void) {
    _Alignas(64) uint8_t configuration[64] = {1}; /* palette 1, then bytes a row, then rows */
    for (int tile = 0; tile < 3; tile++) {
        configuration[16 + 2 * tile] = 64;
        configuration[48 + tile] = 16;
    }
    _Alignas(64) uint16_t ones[16 * 32];
    _Alignas(64) float sums[16 * 16];
    for (int i = 0; i < 16 * 32; i++)
        ones[i] = 0x3f80;
    __asm__ volatile("" ::: "memory"); /* the intrinsics do not say what they read */
    _tile_loadconfig(configuration);
    _tile_zero(0);
    _tile_loadd(1, ones, 64);
    _tile_loadd(2, ones, 64);
    _tile_dpbf16ps(0, 1, 2);
    _tile_stored(0, sums, 64);
    _tile_release();
    for (int i = 0; i < 16 * 16; i++)
        if (sums[i] != 32.0f)
            return false;
    return true;
}

isa_answer isa_check(isa which) {
    if (!isa_is_of_this_architecture(which))
        return is_of_another_architecture(which);
    isa_answer answer = {0};
    for (const requirement *need = NEEDS[which].bits; need->name; need++)
        if (!cpu_has(need)) {
            snprintf(answer.why_not, sizeof answer.why_not, "the CPU has no %s", need->name);
            return answer;
        }
    uint64_t needed = NEEDS[which].saved_state;
    if ((state_the_kernel_saves() & needed) != needed) {
        snprintf(answer.why_not, sizeof answer.why_not,
                 "the CPU has it, but the kernel or hypervisor has not enabled its registers");
        return answer;
    }
    if (which == ISA_AMX_BF16) {
        enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM */
        if (syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) != 0) {
            snprintf(answer.why_not, sizeof answer.why_not, "the kernel refuses permission: %s",
                     strerror(errno));
            return answer;
        }
        if (!tiles_multiply()) {
            snprintf(answer.why_not, sizeof answer.why_not,
                     "tiles can be used, but a product of two came out wrong");
            return answer;
        }
    }
    answer.is_usable = true;
    return answer;
}

const char *isa_missing_for_this_build(void) {
#ifdef __AVX2__
    if (!__builtin_cpu_supports("avx2"))
        return "AVX2";
#endif
#ifdef __FMA__
    if (!__builtin_cpu_supports("fma"))
        return "FMA";
#endif
#ifdef __AVX512F__
    if (!__builtin_cpu_supports("avx512f"))
        return "AVX-512F";
#endif
#ifdef __AVX512BW__
    if (!__builtin_cpu_supports("avx512bw"))
        return "AVX-512BW";
#endif
#ifdef __AVX512VL__
    if (!__builtin_cpu_supports("avx512vl"))
        return "AVX-512VL";
#endif
#ifdef __AVX512BF16__
    if (!__builtin_cpu_supports("avx512bf16"))
        return "AVX-512 BF16";
#endif
#ifdef __AVX512FP16__
    static const requirement fp16 = {"AVX-512 FP16", 7, 0, EDX, 23};
    if (!cpu_has(&fp16))
        return fp16.name;
#endif
    return NULL;
}

#elif defined(__aarch64__)

#include <asm/hwcap.h>
#include <sys/auxv.h>

isa_answer isa_check(isa which) {
    if (!isa_is_of_this_architecture(which))
        return is_of_another_architecture(which);
    isa_answer answer = {.is_usable =
                             getauxval(AT_HWCAP) & (which == ISA_SVE ? HWCAP_SVE : HWCAP_ASIMD)};
    if (!answer.is_usable)
        snprintf(answer.why_not, sizeof answer.why_not,
                 "the CPU has no %s, or the kernel has not enabled it", isa_name(which));
    return answer;
}

/* Of SVE alone, which `make ARCH=native` may compile for. */
const char *isa_missing_for_this_build(void) {
#ifdef __ARM_FEATURE_SVE
    if (!isa_check(ISA_SVE).is_usable)
        return isa_name(ISA_SVE);
#endif
    return NULL;
}

#else

isa_answer isa_check(isa which) { return is_of_another_architecture(which); }

const char *isa_missing_for_this_build(void) { return NULL; }

#endif
