/* test_rematerialize.c - what element-wise work can bring back is not saved, and nothing else
 * changes. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "compiler/passes/autodiff.h"
#include "compiler/passes/fold_casts.h"
#include "compiler/passes/low_copies.h"
#include "compiler/passes/mark_saved.h"
#include "compiler/passes/precision.h"
#include "compiler/passes/rematerialize.h"
#include "graph/graph_text.h"
#include "graph/op.h"
#include "graph/verify.h"
#include "model/transformer.h"
#include "plan/memory_account.h"
#include "support/graph_pass.h"
#include "support/step_bench.h"

#define LEAVES                                                                                     \
    "graph g\n"                                                                                    \
    "parameter %0 f32[3] \"w\"\n"                                                                  \
    "input %1 f32[3] \"x\"\n"
/* z = w * sum(x); silu(z) * w */
#define SILU(sum, gate, sigmoid, silu)                                                             \
    LEAVES "%2 f32[1] activation = sum %1 {axes=[0]} @forward layers.0\n"                          \
           "%3 f32[3] " sum " = broadcast %2 {shape=[3]} @forward layers.0\n"                      \
           "%4 f32[3] " gate " = multiply %0 %3 @forward layers.0\n"                               \
           "%5 f32[3] " sigmoid " = sigmoid %4 @forward layers.0\n"                                \
           "%6 f32[3] " silu " = multiply %4 %5 @forward layers.0\n"                               \
           "%7 f32[3] activation = multiply %6 %0 @forward layers.0\n"                             \
           "%8 f32[1] activation = sum %7 {axes=[0]} @forward loss\n"                              \
           "%9 f32[] activation = reshape %8 {shape=[]} @forward loss\n"
#define LOSS_GRADIENT                                                                              \
    "%10 f32[] activation = fill {number=1.0, type=1} @backward loss\n"                            \
    "%11 f32[1] activation = reshape %10 {shape=[1]} @backward loss\n"                             \
    "%12 f32[3] activation = broadcast %11 {shape=[3]} @backward loss\n"

static graph *with_backward(const char *forward) {
    graph *g = graph_from_text(forward);
    assert_int_equal(autodiff_append_backward(g, true), DYNO_OK);
    assert_int_equal(mark_saved_activations(g), DYNO_OK);
    return g;
}

static void rematerialize_everywhere(graph *g, int blocks) {
    rematerialize_options how = {.is_everywhere = true, .blocks = blocks};
    assert_int_equal(rematerialize_apply(g, &how), DYNO_OK);
}

/* Gate, sigmoid and silu come back from the weight and the sum, which is a reduction and stays. */
static void elementwise_chains_are_computed_again_from_what_stays(void **state) {
    (void)state;
    graph *g = with_backward(
        SILU("activation", "activation", "activation", "activation") "output %9 \"loss\"\n");
    rematerialize_everywhere(g, 1);
    expect_graph_text(g, SILU("saved", "activation", "activation", "activation") LOSS_GRADIENT
                      "%13 f32[3] activation = multiply %12 %0 @backward layers.0\n"
                      "%14 f32[3] activation = multiply %0 %3 @backward layers.0\n"
                      "%15 f32[3] activation = sigmoid %14 @backward layers.0\n"
                      "%16 f32[3] activation = multiply %14 %15 @backward layers.0\n"
                      "%17 f32[3] activation = multiply %12 %16 @backward layers.0\n"
                      "%18 f32[3] activation = multiply %13 %15 @backward layers.0\n"
                      "%19 f32[3] activation = multiply %13 %14 @backward layers.0\n"
                      "%20 f32[3] activation = sigmoid_gradient %19 %15 @backward layers.0\n"
                      "%21 f32[3] activation = add %18 %20 @backward layers.0\n"
                      "%22 f32[3] activation = multiply %21 %3 @backward layers.0\n"
                      "%23 f32[3] gradient = add %17 %22 @backward layers.0\n"
                      "output %9 \"loss\"\n"
                      "output %23 \"g.w\"\n");
    graph_destroy(g);
}

/* What the caller keeps is there anyway: read, not computed again. */
static void outputs_are_read_and_not_computed_again(void **state) {
    (void)state;
    graph *g = with_backward(
        SILU("activation", "activation", "activation", "activation") "output %9 \"loss\"\n"
                                                                     "output %4 \"gate\"\n");
    int before = g->node_count;
    rematerialize_everywhere(g, 1);
    assert_int_equal(graph_verify(g), DYNO_OK);
    assert_int_equal(g->node_count, before + 2); /* sigmoid and silu */
    assert_int_equal(graph_find_value(g, "gate")->role, ROLE_SAVED);
    graph_destroy(g);
}

/* exp's result is saved; its input, a sum, is not: bringing exp back would need the sum. */
static void nothing_is_brought_back_that_needs_a_reduction(void **state) {
    (void)state;
    graph *g = with_backward(LEAVES "%2 f32[3] activation = multiply %0 %1 @forward layers.0\n"
                                    "%3 f32[1] activation = sum %2 {axes=[0]} @forward layers.0\n"
                                    "%4 f32[1] activation = exp %3 @forward layers.0\n"
                                    "%5 f32[] activation = reshape %4 {shape=[]} @forward loss\n"
                                    "output %5 \"loss\"\n");
    text before = {0};
    graph_print(g, &before);
    rematerialize_everywhere(g, 1);
    expect_graph_text(g, text_string(&before));
    text_release(&before);
    graph_destroy(g);
}

/* One copy for both blocks would live from the one to the other: each makes its own. */
static void copies_do_not_live_across_blocks(void **state) {
    (void)state;
    graph *g = with_backward(LEAVES "%2 f32[3] activation = exp %1 @forward constants\n"
                                    "%3 f32[3] activation = multiply %0 %2 @forward layers.0\n"
                                    "%4 f32[3] activation = multiply %3 %2 @forward layers.1\n"
                                    "%5 f32[1] activation = sum %4 {axes=[0]} @forward loss\n"
                                    "%6 f32[] activation = reshape %5 {shape=[]} @forward loss\n"
                                    "output %6 \"loss\"\n");
    rematerialize_everywhere(g, 1);
    assert_int_equal(graph_verify(g), DYNO_OK);
    int copies = 0;
    for (int i = 0; i < g->node_count; i++)
        copies += strcmp(g->nodes[i]->op->name, "exp") == 0 && g->nodes[i]->phase == PHASE_BACKWARD;
    assert_int_equal(copies, 2);
    graph_destroy(g);
}

static int count_class(const graph *g, op_class wanted) {
    int count = 0;
    for (int i = 0; i < g->node_count; i++)
        count += g->nodes[i]->op->class == wanted;
    return count;
}

static void no_product_and_no_reduction_runs_twice(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        draw d = draw_create(seed, 1);
        model_config config = small_model_draw(&d);
        transformer_options sizes = {.batch = 2, .context = 5};
        graph *g;
        assert_int_equal(transformer_build(&config, &sizes, &g), DYNO_OK);
        assert_int_equal(autodiff_append_backward(g, true), DYNO_OK);
        assert_int_equal(mark_saved_activations(g), DYNO_OK);
        int before[OP_CLASS_COUNT];
        for (int i = 0; i < OP_CLASS_COUNT; i++)
            before[i] = count_class(g, (op_class)i);
        rematerialize_everywhere(g, 1);
        assert_int_equal(graph_verify(g), DYNO_OK);
        for (int i = 0; i < OP_CLASS_COUNT; i++) {
            bool may_grow = i == OP_CLASS_ELEMENTWISE || i == OP_CLASS_COPY;
            assert_int_equal(count_class(g, (op_class)i) > before[i], may_grow);
        }
        int after = g->node_count; /* a second time finds nothing more */
        rematerialize_everywhere(g, 1);
        assert_int_equal(g->node_count, after);
        graph_destroy(g);
    }
}

/* Of a SwiGLU gate and up stay and sigmoid, silu and hidden go; of a norm the normalised rows,
 * scaled or not, go; of attention the probabilities go, and at this length the exponentials too,
 * for their rows' maxima. */
static void most_of_what_a_model_saves_is_not_needed(void **state) {
    (void)state;
    model_config config;
    assert_int_equal(model_config_from_preset("small", &config), DYNO_OK);
    pass_options options = {.extent = STEP_BACKWARD};
    plan *plain = pass_plan(&config, 4, 512, &options);
    options.rematerialize = true;
    plan *lean = pass_plan(&config, 4, 512, &options);
    int64_t before = memory_account_plan(plain).total[ROLE_SAVED];
    int64_t after = memory_account_plan(lean).total[ROLE_SAVED];
    int64_t rows = 4 * 512, layers = 12, scores = 4 * 12 * 512 * 512, maxima = scores / 512;
    int64_t dropped = layers * (2 * scores - maxima + rows * (3 * 3072 + 4 * 768)) + rows * 2 * 768;
    assert_int_equal(before - after, 4 * dropped);
    assert_true(2 * after < before + before / 10);
    plan_destroy(plain);
    plan_destroy(lean);
}

/* Saved values of one row for each token: f32 ones, and bf16 ones that the scope's product made. */
static int count_saved_rows(const graph *g, const shape *rows, dtype type, const char *scope) {
    int count = 0;
    for (int i = 0; i < g->value_count; i++) {
        const value *v = g->values[i];
        count += v->role == ROLE_SAVED && !v->producer->op->view && shape_equal(&v->shape, rows) &&
                 v->type == type && strstr(g->scopes[v->producer->scope], scope) != NULL;
    }
    return count;
}

/* The input of the first block of so many stays, and for the sums behind it what attention and the
 * MLP gave, in half the bytes. */
static void sums_of_the_residual_stream_are_added_again(void **state) {
    (void)state;
    model_config config;
    assert_int_equal(model_config_from_preset("small", &config), DYNO_OK);
    transformer_options sizes = {.batch = 2, .context = 8};
    shape rows = SHAPE(16, config.d_model);
    int layers = (int)config.layers;
    for (int blocks = 1; blocks <= 4; blocks++) {
        graph *g;
        assert_int_equal(transformer_build(&config, &sizes, &g), DYNO_OK);
        assert_int_equal(precision_apply(g, PRECISION_BF16), DYNO_OK);
        assert_int_equal(autodiff_append_backward(g, false), DYNO_OK);
        assert_int_equal(fold_casts(g, false), DYNO_OK);
        assert_int_equal(low_copies_bind(g), DYNO_OK);
        rematerialize_everywhere(g, blocks);
        assert_int_equal(graph_verify(g), DYNO_OK);
        /* Inputs of blocks, and what the last block gives. */
        assert_int_equal(count_saved_rows(g, &rows, DTYPE_F32, ""), layers / blocks + 1);
        assert_int_equal(count_saved_rows(g, &rows, DTYPE_BF16, ".attn.o"), layers);
        assert_int_equal(count_saved_rows(g, &rows, DTYPE_BF16, ".mlp.down"),
                         layers - layers / blocks);
        graph_destroy(g);
    }
}

/* x + a + b, of which both sums are wanted in a block of their own: each is added up from x by
 * itself, and no part of the one is kept for the other. */
static void parts_of_a_sum_are_not_shared_with_other_sums(void **state) {
    (void)state;
    graph *g = graph_from_text(
        "graph g\n"
        "parameter %0 f32[2,2] \"w\"\n"
        "input %1 f32[2,2] \"x\"\n"
        "input %2 bf16[2,2] \"low\"\n"
        "%3 f32[2,2] saved = matmul %1 %1 {transpose_a=0, transpose_b=0} @forward embed\n"
        "%4 bf16[2,2] activation = matmul %2 %2 {transpose_a=0, transpose_b=0} @forward layers.0\n"
        "%5 f32[2,2] activation = cast %4 {type=1} @forward layers.0\n"
        "%6 f32[2,2] saved = add %3 %5 @forward layers.0\n"
        "%7 bf16[2,2] activation = matmul %2 %4 {transpose_a=0, transpose_b=0} @forward layers.0\n"
        "%8 f32[2,2] activation = cast %7 {type=1} @forward layers.0\n"
        "%9 f32[2,2] saved = add %6 %8 @forward layers.0\n"
        "%10 f32[2,2] activation = multiply %3 %0 @backward layers.0\n"
        "%11 f32[2,2] activation = multiply %9 %0 @backward layers.0\n"
        "%12 f32[2,2] activation = multiply %6 %0 @backward layers.0\n"
        "%13 f32[2,2] activation = add %10 %11 @backward layers.0\n"
        "%14 f32[2,2] activation = add %13 %12 @backward layers.0\n"
        "output %14 \"y\"\n");
    rematerialize_everywhere(g, 2);
    text printed = {0};
    graph_print(g, &printed);
    const char *backward = strstr(text_string(&printed), "@forward layers.0\n%10");
    assert_non_null(backward);
    assert_string_equal(strchr(backward, '\n') + 1,
                        "%10 f32[2,2] activation = multiply %3 %0 @backward layers.0\n"
                        "%11 f32[2,2] activation = cast %4 {type=1} @backward layers.0\n"
                        "%12 f32[2,2] activation = add %3 %11 @backward layers.0\n"
                        "%13 f32[2,2] activation = cast %7 {type=1} @backward layers.0\n"
                        "%14 f32[2,2] activation = add %12 %13 @backward layers.0\n"
                        "%15 f32[2,2] activation = multiply %14 %0 @backward layers.0\n"
                        "%16 f32[2,2] activation = cast %4 {type=1} @backward layers.0\n"
                        "%17 f32[2,2] activation = add %3 %16 @backward layers.0\n"
                        "%18 f32[2,2] activation = multiply %17 %0 @backward layers.0\n"
                        "%19 f32[2,2] activation = add %10 %15 @backward layers.0\n"
                        "%20 f32[2,2] activation = add %19 %18 @backward layers.0\n"
                        "output %20 \"y\"\n");
    text_release(&printed);
    graph_destroy(g);
}

static void steps_are_bitwise_those_without(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        draw d = draw_create(seed, 1);
        model_config config = small_model_draw(&d);
        int64_t batch = 1 + draw_below(&d, 3), context = 1 + draw_below(&d, 9);
        pass_options options = {.extent = STEP_FULL,
                                .precision = seed < 6 ? PRECISION_FP32 : PRECISION_BF16,
                                .keep_all = seed & 1};
        step_bench plain =
            step_bench_create(&config, pass_plan(&config, batch, context, &options), seed, false);
        options.rematerialize = true;
        options.is_static = seed & 2;
        step_bench lean =
            step_bench_create(&config, pass_plan(&config, batch, context, &options), seed, false);
        for (int step = 0; step < 2; step++) {
            step_bench_run(&plain);
            step_bench_run(&lean);
            expect_same_names(&plain, &lean);
        }
        step_bench_destroy(&plain);
        step_bench_destroy(&lean);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise_chains_are_computed_again_from_what_stays),
        cmocka_unit_test(outputs_are_read_and_not_computed_again),
        cmocka_unit_test(nothing_is_brought_back_that_needs_a_reduction),
        cmocka_unit_test(copies_do_not_live_across_blocks),
        cmocka_unit_test(no_product_and_no_reduction_runs_twice),
        cmocka_unit_test(most_of_what_a_model_saves_is_not_needed),
        cmocka_unit_test(sums_of_the_residual_stream_are_added_again),
        cmocka_unit_test(parts_of_a_sum_are_not_shared_with_other_sums),
        cmocka_unit_test(steps_are_bitwise_those_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
