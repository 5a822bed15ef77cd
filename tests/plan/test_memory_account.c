/* test_memory_account.c - the bytes of a small plan, worked out by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "plan/memory_account.h"

static int add(plan *p, role r, int64_t bytes, int born, int last_used) {
    plan_buffer buffer = {.bytes = bytes,
                          .role = r,
                          .type = DTYPE_U8,
                          .shape = SHAPE(bytes),
                          .born = born,
                          .last_used = last_used,
                          .is_persistent = born < 0};
    return plan_add_buffer(p, &buffer);
}

/* Launches and the bytes alive at each, after 300 of weight and 20 of input:
 *
 *   0  saved 100                            420
 *   1  saved 100, activation 30             450
 *   2  saved 100, activation 30 + 500       950   <- with the workspace 7: 957
 *   3  saved 100, gradient 300              720
 *   4  gradient 300                         620   (an output, to the end)
 */
enum { WEIGHT, INPUT, SAVED, NARROW, WIDE, WORKSPACE, GRADIENT };

static plan *five_launches(void) {
    plan *p = plan_create("by hand");
    add(p, ROLE_PARAMETER, 300, -1, 5);
    add(p, ROLE_INPUT, 20, -1, 5);
    add(p, ROLE_SAVED, 100, 0, 3);
    add(p, ROLE_ACTIVATION, 30, 1, 2);
    add(p, ROLE_ACTIVATION, 500, 2, 2);
    add(p, ROLE_WORKSPACE, 7, 2, 2);
    add(p, ROLE_GRADIENT, 300, 3, 5);
    for (int i = 0; i < 5; i++)
        plan_add_launch(p, 0, 0)->flops = i;
    plan_finish(p);
    return p;
}

static void the_peak_is_the_one_worked_out_by_hand(void **state) {
    (void)state;
    plan *p = five_launches();
    memory_account account = memory_account_plan(p);
    assert_int_equal(account.peak_bytes, 957);
    assert_int_equal(account.peak_launch, 2);
    assert_int_equal(account.persistent_bytes, 320);
    static const int64_t at_peak[ROLE_COUNT] = {[ROLE_PARAMETER] = 300,
                                                [ROLE_INPUT] = 20,
                                                [ROLE_SAVED] = 100,
                                                [ROLE_ACTIVATION] = 530,
                                                [ROLE_WORKSPACE] = 7};
    static const int64_t total[ROLE_COUNT] = {
        [ROLE_PARAMETER] = 300,  [ROLE_INPUT] = 20,    [ROLE_SAVED] = 100,
        [ROLE_ACTIVATION] = 530, [ROLE_WORKSPACE] = 7, [ROLE_GRADIENT] = 300};
    assert_memory_equal(account.at_peak, at_peak, sizeof at_peak);
    assert_memory_equal(account.total, total, sizeof total);
    plan_destroy(p);
}

/* In blocks of 256 bytes: weight 2, input 1, saved 1, narrow 1, wide 2, workspace 1 are 8; the
 * gradient's 2 then go where narrow, wide and workspace were. */
static void reserved_bytes_follow_the_allocator(void **state) {
    (void)state;
    plan *p = five_launches();
    assert_int_equal(memory_account_plan(p).reserved_bytes, 8 * 256);
    plan_destroy(p);
}

static void a_plan_that_only_holds_weights_peaks_before_the_first_launch(void **state) {
    (void)state;
    plan *p = plan_create("weights");
    add(p, ROLE_PARAMETER, 100, -1, 0);
    plan_finish(p);
    memory_account account = memory_account_plan(p);
    assert_int_equal(account.peak_bytes, 100);
    assert_int_equal(account.peak_launch, -1);
    assert_int_equal(account.reserved_bytes, 256);
    plan_destroy(p);
}

static void the_living_at_a_launch_are_those_between_birth_and_last_use(void **state) {
    (void)state;
    plan *p = five_launches();
    static const char *const alive[] = {"WI", "WIS", "WISN", "WISNwk", "WISG", "WIG"};
    static const char letters[] = "WISNwkG";
    for (int launch = -1; launch < 5; launch++) {
        char found[8] = "";
        int64_t bytes = 0;
        for (int i = 0, n = 0; i < p->buffer_count; i++)
            if (memory_account_is_alive(&p->buffers[i], launch)) {
                found[n++] = letters[i];
                bytes += p->buffers[i].bytes;
            }
        assert_string_equal(found, alive[launch + 1]);
        assert_true(bytes <= memory_account_plan(p).peak_bytes);
    }
    plan_destroy(p);
}

static void births_and_deaths_are_sorted_by_launch(void **state) {
    (void)state;
    plan *p = five_launches();
    static const int births[] = {SAVED, NARROW, WIDE, WORKSPACE, GRADIENT};
    static const int deaths[] = {NARROW, WIDE, WORKSPACE, SAVED};
    static const int birth_start[] = {0, 1, 2, 4, 5, 5}, death_start[] = {0, 0, 0, 3, 4, 4};
    assert_memory_equal(p->births, births, sizeof births);
    assert_memory_equal(p->deaths, deaths, sizeof deaths);
    assert_memory_equal(p->birth_start, birth_start, sizeof birth_start);
    assert_memory_equal(p->death_start, death_start, sizeof death_start);
    plan_destroy(p);
}

static void costs_add_up_by_phase_and_in_all(void **state) {
    (void)state;
    plan *p = five_launches();
    p->launches[3].phase = p->launches[4].phase = PHASE_BACKWARD;
    p->launches[4].bytes_read = 12;
    p->launches[4].bytes_written = 5;
    plan_cost backward = plan_total_cost(p, PHASE_BACKWARD), all = plan_total_cost(p, PHASE_COUNT);
    assert_int_equal(backward.launches, 2);
    assert_true(backward.flops == 7 && backward.bytes_read == 12 && backward.bytes_written == 5);
    assert_int_equal(all.launches, 5);
    assert_true(all.flops == 10);
    assert_int_equal(plan_total_cost(p, PHASE_OPTIMIZER).launches, 0);
    plan_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_peak_is_the_one_worked_out_by_hand),
        cmocka_unit_test(reserved_bytes_follow_the_allocator),
        cmocka_unit_test(a_plan_that_only_holds_weights_peaks_before_the_first_launch),
        cmocka_unit_test(the_living_at_a_launch_are_those_between_birth_and_last_use),
        cmocka_unit_test(births_and_deaths_are_sorted_by_launch),
        cmocka_unit_test(costs_add_up_by_phase_and_in_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
