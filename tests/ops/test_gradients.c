/* test_gradients.c - every gradient rule against central differences, both in double. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/verify.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/max/max.h"
#include "ops/op_list.h"
#include "ops/select/select.h"
#include "support/numbers.h"
#include "support/op_cases.h"
#include "support/reference_run.h"

/* One node, the leaves that stand for its outputs' gradients, and data for all leaves. The
 * differentiated scalar is the sum of outputs times these gradients. */
typedef struct trial {
    graph *g;
    node *n;
    value *upstream[OP_CASE_MAX_OUTPUTS]; /* NULL where nothing depends on the output */
    double **leaves;                      /* by value id */
} trial;

/* `used`: bit i is set where something depends on output i. */
static trial trial_begin(const op_instance *in, unsigned used, draw *d) {
    trial t = {.g = in->g, .n = in->n};
    for (int i = 0; i < t.n->output_count; i++) {
        t.n->outputs[i]->role = ROLE_SAVED;
        char name[16] = "dy0";
        name[2] = (char)('0' + i);
        if (used >> i & 1)
            t.upstream[i] = graph_add_leaf(t.g, ROLE_INPUT, t.n->outputs[i]->type,
                                           &t.n->outputs[i]->shape, name);
    }
    t.leaves = memory_allocate((size_t)t.g->value_count, sizeof *t.leaves);
    for (int i = 0; i < t.g->value_count; i++) {
        const value *v = t.g->values[i];
        if (v->producer)
            continue;
        t.leaves[i] = memory_allocate((size_t)shape_elements(&v->shape), sizeof(double));
        int input = 0; /* which input of the node it is; none for upstream gradients */
        while (input < t.n->input_count && t.n->inputs[input] != v)
            input++;
        for (int64_t j = 0; j < shape_elements(&v->shape); j++)
            t.leaves[i][j] = fill_draw(input < t.n->input_count ? in->fill[input] : (fill){0}, d);
    }
    return t;
}

static void trial_end(trial *t, int leaf_limit) {
    for (int i = 0; i < leaf_limit; i++)
        free(t->leaves[i]);
    free(t->leaves);
    graph_destroy(t->g);
}

/* The scalar, from the node alone. */
static double evaluate(const trial *t) {
    const double *inputs[OP_CASE_MAX_INPUTS];
    double *outputs[OP_CASE_MAX_OUTPUTS], sum = 0;
    for (int i = 0; i < t->n->input_count; i++)
        inputs[i] = t->leaves[t->n->inputs[i]->id];
    for (int i = 0; i < t->n->output_count; i++)
        outputs[i] =
            memory_allocate((size_t)shape_elements(&t->n->outputs[i]->shape), sizeof(double));
    t->n->op->reference(t->n, inputs, outputs);
    for (int i = 0; i < t->n->output_count; i++) {
        for (int64_t j = 0; t->upstream[i] && j < shape_elements(&t->n->outputs[i]->shape); j++)
            sum += outputs[i][j] * t->leaves[t->upstream[i]->id][j];
        free(outputs[i]);
    }
    return sum;
}

static double *differences(const trial *t, int input) {
    int64_t elements = shape_elements(&t->n->inputs[input]->shape);
    double *data = t->leaves[t->n->inputs[input]->id], h = 1e-5;
    double *slope = memory_allocate((size_t)elements, sizeof *slope);
    for (int64_t i = 0; i < elements; i++) {
        double kept = data[i];
        data[i] = kept + h;
        double above = evaluate(t);
        data[i] = kept - h;
        slope[i] = (above - evaluate(t)) / (2 * h);
        data[i] = kept;
    }
    return slope;
}

/* Applies the rule and compares; takes the instance's graph. */
static void check_rule(const op_instance *in, unsigned differentiable, unsigned used, draw *d) {
    trial t = trial_begin(in, used, d);
    int leaf_limit = t.g->value_count;
    bool wanted[OP_CASE_MAX_INPUTS];
    value *gradients[OP_CASE_MAX_INPUTS] = {0};
    for (int i = 0; i < t.n->input_count; i++)
        wanted[i] = differentiable >> i & 1;
    t.g->current_phase = PHASE_BACKWARD;
    t.n->op->gradient(t.g, t.n, t.upstream, wanted, gradients);
    if (graph_verify(t.g) != DYNO_OK)
        fail_msg("%s's gradient: %s", t.n->op->name, dyno_error_message());
    reference_run *run = reference_run_create(t.g, (const double *const *)t.leaves);
    for (int i = 0; i < t.n->input_count; i++) {
        if (!wanted[i]) {
            assert_null(gradients[i]);
            continue;
        }
        assert_non_null(gradients[i]);
        assert_true(shape_equal(&gradients[i]->shape, &t.n->inputs[i]->shape));
        assert_int_equal(gradients[i]->type, t.n->inputs[i]->type);
        double *slope = differences(&t, i);
        double error = relative_error(reference_run_value(run, gradients[i]), slope,
                                      shape_elements(&t.n->inputs[i]->shape));
        if (!(error < 1e-6))
            fail_msg("%s of [%s]: the gradient of input %d is off by %.3g", t.n->op->name,
                     shape_format(&t.n->inputs[0]->shape).text, i, error);
        free(slope);
    }
    reference_run_destroy(run);
    trial_end(&t, leaf_limit);
}

static op_instance build_smooth(const op_case *c, draw *d) {
    graph *g = graph_create("trial");
    op_instance in = op_case_build(c, g, true, d);
    assert_int_equal(graph_status(g), DYNO_OK);
    return in;
}

/* Outputs that a loss may depend on. */
static unsigned outputs_of(const op_case *c) { return c->kind == &op_attention ? 1 : ~0u; }

static void every_gradient_rule_agrees_with_finite_differences(void **state) {
    (void)state;
    for (int o = 0; o < op_list_count(); o++) {
        const op_case *c = op_case_find(op_list_at(o));
        if ((c->kind->gradient != NULL) != (c->differentiable != 0))
            fail_msg("op '%s': its case and its gradient rule disagree", c->kind->name);
        for (int round = 0; c->kind->gradient && round < 25; round++) {
            draw d = draw_create((uint64_t)(100 * o + round), 24);
            op_instance in = build_smooth(c, &d);
            check_rule(&in, c->differentiable, outputs_of(c), &d);
        }
    }
}

static void what_is_not_wanted_is_not_computed(void **state) {
    (void)state;
    for (int o = 0; o < op_list_count(); o++) {
        const op_case *c = op_case_find(op_list_at(o));
        for (unsigned input = 0; c->kind->gradient && input < 3; input++) {
            draw d = draw_create((uint64_t)o, 24);
            op_instance in = build_smooth(c, &d);
            check_rule(&in, c->differentiable & 1u << input, outputs_of(c), &d);
        }
    }
}

/* Each output may be the only one that something depends on. */
static void outputs_nobody_uses_have_no_gradient(void **state) {
    (void)state;
    for (int o = 0; o < op_list_count(); o++) {
        const op_case *c = op_case_find(op_list_at(o));
        for (int i = 0; c->kind->gradient && i < c->kind->output_count; i++) {
            if (!(outputs_of(c) >> i & 1))
                continue;
            draw d = draw_create((uint64_t)o, 24);
            op_instance in = build_smooth(c, &d);
            check_rule(&in, c->differentiable, 1u << i, &d);
        }
    }
}

static void a_loss_on_attentions_log_sum_exp_is_refused(void **state) {
    (void)state;
    draw d = draw_create(1, 24);
    op_instance in = build_smooth(op_case_find(&op_attention), &d);
    value *lse = in.n->outputs[1], *dx[OP_CASE_MAX_INPUTS] = {0};
    value *dy[2] = {NULL, graph_add_leaf(in.g, ROLE_INPUT, lse->type, &lse->shape, "dy")};
    op_attention.gradient(in.g, in.n, dy, (bool[OP_CASE_MAX_INPUTS]){true, true, true}, dx);
    assert_int_equal(graph_status(in.g), DYNO_UNSUPPORTED);
    assert_non_null(strstr(dyno_error_message(), "log-sum-exp cannot be differentiated"));
    graph_destroy(in.g);
}

static void ties_share_the_gradient_of_a_maximum(void **state) {
    (void)state;
    graph *g = graph_create("ties");
    shape row = SHAPE(1, 4), one = SHAPE(1, 1), axes = SHAPE(1);
    value *x = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &row, "x");
    value *dy = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &one, "dy");
    value *y = build_max(g, x, &axes), *dx = NULL;
    op_max.gradient(g, y->producer, &dy, &(bool){true}, &dx);
    const double *leaves[] = {(double[]){3, 1, 3, 3}, (double[]){6}};
    reference_run *run = reference_run_create(g, leaves);
    assert_memory_equal(reference_run_value(run, dx), ((double[]){2, 0, 2, 2}), 4 * sizeof(double));
    reference_run_destroy(run);
    graph_destroy(g);
}

/* Rules must not assume f32: mixed precision runs them in bf16 and f16. */
static void rules_keep_the_type_of_what_they_differentiate(void **state) {
    (void)state;
    for (int o = 0; o < op_list_count(); o++) {
        const op_case *c = op_case_find(op_list_at(o));
        if (!c->kind->gradient || c->kind == &op_rope || c->kind == &op_cast)
            continue;
        draw d = draw_create((uint64_t)o, 24);
        graph *g = graph_create("half");
        op_instance in = op_case_build(c, g, true, &d);
        value *gradients[OP_CASE_MAX_INPUTS] = {0}, *upstream[OP_CASE_MAX_OUTPUTS] = {0};
        bool wanted[OP_CASE_MAX_INPUTS];
        for (int i = 0; i < in.n->input_count; i++) {
            wanted[i] = c->differentiable >> i & 1;
            bool is_table = c->kind->optional_inputs && i >= c->kind->input_count;
            if (in.n->inputs[i]->type == DTYPE_F32 && !is_table)
                in.n->inputs[i]->type = DTYPE_BF16;
        }
        value_type types[OP_CASE_MAX_OUTPUTS];
        assert_int_equal(c->kind->infer(in.n, types), DYNO_OK);
        for (int i = 0; i < in.n->output_count; i++) {
            in.n->outputs[i]->type = types[i].type;
            if (outputs_of(c) >> i & 1)
                upstream[i] = graph_add_leaf(g, ROLE_INPUT, types[i].type, &types[i].shape, "dy");
        }
        c->kind->gradient(g, in.n, upstream, wanted, gradients);
        if (graph_status(g) != DYNO_OK)
            fail_msg("%s's gradient in bf16: %s", c->kind->name, dyno_error_message());
        for (int i = 0; i < in.n->input_count; i++)
            if (wanted[i])
                assert_int_equal(gradients[i]->type, DTYPE_BF16);
        graph_destroy(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_gradient_rule_agrees_with_finite_differences),
        cmocka_unit_test(what_is_not_wanted_is_not_computed),
        cmocka_unit_test(outputs_nobody_uses_have_no_gradient),
        cmocka_unit_test(a_loss_on_attentions_log_sum_exp_is_refused),
        cmocka_unit_test(ties_share_the_gradient_of_a_maximum),
        cmocka_unit_test(rules_keep_the_type_of_what_they_differentiate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
