/* test_foreign_handmade.c - one imagined program in the traces of two profilers: all of its work is
 * attributed alike, whatever has misled people before (tests/traces/make_handmade.py). */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "support/expect.h"
#include "support/foreign_groups.h"

static const char GEMM[] =
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(T1::Params)";

static const char *const WHOLE[] = {"kineto-gpu.json", "nsys.sqlite", "nsys-old.sqlite"};
enum { WHOLE_COUNT = 3 };

/* The forward's kernels run while the host is in the backward: an attribution by time would file all
 * of them there. */
static void phases_are_those_of_the_launches(void **state) {
    (void)state;
    for (int i = 0; i < WHOLE_COUNT; i++) {
        foreign_groups g = foreign_groups_read(trace_path(WHOLE[i]), DYNO_OK);
        expect_group(&g, BY_PHASE, "forward", 6, 2 * 60000);
        expect_group(&g, BY_PHASE, "backward", 10, 2 * (1500 + 25000 + 26000 + 9000 + 50000));
        expect_group(&g, BY_PHASE, "optimizer", 6, 2 * 11700);
        expect_group(&g, BY_PHASE, "load", 2, 2 * 2000);
        assert_int_equal(kernel_groups_record_count(g.groups), 27);
        foreign_groups_release(&g);
    }
}

static void what_belongs_to_no_range_or_call_is_a_row_of_its_own(void **state) {
    (void)state;
    for (int i = 0; i < WHOLE_COUNT; i++) {
        foreign_groups g = foreign_groups_read(trace_path(WHOLE[i]), DYNO_OK);
        expect_group(&g, BY_PHASE, ROW_UNATTRIBUTED, 3, 2 * 1000 + 777);
        assert_int_equal(g.trace.joined[JOINED_TO_NOTHING], 2);
        assert_int_equal(g.trace.joined[JOINED_NOT], 1);
        foreign_groups_release(&g);
    }
}

static void launches_of_the_backward_thread_are_counted(void **state) {
    (void)state;
    for (int i = 0; i < WHOLE_COUNT; i++) {
        foreign_groups g = foreign_groups_read(trace_path(WHOLE[i]), DYNO_OK);
        assert_int_equal(g.trace.joined[JOINED_BY_PROCESS], 8);
        assert_int_equal(g.trace.joined[JOINED_BY_THREAD], 16);
        assert_int_equal(g.trace.joined[JOINED_BY_SEQUENCE], 0);
        foreign_groups_release(&g);
    }
}

static void every_kernel_of_a_graph_belongs_to_its_one_launch(void **state) {
    (void)state;
    static const char *const with_nodes[] = {"kineto-gpu.json", "nsys.sqlite"};
    for (int i = 0; i < 2; i++) {
        foreign_groups g = foreign_groups_read(trace_path(with_nodes[i]), DYNO_OK);
        assert_int_equal(g.trace.in_graphs, 6);
        expect_group(&g, BY_CLASS, "optimizer", 4, 2 * 11000);
        foreign_groups_release(&g);
    }
}

static void kernels_are_told_apart_by_phase(void **state) {
    (void)state;
    for (int i = 0; i < WHOLE_COUNT; i++) {
        foreign_groups g = foreign_groups_read(trace_path(WHOLE[i]), DYNO_OK);
        expect_group(&g, BY_KERNEL, GEMM, 10, 2 * 151000);
        const kernel_group *forward =
            kernel_groups_find(g.groups, BY_KERNEL_AND_PHASE, (const char *[]){GEMM, "forward"});
        const kernel_group *backward =
            kernel_groups_find(g.groups, BY_KERNEL_AND_PHASE, (const char *[]){GEMM, "backward"});
        assert_int_equal(forward->count, 4);
        assert_int_equal(backward->count, 6);
        expect_group(&g, BY_CLASS, "matmul", 10, 2 * 151000);
        expect_group(&g, BY_CLASS, "softmax", 2, 2 * 10000);
        expect_group(&g, BY_CLASS, "element-wise", 3, 2 * 9000 + 777);
        foreign_groups_release(&g);
    }
}

static void extents_and_calls_are_kept(void **state) {
    (void)state;
    for (int i = 0; i < WHOLE_COUNT; i++) {
        foreign_groups g = foreign_groups_read(trace_path(WHOLE[i]), DYNO_OK);
        const kernel_group *gemm = kernel_groups_find(g.groups, BY_KERNEL, (const char *[]){GEMM});
        assert_int_equal(gemm->registers, 40);
        assert_int_equal(gemm->shared_bytes, 4096);
        const device_time *times;
        assert_true(kernel_groups_device_times(g.groups, &times) > 0);
        assert_null(times[0].phase);
        assert_int_equal(times[0].launches, 27);
        assert_int_equal(times[0].host_calls, 22); /* a graph's is one */
        foreign_groups_release(&g);
    }
}

static void steps_and_ranges_of_the_host_are_told(void **state) {
    (void)state;
    for (int i = 0; i < WHOLE_COUNT; i++) {
        foreign_groups g = foreign_groups_read(trace_path(WHOLE[i]), DYNO_OK);
        assert_int_equal(g.trace.steps, 2);
        assert_int_equal(g.step_ns, 2 * 900000);
        assert_int_equal(g.range_count, 8); /* "attention" is inside "forward" */
        assert_int_equal(g.range_ns, 2 * (100000 + 200000 + 70000 + 30000));
        assert_int_equal(kernel_groups_step_count(g.groups), 2);
        assert_int_equal(g.trace.outside_steps, 1);
        foreign_groups_release(&g);
    }
}

static void ranges_inside_a_phase_are_its_scopes(void **state) {
    (void)state;
    foreign_groups g = foreign_groups_read(trace_path("nsys.sqlite"), DYNO_OK);
    expect_group(&g, BY_SCOPE, "attention", 4, 2 * 30000);
    foreign_groups_release(&g);
    /* Sequence numbers take the backward along: its kernels have the scope of their forward. */
    g = foreign_groups_read(trace_path("kineto-gpu.json"), DYNO_OK);
    expect_group(&g, BY_SCOPE, "attention", 4 + 6, 2 * (30000 + 60000));
    foreign_groups_release(&g);
}

static void operations_and_their_flops_are_those_of_pytorch(void **state) {
    (void)state;
    foreign_groups g = foreign_groups_read(trace_path("kineto-gpu.json"), DYNO_OK);
    expect_group(&g, BY_OP, "aten::mm", 2, 2 * 30000);
    expect_group(&g, BY_OP, "BmmBackward0", 4, 2 * 51000);
    const kernel_group *mm = kernel_groups_find(g.groups, BY_OP, (const char *[]){"aten::mm"});
    assert_true(mm->flops == 2 * 2.0 * 64 * 32 * 16);
    assert_true(mm->bytes == 2 * 4.0 * (64 * 32 + 32 * 16 + 64 * 16));
    assert_int_equal(mm->without_cost, 0);
    foreign_groups_release(&g);
}

static void bare_export_has_kernels_and_nothing_to_join_them_to(void **state) {
    (void)state;
    foreign_groups g = foreign_groups_read(trace_path("nsys-bare.sqlite"), DYNO_OK);
    assert_int_equal(g.trace.records, 23);
    assert_int_equal(g.trace.joined[JOINED_NOT], 23);
    expect_group(&g, BY_KERNEL, "(kernel without a name)", 23, 2 * (60000 + 111500 + 11700) + 777);
    expect_group(&g, BY_PHASE, ROW_UNATTRIBUTED, 23, 2 * (60000 + 111500 + 11700) + 777);
    foreign_groups_release(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_are_those_of_the_launches),
        cmocka_unit_test(what_belongs_to_no_range_or_call_is_a_row_of_its_own),
        cmocka_unit_test(launches_of_the_backward_thread_are_counted),
        cmocka_unit_test(every_kernel_of_a_graph_belongs_to_its_one_launch),
        cmocka_unit_test(kernels_are_told_apart_by_phase),
        cmocka_unit_test(extents_and_calls_are_kept),
        cmocka_unit_test(steps_and_ranges_of_the_host_are_told),
        cmocka_unit_test(ranges_inside_a_phase_are_its_scopes),
        cmocka_unit_test(operations_and_their_flops_are_those_of_pytorch),
        cmocka_unit_test(bare_export_has_kernels_and_nothing_to_join_them_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
