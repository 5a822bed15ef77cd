/* test_split_weight.c - every float there is, taken apart and put together again. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/threads.h"
#include "ops/adamw/split_weight.h"
#include "ops/cast/convert.h"

enum { CHUNK = 1 << 16 };

static bool is_nan(uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }

/* How many of the 2^16 floats that share `upper` break one of the rules. */
static int count_broken(uint32_t upper) {
    int broken = 0;
    for (uint32_t lower = 0; lower < CHUNK; lower++) {
        uint32_t bits = upper << 16 | lower;
        float weight = float_from_bits(bits);
        uint16_t high = split_weight_high(weight), rest = split_weight_rest(weight);
        uint32_t back = bits_from_float(split_weight_join(high, rest));
        uint16_t even = bf16_from_f32(weight), away = (uint16_t)(upper + 1);
        uint16_t nearest = lower == 0x8000u ? away : even;
        bool of_number = back != bits || high != nearest || rest != (uint16_t)lower;
        bool of_nan = !is_nan(back) || !is_nan((uint32_t)high << 16);
        broken += is_nan(bits) ? of_nan : of_number;
    }
    return broken;
}

typedef struct outcome {
    int broken[CHUNK]; /* by upper half */
} outcome;

static void check_range(void *context, int64_t begin, int64_t end) {
    outcome *found = context;
    for (int64_t upper = begin; upper < end; upper++)
        found->broken[upper] = count_broken((uint32_t)upper);
}

static void every_float_comes_back_and_its_high_half_is_the_nearest_bf16(void **state) {
    (void)state;
    static outcome found;
    threads_for(CHUNK, 256, check_range, &found);
    for (int upper = 0; upper < CHUNK; upper++)
        if (found.broken[upper])
            fail_msg("%d floats that begin with %04x", found.broken[upper], (unsigned)upper);
}

static void the_largest_float_is_infinite_in_bf16_and_still_comes_back(void **state) {
    (void)state;
    const float largest[] = {0x1.fffffep127f, -0x1.fffffep127f};
    for (int i = 0; i < 2; i++) {
        uint16_t high = split_weight_high(largest[i]);
        assert_true(isinf(dtype_bf16_to_f32(high)));
        assert_true(split_weight_join(high, split_weight_rest(largest[i])) == largest[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_float_comes_back_and_its_high_half_is_the_nearest_bf16),
        cmocka_unit_test(the_largest_float_is_infinite_in_bf16_and_still_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
