/* c_prelude.h - the prelude of generated C, embedded as text behind scalar_math.h and the headers that it needs.
 *
 * load_TYPE and store_TYPE convert between what is in memory and what is computed with, round_TYPE rounds a number that
 * is computed with further, and keep_TYPE stores a number that is rounded already. */

static inline float load_bf16(uint16_t x) { return float_from_bits((uint32_t)x << 16); }

static inline uint16_t store_bf16(float x) {
    uint32_t bits = bits_from_float(x);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

static inline float load_f16(uint16_t x) {
    uint32_t sign = (uint32_t)(x & 0x8000u) << 16, magnitude = x & 0x7fffu;
    float normal = float_from_bits((magnitude << 13) + 0x38000000u);
    float small = (float)magnitude * 0x1p-24f;
    float special = float_from_bits((magnitude << 13) | 0x7f800000u);
    float y = magnitude < 0x400u ? small : magnitude >= 0x7c00u ? special : normal;
    return float_from_bits(bits_from_float(y) | sign);
}

static inline uint16_t store_f16(float x) {
    uint32_t bits = bits_from_float(x), sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13;
    float aligned = float_from_bits(magnitude) + 0.5f;
    uint32_t small = bits_from_float(aligned) - 0x3f000000u;
    uint32_t nan = 0x7e00u | (magnitude >> 13 & 0x3ffu);
    uint32_t y = magnitude < 0x38800000u ? small : normal;
    y = magnitude >= 0x477ff000u ? 0x7c00u : y;
    y = magnitude > 0x7f800000u ? nan : y;
    return (uint16_t)(sign | y);
}

#define load_f32(x) (x)
#define store_f32(x) (x)
#define load_i32(x) (x)
#define store_i32(x) (x)
#define load_bool(x) (x)
#define store_bool(x) ((uint8_t)(x))
#define round_f32(x) (x)
#define round_i32(x) (x)
#define round_bool(x) ((x) != 0)
#define round_bf16(x) load_bf16(store_bf16(x))
#define round_f16(x) load_f16(store_f16(x))
#define keep_f32(x) (x)
#define keep_i32(x) (x)
#define keep_bool(x) ((uint8_t)(x))
#define keep_bf16(x) ((uint16_t)(bits_from_float(x) >> 16))
#define keep_f16(x) store_f16(x)

/* `count` numbers of a row. The instruction would take subnormal ones for 0. */
static inline void store_row_bf16(const float *from, uint16_t *to, int64_t count) {
    int64_t done = 0;
#if defined(__AVX512BF16__) && defined(__AVX512DQ__)
    enum { SUBNORMAL = 0x20 };
    for (; done + 32 <= count; done += 32) {
        __m512 low = _mm512_loadu_ps(from + done), high = _mm512_loadu_ps(from + done + 16);
        if (_mm512_fpclass_ps_mask(low, SUBNORMAL) | _mm512_fpclass_ps_mask(high, SUBNORMAL))
            for (int64_t j = done; j < done + 32; j++)
                to[j] = store_bf16(from[j]);
        else
            _mm512_storeu_si512(to + done, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
#endif
#pragma omp simd
    for (int64_t j = done; j < count; j++)
        to[j] = store_bf16(from[j]);
}

static inline void store_row_f16(const float *from, uint16_t *to, int64_t count) {
#pragma omp simd
    for (int64_t j = 0; j < count; j++)
        to[j] = store_f16(from[j]);
}

/* So many bytes from `at` on of a row that ends at `end`, or of the next one. */
static inline void prefetch_ahead(const void *row, const void *next, int64_t at, int64_t end,
                                  int64_t bytes) {
    const char *from = at < end ? (const char *)row + at : (const char *)next + at - end;
    for (int64_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(from + i);
}
