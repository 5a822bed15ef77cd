/* test_dtype.c - conversions, against the definition: the nearest representable number. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "support/draw.h"
#include "tensor/dtype.h"

typedef struct format {
    dtype type;
    int exponent_bits, fraction_bits;
} format;

static const format formats[] = {{DTYPE_BF16, 8, 7}, {DTYPE_F16, 5, 10}};

static double load(const format *f, uint16_t bits) { return dtype_load(f->type, &bits, 0); }

static uint16_t store(const format *f, double value) {
    uint16_t bits = 0xdead;
    dtype_store(f->type, &bits, 0, value);
    return bits;
}

static uint16_t infinity(const format *f) {
    return (uint16_t)(((1u << f->exponent_bits) - 1) << f->fraction_bits);
}

static void every_pattern_means_what_ieee_says(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        const format *f = &formats[k];
        int bias = (1 << (f->exponent_bits - 1)) - 1;
        for (unsigned bits = 0; bits < 0x8000; bits++) {
            int exponent = (int)(bits >> f->fraction_bits);
            double fraction = ldexp(bits & ((1u << f->fraction_bits) - 1), -f->fraction_bits);
            double want =
                exponent == 0 ? ldexp(fraction, 1 - bias) : ldexp(1 + fraction, exponent - bias);
            if (exponent == (1 << f->exponent_bits) - 1)
                want = fraction == 0 ? INFINITY : NAN;
            double got = load(f, (uint16_t)bits), minus = load(f, (uint16_t)(bits | 0x8000u));
            if (isnan(want)) {
                assert_true(isnan(got) && isnan(minus));
            } else {
                assert_true(got == want && minus == -want);
                assert_true(!signbit(got) && signbit(minus));
            }
        }
    }
}

static void every_pattern_survives_a_round_trip(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++)
        for (unsigned bits = 0; bits <= 0xffff; bits++) {
            const format *f = &formats[k];
            uint16_t again = store(f, load(f, (uint16_t)bits));
            if (isnan(load(f, (uint16_t)bits)))
                assert_true(isnan(load(f, again)) && (again & 0x8000u) == (bits & 0x8000u));
            else
                assert_int_equal(again, bits);
        }
}

/* Between each pair of neighbours: below the middle, at it, above it, also by less than a float
 * can tell, for a double must not be rounded twice. */
static void stores_round_to_the_nearest_and_ties_to_even(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        const format *f = &formats[k];
        for (uint16_t bits = 0; bits < infinity(f); bits++) {
            uint16_t above = (uint16_t)(bits + 1);
            double low = load(f, bits);
            double high =
                above == infinity(f) ? 2 * low - load(f, (uint16_t)(bits - 1)) : load(f, above);
            double middle = (low + high) / 2, hair = (high - low) * 0x1p-30;
            uint16_t even = bits & 1 ? above : bits;
            assert_int_equal(store(f, middle), even);
            assert_int_equal(store(f, -middle), even | 0x8000u);
            assert_int_equal(store(f, middle - hair), bits);
            assert_int_equal(store(f, middle + hair), above);
            assert_int_equal(store(f, -middle - hair), above | 0x8000u);
            assert_int_equal(store(f, low + (high - low) * 0.25), bits);
            assert_int_equal(store(f, low + (high - low) * 0.75), above);
        }
    }
}

static void what_is_too_large_becomes_infinite(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        const format *f = &formats[k];
        static const double large[] = {1e39, 1e308, INFINITY};
        for (int i = 0; i < 3; i++) {
            assert_int_equal(store(f, large[i]), infinity(f));
            assert_int_equal(store(f, -large[i]), infinity(f) | 0x8000u);
        }
        assert_int_equal(store(f, 1e-300), 0);
        assert_int_equal(store(f, -1e-300), 0x8000);
        assert_true(isnan(load(f, store(f, NAN))));
    }
    assert_int_equal(dtype_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(dtype_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(dtype_f32_to_bf16(FLT_MAX), 0x7f80);
}

static void float_and_double_conversions_agree(void **state) {
    (void)state;
    draw d = draw_create(5, 0);
    for (int i = 0; i < 1000000; i++) {
        uint32_t bits = (uint32_t)draw_below(&d, 1LL << 32);
        float x;
        memcpy(&x, &bits, sizeof x);
        if (isnan(x))
            continue;
        assert_int_equal(dtype_f32_to_bf16(x), store(&formats[0], x));
        assert_int_equal(dtype_f32_to_f16(x), store(&formats[1], x));
    }
}

static void integers_lose_their_fraction_and_saturate(void **state) {
    (void)state;
    static const struct {
        dtype type;
        double low, high;
    } integers[] = {{DTYPE_I64, -0x1p63, 0x1.fffffffffffffp62},
                    {DTYPE_I32, INT32_MIN, INT32_MAX},
                    {DTYPE_U16, 0, UINT16_MAX},
                    {DTYPE_U8, 0, UINT8_MAX},
                    {DTYPE_BOOL, 0, 1}};
    for (int i = 0; i < 5; i++) {
        dtype type = integers[i].type;
        int64_t held = 0;
        dtype_store(type, &held, 0, 1e300);
        assert_true(dtype_load(type, &held, 0) == integers[i].high);
        dtype_store(type, &held, 0, INFINITY);
        assert_true(dtype_load(type, &held, 0) == integers[i].high);
        if (type == DTYPE_BOOL)
            continue;
        dtype_store(type, &held, 0, -1e300);
        assert_true(dtype_load(type, &held, 0) == integers[i].low);
        dtype_store(type, &held, 0, 7.9);
        assert_true(dtype_load(type, &held, 0) == 7);
        dtype_store(type, &held, 0, -7.9);
        assert_true(dtype_load(type, &held, 0) == fmax(-7, integers[i].low));
        dtype_store(type, &held, 0, NAN); /* some number, no trap */
    }
}

static void elements_lie_side_by_side(void **state) {
    (void)state;
    for (int type = 0; type < DTYPE_COUNT; type++) {
        unsigned char data[4 * 8];
        memset(data, 0, sizeof data);
        for (int i = 0; i < 4; i++)
            dtype_store((dtype)type, data, i, i & 1);
        for (int i = 0; i < 4; i++)
            assert_true(dtype_load((dtype)type, data, i) == (i & 1));
        for (size_t i = (size_t)(4 * dtype_bytes((dtype)type)); i < sizeof data; i++)
            assert_int_equal(data[i], 0);
    }
}

static void names_are_parsed_back(void **state) {
    (void)state;
    dtype found;
    for (int type = 0; type < DTYPE_COUNT; type++) {
        assert_true(dtype_parse(dtype_name((dtype)type), &found));
        assert_int_equal(found, type);
    }
    assert_false(dtype_parse("f31", &found));
    assert_false(dtype_parse("", &found));
    assert_true(dtype_is_float(DTYPE_BF16) && !dtype_is_float(DTYPE_I32));
}

static double held(dtype type, double value) {
    uint64_t element = 0;
    dtype_store(type, &element, 0, value);
    return dtype_load(type, &element, 0);
}

static void least_and_largest_are_the_last_numbers_a_type_holds(void **state) {
    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        const dtype_traits *t = &dtype_table[i];
        assert_true(held((dtype)i, t->least) == t->least);
        assert_true(held((dtype)i, t->largest) == t->largest);
        double beyond = nextafter(t->largest, INFINITY), double_largest = t->largest * 2;
        if (t->is_float)
            assert_true(isinf(held((dtype)i, double_largest)) && t->least == -t->largest);
        else
            assert_true(held((dtype)i, beyond) == t->largest);
    }
}

static void low_types_are_floats_narrower_than_f32(void **state) {
    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        dtype type = (dtype)i;
        bool is_narrow = dtype_is_float(type) && dtype_bytes(type) < dtype_bytes(DTYPE_F32);
        assert_int_equal(dtype_is_low(type), is_narrow);
        assert_int_equal(dtype_is_f32_or_low(type), is_narrow || type == DTYPE_F32);
    }
}

static void a_type_needs_a_scale_when_its_range_is_less_than_that_of_f32(void **state) {
    (void)state;
    for (int i = 0; i < DTYPE_COUNT; i++)
        assert_int_equal(dtype_table[i].needs_scale,
                         dtype_is_low((dtype)i) && held((dtype)i, FLT_MIN) == 0);
}

static void an_upper_half_is_the_first_bits_of_an_f32(void **state) {
    (void)state;
    const float numbers[] = {1, -1.5f, 0x1p-100f, 192, INFINITY};
    for (int i = 0; i < DTYPE_COUNT; i++) {
        bool is_upper = dtype_is_low((dtype)i);
        for (size_t j = 0; j < sizeof numbers / sizeof *numbers; j++) {
            uint32_t bits;
            uint16_t half = 0;
            memcpy(&bits, &numbers[j], sizeof bits);
            if (is_upper)
                dtype_store((dtype)i, &half, 0, numbers[j]);
            is_upper = is_upper && half == bits >> 16;
        }
        assert_int_equal(dtype_table[i].is_f32_upper_half, is_upper);
    }
}

static void floats_are_loaded_in_runs_as_one_by_one(void **state) {
    (void)state;
    enum { COUNT = 7, FROM = 2 };
    const double numbers[COUNT] = {0, 1, 3, 100, 2, 0, 55};
    for (int i = 0; i < DTYPE_COUNT; i++) {
        uint64_t elements[COUNT] = {0};
        float loaded[COUNT - FROM];
        for (int j = 0; j < COUNT; j++)
            dtype_store((dtype)i, elements, j, numbers[j]);
        dtype_load_floats((dtype)i, elements, FROM, COUNT - FROM, loaded);
        for (int j = FROM; j < COUNT; j++)
            assert_true(loaded[j - FROM] == (float)dtype_load((dtype)i, elements, j));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_means_what_ieee_says),
        cmocka_unit_test(every_pattern_survives_a_round_trip),
        cmocka_unit_test(stores_round_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(what_is_too_large_becomes_infinite),
        cmocka_unit_test(float_and_double_conversions_agree),
        cmocka_unit_test(integers_lose_their_fraction_and_saturate),
        cmocka_unit_test(elements_lie_side_by_side),
        cmocka_unit_test(names_are_parsed_back),
        cmocka_unit_test(least_and_largest_are_the_last_numbers_a_type_holds),
        cmocka_unit_test(low_types_are_floats_narrower_than_f32),
        cmocka_unit_test(a_type_needs_a_scale_when_its_range_is_less_than_that_of_f32),
        cmocka_unit_test(an_upper_half_is_the_first_bits_of_an_f32),
        cmocka_unit_test(floats_are_loaded_in_runs_as_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
