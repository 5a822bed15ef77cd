/* device_bench.h - the device that a test program runs on, opened once, and memory on it.
 *
 * A program's main gives device_bench_setup and _teardown to cmocka_run_group_tests. Where there is
 * no such device every test that asks for it is skipped, with one line saying why. */
#ifndef TESTS_SUPPORT_DEVICE_BENCH_H
#define TESTS_SUPPORT_DEVICE_BENCH_H

#include "runtime/device.h"

/* $DYNO_TEST_DEVICE, "cuda" unless it is set. Without a GPU, "cpu" tries the tests themselves and
 * "emulated" the plans for a GPU as well (emulated_device.h). */
const char *device_bench_name(void);

int device_bench_setup(void **state);
int device_bench_teardown(void **state);

/* Whether it has memory of its own, that can run out. */
bool device_bench_is_real(const device *d);

/* The device; skips the running test when there is none. */
device *device_bench_open(void **state);

/* How often to do what is done often: `quick` where $DYNO_TEST_QUICK is set, for tools under which
 * every kernel takes a hundred times as long. The same code runs, on fewer or smaller cases. */
int device_bench_rounds(int full, int quick);

/* The first `bytes` of one range of the device's memory, the same at each call: what lies there is
 * whatever the call before left. Fails the test when there is not that much. */
void *device_bench_memory(device *d, int64_t bytes);

/* Fails the test with the device's own message unless all went well. */
void device_bench_finish(device *d);

/* Where the files of tests/ are: $DYNO_TEST_DIR, or the directory that `built_in` names. */
const char *test_directory(const char *built_in);

#endif
