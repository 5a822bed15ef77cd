/* test_foreign_pytorch.c - real traces of PyTorch's profiler give what its own key_averages() says of
 * them (tests/traces/make_pytorch.py), and the rules by which events are read. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "support/expect.h"
#include "support/foreign_groups.h"
#include "support/scratch.h"
#include "support/trace_text.h"

/* ---- against PyTorch's own table ---- */

static double number(const json_t *row, const char *key) {
    return json_number_value(json_object_get(row, key));
}

static const char *string(const json_t *row, const char *key) {
    return json_string_value(json_object_get(row, key));
}

static void expect_same(const foreign_groups *g, int by, const json_t *row, const char *time) {
    const char *key = string(row, "key");
    const kernel_group *found = kernel_groups_find(g->groups, by, &key);
    if (!found)
        fail_msg("there is no '%s'", key);
    if (fabs(found->running_ns / 1e3 - number(row, time)) > 1e-3)
        fail_msg("'%s' takes %.3f us, %.3f by PyTorch", key, found->running_ns / 1e3,
                 number(row, time));
}

/* Each row of the table is a group of the trace, and there are no others. */
static int compare_rows(const foreign_groups *g, const json_t *rows, const char *device, int by,
                        const char *time) {
    int compared = 0;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        if (strcmp(string(row, "device"), device) != 0 ||
            json_is_true(json_object_get(row, "is_user_annotation")) ||
            (by == BY_OP && !(number(row, time) > 0)))
            continue;
        expect_same(g, by, row, time);
        const char *key = string(row, "key");
        const kernel_group *found = kernel_groups_find(g->groups, by, &key);
        if (by == BY_KERNEL)
            assert_int_equal(found->count, (int64_t)number(row, "count"));
        /* PyTorch counts products and also sums of two tensors; we count products. */
        if (by == BY_OP && strstr(key, "mm") && number(row, "flops") > 0)
            assert_true(fabs(found->flops - number(row, "flops")) < 0.5);
        compared++;
    }
    return compared;
}

static bool is_kernel_row(const json_t *row, const char *device) {
    return strcmp(string(row, "device"), device) == 0 &&
           !json_is_true(json_object_get(row, "is_user_annotation"));
}

/* The kernels by time, as both have them. */
static void compare_order(const foreign_groups *g, const json_t *rows, const char *device,
                          const char *time) {
    int count;
    const kernel_group *const *sorted = kernel_groups_sorted(g->groups, BY_KERNEL, &count);
    size_t i;
    json_t *row;
    const char *top = NULL;
    double most = -1;
    json_array_foreach(rows, i, row) if (is_kernel_row(row, device) && number(row, time) > most) {
        most = number(row, time);
        top = string(row, "key");
    }
    assert_true(count > 0);
    assert_string_equal(sorted[0]->keys[0], top);
}

static void compare_trace(const char *name) {
    char file[128];
    json_t *averages;
    snprintf(file, sizeof file, "pytorch-%s.averages.json", name);
    expect_ok(json_read_file(trace_path(file), &averages));
    snprintf(file, sizeof file, "pytorch-%s.json.gz", name);
    foreign_groups g = foreign_groups_read(trace_path(file), DYNO_OK);
    const json_t *rows = json_object_get(averages, "rows");
    bool is_cpu = strncmp(name, "cpu", 3) == 0;
    const char *device = is_cpu ? "CPU" : "CUDA", *time = is_cpu ? "self_cpu_us" : "self_device_us";
    int count, compared = compare_rows(&g, rows, device, BY_KERNEL, time);
    kernel_groups_sorted(g.groups, BY_KERNEL, &count);
    assert_int_equal(compared, count);
    compare_order(&g, rows, device, time);
    assert_true(compare_rows(&g, rows, "CPU", BY_OP, time) > 0);
    assert_int_equal(g.trace.is_of_host, is_cpu);
    assert_int_equal(g.trace.steps, 2);
    foreign_groups_release(&g);
    json_decref(averages);
}

static void counts_times_and_top_kernels_are_those_of_key_averages(void **state) {
    (void)state;
    static const char *const names[] = {"cpu-ranges", "cpu-plain", "cuda-ranges", "cuda-plain",
                                        "cuda-graph"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        compare_trace(names[i]);
}

static double time_of(const foreign_groups *g, const char *phase) {
    const kernel_group *found = kernel_groups_find(g->groups, BY_PHASE, &phase);
    return found ? found->running_ns : 0;
}

/* Both run the same program. What sequence numbers do not tell is left over. */
static void expect_nearly_the_same_phases(const foreign_groups *marked,
                                          const foreign_groups *plain) {
    static const char *const phases[] = {"forward", "backward", "optimizer"};
    for (int i = 0; i < 3; i++) {
        const kernel_group *a = kernel_groups_find(marked->groups, BY_PHASE, &phases[i]);
        const kernel_group *b = kernel_groups_find(plain->groups, BY_PHASE, &phases[i]);
        assert_non_null(a);
        assert_non_null(b);
        assert_true(b->count <= a->count && 10 * b->count >= 9 * a->count);
    }
    assert_true(time_of(marked, ROW_UNATTRIBUTED) <= 0);
    assert_int_equal(plain->trace.joined[JOINED_BY_THREAD], 0);
    assert_true(plain->trace.joined[JOINED_BY_SEQUENCE] >
                9 * plain->trace.joined[JOINED_TO_NOTHING]);
}

static void phases_are_the_ranges_of_the_program_or_come_from_sequence_numbers(void **state) {
    (void)state;
    foreign_groups marked = foreign_groups_read(trace_path("pytorch-cpu-ranges.json.gz"), DYNO_OK);
    foreign_groups plain = foreign_groups_read(trace_path("pytorch-cpu-plain.json.gz"), DYNO_OK);
    expect_nearly_the_same_phases(&marked, &plain);
    assert_int_equal(marked.trace.joined[JOINED_BY_THREAD], marked.trace.records);
    foreign_groups_release(&marked);
    foreign_groups_release(&plain);
}

/* The ranges are the main thread's; PyTorch launches the backward from another one. */
static void a_gpus_kernels_have_the_phase_of_their_launch(void **state) {
    (void)state;
    foreign_groups marked = foreign_groups_read(trace_path("pytorch-cuda-ranges.json.gz"), DYNO_OK);
    foreign_groups plain = foreign_groups_read(trace_path("pytorch-cuda-plain.json.gz"), DYNO_OK);
    expect_nearly_the_same_phases(&marked, &plain);
    const int64_t *joined = marked.trace.joined;
    assert_true(joined[JOINED_BY_THREAD] > 0 && joined[JOINED_BY_THREAD] < marked.trace.records);
    foreign_groups_release(&marked);
    foreign_groups_release(&plain);
}

/* ---- rules ---- */

static void outermost_range_names_the_phase_and_steps_name_none(void **state) {
    (void)state;
    expect_phase(TRACE(RANGE("ProfilerStep#3", 1, 0, 100) RANGE("train", 1, 1, 90)
                           RANGE("inner", 1, 2, 80) CALL(1, 5, 9) KERNEL("k", 500, 3, 9)),
                 "train", 1);
    expect_phase(TRACE(RANGE("step 3", 1, 0, 100) CALL(1, 5, 9) KERNEL("k", 500, 3, 9)), "step", 1);
    expect_phase(TRACE(RANGE("ProfilerStep#3", 1, 0, 100) CALL(1, 5, 9) KERNEL("k", 500, 3, 9)),
                 ROW_UNATTRIBUTED, 1);
}

static void pytorchs_own_ranges_name_no_phase_but_the_optimizer(void **state) {
    (void)state;
    expect_phase(
        TRACE(RANGE("Optimizer.step#AdamW.step", 1, 0, 100) CALL(1, 5, 9) KERNEL("k", 500, 3, 9)),
        "optimizer", 1);
    expect_phase(TRACE(RANGE("Torch-Compiled Region: 0/0", 1, 0, 100)
                           OP("aten::mm", 1, 1, 50, "\"Sequence number\":4,\"Fwd thread id\":0")
                               CALL(1, 5, 9) KERNEL("k", 500, 3, 9)),
                 "forward", 1);
}

#define BACKWARD(thread, begin, duration)                                                          \
    OP("autograd::engine::evaluate_function: MmBackward0", thread, begin, duration,                \
       "\"Sequence number\":4,\"Fwd thread id\":1")

static void backward_thread_belongs_to_the_range_that_is_open(void **state) {
    (void)state;
    expect_phase(TRACE(RANGE("forward", 1, 0, 50) RANGE("my backward", 1, 60, 100)
                           BACKWARD(2, 70, 20) CALL(2, 75, 9) KERNEL("k", 500, 3, 9)),
                 "my backward", 1);
    /* No range is open: PyTorch says what it is. */
    expect_phase(
        TRACE(RANGE("forward", 1, 0, 50) BACKWARD(2, 70, 20) CALL(2, 75, 9) KERNEL("k", 500, 3, 9)),
        "backward", 1);
    /* A hook's range inside the backward names no phase. */
    expect_phase(TRACE(RANGE("my backward", 1, 60, 100) BACKWARD(2, 70, 20) RANGE("hook", 2, 72, 10)
                           CALL(2, 75, 9) KERNEL("k", 500, 3, 9)),
                 "my backward", 1);
    /* On a CPU the backward runs in the thread that called it. */
    expect_phase(TRACE(RANGE("my backward", 1, 60, 100) BACKWARD(1, 70, 20) CALL(1, 75, 9)
                           KERNEL("k", 500, 3, 9)),
                 "my backward", 1);
    /* Two threads with work are in different ranges: which one it is cannot be said. */
    expect_phase(TRACE(RANGE("a", 1, 0, 100) CALL(1, 1, 7) RANGE("b", 2, 0, 100) CALL(2, 1, 8)
                           CALL(3, 50, 9) KERNEL("k", 500, 3, 9)),
                 ROW_UNATTRIBUTED, 1);
}

static void launch_outside_of_its_threads_ranges_is_not_attributed(void **state) {
    (void)state;
    expect_phase(TRACE(RANGE("forward", 1, 0, 50) CALL(1, 55, 9) KERNEL("k", 500, 3, 9)),
                 ROW_UNATTRIBUTED, 1);
}

static void kernel_without_a_call_belongs_to_its_operation(void **state) {
    (void)state;
    expect_phase(TRACE(RANGE("forward", 1, 0, 50) OP("aten::mm", 1, 10, 20, "\"External id\":77")
                           KERNEL("k", 500, 3, 9, ",\"External id\":77")),
                 "forward", 1);
}

static void call_belongs_to_the_thread_of_its_operation(void **state) {
    (void)state;
    foreign_groups g = foreign_groups_of_text(
        TRACE(RANGE("forward", 1, 0, 50) OP("aten::mm", 1, 10, 20, "\"External id\":77")
                  EVENT("cuda_runtime", "cudaLaunchKernel", 999, 15, 2,
                        "\"correlation\":9,\"External id\":77") KERNEL("k", 500, 3, 9)),
        DYNO_OK);
    expect_group(&g, BY_PHASE, "forward", 1, 3000);
    expect_group(&g, BY_OP, "aten::mm", 1, 3000);
    foreign_groups_release(&g);
}

static void backward_has_the_scope_of_its_forward(void **state) {
    (void)state;
    foreign_groups g = foreign_groups_of_text(
        TRACE(RANGE("forward", 1, 0, 50) RANGE("mlp", 1, 5, 30)
                  OP("aten::linear", 1, 10, 20, "\"Sequence number\":4,\"Fwd thread id\":0")
                      RANGE("backward", 1, 60, 100) BACKWARD(2, 70, 20) CALL(2, 75, 9)
                          KERNEL("k", 500, 3, 9)),
        DYNO_OK);
    expect_group(&g, BY_SCOPE, "mlp", 1, 3000);
    foreign_groups_release(&g);
}

/* What a GPU's timeline repeats of the host, and other kinds of events, is no work of it. */
static void only_kernels_copies_and_memsets_are_work(void **state) {
    (void)state;
    foreign_groups g = foreign_groups_of_text(
        TRACE(EVENT("gpu_user_annotation", "forward", 7, 0, 100, "\"stream\":7")
                  EVENT("overhead", "Buffer Flush", 1, 0, 100, "") KERNEL("k", 5, 3, 9)
                      EVENT("gpu_memcpy", "Memcpy HtoD", 7, 10, 4, "\"correlation\":10")
                          EVENT("gpu_memset", "Memset (Device)", 7, 20, 2, "\"correlation\":11")),
        DYNO_OK);
    assert_int_equal(g.trace.records, 3);
    expect_group(&g, BY_CLASS, "copy", 2, 6000);
    foreign_groups_release(&g);
}

static void own_time_of_an_operation_is_without_those_it_calls(void **state) {
    (void)state;
    foreign_groups g = foreign_groups_of_text(
        TRACE(OP("aten::linear", 1, 0, 100, "") OP("aten::t", 1, 10, 5, "")
                  OP("aten::addmm", 1, 20, 70, "") OP("aten::copy_", 1, 30, 10, "")
                      OP("aten::is_leaf", 1, 50, 1, "") OP("aten::linear", 2, 1000, 7.5, "")),
        DYNO_OK);
    assert_true(g.trace.is_of_host);
    expect_group(&g, BY_KERNEL, "aten::linear", 2, 25000 + 7500);
    expect_group(&g, BY_KERNEL, "aten::addmm", 1, 60000);
    expect_group(&g, BY_KERNEL, "aten::copy_", 1, 10000);
    /* PyTorch's tables leave it out, too. */
    expect_group(&g, BY_KERNEL, "aten::is_leaf", 0, 0);
    const device_time *times;
    assert_true(kernel_groups_device_times(g.groups, &times) > 0);
    assert_int_equal((int64_t)times[0].busy_ns, 107500);
    foreign_groups_release(&g);
}

static void times_keep_their_nanoseconds(void **state) {
    (void)state;
    foreign_groups g =
        foreign_groups_of_text(TRACE(KERNEL("k", 1790857026123456.789, 0.001, 9)), DYNO_OK);
    assert_int_equal(g.last.begin_ns, 1790857026123456789);
    assert_int_equal(g.last.end_ns, 1790857026123456790);
    foreign_groups_release(&g);
}

/* As one from Nsight Systems; "(unattributed)" would be about its phase. */
static void kernel_without_a_name_is_called_so(void **state) {
    (void)state;
    foreign_groups g = foreign_groups_of_text(
        TRACE(KERNEL("", 5, 3,
                     9) "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":12,\"ts\":9,\"dur\":4},"),
        DYNO_OK);
    expect_group(&g, BY_KERNEL, "(kernel without a name)", 2, 7000);
    expect_group(&g, BY_KERNEL, ROW_UNATTRIBUTED, 0, 0);
    foreign_groups_release(&g);
}

static void traces_of_old_versions_and_bare_arrays_are_read(void **state) {
    (void)state;
    foreign_groups g = foreign_groups_of_text(
        "[" EVENT("Operator", "aten::mm", 1, 0, 10, "\"External id\":\"5\"")
            EVENT("Runtime", "cudaLaunchKernel", 1, 2, 3, "\"correlation\":\"9\"")
                EVENT("Kernel", "k", 7, 20, 4, "\"correlation\":\"9\",\"stream\":\"7\"") "{}]",
        DYNO_OK);
    expect_group(&g, BY_OP, "aten::mm", 1, 4000);
    assert_int_equal(g.last.stream, 7);
    foreign_groups_release(&g);
}

#define SHAPES                                                                                     \
    "\"Input Dims\":[[64,16],[64,32],[32,16]],\"Input type\":[\"float\",\"float\",\"float\"]"

static void expect_flops(const foreign_groups *g, const char *kernel, double flops) {
    const kernel_group *found = kernel_groups_find(g->groups, BY_KERNEL, &kernel);
    assert_non_null(found);
    if (fabs(found->flops - flops) > 0.5)
        fail_msg("'%s' has %.0f FLOPs, not %.0f", kernel, found->flops, flops);
}

/* They come in any order, and a split along k may take longer to add up than to compute. */
static void flops_of_an_operation_are_those_of_its_longest_product(void **state) {
    (void)state;
    foreign_groups g = foreign_groups_of_text(
        TRACE(KERNEL("cublasLt::splitKreduce_kernel", 540, 12, 12) KERNEL("short_gemm", 500, 2, 9)
                  CALL(1, 5, 9) CALL(1, 8, 10) CALL(1, 11, 11) CALL(1, 14, 12)
                      KERNEL("scal_kernel(cublasTransposeParams)", 510, 20, 10)
                          KERNEL("long_gemm", 530, 9, 11) OP("aten::addmm", 1, 1, 50, SHAPES)),
        DYNO_OK);
    expect_flops(&g, "long_gemm", 2.0 * 64 * 32 * 16);
    expect_flops(&g, "short_gemm", 0);
    expect_flops(&g, "cublasLt::splitKreduce_kernel", 0);
    expect_flops(&g, "scal_kernel(cublasTransposeParams)", 0);
    foreign_groups_release(&g);
    g = foreign_groups_of_text(
        TRACE(CALL(1, 5, 9) KERNEL("softmax_warp_forward", 500, 2, 9)
                  OP("aten::_softmax", 1, 1, 50, "\"Input Dims\":[[2,3,4,5,6],[],[]]")),
        DYNO_OK);
    expect_flops(&g, "softmax_warp_forward", 5.0 * 2 * 3 * 4 * 5 * 6);
    foreign_groups_release(&g);
}

/* ---- files that are not as they should be ---- */

static void expect_refused(const char *document, dyno_status status, const char *part) {
    foreign_groups g = foreign_groups_of_text(document, status);
    foreign_groups_release(&g);
    if (!strstr(dyno_error_message(), part))
        fail_msg("'%s' has no '%s'", dyno_error_message(), part);
}

static void hostile_files_get_an_error(void **state) {
    (void)state;
    expect_refused("", DYNO_CORRUPT, "is empty");
    expect_refused("hello", DYNO_UNSUPPORTED, "neither an .sqlite export");
    expect_refused("{}", DYNO_CORRUPT, "no \"traceEvents\"");
    expect_refused("{\"traceEvents\": 7}", DYNO_CORRUPT, "no \"traceEvents\"");
    expect_refused("{\"traceEvents\": [7]}", DYNO_CORRUPT, "an event is no object");
    expect_refused("{\"traceEvents\": []}", DYNO_UNSUPPORTED, "no operations, ranges or kernels");
    expect_refused(TRACE(RANGE("forward", 1, 0, 50)), DYNO_UNSUPPORTED, "no operations or kernels");
    expect_refused("{\"traceEvents\": [{\"ph\": \"X\"", DYNO_CORRUPT, "is it whole?");
    expect_refused(TRACE(KERNEL("k", 5, 3, 9) "{\"ph\":\"B\",\"cat\":\"cpu_op\",\"name\":\"op\","
                                              "\"ts\":1},"),
                   DYNO_CORRUPT, "is a begin (ph B)");
    expect_refused(TRACE(KERNEL("k", -5, 3, 9)), DYNO_CORRUPT, "begins at -5.000 us");
    expect_refused(TRACE(KERNEL("k", 5, -3, 9)), DYNO_CORRUPT, "takes -3.000 us");
    expect_refused(TRACE(KERNEL("k", 1e300, 3, 9)), DYNO_CORRUPT, "no number of microseconds");
    expect_refused(TRACE(KERNEL("k", 9000000000000000, 3, 9)), DYNO_CORRUPT, "begins at");
    expect_refused(TRACE("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"dur\":1},"),
                   DYNO_CORRUPT, "has no ts");
    expect_refused(TRACE("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1},"),
                   DYNO_CORRUPT, "has no dur");
    expect_refused(TRACE(KERNEL("k", 5, 3, 9) "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"op\","
                                              "\"ts\":1},"),
                   DYNO_CORRUPT, "has no dur");
    expect_refused(TRACE("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"k\",\"ts\":null},"),
                   DYNO_CORRUPT, "no number of microseconds");
}

static void operations_that_nest_too_deep_are_refused(void **state) {
    (void)state;
    text document = {0};
    text_append(&document, "[");
    for (int i = 0; i < HOST_MOST_NESTING + 1; i++)
        text_format(&document,
                    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"op\",\"ts\":%d,\"dur\":%d},", i,
                    10000 - 2 * i);
    text_append(&document, "{}]");
    expect_refused(text_string(&document), DYNO_CORRUPT, "are open at once");
    text_release(&document);
}

static void report_of_nsys_is_told_to_be_exported(void **state) {
    (void)state;
    scratch place = scratch_create();
    scratch_write(&place, "a.nsys-rep", "NSYS....", 8);
    foreign_groups g =
        foreign_groups_read(scratch_join(&place, "a.nsys-rep").text, DYNO_UNSUPPORTED);
    foreign_groups_release(&g);
    assert_non_null(strstr(dyno_error_message(), "nsys export --type sqlite"));
    scratch_remove(&place);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_times_and_top_kernels_are_those_of_key_averages),
        cmocka_unit_test(phases_are_the_ranges_of_the_program_or_come_from_sequence_numbers),
        cmocka_unit_test(a_gpus_kernels_have_the_phase_of_their_launch),
        cmocka_unit_test(outermost_range_names_the_phase_and_steps_name_none),
        cmocka_unit_test(pytorchs_own_ranges_name_no_phase_but_the_optimizer),
        cmocka_unit_test(backward_thread_belongs_to_the_range_that_is_open),
        cmocka_unit_test(launch_outside_of_its_threads_ranges_is_not_attributed),
        cmocka_unit_test(kernel_without_a_call_belongs_to_its_operation),
        cmocka_unit_test(call_belongs_to_the_thread_of_its_operation),
        cmocka_unit_test(backward_has_the_scope_of_its_forward),
        cmocka_unit_test(only_kernels_copies_and_memsets_are_work),
        cmocka_unit_test(own_time_of_an_operation_is_without_those_it_calls),
        cmocka_unit_test(times_keep_their_nanoseconds),
        cmocka_unit_test(kernel_without_a_name_is_called_so),
        cmocka_unit_test(traces_of_old_versions_and_bare_arrays_are_read),
        cmocka_unit_test(flops_of_an_operation_are_those_of_its_longest_product),
        cmocka_unit_test(hostile_files_get_an_error),
        cmocka_unit_test(operations_that_nest_too_deep_are_refused),
        cmocka_unit_test(report_of_nsys_is_told_to_be_exported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
