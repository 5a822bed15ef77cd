/* test_attention.c - attention alone: its plans against the double reference, its gradients
 * against finite differences, and laws it obeys. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compiler/passes/autodiff.h"
#include "compiler/passes/mark_saved.h"
#include "experiments/attention_plan.h"
#include "graph/verify.h"
#include "plan/memory_account.h"
#include "support/draw.h"
#include "support/expect.h"
#include "support/graph_pass.h"
#include "support/numbers.h"
#include "support/operand.h"
#include "support/reference_run.h"

static const char *const leaf_names[] = {"Q", "K", "V", "dO"};
static const char *const output_names[] = {"O", "g.Q", "g.K", "g.V"};
enum { OUTPUTS = 4 };

/* The graph with its backward, and numbers for its leaves. */
typedef struct sample {
    graph *g;
    double **leaves; /* by value id */
} sample;

static sample sample_create(const attention_options *options) {
    sample s;
    if (attention_build(options, &s.g) != DYNO_OK ||
        (options->has_gradient && autodiff_append_backward(s.g, true) != DYNO_OK) ||
        mark_saved_activations(s.g) != DYNO_OK || graph_verify(s.g) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    s.leaves = memory_allocate((size_t)s.g->value_count, sizeof *s.leaves);
    for (int i = 0; i < 4; i++) {
        const value *v = graph_find_value(s.g, leaf_names[i]);
        if (!v)
            continue;
        draw d = draw_create((uint64_t)i + 1, 1);
        int64_t count = shape_elements(&v->shape);
        s.leaves[v->id] = memory_allocate((size_t)count, sizeof(double));
        for (int64_t j = 0; j < count; j++) /* what a float holds, so that both see the same */
            s.leaves[v->id][j] = (double)(float)draw_normal(&d);
    }
    return s;
}

static double *sample_leaf(const sample *s, const char *name) {
    return s->leaves[graph_find_value(s->g, name)->id];
}

static reference_run *sample_run(const sample *s) {
    return reference_run_create(s->g, (const double *const *)s->leaves);
}

static void sample_release(sample *s) {
    for (int i = 0; i < s->g->value_count; i++)
        free(s->leaves[i]);
    free(s->leaves);
    graph_destroy(s->g);
}

/* options->is_flash says which of the two plans; the sample's graph is the naive one. */
static plan *make_plan(const attention_options *options, step_mode mode) {
    attention_plan_options wanted = {.shape = options->shape,
                                     .is_causal = options->is_causal,
                                     .extent = options->has_gradient ? STEP_BACKWARD : STEP_FORWARD,
                                     .mode = mode};
    plan *p;
    if ((options->is_flash ? attention_plan_flash : attention_plan_naive)(&wanted, &p) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return p;
}

/* Runs the plan twice on the sample's leaves and holds every output against the reference. */
static void expect_agreement(const attention_options *options, step_mode mode, const sample *s,
                             const reference_run *exact) {
    plan *p = make_plan(options, mode);
    memory_pool *pool;
    assert_int_equal(memory_pool_create(device_cpu(), INT64_C(64) << 20, &pool), DYNO_OK);
    storage *shared = storage_create(pool);
    executor *e;
    if (executor_create(p, pool, shared, &e) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    for (int i = 0; i < 4; i++) {
        tensor t = executor_find(e, leaf_names[i]);
        for (int64_t j = 0; t.data && j < shape_elements(&t.shape); j++)
            ((float *)t.data)[j] = (float)sample_leaf(s, leaf_names[i])[j];
    }
    for (int run = 0; run < 2; run++)
        assert_int_equal(executor_run(e, NULL, NULL), DYNO_OK);
    for (int i = 0; i < OUTPUTS; i++) {
        const value *v = graph_find_value(s->g, output_names[i]);
        tensor t = executor_find(e, output_names[i]);
        assert_int_equal(t.data != NULL, v != NULL);
        if (!v)
            continue;
        double *got = tensor_to_doubles(&t);
        int64_t count = shape_elements(&v->shape);
        /* A single key has a weight of one whatever Q and K are: their gradients are zero, and
         * what is left of them is rounding. */
        bool is_zero = options->shape.context == 1 && (i == 1 || i == 2);
        double *zero = memory_allocate((size_t)count, sizeof *zero);
        double error = relative_error(got, is_zero ? zero : reference_run_value(exact, v), count);
        free(zero);
        if (!(error < 1e-5))
            fail_msg("%s of %s, context %lld, head size %lld, causal %d: off by %g",
                     output_names[i], step_mode_name(mode), (long long)options->shape.context,
                     (long long)options->shape.head_dim, options->is_causal, error);
        free(got);
    }
    executor_destroy(e);
    storage_destroy(shared);
    memory_pool_destroy(pool);
    plan_destroy(p);
}

static void every_mode_agrees_with_the_reference(void **state) {
    (void)state;
    static const int64_t contexts[] = {1, 2, 17, 65}, head_dims[] = {1, 3, 16};
    for (int causal = 0; causal < 2; causal++)
        for (int t = 0; t < 4; t++)
            for (int d = 0; d < 3; d++) {
                attention_options options = {
                    .shape = {2, contexts[t], 4, d == 1 ? 2 : 4, head_dims[d]},
                    .is_causal = causal,
                    .has_gradient = true};
                sample s = sample_create(&options);
                reference_run *exact = sample_run(&s);
                for (int way = 0; way < 2 * STEP_MODE_COUNT; way++) {
                    options.is_flash = way >= STEP_MODE_COUNT;
                    expect_agreement(&options, (step_mode)(way % STEP_MODE_COUNT), &s, exact);
                }
                reference_run_destroy(exact);
                sample_release(&s);
            }
}

static void the_forward_alone_gives_the_same_without_a_gradient(void **state) {
    (void)state;
    attention_options options = {.shape = {2, 17, 2, 2, 8}, .is_causal = true};
    sample s = sample_create(&options);
    assert_null(graph_find_value(s.g, "dO"));
    reference_run *exact = sample_run(&s);
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++)
        expect_agreement(&options, (step_mode)mode, &s, exact);
    reference_run_destroy(exact);
    sample_release(&s);
}

/* Numbers and gradients are kept in the low type; flash has a launch each way and no other. */
static void low_types_are_stored_as_such(void **state) {
    (void)state;
    attention_options options = {.shape = {2, 65, 4, 2, 16}, .has_gradient = true};
    for (int way = 0; way < 8; way++) {
        options.is_causal = way & 1;
        options.is_flash = false;
        sample s = sample_create(&options);
        attention_plan_options wanted = {.shape = options.shape,
                                         .is_causal = options.is_causal,
                                         .extent = STEP_BACKWARD,
                                         .mode = way & 2 ? STEP_COMPILED : STEP_EAGER,
                                         .precision = PRECISION_BF16};
        plan *p;
        expect_ok((way & 4 ? attention_plan_flash : attention_plan_naive)(&wanted, &p));
        if (way & 4)
            assert_int_equal(p->launch_count, 2);
        memory_pool *pool;
        expect_ok(memory_pool_create(device_cpu(), INT64_C(64) << 20, &pool));
        storage *shared = storage_create(pool);
        executor *e;
        expect_ok(executor_create(p, pool, shared, &e));
        for (int i = 0; i < 4; i++) {
            tensor t = executor_find(e, leaf_names[i]);
            assert_int_equal(t.type, DTYPE_BF16);
            for (int64_t j = 0; j < shape_elements(&t.shape); j++) {
                dtype_store(t.type, t.data, j, sample_leaf(&s, leaf_names[i])[j]);
                sample_leaf(&s, leaf_names[i])[j] = dtype_load(t.type, t.data, j);
            }
        }
        reference_run *exact = sample_run(&s);
        expect_ok(executor_run(e, NULL, NULL));
        for (int i = 0; i < OUTPUTS; i++) {
            const value *v = graph_find_value(s.g, output_names[i]);
            tensor t = executor_find(e, output_names[i]);
            assert_int_equal(t.type, DTYPE_BF16);
            double *got = tensor_to_doubles(&t);
            assert_true(relative_error(got, reference_run_value(exact, v),
                                       shape_elements(&v->shape)) < 0.02);
            free(got);
        }
        reference_run_destroy(exact);
        executor_destroy(e);
        storage_destroy(shared);
        memory_pool_destroy(pool);
        plan_destroy(p);
        sample_release(&s);
    }
}

/* sum(O * dO): linear in O, so that the gradient reaching O is dO. */
static double loss_of(const sample *s) {
    reference_run *run = sample_run(s);
    const value *o = graph_find_value(s->g, "O");
    double loss = 0;
    for (int64_t i = 0; i < shape_elements(&o->shape); i++)
        loss += reference_run_value(run, o)[i] * sample_leaf(s, "dO")[i];
    reference_run_destroy(run);
    return loss;
}

static void gradients_are_those_of_finite_differences(void **state) {
    (void)state;
    static const char *const gradients[] = {"g.Q", "g.K", "g.V"};
    for (int causal = 0; causal < 2; causal++) {
        attention_options options = {
            .shape = {2, 5, 4, 2, 3}, .is_causal = causal, .has_gradient = true};
        sample s = sample_create(&options);
        reference_run *run = sample_run(&s);
        for (int i = 0; i < 3; i++) {
            const double *gradient = reference_run_value(run, graph_find_value(s.g, gradients[i]));
            double *leaf = sample_leaf(&s, leaf_names[i]);
            int64_t count = shape_elements(&graph_find_value(s.g, leaf_names[i])->shape);
            for (int64_t j = 0; j < count; j++) {
                double was = leaf[j], step = 1e-5;
                leaf[j] = was + step;
                double above = loss_of(&s);
                leaf[j] = was - step;
                double below = loss_of(&s);
                leaf[j] = was;
                assert_true(fabs((above - below) / (2 * step) - gradient[j]) < 1e-8);
            }
        }
        reference_run_destroy(run);
        sample_release(&s);
    }
}

/* Weights add up to one. */
static void values_that_are_all_the_same_come_out_unchanged(void **state) {
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        attention_options options = {.shape = {1, 7, 2, 1, 4}, .is_causal = causal};
        sample s = sample_create(&options);
        for (int i = 0; i < 7 * 4; i++)
            sample_leaf(&s, "V")[i] = 3;
        reference_run *run = sample_run(&s);
        const double *o = reference_run_value(run, graph_find_value(s.g, "O"));
        for (int i = 0; i < 2 * 7 * 4; i++)
            assert_true(fabs(o[i] - 3) < 1e-12);
        reference_run_destroy(run);
        sample_release(&s);
    }
}

/* Position t of O changes with V at u <= t only; without the mask, with all of V. */
static void a_query_sees_later_keys_only_without_the_mask(void **state) {
    (void)state;
    enum { T = 5, S = 3 };
    for (int causal = 0; causal < 2; causal++)
        for (int u = 0; u < T; u++) {
            attention_options options = {.shape = {1, T, 1, 1, S}, .is_causal = causal};
            sample before = sample_create(&options), after = sample_create(&options);
            sample_leaf(&after, "V")[u * S] += 1;
            reference_run *a = sample_run(&before), *b = sample_run(&after);
            const double *was = reference_run_value(a, graph_find_value(before.g, "O"));
            const double *is = reference_run_value(b, graph_find_value(after.g, "O"));
            for (int t = 0; t < T; t++)
                assert_int_equal(fabs(was[t * S] - is[t * S]) > 1e-9, !causal || u <= t);
            reference_run_destroy(a);
            reference_run_destroy(b);
            sample_release(&before);
            sample_release(&after);
        }
}

static void shapes_that_are_none_are_refused(void **state) {
    (void)state;
    graph *g;
    attention_options options = {.shape = {1, 0, 1, 1, 4}};
    expect_failure(attention_build(&options, &g), DYNO_INVALID, "context 0");
    assert_null(g);
    options.shape = (attention_shape){1, 4, 3, 2, 4};
    expect_failure(attention_build(&options, &g), DYNO_INVALID, "3 heads do not divide among 2");
    options.shape = (attention_shape){1 << 20, 1 << 24, 1, 1, 4};
    expect_failure(attention_build(&options, &g), DYNO_INVALID, "more bytes than can be counted");
    plan *p;
    attention_plan_options whole = {.shape = {1, 4, 1, 1, 4}, .extent = STEP_FULL};
    expect_failure(attention_plan_naive(&whole, &p), DYNO_INVALID, "no weights to optimize");
    assert_null(p);
}

/* In use when the backward begins: Q, K, V, dO and O, and of what the softmax made the
 * exponentials, their sums and the weights. */
static void what_is_in_use_before_the_backward_is_the_formula(void **state) {
    (void)state;
    enum { B = 2, T = 64, S = 8, F = sizeof(float) };
    attention_options options = {.shape = {B, T, 1, 1, S}, .has_gradient = true};
    plan *p = make_plan(&options, STEP_EAGER);
    int first = 0;
    while (p->launches[first].phase != PHASE_BACKWARD)
        first++;
    assert_int_equal(memory_account_bytes_before(p, first),
                     5 * B * T * S * F + 2 * B * T * T * F + B * T * F);
    plan_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode_agrees_with_the_reference),
        cmocka_unit_test(the_forward_alone_gives_the_same_without_a_gradient),
        cmocka_unit_test(low_types_are_stored_as_such),
        cmocka_unit_test(gradients_are_those_of_finite_differences),
        cmocka_unit_test(values_that_are_all_the_same_come_out_unchanged),
        cmocka_unit_test(a_query_sees_later_keys_only_without_the_mask),
        cmocka_unit_test(shapes_that_are_none_are_refused),
        cmocka_unit_test(what_is_in_use_before_the_backward_is_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
