/* test_autodiff.c - small graphs as text, and a whole model against finite differences. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "compiler/passes/autodiff.h"
#include "compiler/passes/mark_saved.h"
#include "graph/verify.h"
#include "model/parameters.h"
#include "model/transformer.h"
#include "support/draw.h"
#include "support/graph_pass.h"
#include "support/numbers.h"
#include "support/reference_run.h"

static void expect_backward(const char *forward, const char *wanted) {
    graph *g = graph_from_text(forward);
    assert_int_equal(autodiff_append_backward(g, true), DYNO_OK);
    assert_int_equal(mark_saved_activations(g), DYNO_OK);
    expect_graph_text(g, wanted);
    graph_destroy(g);
}

#define LEAVES                                                                                     \
    "graph g\n"                                                                                    \
    "parameter %0 f32[3] \"w\"\n"                                                                  \
    "input %1 f32[3] \"x\"\n"
#define SUM_OF_3                                                                                   \
    "%4 f32[1] activation = sum %3 {axes=[0]} @forward loss\n"                                     \
    "%5 f32[] activation = reshape %4 {shape=[]} @forward loss\n"

static void a_value_used_twice_gets_the_sum_of_what_comes_back(void **state) {
    (void)state;
    expect_backward(LEAVES "%2 f32[3] activation = multiply %0 %1 @forward layer\n"
                           "%3 f32[3] activation = multiply %2 %2 @forward layer\n" SUM_OF_3
                           "output %5 \"loss\"\n",
                    LEAVES "%2 f32[3] saved = multiply %0 %1 @forward layer\n"
                           "%3 f32[3] activation = multiply %2 %2 @forward layer\n" SUM_OF_3
                           "%6 f32[] activation = fill {number=1.0, type=1} @backward loss\n"
                           "%7 f32[1] activation = reshape %6 {shape=[1]} @backward loss\n"
                           "%8 f32[3] activation = broadcast %7 {shape=[3]} @backward loss\n"
                           "%9 f32[3] activation = multiply %8 %2 @backward layer\n"
                           "%10 f32[3] activation = multiply %8 %2 @backward layer\n"
                           "%11 f32[3] activation = add %9 %10 @backward layer\n"
                           "%12 f32[3] gradient = multiply %11 %1 @backward layer\n"
                           "output %5 \"loss\"\n"
                           "output %12 \"g.w\"\n");
}

/* The ids get no gradient and what is behind the detach none either: %3 only scales. */
static void gradients_stop_at_detach_and_at_integers(void **state) {
    (void)state;
#define FORWARD(role_of_cut)                                                                       \
    "graph g\n"                                                                                    \
    "parameter %0 f32[4,3] \"table\"\n"                                                            \
    "input %1 i32[2] \"ids\"\n"                                                                    \
    "%2 f32[2,3] activation = gather %0 %1 @forward embed\n"                                       \
    "%3 f32[2,3] " role_of_cut " = detach %2 @forward cut\n"                                       \
    "%4 f32[2,3] activation = multiply %2 %3 @forward layer\n"                                     \
    "%5 f32[1,1] activation = sum %4 {axes=[0,1]} @forward loss\n"                                 \
    "%6 f32[] activation = reshape %5 {shape=[]} @forward loss\n"
    expect_backward(FORWARD("activation") "output %6 \"loss\"\n",
                    FORWARD("saved") "%7 f32[] activation = fill {number=1.0, type=1} "
                                     "@backward loss\n"
                                     "%8 f32[1,1] activation = reshape %7 {shape=[1,1]} "
                                     "@backward loss\n"
                                     "%9 f32[2,3] activation = broadcast %8 {shape=[2,3]} "
                                     "@backward loss\n"
                                     "%10 f32[2,3] activation = multiply %9 %3 @backward layer\n"
                                     "%11 f32[4,3] gradient = scatter_add %1 %10 {rows=4} "
                                     "@backward embed\n"
                                     "output %6 \"loss\"\n"
                                     "output %11 \"g.table\"\n");
#undef FORWARD
}

/* Nothing is computed for the branch that no parameter is behind: exp of the input. */
static void inputs_get_no_gradients(void **state) {
    (void)state;
#define FORWARD(role_of_factor)                                                                    \
    LEAVES "%2 f32[3] " role_of_factor " = exp %1 @forward a\n"                                    \
           "%3 f32[3] activation = multiply %0 %2 @forward b\n" SUM_OF_3
    expect_backward(
        FORWARD("activation") "output %5 \"loss\"\n",
        FORWARD("saved") "%6 f32[] activation = fill {number=1.0, type=1} @backward loss\n"
                         "%7 f32[1] activation = reshape %6 {shape=[1]} @backward loss\n"
                         "%8 f32[3] activation = broadcast %7 {shape=[3]} @backward loss\n"
                         "%9 f32[3] gradient = multiply %8 %2 @backward b\n"
                         "output %5 \"loss\"\n"
                         "output %9 \"g.w\"\n");
#undef FORWARD
}

/* Of a + b both gradients are one value; each parameter still finds its own by name. */
static void two_parameters_with_one_gradient_both_get_it(void **state) {
    (void)state;
    expect_backward("graph g\n"
                    "parameter %0 f32[] \"a\"\n"
                    "parameter %1 f32[] \"b\"\n"
                    "%2 f32[] activation = add %0 %1 @forward\n"
                    "output %2 \"loss\"\n",
                    "graph g\n"
                    "parameter %0 f32[] \"a\"\n"
                    "parameter %1 f32[] \"b\"\n"
                    "%2 f32[] activation = add %0 %1 @forward\n"
                    "%3 f32[] gradient = fill {number=1.0, type=1} @backward\n"
                    "%4 f32[] gradient = detach %3 @backward\n"
                    "output %2 \"loss\"\n"
                    "output %3 \"g.a\"\n"
                    "output %4 \"g.b\"\n");
}

static void gradients_are_outputs_only_if_kept(void **state) {
    (void)state;
    graph *g = graph_from_text("graph g\n"
                               "parameter %0 f32[] \"w\"\n"
                               "%1 f32[] activation = exp %0 @forward\n"
                               "output %1 \"loss\"\n");
    assert_int_equal(autodiff_append_backward(g, false), DYNO_OK);
    assert_int_equal(mark_saved_activations(g), DYNO_OK);
    expect_graph_text(g, "graph g\n"
                         "parameter %0 f32[] \"w\"\n"
                         "%1 f32[] saved = exp %0 @forward\n"
                         "%2 f32[] activation = fill {number=1.0, type=1} @backward\n"
                         "%3 f32[] gradient = multiply %2 %1 @backward\n"
                         "output %1 \"loss\"\n"
                         "gradient-of \"w\" %3\n");
    graph_destroy(g);
}

/* An output's gradient may be given instead of a loss: of its shape and type, or it is none. */
static void the_backward_starts_from_gradients_that_are_given(void **state) {
    (void)state;
    graph *g = graph_from_text("graph g\n"
                               "parameter %0 f32[3] \"w\"\n"
                               "input %1 f32[3] \"dy\"\n"
                               "%2 f32[3] activation = exp %0 @forward\n"
                               "output %2 \"y\"\n");
    assert_int_equal(autodiff_append_backward(g, false), DYNO_OK);
    assert_int_equal(mark_saved_activations(g), DYNO_OK);
    assert_int_equal(graph_verify(g), DYNO_OK);
    expect_graph_text(g, "graph g\n"
                         "parameter %0 f32[3] \"w\"\n"
                         "input %1 f32[3] \"dy\"\n"
                         "%2 f32[3] saved = exp %0 @forward\n"
                         "%3 f32[3] gradient = multiply %1 %2 @backward\n"
                         "output %2 \"y\"\n"
                         "gradient-of \"w\" %3\n");
    graph_destroy(g);
    g = graph_from_text("graph g\n"
                        "parameter %0 f32[3] \"w\"\n"
                        "input %1 f32[2] \"dy\"\n"
                        "%2 f32[3] activation = exp %0 @forward\n"
                        "output %2 \"y\"\n");
    expect_failure(autodiff_append_backward(g, true), DYNO_INVALID, "no scalar output");
    graph_destroy(g);
}

static void expect_refused(const char *forward, const char *message) {
    graph *g = graph_from_text(forward);
    expect_failure(autodiff_append_backward(g, true), DYNO_INVALID, message);
    graph_destroy(g);
}

static void a_graph_without_a_scalar_loss_is_refused(void **state) {
    (void)state;
    static const char message[] = "graph 'g' has no scalar output named 'loss'";
    expect_refused("graph g\nparameter %0 f32[3] \"w\"\n%1 f32[3] activation = exp %0 @forward\n"
                   "output %1 \"cost\"\n",
                   message);
    expect_refused("graph g\nparameter %0 f32[3] \"w\"\n%1 f32[3] activation = exp %0 @forward\n"
                   "output %1 \"loss\"\n",
                   message);
    expect_refused("graph g\nparameter %0 f32[] \"loss\"\n", message);
}

static void a_parameter_the_loss_does_not_depend_on_is_named(void **state) {
    (void)state;
    expect_refused("graph g\n"
                   "parameter %0 f32[] \"w\"\n"
                   "parameter %1 f32[] \"idle\"\n"
                   "%2 f32[] activation = exp %0 @forward\n"
                   "%3 f32[] activation = exp %1 @forward\n"
                   "output %2 \"loss\"\n",
                   "the loss does not depend on 'idle'");
    expect_refused("graph g\n"
                   "parameter %0 f32[] \"w\"\n"
                   "%1 f32[] activation = detach %0 @forward\n"
                   "%2 f32[] activation = exp %1 @forward\n"
                   "output %2 \"loss\"\n",
                   "the loss does not depend on 'w'");
}

/* Weights around their usual first values, norms around 1, random ids. */
static double **fill_leaves(const graph *g, int64_t vocab, draw *d) {
    double **leaves = memory_allocate((size_t)g->value_count, sizeof *leaves);
    for (int i = 0; i < g->value_count; i++) {
        const value *v = g->values[i];
        if (v->producer)
            continue;
        int64_t elements = shape_elements(&v->shape);
        leaves[i] = memory_allocate((size_t)elements, sizeof(double));
        for (int64_t j = 0; j < elements; j++)
            leaves[i][j] = v->type == DTYPE_I32 ? (double)draw_below(d, vocab)
                           : v->shape.rank == 1 ? 1 + 0.3 * draw_normal(d)
                                                : 0.6 * draw_normal(d);
    }
    return leaves;
}

static double loss_of(const graph *g, double *const *leaves) {
    reference_run *run = reference_run_create(g, (const double *const *)leaves);
    double loss = reference_run_value(run, graph_find_value(g, "loss"))[0];
    reference_run_destroy(run);
    return loss;
}

static void check_model_gradients(const model_config *config, int64_t batch, int64_t context,
                                  uint64_t seed) {
    draw d = draw_create(seed, 1);
    transformer_options options = {.batch = batch, .context = context};
    graph *forward, *both;
    assert_int_equal(transformer_build(config, &options, &forward), DYNO_OK);
    assert_int_equal(transformer_build(config, &options, &both), DYNO_OK);
    assert_int_equal(autodiff_append_backward(both, true), DYNO_OK);
    assert_int_equal(mark_saved_activations(both), DYNO_OK);
    assert_int_equal(graph_verify(both), DYNO_OK);
    double **leaves = fill_leaves(forward, config->vocab, &d);
    /* Leaves come first in both graphs under the same ids. */
    double **all = memory_allocate((size_t)both->value_count, sizeof *all);
    for (int i = 0; i < forward->value_count; i++)
        all[i] = leaves[i];
    reference_run *run = reference_run_create(both, (const double *const *)all);
    int checked = 0;
    for (int i = 0; i < forward->value_count; i++) {
        const value *w = forward->values[i];
        if (w->role != ROLE_PARAMETER)
            continue;
        char name[128];
        snprintf(name, sizeof name, "g.%s", w->name);
        int64_t elements = shape_elements(&w->shape);
        double *slope = memory_allocate((size_t)elements, sizeof *slope);
        for (int64_t j = 0; j < elements; j++) {
            double at = leaves[i][j], h = 1e-5;
            leaves[i][j] = at + h;
            double above = loss_of(forward, leaves);
            leaves[i][j] = at - h;
            slope[j] = (above - loss_of(forward, leaves)) / (2 * h);
            leaves[i][j] = at;
        }
        double error =
            relative_error(reference_run_value(run, graph_find_value(both, name)), slope, elements);
        if (!(error < 1e-6))
            fail_msg("%s is off by %g", name, error);
        free(slope);
        checked++;
    }
    assert_int_equal(checked, model_parameter_count(config));
    reference_run_destroy(run);
    for (int i = 0; i < forward->value_count; i++)
        free(leaves[i]);
    free(leaves);
    free(all);
    graph_destroy(forward);
    graph_destroy(both);
}

static const model_config grouped = {.name = "grouped",
                                     .d_model = 8,
                                     .d_ff = 5,
                                     .layers = 2,
                                     .heads = 4,
                                     .kv_heads = 2,
                                     .head_dim = 4,
                                     .vocab = 7,
                                     .norm_eps = 1e-5,
                                     .rope_theta = 100};

static void gradients_of_a_model_are_the_slopes_of_its_loss(void **state) {
    (void)state;
    check_model_gradients(&grouped, 2, 3, 1);
    model_config plain = grouped;
    plain.kv_heads = 4;
    plain.head_dim = 2;
    plain.layers = 1;
    check_model_gradients(&plain, 1, 5, 2);
    plain.kv_heads = 1;
    check_model_gradients(&plain, 3, 2, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_used_twice_gets_the_sum_of_what_comes_back),
        cmocka_unit_test(gradients_stop_at_detach_and_at_integers),
        cmocka_unit_test(inputs_get_no_gradients),
        cmocka_unit_test(two_parameters_with_one_gradient_both_get_it),
        cmocka_unit_test(gradients_are_outputs_only_if_kept),
        cmocka_unit_test(the_backward_starts_from_gradients_that_are_given),
        cmocka_unit_test(a_graph_without_a_scalar_loss_is_refused),
        cmocka_unit_test(a_parameter_the_loss_does_not_depend_on_is_named),
        cmocka_unit_test(gradients_of_a_model_are_the_slopes_of_its_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
