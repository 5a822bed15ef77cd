/* test_machine_amx.c - the loop that AMX's peak is timed with, its instructions emulated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if defined(__x86_64__)

#include "support/amx_emulation.h"

/* The source again, under another name, with emulated tiles. */
#define machine_loop_bf16 emulated_machine_loop_bf16
#include "../../src/measure/machine_bf16.c"

static void four_tiles_of_sums_grow_by_their_depth(void **state) {
    (void)state;
    const target *chip;
    assert_int_equal(target_find("amx", &chip), DYNO_OK);
    assert_true(tile_loop(0, 1) == 0);
    assert_true(tile_loop(10, 1) == 10 * TILE_SUMS * TILE_DEPTH);
    machine_loop loop = emulated_machine_loop_bf16(chip);
    assert_true(loop.run == tile_loop && loop.flops > 0 && loop.by);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_tiles_of_sums_grow_by_their_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) { return 0; }

#endif
