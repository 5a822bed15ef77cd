#include "support/device_bench.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "support/emulated_device.h"
#include "support/expect.h"

enum { RANGE_BYTES = 1 << 30 };

static struct {
    void *base;
    int64_t have;
} memory;

const char *device_bench_name(void) {
    const char *name = getenv("DYNO_TEST_DEVICE");
    return name && *name ? name : "cuda";
}

int device_bench_rounds(int full, int quick) {
    const char *chosen = getenv("DYNO_TEST_QUICK");
    return chosen && *chosen ? quick : full;
}

int device_bench_setup(void **state) {
    device *d;
    *state = NULL;
    if (strcmp(device_bench_name(), "emulated") == 0)
        *state = emulated_device();
    else if (device_open(device_bench_name(), &d) != DYNO_OK)
        print_message("no %s here: %s\n", device_bench_name(), dyno_error_message());
    else
        *state = d;
    return 0;
}

int device_bench_teardown(void **state) {
    device *d = *state;
    if (d && memory.base)
        d->functions->release(d, memory.base, RANGE_BYTES, memory.have);
    memory.base = NULL;
    memory.have = 0;
    device_close(d);
    return 0;
}

bool device_bench_is_real(const device *d) { return !device_is_host(d) && d != emulated_device(); }

device *device_bench_open(void **state) {
    if (!*state)
        skip();
    return *state;
}

void *device_bench_memory(device *d, int64_t bytes) {
    assert_true(bytes <= RANGE_BYTES);
    if (!memory.base)
        expect_ok(d->functions->reserve(d, RANGE_BYTES, &memory.base));
    if (bytes > memory.have)
        expect_ok(d->functions->commit(d, memory.base, memory.have, bytes, &memory.have));
    return memory.base;
}

void device_bench_finish(device *d) { expect_ok(d->functions->finish(d)); }

const char *test_directory(const char *built_in) {
    const char *given = getenv("DYNO_TEST_DIR");
    return given && *given ? given : built_in;
}
