/* test_device.c - devices by name, and how a pool and a storage get their memory from one. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "runtime/storage.h"
#include "support/expect.h"
#include "support/fake_device.h"

enum { POOL_BYTES = 1 << 26 };

static void expect_failure(dyno_status status, dyno_status wanted, const char *part) {
    assert_int_equal(status, wanted);
    if (!strstr(dyno_error_message(), part))
        fail_msg("'%s' lacks '%s'", dyno_error_message(), part);
}

/* ---- names ---- */

static void names_of_devices_are_parsed_without_opening_them(void **state) {
    (void)state;
    static const struct {
        const char *name;
        target_kind on;
        int ordinal;
    } good[] = {{"cpu", TARGET_CPU, 0},     {"auto", TARGET_CPU, 0},
                {"cuda", TARGET_CUDA, 0},   {"cuda:0", TARGET_CUDA, 0},
                {"cuda:7", TARGET_CUDA, 7}, {"cuda:12", TARGET_CUDA, 12}};
    target_kind on;
    int ordinal;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        expect_ok(device_parse(good[i].name, &on, &ordinal));
        assert_int_equal(on, good[i].on);
        assert_int_equal(ordinal, good[i].ordinal);
    }
    static const char *const bad[] = {"",      "gpu",     "CPU",     "cpu:0",
                                      "cuda:", "cuda:-1", "cuda:1x", "cuda: 1",
                                      "cud",   "cuda0",   "cuda:+1", "cuda:99999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_failure(device_parse(bad[i], &on, &ordinal), DYNO_INVALID, "there is no device");
        device *d;
        assert_int_equal(device_open(bad[i], &d), DYNO_INVALID);
        assert_null(d);
    }
}

static void the_cpu_can_always_be_opened(void **state) {
    (void)state;
    device *d;
    expect_ok(device_open("cpu", &d));
    assert_ptr_equal(d, device_cpu());
    assert_true(device_is_host(d));
    assert_string_equal(d->name, "cpu");
    assert_true(d->functions->available_bytes(d) > 0);
    device_close(d);
    device_close(d); /* needs none, and minds none */
    device_close(NULL);
    unsetenv("DYNO_DEVICE");
    expect_ok(device_open("auto", &d)); /* whatever there is */
    assert_non_null(d);
    device_close(d);
}

static void the_cpu_can_be_restricted_to_a_target(void **state) {
    (void)state;
    device *d;
    expect_ok(device_open_as("cpu", NULL, &d));
    assert_ptr_equal(d, device_cpu());
    static const char *const names[] = {"cpu", "avx2", "avx512", "amx"};
    for (int i = 0; i < 4; i++) {
        const target *chip;
        expect_ok(target_find(names[i], &chip));
        if (target_check_is_runnable(chip) != DYNO_OK) {
            expect_failure(device_open_as("cpu", names[i], &d), DYNO_UNSUPPORTED, "cannot be used");
            assert_null(d);
            continue;
        }
        expect_ok(device_open_as("cpu", names[i], &d));
        assert_true(device_is_host(d));
        assert_int_equal(d->target.instruction_sets, chip->instruction_sets);
        device_close(d);
    }
    expect_failure(device_open_as("cpu", "h200", &d), DYNO_INVALID, "not 'h200' on device cpu");
    expect_failure(device_open_as("cuda", "avx2", &d), DYNO_INVALID, "on device cuda");
    expect_failure(device_open_as("cpu", "avx3", &d), DYNO_INVALID, "there is no target 'avx3'");
}

static void the_environment_says_what_auto_is(void **state) {
    (void)state;
    device *d;
    setenv("DYNO_DEVICE", "cpu", 1);
    expect_ok(device_open("auto", &d));
    assert_ptr_equal(d, device_cpu());
    setenv("DYNO_DEVICE", "tpu", 1);
    expect_failure(device_open("auto", &d), DYNO_INVALID, "DYNO_DEVICE: there is no device 'tpu'");
    assert_null(d);
    expect_ok(device_open("cpu", &d)); /* only of what is left open */
    static const char *const open[] = {"", "auto"};
    for (int i = 0; i < 2; i++) {
        setenv("DYNO_DEVICE", open[i], 1);
        expect_ok(device_open("auto", &d));
        assert_non_null(d);
        device_close(d);
    }
    unsetenv("DYNO_DEVICE");
}

/* ---- memory ---- */

static plan_buffer buffer_of(int64_t bytes) {
    return (plan_buffer){.bytes = bytes,
                         .role = ROLE_PARAMETER,
                         .type = DTYPE_U8,
                         .shape = SHAPE(bytes),
                         .name = "w",
                         .is_persistent = true};
}

static void a_pool_asks_for_memory_as_it_fills(void **state) {
    (void)state;
    const plan p = {.scopes = (const char *[]){"here"}, .scope_count = 1};
    fake_device *f = fake_device_create(10 * FAKE_GRANULARITY, true);
    memory_pool *pool;
    expect_ok(memory_pool_create(fake_device_base(f), POOL_BYTES, &pool));
    assert_ptr_equal(memory_pool_device(pool), fake_device_base(f));
    assert_int_equal(f->committed_bytes, 0);
    block *small, *large, *too_large, *again;
    plan_buffer what = buffer_of(100);
    expect_ok(memory_pool_allocate(pool, &p, &what, -1, &small));
    assert_int_equal(memory_pool_committed_bytes(pool), FAKE_GRANULARITY);
    what = buffer_of(FAKE_GRANULARITY / 2);
    expect_ok(memory_pool_allocate(pool, &p, &what, -1, &large));
    assert_int_equal(f->commits, 1); /* there was room */
    what = buffer_of(10 * FAKE_GRANULARITY);
    for (int i = 0; i < 3; i++) {
        expect_failure(memory_pool_allocate(pool, &p, &what, -1, &too_large), DYNO_OUT_OF_MEMORY,
                       "640.00 KiB for u8[655360] (parameter) in scope 'here'");
        assert_non_null(strstr(dyno_error_message(), "but the device has no more"));
        assert_null(too_large);
        assert_int_equal(memory_pool_taken_bytes(pool), BLOCK_ALIGNMENT + FAKE_GRANULARITY / 2);
    }
    what = buffer_of(3 * FAKE_GRANULARITY); /* and goes on with what fits */
    expect_ok(memory_pool_allocate(pool, &p, &what, -1, &again));
    assert_int_equal(memory_pool_committed_bytes(pool), 4 * FAKE_GRANULARITY);
    memory_pool_release(pool, &p, &what, -1, again);
    memory_pool_trim(pool);
    assert_int_equal(memory_pool_committed_bytes(pool), FAKE_GRANULARITY);
    assert_int_equal(f->committed_bytes, FAKE_GRANULARITY);
    memory_pool_release(pool, &p, &what, -1, small);
    memory_pool_trim(pool); /* a hole keeps its memory */
    assert_int_equal(memory_pool_committed_bytes(pool), FAKE_GRANULARITY);
    memory_pool_release(pool, &p, &what, -1, large);
    memory_pool_trim(pool);
    assert_int_equal(memory_pool_committed_bytes(pool), 0);
    memory_pool_destroy(pool);
    device_close(fake_device_base(f));
}

static void storage_is_read_and_written_by_name_and_size(void **state) {
    (void)state;
    fake_device *f = fake_device_create(POOL_BYTES, true);
    memory_pool *pool;
    expect_ok(memory_pool_create(fake_device_base(f), POOL_BYTES, &pool));
    storage *s = storage_create(pool);
    plan *p = plan_create("p");
    p->scopes = (const char *[]){""};
    plan_buffer b = buffer_of(100);
    b.last_used = 1;
    plan_add_buffer(p, &b);
    plan_finish(p);
    expect_ok(storage_add_plan(s, p));
    char numbers[100], back[100] = {1};
    const char zeros[100] = {0};
    expect_ok(storage_read(s, "w", back, 100));
    assert_memory_equal(back, zeros, 100);
    for (int i = 0; i < 100; i++)
        numbers[i] = (char)i;
    expect_ok(storage_write(s, "w", numbers, 100));
    memset(numbers, 0, sizeof numbers); /* free to be used again at once */
    expect_ok(storage_read(s, "w", back, 100));
    for (int i = 0; i < 100; i++)
        assert_int_equal(back[i], i);
    expect_failure(storage_read(s, "w", back, 99), DYNO_INVALID, "'w' is 100 bytes");
    expect_failure(storage_write(s, "w", back, 101), DYNO_INVALID, "not 101");
    expect_failure(storage_read(s, "v", back, 100), DYNO_NOT_FOUND, "no 'v'");
    expect_failure(storage_write(s, "v", back, 100), DYNO_NOT_FOUND, "no 'v'");
    storage_destroy(s);
    memory_pool_destroy(pool);
    plan_destroy(p);
    device_close(fake_device_base(f));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_devices_are_parsed_without_opening_them),
        cmocka_unit_test(the_cpu_can_always_be_opened),
        cmocka_unit_test(the_cpu_can_be_restricted_to_a_target),
        cmocka_unit_test(the_environment_says_what_auto_is),
        cmocka_unit_test(a_pool_asks_for_memory_as_it_fills),
        cmocka_unit_test(storage_is_read_and_written_by_name_and_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
