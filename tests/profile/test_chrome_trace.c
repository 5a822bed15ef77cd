/* test_chrome_trace.c - traces of records that are made by hand: streams that overlap, calls that launch
 * graphs, clocks that differ. What is true of every trace, tests/scripts/trace_rules.py checks. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/json.h"
#include "profile/chrome_trace.h"
#include "support/expect.h"
#include "support/scratch.h"

enum { LAUNCHES = 3 };

/* Three launches; the parameter is there before them, the activation while the last two run. */
static plan *small_plan(void) {
    plan *p = plan_create("small");
    for (int i = 0; i < LAUNCHES; i++)
        plan_add_launch(p, 0, 0);
    plan_add_buffer(p, &(plan_buffer){.bytes = 100,
                                      .role = ROLE_PARAMETER,
                                      .born = -1,
                                      .last_used = LAUNCHES,
                                      .is_persistent = true});
    plan_add_buffer(p,
                    &(plan_buffer){.bytes = 7, .role = ROLE_ACTIVATION, .born = 1, .last_used = 2});
    plan_finish(p);
    return p;
}

static launch_record record_of(int step, int launch, int64_t begin_ns, int64_t end_ns) {
    static const char *const SCOPES[LAUNCHES] = {"layers.0.attn", "layers.0.mlp", ""};
    return (launch_record){.step = step,
                           .launch = launch,
                           .kernel = "planned",
                           .recorded = launch == 1 ? "say \"hi\"\n\\ <T>" : "kernel",
                           .op = "op",
                           .class_name = "matmul",
                           .scope = SCOPES[launch],
                           .phase = launch == 2 ? "optimizer" : "forward",
                           .stream = 7,
                           .begin_ns = begin_ns,
                           .end_ns = end_ns};
}

static launch_record called(launch_record r, int64_t correlation, int64_t begin, int64_t end) {
    r.correlation = correlation;
    r.host_begin_ns = begin;
    r.host_end_ns = end;
    r.host_call = "cudaLaunchKernel";
    return r;
}

/* Writes and parses it; the caller releases the document. */
static json_t *trace_of(const launch_record *records, int count, logged_step step, bool is_host,
                        bool is_observed) {
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "trace.json");
    launch_log log = {0};
    plan *p = small_plan();
    json_t *document;
    byte_sink *sink;
    int64_t events;
    for (int i = 0; i < count; i++)
        launch_log_add(&log, &records[i]);
    launch_log_add_step(&log, step);
    chrome_trace trace = {.log = &log,
                          .p = p,
                          .device_name = "cuda:0",
                          .device_description = "a \"GPU\"",
                          .is_host = is_host,
                          .is_observed = is_observed,
                          .unix_offset_ns = 5000000,
                          .process = 77};
    expect_ok(byte_sink_create(path.text, true, &sink));
    expect_ok(chrome_trace_write(&trace, sink, &events));
    expect_ok(byte_sink_commit(sink));
    expect_ok(json_read_file(path.text, &document));
    assert_int_equal(json_array_size(json_object_get(document, "traceEvents")), events);
    plan_destroy(p);
    launch_log_release(&log);
    scratch_remove(&made);
    return document;
}

/* The event of this kind and category that comes as number `which`; NULL behind the last. */
static json_t *find(json_t *document, const char *kind, const char *category, int which) {
    size_t i;
    json_t *event;
    json_array_foreach(json_object_get(document, "traceEvents"), i, event) {
        const char *its = json_string_value(json_object_get(event, "cat"));
        if (strcmp(json_string_value(json_object_get(event, "ph")), kind) == 0 &&
            (!category || (its && strcmp(its, category) == 0)) && which-- == 0)
            return event;
    }
    return NULL;
}

static int count_of(json_t *document, const char *kind, const char *category) {
    int count = 0;
    while (find(document, kind, category, count))
        count++;
    return count;
}

static int64_t ns(json_t *event, const char *key) {
    assert_non_null(event);
    return (int64_t)(json_number_value(json_object_get(event, key)) * 1000 + 0.5);
}

static void expect_slice(json_t *event, const char *name, int64_t begin, int64_t duration) {
    assert_non_null(event);
    assert_string_equal(json_string_value(json_object_get(event, "name")), name);
    assert_int_equal(ns(event, "ts"), begin);
    assert_int_equal(ns(event, "dur"), duration);
}

static int64_t argument(json_t *event, const char *key) {
    json_t *value = json_object_get(json_object_get(event, "args"), key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void launches_are_in_their_scopes_and_joined_to_their_kernels(void **state) {
    (void)state;
    const launch_record records[] = {called(record_of(0, 0, 2000, 2500), 11, 1100, 1200),
                                     called(record_of(0, 1, 2500, 4001), 12, 1300, 1450),
                                     called(record_of(0, 2, 4100, 4200), 13, 1500, 1600)};
    json_t *t = trace_of(records, 3, (logged_step){1000, 1700, 4300}, false, true);
    assert_int_equal(json_integer_value(json_object_get(t, "baseTimeNanoseconds")), 5001000);
    expect_slice(find(t, "X", "user_annotation", 0), "ProfilerStep#0", 0, 3300);
    expect_slice(find(t, "X", "user_annotation", 1), "forward", 100, 350);
    expect_slice(find(t, "X", "user_annotation", 2), "layers", 100, 350);
    expect_slice(find(t, "X", "user_annotation", 3), "0", 100, 350);
    expect_slice(find(t, "X", "user_annotation", 4), "attn", 100, 100);
    expect_slice(find(t, "X", "user_annotation", 5), "mlp", 300, 150);
    expect_slice(find(t, "X", "user_annotation", 6), "optimizer", 500, 100);
    expect_slice(find(t, "X", "cpu_op", 2), "op", 500, 100);
    expect_slice(find(t, "X", "cuda_runtime", 1), "cudaLaunchKernel", 300, 150);
    expect_slice(find(t, "X", "gpu_user_annotation", 0), "forward", 1000, 2001);
    expect_slice(find(t, "X", "kernel", 1), "say \"hi\"\n\\ <T>", 1500, 1501);
    assert_int_equal(argument(find(t, "X", "kernel", 1), "correlation"),
                     argument(find(t, "X", "cuda_runtime", 1), "correlation"));
    assert_int_equal(argument(find(t, "X", "kernel", 1), "External id"),
                     argument(find(t, "X", "cpu_op", 1), "External id"));
    assert_int_equal(ns(find(t, "s", "ac2g", 1), "ts"), 300);
    assert_int_equal(ns(find(t, "f", "ac2g", 1), "ts"), 1500);
    assert_int_equal(count_of(t, "s", "ac2g"), 3);
    json_decref(t);
}

static void memory_is_counted_while_each_launch_runs(void **state) {
    (void)state;
    const launch_record records[] = {record_of(0, 0, 2000, 2500), record_of(0, 1, 2500, 4000),
                                     record_of(0, 1, 4000, 4100), record_of(0, 2, 4100, 4200)};
    json_t *t = trace_of(records, 4, (logged_step){1000, 1700, 4300}, false, true);
    assert_int_equal(count_of(t, "C", NULL), LAUNCHES);
    for (int i = 0; i < LAUNCHES; i++) {
        json_t *counter = find(t, "C", NULL, i);
        assert_int_equal(argument(counter, "parameter"), 100);
        assert_int_equal(argument(counter, "activation"), i ? 7 : 0);
    }
    assert_int_equal(ns(find(t, "C", NULL, 2), "ts"), 3100);
    assert_int_equal(count_of(t, "s", "ac2g"), 0); /* the calls are not known */
    json_decref(t);
}

static void a_graph_is_one_call_with_a_flow_to_each_kernel(void **state) {
    (void)state;
    launch_record records[LAUNCHES];
    for (int i = 0; i < LAUNCHES; i++) {
        records[i] = called(record_of(0, i, 2000 + 100 * i, 2100 + 100 * i), 5, 1100, 1200);
        records[i].graph_node = 40 + (uint64_t)i;
        records[i].host_call = "cuGraphLaunch";
    }
    json_t *t = trace_of(records, 3, (logged_step){1000, 1300, 2400}, false, true);
    assert_int_equal(count_of(t, "X", "cuda_driver"), 1);
    expect_slice(find(t, "X", "cuda_driver", 0), "cuGraphLaunch", 100, 100);
    assert_int_equal(count_of(t, "X", "cpu_op"), 0);
    assert_int_equal(count_of(t, "X", "user_annotation"), 1); /* the step */
    assert_int_equal(count_of(t, "s", "ac2g"), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(argument(find(t, "X", "kernel", i), "correlation"),
                         argument(find(t, "X", "cuda_driver", 0), "correlation"));
    expect_slice(find(t, "X", "gpu_user_annotation", 2), "0", 1000, 200);
    json_decref(t);
}

static void launches_of_one_call_share_the_scope_that_they_have_in_common(void **state) {
    (void)state;
    launch_record records[] = {called(record_of(0, 0, 2000, 2100), 5, 1100, 1200),
                               called(record_of(0, 1, 2100, 2200), 5, 1100, 1200)};
    json_t *t = trace_of(records, 2, (logged_step){1000, 1300, 2400}, false, true);
    assert_int_equal(count_of(t, "X", "user_annotation"), 4);
    expect_slice(find(t, "X", "user_annotation", 3), "0", 100, 100);
    json_decref(t);
}

static void work_that_overlaps_on_a_stream_is_on_further_threads(void **state) {
    (void)state;
    launch_record records[] = {record_of(0, 0, 2000, 2500), record_of(0, 1, 2400, 2700),
                               record_of(0, 2, 2500, 2600)};
    json_t *t = trace_of(records, 3, (logged_step){1000, 1300, 2800}, false, true);
    json_t *threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = json_object_get(find(t, "X", "kernel", i), "tid");
    assert_int_equal(json_integer_value(threads[0]), 7);
    assert_int_equal(json_integer_value(threads[2]), 7);
    assert_int_not_equal(json_integer_value(threads[1]), 7);
    assert_int_equal(argument(find(t, "X", "kernel", 1), "stream"), 7);
    json_decref(t);
}

/* A clock that is a little behind: the first call seems to be made before its step began. */
static void a_step_is_around_its_calls(void **state) {
    (void)state;
    launch_record records[] = {called(record_of(0, 0, 2000, 2500), 1, 900, 1050),
                               called(record_of(0, 1, 2500, 2600), 2, 1040, 1100),
                               called(record_of(0, 2, 2600, 2700), 3, 1200, 5000)};
    json_t *t = trace_of(records, 3, (logged_step){1000, 1300, 2800}, false, true);
    expect_slice(find(t, "X", "user_annotation", 0), "ProfilerStep#0", 0, 4100);
    expect_slice(find(t, "X", "cuda_runtime", 0), "cudaLaunchKernel", 0, 150);
    expect_slice(find(t, "X", "cuda_runtime", 1), "cudaLaunchKernel", 150, 50); /* not before */
    json_decref(t);
}

/* Where times are of events, the first launch is taken to begin with the step. */
static void nothing_runs_before_its_call(void **state) {
    (void)state;
    launch_record records[] = {called(record_of(0, 0, 1000, 1400), 0, 1100, 1150),
                               called(record_of(0, 1, 1500, 1600), 0, 1700, 1750),
                               called(record_of(0, 2, 1600, 1700), 0, 1750, 1760)};
    json_t *t = trace_of(records, 3, (logged_step){1000, 1300, 1900}, false, false);
    expect_slice(find(t, "X", "kernel", 0), "kernel", 200, 400);
    assert_int_equal(ns(find(t, "X", "kernel", 1), "ts"), 700);
    json_decref(t);
}

static void a_cpu_is_in_the_call_as_long_as_the_kernel_runs(void **state) {
    (void)state;
    launch_record records[] = {called(record_of(0, 0, 1000, 1400), 0, 1100, 1350)};
    json_t *t = trace_of(records, 1, (logged_step){1000, 1400, 1500}, true, false);
    expect_slice(find(t, "X", "kernel", 0), "kernel", 0, 400);
    expect_slice(find(t, "X", "cpu_op", 0), "op", 0, 400);
    assert_int_equal(argument(find(t, "X", "cpu_op", 0), "correlation"),
                     argument(find(t, "X", "kernel", 0), "correlation"));
    assert_int_equal(count_of(t, "X", "cuda_runtime"), 0);
    json_decref(t);
}

static void copies_and_work_of_no_launch_are_told_apart(void **state) {
    (void)state;
    launch_record copy = called(record_of(0, 0, 2000, 2100), 1, 1100, 1200);
    copy.recorded = "memcpy";
    launch_record unknown = {.launch = LAUNCH_UNKNOWN,
                             .recorded = "memset",
                             .device = 90,
                             .begin_ns = 2100,
                             .end_ns = 2200};
    const launch_record records[] = {unknown, copy};
    json_t *t = trace_of(records, 2, (logged_step){1000, 1300, 2300}, false, true);
    expect_slice(find(t, "X", "gpu_memcpy", 0), "memcpy", 1000, 100);
    expect_slice(find(t, "X", "gpu_memset", 0), "memset", 1100, 100);
    assert_null(json_object_get(json_object_get(find(t, "X", "gpu_memset", 0), "args"), "phase"));
    /* Device 90 has that number as a process, so the host cannot have 77, which is below it. */
    assert_int_equal(json_integer_value(json_object_get(find(t, "X", "cpu_op", 0), "pid")), 91);
    json_decref(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_are_in_their_scopes_and_joined_to_their_kernels),
        cmocka_unit_test(memory_is_counted_while_each_launch_runs),
        cmocka_unit_test(a_graph_is_one_call_with_a_flow_to_each_kernel),
        cmocka_unit_test(launches_of_one_call_share_the_scope_that_they_have_in_common),
        cmocka_unit_test(work_that_overlaps_on_a_stream_is_on_further_threads),
        cmocka_unit_test(a_step_is_around_its_calls),
        cmocka_unit_test(nothing_runs_before_its_call),
        cmocka_unit_test(a_cpu_is_in_the_call_as_long_as_the_kernel_runs),
        cmocka_unit_test(copies_and_work_of_no_launch_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
