/* test_lower.c - where values lie, how long they live, which kernel makes them. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "compiler/lower/lower.h"
#include "compiler/passes/fuse.h"
#include "ops/op_list.h"
#include "support/expect.h"
#include "support/graph_pass.h"

static plan *lower(const char *source) {
    graph *g = graph_from_text(source);
    plan *p;
    if (lower_graph(g, target_usual(TARGET_CPU), &p) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    graph_destroy(g); /* the plan keeps no reference to it */
    return p;
}

static const plan_buffer *buffer_of(const plan *p, const char *name) {
    const plan_operand *operand = plan_find_name(p, name);
    assert_non_null(operand);
    return &p->buffers[operand->buffer];
}

/* The buffer that output 0 of launch i lies in. */
static const plan_buffer *made_by(const plan *p, int launch) {
    return &p->buffers[p->launches[launch].outputs[0].buffer];
}

static void expect_ops(const plan *p, const char *const *ops, int count) {
    assert_int_equal(p->launch_count, count);
    for (int i = 0; i < count; i++)
        assert_string_equal(p->launches[i].op_name, ops[i]);
}

static void views_launch_nothing(void **state) {
    (void)state;
    plan *p = lower("graph g\n"
                    "input %0 f32[2,6] \"x\"\n"
                    "%1 f32[3,4] activation = reshape %0 {shape=[3,4]} @forward\n"
                    "%2 f32[4,3] activation = transpose %1 {order=[1,0]} @forward\n"
                    "%3 f32[4,3] activation = detach %2 @forward\n"
                    "%4 f32[1,4,3] activation = reshape %3 {shape=[1,4,3]} @forward\n"
                    "%5 f32[2,4,3] activation = broadcast %4 {shape=[2,4,3]} @forward\n"
                    "%6 f32[2,4,3] activation = exp %5 @forward last\n"
                    "output %6 \"y\"\n");
    expect_ops(p, (const char *[]){"exp"}, 1);
    const plan_operand *in = &p->launches[0].inputs[0], *x = plan_find_name(p, "x");
    assert_int_equal(in->buffer, x->buffer);
    assert_int_equal(in->offset, 0);
    static const int64_t strides[] = {0, 1, 4};
    assert_memory_equal(in->layout.stride, strides, sizeof strides);
    assert_int_equal(p->buffer_count, 2);
    assert_string_equal(p->scopes[p->launches[0].scope], "last");
    plan_destroy(p);
}

/* A transposed matrix has no row-major strides under another shape. */
static void a_reshape_that_cannot_be_a_view_copies(void **state) {
    (void)state;
    plan *p = lower("graph g\n"
                    "input %0 f32[2,6] \"x\"\n"
                    "%1 f32[6,2] activation = transpose %0 {order=[1,0]} @forward\n"
                    "%2 f32[12] activation = reshape %1 {shape=[12]} @forward flat\n"
                    "%3 f32[3,4] activation = reshape %2 {shape=[3,4]} @forward\n"
                    "output %3 \"y\"\n");
    expect_ops(p, (const char *[]){"reshape"}, 1);
    assert_string_equal(p->launches[0].kernel_name, "reshape_copy");
    assert_int_equal(plan_find_name(p, "y")->buffer, p->launches[0].outputs[0].buffer);
    assert_int_equal(made_by(p, 0)->bytes, 48);
    plan_destroy(p);
}

#define UPDATE                                                                                     \
    "graph g\n"                                                                                    \
    "parameter %0 f32[4] \"w\"\n"                                                                  \
    "optimizer-state %1 f32[4] \"m\"\n"                                                            \
    "optimizer-state %2 f32[4] \"v\"\n"                                                            \
    "input %3 f64[] \"lr\"\n"                                                                      \
    "input %4 i64[] \"step\"\n"                                                                    \
    "input %5 f32[] \"clip\"\n"

static void outputs_in_place_take_over_their_inputs_buffers(void **state) {
    (void)state;
    plan *p = lower(UPDATE "%6 f32[4] gradient = exp %0 @backward\n"
                           "%7 f32[4] parameter, %8 f32[4] optimizer-state, %9 f32[4] "
                           "optimizer-state = adamw %0 %6 %1 %2 %3 %4 %5 {beta1=0.9, beta2=0.99, "
                           "eps=1e-8, weight_decay=0.0} @optimizer\n");
    expect_ops(p, (const char *[]){"exp", "adamw"}, 2);
    static const char *const names[] = {"w", "m", "v"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(p->launches[1].outputs[i].buffer, plan_find_name(p, names[i])->buffer);
        assert_true(buffer_of(p, names[i])->is_persistent);
    }
    assert_int_equal(p->buffer_count, 7); /* the leaves and the gradient */
    assert_int_equal(p->launches[1].phase, PHASE_OPTIMIZER);
    assert_true(attribute_real(&p->launches[1].attributes, "beta2") == 0.99);
    plan_destroy(p);
}

static void buffers_live_from_their_launch_to_the_last_that_reads_them(void **state) {
    (void)state;
    plan *p = lower("graph g\n"
                    "input %0 f32[8] \"x\"\n"
                    "%1 f32[8] activation = exp %0 @forward a\n"
                    "%2 f32[8] activation = log %1 @forward b\n"
                    "%3 f32[8] activation = add %1 %2 @forward c\n"
                    "%4 f32[8] activation = exp %0 @forward d\n"
                    "%5 f32[8] activation = exp %3 @forward e\n"
                    "output %5 \"y\"\n");
    static const int last_used[] = {2, 2, 4, 3, 5};
    static const char *const scopes[] = {"a", "b", "c", "d", "e"};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(made_by(p, i)->born, i);
        assert_int_equal(made_by(p, i)->last_used, last_used[i]);
        assert_string_equal(p->scopes[made_by(p, i)->scope], scopes[i]);
        assert_false(made_by(p, i)->is_persistent);
    }
    const plan_buffer *x = buffer_of(p, "x");
    assert_true(x->is_persistent);
    assert_int_equal(x->born, -1);
    assert_int_equal(x->last_used, 5);
    plan_destroy(p);
}

/* The view's reader keeps the buffer alive, and what the view is for names its role. */
static void a_view_lengthens_the_life_of_its_buffer_and_gives_it_its_role(void **state) {
    (void)state;
    plan *p = lower("graph g\n"
                    "parameter %0 f32[8] \"w\"\n"
                    "%1 f32[8] activation = exp %0 @forward a\n"
                    "%2 f32[2,4] saved = reshape %1 {shape=[2,4]} @forward b\n"
                    "%3 f32[8] activation = log %0 @forward c\n"
                    "%4 f32[2,4] activation = multiply %2 %2 @backward b\n"
                    "%5 f32[8] gradient = reshape %4 {shape=[8]} @backward a\n"
                    "output %5 \"g.w\"\n");
    expect_ops(p, (const char *[]){"exp", "log", "multiply"}, 3);
    assert_int_equal(made_by(p, 0)->role, ROLE_SAVED);
    assert_int_equal(made_by(p, 0)->last_used, 2);
    assert_int_equal(made_by(p, 1)->role, ROLE_ACTIVATION);
    assert_int_equal(made_by(p, 1)->last_used, 1);
    assert_int_equal(made_by(p, 2)->role, ROLE_GRADIENT);
    assert_string_equal(made_by(p, 2)->name, "g.w");
    plan_destroy(p);
}

static void what_the_caller_reads_lives_to_the_end(void **state) {
    (void)state;
    plan *p = lower("graph g\n"
                    "input %0 f32[2,4] \"x\"\n"
                    "%1 f32[2,4] activation = exp %0 @forward\n"
                    "%2 f32[4,2] activation = transpose %1 {order=[1,0]} @forward\n"
                    "%3 f32[2,4] activation = exp %0 @forward\n"
                    "%4 f32[2,4] activation = exp %3 @forward\n"
                    "output %2 \"y\"\n");
    assert_int_equal(p->launch_count, 3);
    assert_int_equal(made_by(p, 0)->last_used, 3);
    const plan_operand *y = plan_find_name(p, "y");
    assert_int_equal(y->layout.stride[0], 1);
    assert_int_equal(y->layout.stride[1], 4);
    for (int i = 0; i < p->death_start[3]; i++)
        assert_int_not_equal(p->deaths[i], y->buffer);
    assert_null(plan_find_name(p, "z"));
    plan_destroy(p);
}

static void workspace_lives_for_its_launch_alone(void **state) {
    (void)state;
    plan *p = lower("graph g\n"
                    "input %0 f32[40000] \"x\"\n"
                    "%1 f32[40000] activation = exp %0 @optimizer\n"
                    "%2 f32[] activation = global_norm %1 @optimizer clip\n"
                    "%3 f32[] activation = exp %2 @optimizer\n"
                    "output %3 \"y\"\n");
    assert_int_equal(p->launches[0].workspace, -1);
    int workspace = p->launches[1].workspace;
    assert_in_range(workspace, 0, p->buffer_count - 1);
    const plan_buffer *b = &p->buffers[workspace];
    assert_int_equal(b->role, ROLE_WORKSPACE);
    assert_int_equal(b->born, 1);
    assert_int_equal(b->last_used, 1);
    assert_int_equal(b->bytes, 3 * 8); /* a double for each of three stretches */
    assert_string_equal(p->scopes[b->scope], "clip");
    plan_destroy(p);
}

static void launches_carry_the_cost_of_their_ops(void **state) {
    (void)state;
    plan *p = lower("graph g\n"
                    "input %0 f32[3,5] \"a\"\n"
                    "input %1 f32[7,5] \"b\"\n"
                    "%2 f32[3,7] activation = matmul %0 %1 {transpose_a=0, transpose_b=1} "
                    "@forward\n"
                    "output %2 \"c\"\n");
    const plan_launch *l = &p->launches[0];
    assert_true(l->flops == 2 * 3 * 5 * 7);
    assert_true(l->bytes_read == 4 * (15 + 35) && l->bytes_written == 4 * 21);
    assert_string_equal(l->class_name, "matmul");
    plan_destroy(p);
}

/* Eager mode on a GPU generates each op by itself; two together are fused. */
static void a_generated_op_has_its_class_and_a_group_of_several_is_fused(void **state) {
    (void)state;
    static const char source[] = "graph g\n"
                                 "input %0 f32[4,8] \"x\"\n"
                                 "%1 f32[4,8] activation = exp %0 @forward\n"
                                 "%2 f32[4,8] activation = log %1 @forward\n"
                                 "%3 f32[4,1] activation = sum %2 {axes=[1]} @forward\n"
                                 "output %3 \"y\"\n";
    for (int each = 0; each < 2; each++) {
        graph *g = graph_from_text(source);
        expect_ok(each ? fuse_each(g) : fuse_groups(g, target_usual(TARGET_CUDA)));
        plan *p;
        expect_ok(lower_graph(g, target_usual(TARGET_CUDA), &p));
        graph_destroy(g);
        assert_int_equal(p->launch_count, each ? 3 : 1);
        assert_string_equal(p->launches[0].class_name,
                            each ? op_class_name(op_exp.class) : "fused rows");
        assert_string_equal(p->launches[p->launch_count - 1].class_name,
                            each ? op_class_name(op_sum.class) : "fused rows");
        plan_destroy(p);
    }
}

static void expect_unsupported(const char *source, target_kind on, const char *part) {
    graph *g = graph_from_text(source);
    plan *p;
    expect_failure(lower_graph(g, target_usual(on), &p), DYNO_UNSUPPORTED, part);
    assert_null(p);
    graph_destroy(g);
}

static void an_op_that_no_kernel_runs_is_named_with_every_kernels_reason(void **state) {
    (void)state;
    static const char product[] = "graph g\n"
                                  "input %0 f64[2,2] \"a\"\n"
                                  "%1 f64[2,2] activation = matmul %0 %0 {transpose_a=0, "
                                  "transpose_b=0} @forward layers.1.head\n";
    expect_unsupported(product, TARGET_CPU, "no cpu kernel runs matmul in scope 'layers.1.head' (");
    expect_unsupported(product, TARGET_CPU, "matmul_onednn: multiplies ");
    expect_unsupported(
        product, TARGET_CPU,
        "; matmul_portable: multiplies f32 by f32, bf16 by bf16 and f16 by f16 only");
    expect_unsupported(product, TARGET_CUDA,
                       "no cuda kernel runs matmul in scope 'layers.1.head' (matmul_cublas: ");
    expect_unsupported("graph g\n"
                       "input %0 f32[4] \"x\"\n"
                       "%1 f32[4] activation = exp %0 @forward layers.1.head\n",
                       TARGET_CUDA,
                       "no cuda kernel runs exp in scope 'layers.1.head' (it has none)");
    expect_unsupported("graph g\n"
                       "input %0 f32[1] \"x\"\n"
                       "%1 f32[9] activation = broadcast %0 {shape=[9]} @optimizer\n"
                       "%2 f32[] activation = global_norm %1 @optimizer clip\n",
                       TARGET_CPU, "(global_norm_f32: inputs must be dense)");
}

/* Three weights; for the last one there is no work left beside which it could run. */
static void updates_in_front_of_other_work_go_to_stream_1_and_keep_what_they_read(void **state) {
    (void)state;
    plan *p = lower(
        UPDATE "parameter %6 f32[4] \"u\"\n"
               "optimizer-state %7 f32[4] \"mu\"\n"
               "optimizer-state %8 f32[4] \"vu\"\n"
               "parameter %9 f32[4] \"t\"\n"
               "optimizer-state %10 f32[4] \"mt\"\n"
               "optimizer-state %11 f32[4] \"vt\"\n"
               "%12 f32[4] gradient = exp %0 @backward\n"
               "%13 f32[4] parameter, %14 f32[4] optimizer-state, %15 f32[4] optimizer-state = "
               "adamw %0 %12 %1 %2 %3 %4 %5 {beta1=0.9, beta2=0.99, eps=1e-8, "
               "weight_decay=0.0} @optimizer\n"
               "%16 f32[4] gradient = exp %6 @backward\n"
               "%17 f32[4] parameter, %18 f32[4] optimizer-state, %19 f32[4] optimizer-state = "
               "adamw %6 %16 %7 %8 %3 %4 %5 {beta1=0.9, beta2=0.99, eps=1e-8, "
               "weight_decay=0.0} @optimizer\n"
               "%20 f32[4] gradient = exp %9 @backward\n"
               "%21 f32[4] parameter, %22 f32[4] optimizer-state, %23 f32[4] optimizer-state = "
               "adamw %9 %20 %10 %11 %3 %4 %5 {beta1=0.9, beta2=0.99, eps=1e-8, "
               "weight_decay=0.0} @optimizer\n");
    static const char *const ops[] = {"exp", "adamw", "exp", "adamw", "exp", "adamw"};
    expect_ops(p, ops, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(p->launches[i].stream, 0); /* a CPU has one */
    assert_int_equal(made_by(p, 0)->last_used, 1);
    lower_streams(p);
    static const int streams[] = {0, 1, 0, 1, 0, 0};
    for (int i = 0; i < 6; i++)
        assert_int_equal(p->launches[i].stream, streams[i]);
    assert_int_equal(made_by(p, 0)->last_used, 3); /* until the next on stream 1 */
    assert_int_equal(made_by(p, 2)->last_used, 6); /* there is none: to the end of the step */
    assert_int_equal(made_by(p, 4)->last_used, 5);
    plan_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_launch_nothing),
        cmocka_unit_test(a_reshape_that_cannot_be_a_view_copies),
        cmocka_unit_test(outputs_in_place_take_over_their_inputs_buffers),
        cmocka_unit_test(buffers_live_from_their_launch_to_the_last_that_reads_them),
        cmocka_unit_test(a_view_lengthens_the_life_of_its_buffer_and_gives_it_its_role),
        cmocka_unit_test(what_the_caller_reads_lives_to_the_end),
        cmocka_unit_test(workspace_lives_for_its_launch_alone),
        cmocka_unit_test(launches_carry_the_cost_of_their_ops),
        cmocka_unit_test(a_generated_op_has_its_class_and_a_group_of_several_is_fused),
        cmocka_unit_test(an_op_that_no_kernel_runs_is_named_with_every_kernels_reason),
        cmocka_unit_test(updates_in_front_of_other_work_go_to_stream_1_and_keep_what_they_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
