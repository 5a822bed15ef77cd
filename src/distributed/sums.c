/* sums.c - sums over ranks, block by block.
 *
 * The work is bound by memory: a block of every rank's operand is read once, its sum stays in the
 * first-level cache, and the results are written to lines that were just read. Compiled for each level
 * of x86-64; the bits are the same at every level, because additions and conversions are. */
#include "distributed/sums.h"

#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "base/isa.h"

#define INLINE static inline __attribute__((always_inline))

enum { BLOCK = 2048 }; /* elements: 8 KiB of sums */

bool sums_have_type(dtype type) {
    return type == DTYPE_F32 || type == DTYPE_BF16 || type == DTYPE_F16;
}

/* ---- one element of each type ---- */

INLINE float bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

INLINE float load_bf16(uint16_t bits) { return bits_float((uint32_t)bits << 16); }

/* To nearest, ties to even; what is not a number stays so. Without branches, for vectors. */
INLINE uint16_t store_bf16(float value) {
    uint32_t bits = float_bits(value);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/* The exponent is moved by a product with 2^112, which also makes normal numbers of subnormal ones. */
INLINE float load_f16(uint16_t half) {
    uint32_t rest = (uint32_t)(half & 0x7fffu) << 13, sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t finite = float_bits(bits_float(rest) * 0x1p112f);
    uint32_t special = rest | 0x7f800000u | (rest & 0x007fffffu ? 0x00400000u : 0u);
    return bits_float(sign | (rest >= 0x0f800000u ? special : finite));
}

/* Small numbers are rounded by adding 0.5, whose last bit has the weight of the smallest half; the
 * others by an integer addition that carries into the exponent. */
INLINE uint16_t store_f16(float value) {
    uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    uint32_t small = float_bits(bits_float(rest) + 0.5f) - float_bits(0.5f);
    uint32_t normal = (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13;
    uint32_t finite = rest < 0x38800000u ? small : normal;
    uint32_t large = rest > 0x7f800000u ? 0x7e00u | (rest >> 13 & 0x3ffu) : 0x7c00u;
    return (uint16_t)(sign | (rest >= 0x477ff000u ? large : finite));
}

/* ---- past the caches ---- */

void sums_copy_through(void *to, const void *from, int64_t bytes) {
#if defined(__x86_64__)
    enum { VECTOR = 16, LINE = 64 };
    char *at = to;
    const char *source = from;
    int64_t head = -(intptr_t)at & (LINE - 1);
    head = head < bytes ? head : bytes;
    memcpy(at, source, (size_t)head);
    int64_t i = head;
    for (; i + LINE <= bytes; i += LINE)
        for (int k = 0; k < LINE; k += VECTOR)
            _mm_stream_si128((__m128i *)(at + i + k),
                             _mm_loadu_si128((const __m128i *)(source + i + k)));
    memcpy(at + i, source + i, (size_t)(bytes - i));
    _mm_sfence();
#else
    memcpy(to, from, (size_t)bytes);
#endif
}

/* ---- a block ---- */

INLINE void load_block(dtype type, const void *from, int64_t at, int64_t n, float *to) {
    if (type == DTYPE_F32) {
        memcpy(to, (const float *)from + at, (size_t)n * sizeof *to);
        return;
    }
    const uint16_t *halves = (const uint16_t *)from + at;
    if (type == DTYPE_BF16)
        for (int64_t i = 0; i < n; i++)
            to[i] = load_bf16(halves[i]);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = load_f16(halves[i]);
}

INLINE void add_block(dtype type, const void *from, int64_t at, int64_t n, float *to) {
    const float *floats = (const float *)from + at;
    const uint16_t *halves = (const uint16_t *)from + at;
    if (type == DTYPE_F32)
        for (int64_t i = 0; i < n; i++)
            to[i] += floats[i];
    else if (type == DTYPE_BF16)
        for (int64_t i = 0; i < n; i++)
            to[i] += load_bf16(halves[i]);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] += load_f16(halves[i]);
}

INLINE void store_block(dtype type, const float *from, void *to, int64_t at, int64_t n) {
    if (type == DTYPE_F32) {
        memcpy((float *)to + at, from, (size_t)n * sizeof *from);
        return;
    }
    uint16_t *halves = (uint16_t *)to + at;
    if (type == DTYPE_BF16)
        for (int64_t i = 0; i < n; i++)
            halves[i] = store_bf16(from[i]);
    else
        for (int64_t i = 0; i < n; i++)
            halves[i] = store_f16(from[i]);
}

INLINE void write_sums(dtype type, const void *const *from, int from_count, void *const *to,
                       int to_count, int64_t count) {
    _Alignas(64) float sums[BLOCK];
    for (int64_t at = 0; at < count; at += BLOCK) {
        int64_t n = count - at < BLOCK ? count - at : BLOCK;
        load_block(type, from[0], at, n, sums);
        for (int k = 1; k < from_count; k++)
            add_block(type, from[k], at, n, sums);
        if (to_count == 0)
            continue;
        store_block(type, sums, to[0], at, n);
        /* The same bytes for all: of 16-bit types they are rounded once. */
        size_t bytes = (size_t)dtype_bytes(type);
        for (int k = 1; k < to_count; k++)
            memcpy((char *)to[k] + (size_t)at * bytes, (const char *)to[0] + (size_t)at * bytes,
                   (size_t)n * bytes);
    }
}

INLINE void accumulate(dtype type, float *total, bool is_first, const void *const *from,
                       int from_count, int64_t count) {
    for (int64_t at = 0; at < count; at += BLOCK) {
        int64_t n = count - at < BLOCK ? count - at : BLOCK;
        if (is_first)
            load_block(type, from[0], at, n, total + at);
        for (int k = is_first; k < from_count; k++)
            add_block(type, from[k], at, n, total + at);
    }
}

/* ---- for each level ---- */

typedef struct sums_functions {
    void (*write)(dtype type, const void *const *from, int from_count, void *const *to,
                  int to_count, int64_t count);
    void (*accumulate)(dtype type, float *total, bool is_first, const void *const *from,
                       int from_count, int64_t count);
    void (*round)(dtype type, const float *total, void *to, int64_t count);
} sums_functions;

/* The type is a constant in each branch, so that the loops are compiled for it alone. */
#define SUMS_LEVEL(level, attribute)                                                               \
    attribute static void write_##level(dtype type, const void *const *from, int from_count,       \
                                        void *const *to, int to_count, int64_t count) {            \
        if (type == DTYPE_F32)                                                                     \
            write_sums(DTYPE_F32, from, from_count, to, to_count, count);                          \
        else if (type == DTYPE_BF16)                                                               \
            write_sums(DTYPE_BF16, from, from_count, to, to_count, count);                         \
        else                                                                                       \
            write_sums(DTYPE_F16, from, from_count, to, to_count, count);                          \
    }                                                                                              \
    attribute static void accumulate_##level(dtype type, float *total, bool is_first,              \
                                             const void *const *from, int from_count,              \
                                             int64_t count) {                                      \
        if (type == DTYPE_F32)                                                                     \
            accumulate(DTYPE_F32, total, is_first, from, from_count, count);                       \
        else if (type == DTYPE_BF16)                                                               \
            accumulate(DTYPE_BF16, total, is_first, from, from_count, count);                      \
        else                                                                                       \
            accumulate(DTYPE_F16, total, is_first, from, from_count, count);                       \
    }                                                                                              \
    attribute static void round_##level(dtype type, const float *total, void *to, int64_t count) { \
        if (type == DTYPE_F32)                                                                     \
            store_block(DTYPE_F32, total, to, 0, count);                                           \
        else if (type == DTYPE_BF16)                                                               \
            store_block(DTYPE_BF16, total, to, 0, count);                                          \
        else                                                                                       \
            store_block(DTYPE_F16, total, to, 0, count);                                           \
    }

SUMS_LEVEL(base, )
#if defined(__x86_64__)
SUMS_LEVEL(v3, __attribute__((target("avx2,fma,bmi2"))))
SUMS_LEVEL(v4, __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512cd,fma,bmi2,prefer-"
                                     "vector-width=512"))))
#endif

static const sums_functions *level(void) {
    static const sums_functions base = {write_base, accumulate_base, round_base};
#if defined(__x86_64__)
    static const sums_functions v3 = {write_v3, accumulate_v3, round_v3};
    static const sums_functions v4 = {write_v4, accumulate_v4, round_v4};
    static const sums_functions *chosen;
    const sums_functions *known = __atomic_load_n(&chosen, __ATOMIC_ACQUIRE);
    if (known)
        return known;
    known = isa_check(ISA_AVX512).is_usable ? &v4 : isa_check(ISA_AVX2).is_usable ? &v3 : &base;
    __atomic_store_n(&chosen, known, __ATOMIC_RELEASE);
    return known;
#else
    return &base;
#endif
}

void sums_write(dtype type, const void *const *from, int from_count, void *const *to, int to_count,
                int64_t count) {
    level()->write(type, from, from_count, to, to_count, count);
}

void sums_accumulate(dtype type, float *total, bool is_first, const void *const *from,
                     int from_count, int64_t count) {
    level()->accumulate(type, total, is_first, from, from_count, count);
}

void sums_round(dtype type, const float *total, void *to, int64_t count) {
    level()->round(type, total, to, count);
}
