/* test_kernel_groups.c - what is summed over records of launches: exact statistics of each group,
 * busy time as a union over streams, phases by launch and never by time. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/kernel_groups.h"
#include "support/expect.h"

enum { BY_KERNEL, BY_CLASS, BY_SCOPE, BY_PHASE, BY_KERNEL_AND_PHASE, GROUPINGS };

static const grouping BY[GROUPINGS] = {
    [BY_KERNEL] = {"by_kernel", {GROUP_KERNEL}, 1},
    [BY_CLASS] = {"by_class", {GROUP_CLASS}, 1},
    [BY_SCOPE] = {"by_scope", {GROUP_FOLDED_SCOPE}, 1},
    [BY_PHASE] = {"by_phase", {GROUP_PHASE}, 1},
    [BY_KERNEL_AND_PHASE] = {"both", {GROUP_KERNEL, GROUP_PHASE}, 2}};

static kernel_groups *new_groups(void) { return kernel_groups_create(BY, GROUPINGS); }

/* A record of a kernel in a phase, from begin to end. */
static launch_record record_of(const char *kernel, const char *phase, int64_t begin, int64_t end) {
    return (launch_record){.kernel = kernel,
                           .class_name = "elementwise",
                           .scope = "layers.3.mlp",
                           .phase = phase,
                           .begin_ns = begin,
                           .end_ns = end,
                           .share_ns = (double)(end - begin)};
}

static void add(kernel_groups *g, launch_record r) { expect_ok(kernel_groups_add(g, &r)); }

static const kernel_group *find(const kernel_groups *g, int by, const char *first,
                                const char *second) {
    return kernel_groups_find(g, by, (const char *const[]){first, second});
}

static void expect_near(double a, double b) { assert_true(fabs(a - b) <= 1e-9 * fabs(b)); }

static void statistics_of_a_group_are_exact(void **state) {
    (void)state;
    static const int64_t DURATIONS[] = {5, 3, 9, 3, 100, 7};
    kernel_groups *g = new_groups();
    int64_t at = 0;
    for (int i = 0; i < 6; i++, at += 1000)
        add(g, record_of("exp", "forward", at, at + DURATIONS[i]));
    const kernel_group *exp = find(g, BY_KERNEL, "exp", NULL);
    value_summary s = value_counts_summarize(&exp->durations);
    assert_int_equal(s.count, 6);
    assert_int_equal(s.min, 3);
    assert_int_equal(s.max, 100);
    expect_near(s.total, 127);
    expect_near(s.median, 6);
    double mean = 127.0 / 6, squares = 0;
    for (int i = 0; i < 6; i++)
        squares += ((double)DURATIONS[i] - mean) * ((double)DURATIONS[i] - mean);
    expect_near(s.std, sqrt(squares / 5));
    kernel_groups_destroy(g);
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void statistics_of_many_different_durations_are_those_of_the_sorted_list(void **state) {
    (void)state;
    enum { COUNT = 20001 };
    int64_t *all = malloc(COUNT * sizeof *all);
    value_counts counts = {0};
    uint32_t random = 7;
    double total = 0;
    for (int i = 0; i < COUNT; i++) {
        random = random * 1664525u + 1013904223u;
        all[i] = random >> 12;
        total += (double)all[i];
        value_counts_add(&counts, all[i]);
    }
    qsort(all, COUNT, sizeof *all, by_value);
    value_summary s = value_counts_summarize(&counts);
    assert_int_equal(s.count, COUNT);
    assert_int_equal(s.min, all[0]);
    assert_int_equal(s.max, all[COUNT - 1]);
    expect_near(s.median, (double)all[COUNT / 2]);
    expect_near(s.total, total);
    value_counts_release(&counts);
    free(all);
}

static void a_long_trace_of_few_different_durations_needs_little_memory(void **state) {
    (void)state;
    value_counts counts = {0};
    for (int i = 0; i < 1000000; i++)
        value_counts_add(&counts, 1000 + i % 50);
    assert_int_equal(counts.used, 50);
    assert_true(counts.capacity <= 256);
    assert_int_equal(value_counts_summarize(&counts).count, 1000000);
    value_counts_release(&counts);
}

static void nothing_has_no_statistics(void **state) {
    (void)state;
    value_summary s = value_counts_summarize(&(value_counts){0});
    assert_int_equal(s.count, 0);
    assert_true(isnan(s.std));
}

static void busy_is_the_union_over_streams_in_any_order(void **state) {
    (void)state;
    static const int64_t TIMES[][2] = {{250, 400}, {100, 200}, {500, 600}, {210, 300}, {120, 130}};
    kernel_groups *g = new_groups();
    for (int i = 0; i < 5; i++)
        add(g, record_of("exp", "forward", TIMES[i][0], TIMES[i][1]));
    const device_time *times;
    assert_int_equal(kernel_groups_device_times(g, &times), 2);
    assert_null(times[0].phase);
    expect_near(times[0].span_ns, 500);
    expect_near(times[0].busy_ns, 100 + 190 + 100);
    expect_near(times[0].running_ns, 150 + 100 + 100 + 90 + 10);
    assert_int_equal(times[0].gaps.count, 2);
    assert_int_equal(times[0].gaps.max, 100);
    assert_int_equal(times[0].gaps.min, 10);
    kernel_groups_destroy(g);
}

static void the_union_of_many_intervals_is_that_of_a_bitmap(void **state) {
    (void)state;
    enum { END = 1 << 16, COUNT = 9000 };
    char *covered = calloc(END, 1);
    interval_set set = {0};
    uint32_t random = 99;
    for (int i = 0; i < COUNT; i++) {
        random = random * 1664525u + 1013904223u;
        int64_t begin = random % (END - 8), end = begin + (random >> 29);
        interval_set_add(&set, begin, end);
        memset(covered + begin, 1, (size_t)(end - begin));
    }
    int64_t busy = 0;
    for (int i = 0; i < END; i++)
        busy += covered[i];
    interval_sums sums = interval_set_sum(&set, NULL);
    assert_int_equal(sums.busy, busy);
    assert_int_equal(sums.busy + sums.gaps, sums.end - sums.begin);
    interval_set_release(&set);
    free(covered);
}

/* The device runs behind the host: the forward's last kernel runs when the host launches the backward
 * already. In one of the write-ups 37 % of a kernel's instances were filed under the wrong phase. */
static void a_kernel_belongs_to_the_phase_that_launched_it_however_late_it_runs(void **state) {
    (void)state;
    kernel_groups *g = new_groups();
    launch_record late = record_of("gemm", "forward", 900, 1000);
    late.host_begin_ns = 10;
    late.host_end_ns = 12;
    late.correlation = 1;
    launch_record next = record_of("gemm", "backward", 1000, 1040);
    next.host_begin_ns = 20; /* long before the forward's kernel begins */
    next.host_end_ns = 22;
    next.correlation = 2;
    add(g, next);
    add(g, late);
    expect_near(find(g, BY_PHASE, "forward", NULL)->running_ns, 100);
    expect_near(find(g, BY_PHASE, "backward", NULL)->running_ns, 40);
    assert_int_equal(find(g, BY_KERNEL_AND_PHASE, "gemm", "forward")->count, 1);
    const device_time *times;
    assert_int_equal(kernel_groups_device_times(g, &times), 3);
    assert_int_equal(times[0].host_calls, 2);
    expect_near(times[0].host_calls_ns, 4);
    assert_int_equal(times[0].behind.max, 980);
    kernel_groups_destroy(g);
}

static void a_phase_spans_its_own_launches_only(void **state) {
    (void)state;
    kernel_groups *g = new_groups();
    add(g, record_of("a", "forward", 0, 10));
    add(g, record_of("b", "backward", 10, 40));
    add(g, record_of("c", "optimizer", 20, 30)); /* beside the backward, on another stream */
    const device_time *times;
    assert_int_equal(kernel_groups_device_times(g, &times), 4);
    assert_string_equal(times[1].phase, "forward");
    expect_near(times[1].span_ns, 10);
    assert_string_equal(times[2].phase, "backward");
    expect_near(times[2].busy_ns, 30);
    assert_string_equal(times[3].phase, "optimizer");
    expect_near(times[3].span_ns, 10);
    expect_near(times[0].span_ns, 40);
    kernel_groups_destroy(g);
}

/* Micro-batches: forward and backward take turns, and the device is idle once. */
static void a_device_that_runs_another_phase_or_step_is_not_idle(void **state) {
    (void)state;
    kernel_groups *g = new_groups();
    add(g, record_of("a", "forward", 0, 10));
    add(g, record_of("b", "backward", 10, 30));
    add(g, record_of("a", "forward", 30, 40));
    add(g, record_of("b", "backward", 45, 65));
    launch_record copy = record_of("copy", "forward", 20, 60); /* for the next step, meanwhile */
    copy.step = 1;
    const device_time *times;
    assert_int_equal(kernel_groups_device_times(g, &times), 3);
    expect_near(times[0].busy_ns, 60);
    assert_string_equal(times[1].phase, "forward");
    expect_near(times[1].span_ns, 40);
    expect_near(times[1].busy_ns, 40);
    assert_int_equal(times[1].gaps.count, 0);
    expect_near(times[2].span_ns, 55);
    expect_near(times[2].busy_ns, 50);
    assert_int_equal(times[2].gaps.count, 1);
    expect_near((double)times[2].gaps.max, 5);
    add(g, copy);
    assert_int_equal(kernel_groups_device_times(g, &times), 3);
    expect_near(times[0].span_ns, 65); /* the steps overlap */
    expect_near(times[0].busy_ns, 65);
    assert_int_equal(times[2].gaps.count, 0);
    kernel_groups_destroy(g);
}

static void one_slow_step_moves_the_mean_of_spans_and_not_their_median(void **state) {
    (void)state;
    static const int64_t SPANS[] = {10, 1000, 12};
    kernel_groups *g = new_groups();
    for (int i = 0; i < 3; i++) {
        launch_record r = record_of("a", "forward", i * 10000, i * 10000 + SPANS[i]);
        r.step = i;
        add(g, r);
    }
    const device_time *times;
    assert_int_equal(kernel_groups_device_times(g, &times), 2);
    expect_near(times[0].span_ns, 1022);
    expect_near(times[0].span_median_ns, 12);
    kernel_groups_destroy(g);
}

static void devices_are_busy_each_for_itself(void **state) {
    (void)state;
    kernel_groups *g = new_groups();
    launch_record other = record_of("a", "forward", 0, 10);
    other.device = 1;
    add(g, other);
    add(g, record_of("a", "forward", 5, 10));
    const device_time *times;
    assert_int_equal(kernel_groups_device_times(g, &times), 4);
    assert_int_equal(times[0].device, 0);
    expect_near(times[0].busy_ns, 5);
    assert_int_equal(times[2].device, 1);
    expect_near(times[2].busy_ns, 10);
    kernel_groups_destroy(g);
}

static void steps_are_summed_and_the_time_between_them_is_not_idle(void **state) {
    (void)state;
    kernel_groups *g = new_groups();
    for (int step = 0; step < 3; step++)
        for (int i = 0; i < 2; i++) {
            launch_record r =
                record_of("a", "forward", 1000 * step + 20 * i, 1000 * step + 20 * i + 15);
            r.step = step;
            add(g, r);
        }
    const device_time *times;
    kernel_groups_device_times(g, &times);
    assert_int_equal(times[0].steps, 3);
    expect_near(times[0].span_ns, 3 * 35);
    expect_near(times[0].busy_ns, 3 * 30);
    assert_int_equal(times[0].gaps.count, 3);
    assert_int_equal(kernel_groups_step_count(g), 3);
    assert_true(kernel_group_is_even(find(g, BY_KERNEL, "a", NULL), 3));
    kernel_groups_destroy(g);
}

static void a_count_that_is_not_the_same_in_every_step_is_noticed(void **state) {
    (void)state;
    kernel_groups *g = new_groups();
    static const int STEPS[] = {0, 0, 0, 1}; /* 4 launches of 2 steps: 2 each on average */
    for (int i = 0; i < 4; i++) {
        launch_record r = record_of("a", "forward", i, i + 1);
        r.step = STEPS[i];
        add(g, r);
    }
    assert_false(kernel_group_is_even(find(g, BY_KERNEL, "a", NULL), 2));
    kernel_groups_destroy(g);
}

static void what_belongs_to_no_launch_has_a_row_of_its_own(void **state) {
    (void)state;
    kernel_groups *g = new_groups();
    add(g, record_of("a", "forward", 0, 10));
    add(g, (launch_record){.launch = LAUNCH_UNKNOWN,
                           .recorded = "stranger",
                           .begin_ns = 10,
                           .end_ns = 40,
                           .share_ns = 30});
    expect_near(find(g, BY_PHASE, ROW_UNATTRIBUTED, NULL)->running_ns, 30);
    expect_near(find(g, BY_CLASS, ROW_UNATTRIBUTED, NULL)->running_ns, 30);
    expect_near(find(g, BY_SCOPE, ROW_UNATTRIBUTED, NULL)->running_ns, 30);
    expect_near(find(g, BY_KERNEL, "stranger", NULL)->running_ns, 30);
    expect_near(find(g, BY_PHASE, "forward", NULL)->running_ns, 10);
    const device_time *times;
    kernel_groups_device_times(g, &times);
    expect_near(times[0].unattributed_ns, 30);
    assert_int_equal(times[0].unattributed, 1);
    kernel_groups_destroy(g);
}

static void a_launch_of_two_phases_is_one_launch_and_its_time_is_divided(void **state) {
    (void)state;
    kernel_groups *g = new_groups();
    launch_record r = record_of("loss_head", "forward", 0, 100);
    r.backward_part = 0.75;
    r.has_cost = true;
    r.flops = 400;
    add(g, r);
    expect_near(find(g, BY_PHASE, "forward", NULL)->running_ns, 25);
    expect_near(find(g, BY_PHASE, "backward", NULL)->running_ns, 75);
    expect_near(find(g, BY_PHASE, "backward", NULL)->flops, 300);
    assert_int_equal(find(g, BY_PHASE, "forward", NULL)->count, 1);
    assert_int_equal(find(g, BY_PHASE, "backward", NULL)->count, 0);
    expect_near(find(g, BY_KERNEL, "loss_head", NULL)->running_ns, 100);
    kernel_groups_destroy(g);
}

static void layers_are_folded_where_that_is_asked_for(void **state) {
    (void)state;
    kernel_groups *g = new_groups();
    for (int i = 0; i < 4; i++) {
        static const char *const SCOPES[] = {"layers.0.mlp", "layers.1.mlp", "head", ""};
        launch_record r = record_of("a", "forward", i, i + 1);
        r.scope = SCOPES[i];
        add(g, r);
    }
    assert_int_equal(find(g, BY_SCOPE, "layers.*.mlp", NULL)->count, 2);
    assert_int_equal(find(g, BY_SCOPE, "head", NULL)->count, 1);
    assert_int_equal(find(g, BY_SCOPE, "(top)", NULL)->count, 1);
    kernel_groups_destroy(g);
}

static void groups_come_longest_first_and_equal_ones_by_name(void **state) {
    (void)state;
    kernel_groups *g = new_groups();
    add(g, record_of("b", "forward", 0, 10));
    add(g, record_of("a", "forward", 0, 10));
    add(g, record_of("c", "forward", 0, 90));
    int count;
    const kernel_group *const *sorted = kernel_groups_sorted(g, BY_KERNEL, &count);
    assert_int_equal(count, 3);
    assert_string_equal(sorted[0]->keys[0], "c");
    assert_string_equal(sorted[1]->keys[0], "a");
    assert_string_equal(sorted[2]->keys[0], "b");
    kernel_groups_destroy(g);
}

static void a_graph_is_one_call_of_the_host_for_all_of_its_kernels(void **state) {
    (void)state;
    kernel_groups *g = new_groups();
    for (int i = 0; i < 5; i++) {
        launch_record r = record_of("a", "forward", 100 + i, 101 + i);
        r.host_begin_ns = 50;
        r.host_end_ns = 60;
        r.correlation = 7;
        add(g, r);
    }
    const device_time *times;
    kernel_groups_device_times(g, &times);
    assert_int_equal(times[0].host_calls, 1);
    expect_near(times[0].host_calls_ns, 10);
    kernel_groups_destroy(g);
}

static void times_that_no_clock_has_are_refused(void **state) {
    (void)state;
    kernel_groups *g = new_groups();
    launch_record r = record_of("a", "forward", 10, 9);
    assert_int_equal(kernel_groups_add(g, &r), DYNO_CORRUPT);
    assert_non_null(strstr(dyno_error_message(), "from 10 to 9 ns"));
    r = record_of("a", "forward", -1, 9);
    assert_int_equal(kernel_groups_add(g, &r), DYNO_CORRUPT);
    r = record_of("a", "forward", 0, INT64_MAX);
    assert_int_equal(kernel_groups_add(g, &r), DYNO_CORRUPT);
    r = record_of("a", "forward", 0, 1);
    r.host_begin_ns = 5;
    assert_int_equal(kernel_groups_add(g, &r), DYNO_CORRUPT);
    assert_int_equal(kernel_groups_record_count(g), 0);
    assert_null(find(g, BY_KERNEL, "a", NULL));
    kernel_groups_destroy(g);
}

/* A program that gives every launch a name of its own. */
static void names_without_end_are_refused_before_they_fill_the_memory(void **state) {
    (void)state;
    enum { NAME_BYTES = 4000, MOST = (256 << 20) / NAME_BYTES };
    static char name[NAME_BYTES + 1];
    kernel_groups *g = new_groups();
    dyno_status status = DYNO_OK;
    memset(name, 'x', NAME_BYTES);
    int added = 0;
    for (; added < MOST && status == DYNO_OK; added++) {
        snprintf(name + NAME_BYTES - 16, 17, "%016d", added);
        launch_record r = record_of(name, "forward", 10 * added, 10 * added + 5);
        status = kernel_groups_add(g, &r);
    }
    assert_int_equal(status, DYNO_OUT_OF_MEMORY);
    assert_true(added > 20000); /* as no program that means its names has */
    assert_non_null(strstr(dyno_error_message(), "the limit is 256 MiB"));
    kernel_groups_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_of_a_group_are_exact),
        cmocka_unit_test(statistics_of_many_different_durations_are_those_of_the_sorted_list),
        cmocka_unit_test(a_long_trace_of_few_different_durations_needs_little_memory),
        cmocka_unit_test(nothing_has_no_statistics),
        cmocka_unit_test(busy_is_the_union_over_streams_in_any_order),
        cmocka_unit_test(the_union_of_many_intervals_is_that_of_a_bitmap),
        cmocka_unit_test(a_kernel_belongs_to_the_phase_that_launched_it_however_late_it_runs),
        cmocka_unit_test(a_phase_spans_its_own_launches_only),
        cmocka_unit_test(a_device_that_runs_another_phase_or_step_is_not_idle),
        cmocka_unit_test(one_slow_step_moves_the_mean_of_spans_and_not_their_median),
        cmocka_unit_test(devices_are_busy_each_for_itself),
        cmocka_unit_test(steps_are_summed_and_the_time_between_them_is_not_idle),
        cmocka_unit_test(a_count_that_is_not_the_same_in_every_step_is_noticed),
        cmocka_unit_test(what_belongs_to_no_launch_has_a_row_of_its_own),
        cmocka_unit_test(a_launch_of_two_phases_is_one_launch_and_its_time_is_divided),
        cmocka_unit_test(layers_are_folded_where_that_is_asked_for),
        cmocka_unit_test(groups_come_longest_first_and_equal_ones_by_name),
        cmocka_unit_test(a_graph_is_one_call_of_the_host_for_all_of_its_kernels),
        cmocka_unit_test(times_that_no_clock_has_are_refused),
        cmocka_unit_test(names_without_end_are_refused_before_they_fill_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
