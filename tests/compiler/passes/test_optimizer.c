/* test_optimizer.c - what AdamW appends, as text. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "compiler/passes/autodiff.h"
#include "compiler/passes/mark_saved.h"
#include "compiler/passes/optimizer.h"
#include "graph/op.h"
#include "graph/verify.h"
#include "support/graph_pass.h"

#define LEAVES                                                                                     \
    "graph g\n"                                                                                    \
    "parameter %0 f32[2] \"a\"\n"                                                                  \
    "parameter %1 f32[2] \"b\"\n"

static const char forward[] = LEAVES "%2 f32[2] activation = multiply %0 %1 @forward layer\n"
                                     "%3 f32[1] activation = sum %2 {axes=[0]} @forward loss\n"
                                     "%4 f32[] activation = reshape %3 {shape=[]} @forward loss\n"
                                     "output %4 \"loss\"\n";

/* Values the backward has made by then; leaves are printed first. */
#define UP_TO_GRADIENTS                                                                            \
    LEAVES "input %2 f64[] \"learning_rate\"\n"                                                    \
           "input %3 i64[] \"step\"\n"                                                             \
           "optimizer-state %4 f32[2] \"m.a\"\n"                                                   \
           "optimizer-state %5 f32[2] \"v.a\"\n"                                                   \
           "optimizer-state %6 f32[2] \"m.b\"\n"                                                   \
           "optimizer-state %7 f32[2] \"v.b\"\n"                                                   \
           "%8 f32[2] activation = multiply %0 %1 @forward layer\n"                                \
           "%9 f32[1] activation = sum %8 {axes=[0]} @forward loss\n"                              \
           "%10 f32[] activation = reshape %9 {shape=[]} @forward loss\n"                          \
           "%11 f32[] activation = fill {number=1.0, type=1} @backward loss\n"                     \
           "%12 f32[1] activation = reshape %11 {shape=[1]} @backward loss\n"                      \
           "%13 f32[2] activation = broadcast %12 {shape=[2]} @backward loss\n"                    \
           "%14 f32[2] gradient = multiply %13 %1 @backward layer\n"                               \
           "%15 f32[2] gradient = multiply %13 %0 @backward layer\n"
#define OUTPUTS                                                                                    \
    "output %10 \"loss\"\n"                                                                        \
    "gradient-of \"a\" %14\n"                                                                      \
    "gradient-of \"b\" %15\n"
#define ATTRIBUTES "{beta1=0.5, beta2=0.75, eps=0.125, weight_decay=0.25} @optimizer optimizer\n"

static void expect_step(double clip_norm, const char *wanted) {
    graph *g = graph_from_text(forward);
    optimizer_options options = {
        .adamw = {.beta1 = 0.5, .beta2 = 0.75, .eps = 0.125, .weight_decay = 0.25},
        .clip_norm = clip_norm};
    assert_int_equal(autodiff_append_backward(g, false), DYNO_OK);
    assert_int_equal(mark_saved_activations(g), DYNO_OK);
    assert_int_equal(optimizer_append_adamw(g, &options), DYNO_OK);
    expect_graph_text(g, wanted);
    graph_destroy(g);
}

static void every_parameter_is_updated_with_its_own_state(void **state) {
    (void)state;
    expect_step(0, UP_TO_GRADIENTS
                "%16 f32[] activation = fill {number=1.0, type=1} @optimizer optimizer\n"
                "%17 f32[2] parameter, %18 f32[2] optimizer-state, %19 f32[2] optimizer-state = "
                "adamw %0 %14 %4 %5 %2 %3 %16 " ATTRIBUTES
                "%20 f32[2] parameter, %21 f32[2] optimizer-state, %22 f32[2] optimizer-state = "
                "adamw %1 %15 %6 %7 %2 %3 %16 " ATTRIBUTES OUTPUTS);
}

static void clipping_scales_every_gradient_by_one_factor(void **state) {
    (void)state;
    expect_step(2, UP_TO_GRADIENTS
                "%16 f32[] activation = global_norm %14 %15 @optimizer optimizer.clip\n"
                "%17 f32[] activation = clip_coefficient %16 {s=2.0} @optimizer optimizer.clip\n"
                "%18 f32[2] parameter, %19 f32[2] optimizer-state, %20 f32[2] optimizer-state = "
                "adamw %0 %14 %4 %5 %2 %3 %17 " ATTRIBUTES
                "%21 f32[2] parameter, %22 f32[2] optimizer-state, %23 f32[2] optimizer-state = "
                "adamw %1 %15 %6 %7 %2 %3 %17 " ATTRIBUTES OUTPUTS);
}

static void one_launch_updates_every_parameter(void **state) {
    (void)state;
    graph *g = graph_from_text(forward);
    optimizer_options options = {
        .adamw = {.beta1 = 0.5, .beta2 = 0.75, .eps = 0.125, .weight_decay = 0.25},
        .clip_norm = 2, /* needs all gradients at once */
        .by_block = true};
    assert_int_equal(autodiff_append_backward(g, false), DYNO_OK);
    assert_int_equal(mark_saved_activations(g), DYNO_OK);
    assert_int_equal(optimizer_append_adamw(g, &options), DYNO_OK);
    expect_graph_text(
        g, UP_TO_GRADIENTS
        "%16 f32[] activation = global_norm %14 %15 @optimizer optimizer.clip\n"
        "%17 f32[] activation = clip_coefficient %16 {s=2.0} @optimizer optimizer.clip\n"
        "%18 f32[2] parameter, %19 f32[2] optimizer-state, %20 f32[2] optimizer-state, "
        "%21 f32[2] parameter, %22 f32[2] optimizer-state, %23 f32[2] optimizer-state = "
        "adamw_many %2 %3 %17 %0 %14 %4 %5 %1 %15 %6 %7 "
        "{beta1=0.5, beta2=0.75, eps=0.125, weight_decay=0.25, low_copies=0} "
        "@optimizer optimizer\n" OUTPUTS);
    graph_destroy(g);
}

/* The factor undoes the scale and clips; it is there for the caller to see. */
static void a_scaled_loss_is_unscaled_by_the_factor_that_clips(void **state) {
    (void)state;
    for (int clips = 0; clips < 2; clips++) {
        graph *g = graph_from_text(forward);
        graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &SHAPE_SCALAR, "loss_scale");
        optimizer_options options = {.clip_norm = clips ? 3 : 0};
        assert_int_equal(autodiff_append_backward(g, false), DYNO_OK);
        assert_int_equal(mark_saved_activations(g), DYNO_OK);
        assert_int_equal(optimizer_append_adamw(g, &options), DYNO_OK);
        assert_int_equal(graph_verify(g), DYNO_OK);
        const value *factor = graph_find_value(g, "gradient_scale");
        assert_string_equal(factor->producer->op->name, "unscale_coefficient");
        assert_true(attribute_real(&factor->producer->attributes, "s") == (clips ? 3 : 0));
        assert_string_equal(factor->producer->inputs[1]->name, "loss_scale");
        const node *last = g->nodes[g->node_count - 1];
        assert_ptr_equal(last->inputs[6], factor);
        assert_int_equal(attribute_integer(&last->attributes, "skips_nan"), 1);
        graph_destroy(g);
    }
}

/* 0 times the loss, which is NaN unless it is finite, is part of the factor; gradients are looked at
 * only where steps are to be skipped, or their norm is needed anyway. */
static void a_loss_that_is_not_finite_voids_the_step(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) {
        bool skips = way % 2, clips = way / 2;
        graph *g = graph_from_text(forward);
        optimizer_options options = {.clip_norm = clips ? 3 : 0,
                                     .by_block = way == 0,
                                     .on_nonfinite = skips ? NONFINITE_SKIP : NONFINITE_STOP};
        assert_int_equal(autodiff_append_backward(g, false), DYNO_OK);
        assert_int_equal(mark_saved_activations(g), DYNO_OK);
        assert_int_equal(optimizer_append_adamw(g, &options), DYNO_OK);
        assert_int_equal(graph_verify(g), DYNO_OK);
        const node *factor = graph_find_value(g, "gradient_scale")->producer;
        const node *zero = factor->inputs[skips || clips ? 1 : 0]->producer;
        assert_string_equal(factor->op->name, skips || clips ? "add" : "add_scalar");
        assert_string_equal(zero->op->name, "scale");
        assert_true(attribute_real(&zero->attributes, "s") == 0);
        assert_ptr_equal(zero->inputs[0], graph_find_value(g, "loss"));
        if (skips || clips)
            assert_string_equal(factor->inputs[0]->producer->op->name, "unscale_coefficient");
        const node *last = g->nodes[g->node_count - 1];
        assert_int_equal(attribute_integer(&last->attributes, "skips_nan"), 1);
        graph_destroy(g);
    }
}

/* One gradient that serves two parameters is scaled and applied for each of them. */
static void parameters_that_share_a_gradient_are_both_updated(void **state) {
    (void)state;
    graph *g = graph_from_text(LEAVES "%2 f32[2] activation = add %0 %1 @forward\n"
                                      "%3 f32[1] activation = sum %2 {axes=[0]} @forward\n"
                                      "%4 f32[] activation = reshape %3 {shape=[]} @forward\n"
                                      "output %4 \"loss\"\n");
    optimizer_options options = {.clip_norm = 1};
    assert_int_equal(autodiff_append_backward(g, false), DYNO_OK);
    assert_int_equal(optimizer_append_adamw(g, &options), DYNO_OK);
    int updates = 0;
    for (int i = 0; i < g->node_count; i++)
        updates += g->nodes[i]->phase == PHASE_OPTIMIZER && g->nodes[i]->output_count == 3;
    assert_int_equal(updates, 2);
    graph_destroy(g);
}

static void without_a_backward_there_is_nothing_to_update_with(void **state) {
    (void)state;
    graph *g = graph_from_text(forward);
    expect_failure(optimizer_append_adamw(g, &(optimizer_options){0}), DYNO_INVALID,
                   "parameter 'a' has no gradient; the backward comes before the optimizer");
    graph_destroy(g);
}

/* Two blocks, each with a matrix of weights, and a few weights behind them. */
static graph *make_blocks(bool keep_gradients) {
    graph *g = graph_from_text("graph g\n"
                               "parameter %0 f32[40] \"a\" block 0\n"
                               "parameter %1 f32[40] \"b\" block 1\n"
                               "parameter %2 f32[1] \"c\"\n"
                               "input %3 f32[40] \"x\"\n"
                               "%4 f32[40] activation = multiply %3 %0 @forward layers.0.in\n"
                               "%5 f32[40] activation = multiply %4 %1 @forward layers.1.in\n"
                               "%6 f32[40] activation = broadcast %2 {shape=[40]} @forward end.c\n"
                               "%7 f32[40] activation = multiply %5 %6 @forward end.c\n"
                               "%8 f32[1] activation = sum %7 {axes=[0]} @forward loss\n"
                               "%9 f32[] activation = reshape %8 {shape=[]} @forward loss\n"
                               "output %9 \"loss\"\n");
    assert_int_equal(autodiff_append_backward(g, keep_gradients), DYNO_OK);
    assert_int_equal(mark_saved_activations(g), DYNO_OK);
    return g;
}

/* b's gradient and then the product with b; only then b changes. c, made before, goes with it. */
static void by_block_updates_follow_the_last_that_reads_the_weights(void **state) {
    (void)state;
    graph *g = make_blocks(false);
    optimizer_options options = {
        .adamw = {.beta1 = 0.5, .beta2 = 0.75, .eps = 0.125, .weight_decay = 0.25},
        .by_block = true};
    assert_int_equal(optimizer_append_adamw(g, &options), DYNO_OK);
    expect_graph_text(g, "graph g\n"
                         "parameter %0 f32[40] \"a\" block 0\n"
                         "parameter %1 f32[40] \"b\" block 1\n"
                         "parameter %2 f32[1] \"c\"\n"
                         "input %3 f32[40] \"x\"\n"
                         "input %4 f64[] \"learning_rate\"\n"
                         "input %5 i64[] \"step\"\n"
                         "optimizer-state %6 f32[40] \"m.a\"\n"
                         "optimizer-state %7 f32[40] \"v.a\"\n"
                         "optimizer-state %8 f32[40] \"m.b\"\n"
                         "optimizer-state %9 f32[40] \"v.b\"\n"
                         "optimizer-state %10 f32[1] \"m.c\"\n"
                         "optimizer-state %11 f32[1] \"v.c\"\n"
                         "%12 f32[40] saved = multiply %3 %0 @forward layers.0.in\n"
                         "%13 f32[40] saved = multiply %12 %1 @forward layers.1.in\n"
                         "%14 f32[40] saved = broadcast %2 {shape=[40]} @forward end.c\n"
                         "%15 f32[40] activation = multiply %13 %14 @forward end.c\n"
                         "%16 f32[1] activation = sum %15 {axes=[0]} @forward loss\n"
                         "%17 f32[] activation = reshape %16 {shape=[]} @forward loss\n"
                         "%18 f32[] activation = fill {number=1.0, type=1} @backward loss\n"
                         "%19 f32[1] activation = reshape %18 {shape=[1]} @backward loss\n"
                         "%20 f32[40] activation = broadcast %19 {shape=[40]} @backward loss\n"
                         "%21 f32[40] activation = multiply %20 %14 @backward end.c\n"
                         "%22 f32[40] activation = multiply %20 %13 @backward end.c\n"
                         "%23 f32[1] gradient = sum %22 {axes=[0]} @backward end.c\n"
                         "%24 f32[40] activation = multiply %21 %1 @backward layers.1.in\n"
                         "%25 f32[40] gradient = multiply %21 %12 @backward layers.1.in\n"
                         "%26 f32[] activation = fill {number=1.0, type=1} @optimizer optimizer\n"
                         "%27 f32[1] parameter, %28 f32[1] optimizer-state, %29 f32[1] "
                         "optimizer-state, %30 f32[40] parameter, %31 f32[40] optimizer-state, "
                         "%32 f32[40] optimizer-state = adamw_many %4 %5 %26 %2 %23 %10 %11 %1 "
                         "%25 %8 %9 {beta1=0.5, beta2=0.75, eps=0.125, weight_decay=0.25, "
                         "low_copies=0} @optimizer optimizer.layers.1\n"
                         "%33 f32[40] gradient = multiply %24 %3 @backward layers.0.in\n"
                         "%34 f32[40] parameter, %35 f32[40] optimizer-state, %36 f32[40] "
                         "optimizer-state = adamw_many %4 %5 %26 %0 %33 %6 %7 {beta1=0.5, "
                         "beta2=0.75, eps=0.125, weight_decay=0.25, low_copies=0} @optimizer "
                         "optimizer.layers.0\n"
                         "output %17 \"loss\"\n"
                         "gradient-of \"a\" %33\n"
                         "gradient-of \"b\" %25\n"
                         "gradient-of \"c\" %23\n");
    graph_destroy(g);
}

static int count_updates(const graph *g) {
    int updates = 0;
    for (int i = 0; i < g->node_count; i++)
        updates += strcmp(g->nodes[i]->op->name, "adamw_many") == 0;
    return updates;
}

static void what_needs_all_gradients_at_once_updates_at_the_end(void **state) {
    (void)state;
    for (int reason = 0; reason < 4; reason++) {
        graph *g = make_blocks(reason == 1);
        if (reason == 2)
            graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &SHAPE_SCALAR, "loss_scale");
        optimizer_options options = {.by_block = true, .clip_norm = reason == 3 ? 1 : 0};
        assert_int_equal(optimizer_append_adamw(g, &options), DYNO_OK);
        assert_int_equal(graph_verify(g), DYNO_OK);
        assert_int_equal(count_updates(g), reason ? 1 : 2);
        assert_string_equal(g->nodes[g->node_count - 1]->op->name, "adamw_many");
        graph_destroy(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_parameter_is_updated_with_its_own_state),
        cmocka_unit_test(clipping_scales_every_gradient_by_one_factor),
        cmocka_unit_test(one_launch_updates_every_parameter),
        cmocka_unit_test(a_scaled_loss_is_unscaled_by_the_factor_that_clips),
        cmocka_unit_test(a_loss_that_is_not_finite_voids_the_step),
        cmocka_unit_test(parameters_that_share_a_gradient_are_both_updated),
        cmocka_unit_test(without_a_backward_there_is_nothing_to_update_with),
        cmocka_unit_test(by_block_updates_follow_the_last_that_reads_the_weights),
        cmocka_unit_test(what_needs_all_gradients_at_once_updates_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
