/* test_transfers.c - which times of collectives the host can tell. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "runtime/transfers.h"

typedef struct times {
    int64_t exposed_ns, busy_ns;
} times;

/* Of a step with one collective, which the host took 1000 ns for. */
static times times_with(communicator_kind kind) {
    plan_launch launch = {.phase = PHASE_COMMUNICATION};
    plan p = {.launches = &launch, .launch_count = 1};
    communicator c = {.kind = kind, .count = 2};
    times got;
    transfers *t = transfers_create(&p);
    transfers_set_communicator(t, &c);
    transfers_note(t, 0, 1000);
    transfers_take_times(t, &got.exposed_ns, &got.busy_ns);
    transfers_destroy(t);
    return got;
}

static void what_the_host_waits_for_is_communication(void **state) {
    (void)state;
    times got = times_with(COMMUNICATOR_SHARED);
    assert_int_equal(got.exposed_ns, 1000);
    assert_int_equal(got.busy_ns, 1000);
}

/* They run on streams, and launching them is no communication. */
static void collectives_of_a_gpu_have_no_times_of_the_host(void **state) {
    (void)state;
    times got = times_with(COMMUNICATOR_NCCL);
    assert_int_equal(got.exposed_ns, 0);
    assert_int_equal(got.busy_ns, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_host_waits_for_is_communication),
        cmocka_unit_test(collectives_of_a_gpu_have_no_times_of_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
