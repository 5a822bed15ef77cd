/* test_swap_loss_head.c - the end of a model is swapped where it may be, with the same numbers. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "compiler/passes/autodiff.h"
#include "compiler/passes/fold_casts.h"
#include "compiler/passes/low_copies.h"
#include "compiler/passes/mark_saved.h"
#include "compiler/passes/precision.h"
#include "compiler/passes/swap_loss_head.h"
#include "graph/graph_text.h"
#include "model/parameters.h"
#include "model/transformer.h"
#include "ops/op_list.h"
#include "support/graph_pass.h"
#include "support/numbers.h"
#include "support/reference_run.h"
#include "support/small_model.h"

#define LEAVES                                                                                     \
    "graph g\n"                                                                                    \
    "input %0 f32[2,3] \"x\"\n"                                                                    \
    "input %1 i32[2] \"targets\"\n"                                                                \
    "parameter %2 f32[5,3] \"w\"\n"                                                                \
    "parameter %3 f32[2,3] \"u\"\n"
#define FORWARD                                                                                    \
    LEAVES "%4 f32[2,3] activation = multiply %0 %3 @forward body\n"                               \
           "%5 f32[2,5] activation = matmul %4 %2 {transpose_a=0, transpose_b=1} @forward head\n"  \
           "%6 f32[2] activation, %7 f32[2] activation = cross_entropy %5 %1 @forward loss\n"      \
           "%8 f32[1] activation = mean %6 {axes=[0]} @forward loss\n"                             \
           "%9 f32[] activation = reshape %8 {shape=[]} @forward loss\n"                           \
           "output %9 \"loss\"\n"

static void without_a_backward_only_losses_are_computed(void **state) {
    (void)state;
    graph *g = graph_from_text(FORWARD);
    assert_int_equal(swap_loss_head(g, target_usual(TARGET_CPU)), DYNO_OK);
    expect_graph_text(g, LEAVES
                      "%4 f32[2,3] activation = multiply %0 %3 @forward body\n"
                      "%5 f32[2] activation = loss_head_forward %4 %2 %1 {chunk=2} @forward head\n"
                      "%6 f32[1] activation = mean %5 {axes=[0]} @forward loss\n"
                      "%7 f32[] activation = reshape %6 {shape=[]} @forward loss\n"
                      "output %7 \"loss\"\n");
    graph_destroy(g);
}

static graph *differentiate(const char *source, precision p) {
    graph *g = graph_from_text(source);
    assert_int_equal(precision_apply(g, p), DYNO_OK);
    assert_int_equal(autodiff_append_backward(g, true), DYNO_OK);
    assert_int_equal(mark_saved_activations(g), DYNO_OK);
    return g;
}

static void the_gradients_come_with_the_losses(void **state) {
    (void)state;
    graph *g = differentiate(FORWARD, PRECISION_FP32);
    assert_int_equal(swap_loss_head(g, target_usual(TARGET_CPU)), DYNO_OK);
    expect_graph_text(g, LEAVES "%4 f32[2,3] activation = multiply %0 %3 @forward body\n"
                                "%5 f32[] activation = fill {number=1.0, type=1} @forward loss\n"
                                "%6 f32[1] activation = reshape %5 {shape=[1]} @forward loss\n"
                                "%7 f32[1] activation = scale %6 {s=0.5} @forward loss\n"
                                "%8 f32[2] activation = broadcast %7 {shape=[2]} @forward loss\n"
                                "%9 f32[2] activation, %10 f32[2,3] saved, %11 f32[5,3] gradient = "
                                "loss_head %4 %2 %1 %8 {chunk=2, type=1, dw_type=1} @forward head\n"
                                "%12 f32[1] activation = mean %9 {axes=[0]} @forward loss\n"
                                "%13 f32[] activation = reshape %12 {shape=[]} @forward loss\n"
                                "%14 f32[2,3] gradient = multiply %10 %0 @backward body\n"
                                "output %13 \"loss\"\n"
                                "output %14 \"g.u\"\n"
                                "output %11 \"g.w\"\n");
    graph_destroy(g);
}

static int count_ops(const graph *g, const op *kind) {
    int count = 0;
    for (int i = 0; i < g->node_count; i++)
        count += g->nodes[i]->op == kind;
    return count;
}

static void expect_valid(const graph *g) {
    text printed = {0};
    graph_print(g, &printed);
    expect_graph_text(g, text_string(&printed));
    text_release(&printed);
}

/* Whether casts are folded or not, and weights low copies or not. */
static void the_low_types_casts_are_part_of_the_pattern(void **state) {
    (void)state;
    for (int way = 0; way < 4; way++) {
        graph *g = differentiate(FORWARD, PRECISION_BF16);
        if (way & 1)
            assert_int_equal(fold_casts(g, true), DYNO_OK);
        if (way & 2)
            assert_int_equal(low_copies_bind(g), DYNO_OK);
        assert_int_equal(swap_loss_head(g, target_usual(TARGET_CPU)), DYNO_OK);
        assert_int_equal(count_ops(g, &op_loss_head), 1);
        assert_int_equal(count_ops(g, &op_matmul), 0);
        assert_int_equal(count_ops(g, &op_cross_entropy_gradient), 0);
        const value *dw = graph_find_value(g, "g.w");
        assert_true(dw->producer->op == &op_loss_head && dw->type == DTYPE_F32);
        expect_valid(g);
        graph_destroy(g);
    }
}

/* On a GPU there is one chunk where the CPU has several: nothing is added up, and the weight's
 * gradient may stay in the type that its product gives, as those of other weights do. */
static void the_weights_gradient_keeps_its_type_where_nothing_is_added_up(void **state) {
    (void)state;
    for (int full = 0; full < 2; full++)
        for (int kind = TARGET_CPU; kind <= TARGET_CUDA; kind++) {
            graph *g = graph_from_text(FORWARD);
            assert_int_equal(precision_apply(g, PRECISION_BF16), DYNO_OK);
            assert_int_equal(autodiff_append_backward(g, false), DYNO_OK);
            assert_int_equal(mark_saved_activations(g), DYNO_OK);
            assert_int_equal(fold_casts(g, full), DYNO_OK);
            assert_int_equal(swap_loss_head(g, target_usual((target_kind)kind)), DYNO_OK);
            const node *head = NULL;
            for (int i = 0; i < g->node_count; i++)
                head = g->nodes[i]->op == &op_loss_head ? g->nodes[i] : head;
            assert_non_null(head);
            bool is_low = kind == TARGET_CUDA && !full;
            assert_int_equal(head->outputs[2]->type, is_low ? DTYPE_BF16 : DTYPE_F32);
            assert_int_equal(head->outputs[2]->role, ROLE_GRADIENT);
            expect_valid(g);
            graph_destroy(g);
        }
}

static void expect_no_swap(const char *source, bool is_differentiated) {
    graph *g = is_differentiated ? differentiate(source, PRECISION_FP32) : graph_from_text(source);
    text before = {0};
    graph_print(g, &before);
    assert_int_equal(swap_loss_head(g, target_usual(TARGET_CPU)), DYNO_OK);
    expect_graph_text(g, text_string(&before));
    text_release(&before);
    graph_destroy(g);
}

static void logits_that_others_read_are_kept(void **state) {
    (void)state;
    for (int differentiated = 0; differentiated < 2; differentiated++) {
        expect_no_swap(FORWARD "output %5 \"logits\"\n", differentiated);
        expect_no_swap(FORWARD "%10 f32[2,5] activation = exp %5 @forward\n"
                               "output %10 \"y\"\n",
                       differentiated);
        expect_no_swap(FORWARD "output %7 \"lse\"\n", differentiated);
    }
}

/* The gradient of the mean of squares is known only when the losses are. */
static void a_gradient_that_depends_on_the_losses_is_not_swapped(void **state) {
    (void)state;
    expect_no_swap(LEAVES
                   "%4 f32[2,3] activation = multiply %0 %3 @forward body\n"
                   "%5 f32[2,5] activation = matmul %4 %2 {transpose_a=0, transpose_b=1} @forward\n"
                   "%6 f32[2] activation, %7 f32[2] activation = cross_entropy %5 %1 @forward\n"
                   "%8 f32[2] activation = multiply %6 %6 @forward\n"
                   "%9 f32[1] activation = mean %8 {axes=[0]} @forward\n"
                   "%10 f32[] activation = reshape %9 {shape=[]} @forward\n"
                   "output %10 \"loss\"\n",
                   true);
}

/* A drawn model in double, before and after: the same loss and gradients. */
static void a_swapped_model_has_the_same_gradients(void **state) {
    (void)state;
    for (uint64_t round = 0; round < 6; round++) {
        draw d = draw_create(round, 1);
        model_config config = small_model_draw(&d);
        transformer_options shape_of_step = {.batch = 2, .context = 5};
        graph *graphs[2];
        reference_run *runs[2];
        double **leaves[2];
        for (int swapped = 0; swapped < 2; swapped++) {
            graph *g;
            assert_int_equal(transformer_build(&config, &shape_of_step, &g), DYNO_OK);
            assert_int_equal(autodiff_append_backward(g, true), DYNO_OK);
            assert_int_equal(mark_saved_activations(g), DYNO_OK);
            if (swapped)
                assert_int_equal(swap_loss_head(g, target_usual(TARGET_CPU)), DYNO_OK);
            assert_int_equal(count_ops(g, &op_loss_head), swapped);
            expect_valid(g);
            leaves[swapped] = calloc((size_t)g->value_count, sizeof(double *));
            draw numbers = draw_create(100 + round, 1);
            for (int i = 0; i < g->value_count; i++) {
                const value *v = g->values[i];
                int64_t count = v->producer ? 0 : shape_elements(&v->shape);
                leaves[swapped][i] = count ? malloc((size_t)count * sizeof(double)) : NULL;
                for (int64_t j = 0; j < count; j++)
                    leaves[swapped][i][j] = v->type == DTYPE_I32
                                                ? (double)draw_below(&numbers, config.vocab)
                                                : draw_normal(&numbers);
            }
            runs[swapped] = reference_run_create(g, (const double *const *)leaves[swapped]);
            graphs[swapped] = g;
        }
        for (int i = -1; i < model_parameter_count(&config); i++) {
            char name[100] = "loss";
            if (i >= 0) {
                model_parameter p = model_parameter_at(&config, i);
                strcat(strcpy(name, "g."), p.name);
            }
            const value *a = graph_find_value(graphs[0], name),
                        *b = graph_find_value(graphs[1], name);
            double error =
                relative_error(reference_run_value(runs[1], b), reference_run_value(runs[0], a),
                               shape_elements(&a->shape));
            if (!(error < 1e-9))
                fail_msg("%s is off by %g", name, error);
        }
        for (int k = 0; k < 2; k++) {
            reference_run_destroy(runs[k]);
            for (int i = 0; i < graphs[k]->value_count; i++)
                free(leaves[k][i]);
            free(leaves[k]);
            graph_destroy(graphs[k]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_backward_only_losses_are_computed),
        cmocka_unit_test(the_gradients_come_with_the_losses),
        cmocka_unit_test(the_low_types_casts_are_part_of_the_pattern),
        cmocka_unit_test(the_weights_gradient_keeps_its_type_where_nothing_is_added_up),
        cmocka_unit_test(logits_that_others_read_are_kept),
        cmocka_unit_test(a_gradient_that_depends_on_the_losses_is_not_swapped),
        cmocka_unit_test(a_swapped_model_has_the_same_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
