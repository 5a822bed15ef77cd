/* test_precision.c - the policy as text, casts folded and weights' copies bound as text, and
 * models trained in every precision. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "compiler/passes/autodiff.h"
#include "compiler/passes/fold_casts.h"
#include "compiler/passes/low_copies.h"
#include "compiler/passes/mark_saved.h"
#include "compiler/passes/optimizer.h"
#include "compiler/passes/precision.h"
#include "graph/graph_text.h"
#include "graph/verify.h"
#include "model/parameters.h"
#include "ops/adamw/split_weight.h"
#include "ops/attention/attention.h"
#include "ops/exp/exp.h"
#include "ops/op_list.h"
#include "support/graph_pass.h"
#include "support/numbers.h"
#include "support/operand.h"
#include "support/small_model.h"
#include "train/split_weights.h"
#include "train/trainer.h"

#define LEAVES                                                                                     \
    "graph g\n"                                                                                    \
    "input %0 f32[2,3] \"x\"\n"                                                                    \
    "input %1 i32[2] \"targets\"\n"                                                                \
    "parameter %2 f32[4,3] \"a\"\n"                                                                \
    "parameter %3 f32[5,4] \"b\"\n"
#define T "{transpose_a=0, transpose_b=1}"

/* x a^T, doubled, times b^T, into the loss. */
static const char forward[] =
    LEAVES "%4 f32[2,4] activation = matmul %0 %2 " T " @forward one\n"
           "%5 f32[2,4] activation = scale %4 {s=2.0} @forward two\n"
           "%6 f32[2,5] activation = matmul %5 %3 " T " @forward head\n"
           "%7 f32[2] activation, %8 f32[2] activation = cross_entropy %6 %1 @forward loss\n"
           "%9 f32[1] activation = mean %7 {axes=[0]} @forward loss\n"
           "%10 f32[] activation = reshape %9 {shape=[]} @forward loss\n"
           "output %10 \"loss\"\n";

static void expect_policy(const char *source, precision p, const char *wanted) {
    graph *g = graph_from_text(source);
    assert_int_equal(precision_apply(g, p), DYNO_OK);
    expect_graph_text(g, wanted);
    graph_destroy(g);
}

static void fp32_inserts_nothing(void **state) {
    (void)state;
    expect_policy(forward, PRECISION_FP32, forward);
}

static void products_are_low_and_all_else_is_full(void **state) {
    (void)state;
    expect_policy(forward, PRECISION_BF16,
                  LEAVES "%4 bf16[2,3] activation = cast %0 {type=2} @forward one\n"
                         "%5 bf16[4,3] activation = cast %2 {type=2} @forward one\n"
                         "%6 bf16[2,4] activation = matmul %4 %5 " T " @forward one\n"
                         "%7 f32[2,4] activation = cast %6 {type=1} @forward two\n"
                         "%8 f32[2,4] activation = scale %7 {s=2.0} @forward two\n"
                         "%9 bf16[2,4] activation = cast %8 {type=2} @forward head\n"
                         "%10 bf16[5,4] activation = cast %3 {type=2} @forward head\n"
                         "%11 f32[2,5] activation = matmul %9 %10 "
                         "{transpose_a=0, transpose_b=1, type=1} @forward head\n"
                         "%12 f32[2] activation, %13 f32[2] activation = cross_entropy %11 %1 "
                         "@forward loss\n"
                         "%14 f32[1] activation = mean %12 {axes=[0]} @forward loss\n"
                         "%15 f32[] activation = reshape %14 {shape=[]} @forward loss\n"
                         "output %15 \"loss\"\n");
}

static void a_cast_is_shared_by_all_who_read_it_and_views_take_what_they_get(void **state) {
    (void)state;
    expect_policy("graph g\n"
                  "input %0 f32[4,4] \"x\"\n"
                  "parameter %1 f32[4,4] \"w\"\n"
                  "%2 f32[4,4] activation = matmul %0 %1 " T " @forward a\n"
                  "%3 f32[4,4] activation = transpose %2 {order=[1,0]} @forward b\n"
                  "%4 f32[4,4] activation = matmul %3 %1 " T " @forward c\n"
                  "%5 f32[4,4] activation = exp %4 @forward d\n"
                  "%6 f32[4,4] activation = multiply %4 %5 @forward e\n",
                  PRECISION_FP16,
                  "graph g\n"
                  "input %0 f32[4,4] \"x\"\n"
                  "parameter %1 f32[4,4] \"w\"\n"
                  "input %2 f32[] \"loss_scale\"\n"
                  "%3 f16[4,4] activation = cast %0 {type=3} @forward a\n"
                  "%4 f16[4,4] activation = cast %1 {type=3} @forward a\n"
                  "%5 f16[4,4] activation = matmul %3 %4 " T " @forward a\n"
                  "%6 f16[4,4] activation = transpose %5 {order=[1,0]} @forward b\n"
                  "%7 f16[4,4] activation = matmul %6 %4 " T " @forward c\n"
                  "%8 f32[4,4] activation = cast %7 {type=1} @forward d\n"
                  "%9 f32[4,4] activation = exp %8 @forward d\n"
                  "%10 f32[4,4] activation = multiply %8 %9 @forward e\n");
}

static int count_ops(const graph *g, const op *kind, phase when) {
    int count = 0;
    for (int i = 0; i < g->node_count; i++)
        count += g->nodes[i]->op == kind && g->nodes[i]->phase == when;
    return count;
}

static graph *differentiate(const char *source, precision p) {
    graph *g = graph_from_text(source);
    assert_int_equal(precision_apply(g, p), DYNO_OK);
    assert_int_equal(autodiff_append_backward(g, true), DYNO_OK);
    assert_int_equal(mark_saved_activations(g), DYNO_OK);
    return g;
}

static void gradients_come_back_in_full_and_start_from_the_loss_scale(void **state) {
    (void)state;
    for (int p = PRECISION_BF16; p <= PRECISION_FP16; p++) {
        graph *g = differentiate(forward, (precision)p);
        assert_int_equal(graph_find_value(g, "g.a")->type, DTYPE_F32);
        assert_int_equal(graph_find_value(g, "g.b")->type, DTYPE_F32);
        assert_int_equal(graph_find_value(g, "g.a")->producer->inputs[0]->type,
                         precision_low_type((precision)p));
        assert_int_equal(count_ops(g, &op_fill, PHASE_BACKWARD), p == PRECISION_BF16);
        value *scale = graph_find_value(g, "loss_scale");
        assert_int_equal(scale != NULL, p == PRECISION_FP16);
        graph_destroy(g);
    }
}

/* x is read by two products: what they send back is added in f32. */
static void gradients_of_a_low_value_are_added_in_full(void **state) {
    (void)state;
    graph *g = differentiate("graph g\n"
                             "input %0 f32[2,2] \"x\"\n"
                             "parameter %1 f32[2,2] \"u\"\n"
                             "parameter %2 f32[2,2] \"v\"\n"
                             "%3 f32[2,2] activation = multiply %0 %1 @forward\n"
                             "%4 f32[2,2] activation = matmul %3 %2 " T " @forward\n"
                             "%5 f32[2,2] activation = matmul %4 %2 " T " @forward\n"
                             "%6 f32[2,2] activation = matmul %4 %3 " T " @forward\n"
                             "%7 f32[2,2] activation = multiply %5 %6 @forward\n"
                             "%8 f32[1,1] activation = sum %7 {axes=[0,1]} @forward\n"
                             "%9 f32[] activation = reshape %8 {shape=[]} @forward\n"
                             "output %9 \"loss\"\n",
                             PRECISION_BF16);
    int sums = 0;
    for (int i = 0; i < g->node_count; i++)
        if (g->nodes[i]->op == &op_add) {
            assert_int_equal(g->nodes[i]->outputs[0]->type, DTYPE_F32);
            sums++;
        }
    assert_true(sums >= 2);
    text printed = {0};
    graph_print(g, &printed);
    expect_graph_text(g, text_string(&printed)); /* verifies */
    text_release(&printed);
    graph_destroy(g);
}

static void weight_gradients_of_folded_casts_are_full_at_once(void **state) {
    (void)state;
    graph *g = differentiate(forward, PRECISION_BF16);
    int before = count_ops(g, &op_cast, PHASE_BACKWARD);
    assert_int_equal(fold_casts(g, true), DYNO_OK);
    assert_int_equal(before - count_ops(g, &op_cast, PHASE_BACKWARD), 2);
    const char *const names[] = {"g.a", "g.b"};
    for (int i = 0; i < 2; i++) {
        const value *v = graph_find_value(g, names[i]);
        assert_true(v->producer->op == &op_matmul && v->type == DTYPE_F32 && v->is_output);
        assert_int_equal(v->role, ROLE_GRADIENT);
    }
    text printed = {0};
    graph_print(g, &printed);
    expect_graph_text(g, text_string(&printed));
    text_release(&printed);
    graph_destroy(g);
}

/* Unless they are for the caller, who gets f32. */
static void weight_gradients_stay_in_the_type_of_their_products(void **state) {
    (void)state;
    graph *g = differentiate(forward, PRECISION_BF16);
    graph_find_value(g, "g.a")->is_output = false;
    int before = count_ops(g, &op_cast, PHASE_BACKWARD);
    assert_int_equal(fold_casts(g, false), DYNO_OK);
    assert_int_equal(before - count_ops(g, &op_cast, PHASE_BACKWARD), 2);
    assert_true(graph_find_value(g, "g.b")->type == DTYPE_F32);
    int found = 0;
    for (int i = 0; i < g->value_count; i++) {
        const value *v = g->values[i];
        if (v->role != ROLE_GRADIENT || strcmp(v->name, "g.a") != 0)
            continue;
        assert_true(v->producer->op == &op_matmul && v->type == DTYPE_BF16);
        found++;
    }
    assert_int_equal(found, 1);
    text printed = {0};
    graph_print(g, &printed);
    expect_graph_text(g, text_string(&printed));
    text_release(&printed);
    graph_destroy(g);
}

/* Through f32 and back is nothing; through bf16 and back loses digits; f16 is not bf16. */
static void only_pairs_of_casts_that_change_nothing_are_folded(void **state) {
    (void)state;
    graph *g = graph_from_text("graph g\n"
                               "input %0 bf16[2] \"low\"\n"
                               "input %1 f32[2] \"full\"\n"
                               "%2 f32[2] activation = cast %0 {type=1} @forward\n"
                               "%3 bf16[2] activation = cast %2 {type=2} @forward\n"
                               "%4 bf16[2] activation = reshape %3 {shape=[2]} @forward\n"
                               "%5 bf16[2] activation = cast %1 {type=2} @forward\n"
                               "%6 f32[2] activation = cast %5 {type=1} @forward\n"
                               "%7 f32[2] activation = exp %6 @forward\n"
                               "%8 f16[2] activation = cast %2 {type=3} @forward\n"
                               "%9 f32[2] activation = cast %8 {type=1} @forward\n"
                               "%10 f32[2] activation = cast %9 {type=1} @forward\n"
                               "output %4 \"a\"\n"
                               "output %7 \"b\"\n"
                               "output %10 \"c\"\n");
    assert_int_equal(fold_casts(g, true), DYNO_OK);
    expect_graph_text(g, "graph g\n"
                         "input %0 bf16[2] \"low\"\n"
                         "input %1 f32[2] \"full\"\n"
                         "%2 f32[2] activation = cast %0 {type=1} @forward\n"
                         "%3 bf16[2] activation = reshape %0 {shape=[2]} @forward\n"
                         "%4 bf16[2] activation = cast %1 {type=2} @forward\n"
                         "%5 f32[2] activation = cast %4 {type=1} @forward\n"
                         "%6 f32[2] activation = exp %5 @forward\n"
                         "%7 f16[2] activation = cast %2 {type=3} @forward\n"
                         "%8 f32[2] activation = cast %7 {type=1} @forward\n"
                         "output %3 \"a\"\n"
                         "output %6 \"b\"\n"
                         "output %8 \"c\"\n");
    graph_destroy(g);
}

static void low_copies_take_the_place_of_the_weights_casts(void **state) {
    (void)state;
    graph *g = differentiate(forward, PRECISION_BF16);
    assert_int_equal(low_copies_bind(g), DYNO_OK);
    assert_int_equal(low_copies_bind(g), DYNO_OK); /* nothing is left to do */
    assert_int_equal(count_ops(g, &op_cast, PHASE_FORWARD), 3);
    const char *const names[] = {"a", "b"}, *const copies[] = {"low.a", "low.b"};
    for (int i = 0; i < 2; i++) {
        const value *copy = graph_find_value(g, copies[i]);
        assert_true(copy && low_copy_is(copy) && copy->type == DTYPE_BF16);
        assert_ptr_equal(low_copy_find(g, graph_find_value(g, names[i])), copy);
    }
    optimizer_options options = {.clip_norm = 0};
    expect_failure(optimizer_append_adamw(g, &options), DYNO_INVALID, "in one launch");
    options.one_launch = true;
    assert_int_equal(optimizer_append_adamw(g, &options), DYNO_OK);
    const node *update = g->nodes[g->node_count - 1];
    assert_ptr_equal(update->op, &op_adamw_many);
    assert_int_equal(update->output_count, 2 * 3 + 2);
    assert_int_equal(update->outputs[6]->type, DTYPE_BF16);
    text printed = {0};
    graph_print(g, &printed);
    expect_graph_text(g, text_string(&printed));
    text_release(&printed);
    graph_destroy(g);
}

static void tf32_marks_every_product_and_changes_nothing_else(void **state) {
    (void)state;
    graph *g = differentiate(forward, PRECISION_TF32),
          *plain = differentiate(forward, PRECISION_FP32);
    text before = {0}, after = {0};
    graph_print(plain, &before);
    graph_print(g, &after);
    assert_string_equal(text_string(&before), text_string(&after));
    precision_allow_tf32(plain, PRECISION_FP32);
    precision_allow_tf32(g, PRECISION_TF32);
    assert_int_equal(graph_verify(g), DYNO_OK);
    int products[PHASE_COUNT] = {0};
    for (int i = 0; i < g->node_count; i++) {
        const attribute *mark = attribute_find(&g->nodes[i]->attributes, "tf32");
        assert_int_equal(mark != NULL, g->nodes[i]->op == &op_matmul);
        assert_null(attribute_find(&plain->nodes[i]->attributes, "tf32"));
        if (!mark)
            continue;
        assert_int_equal(mark->integer, 1);
        products[g->nodes[i]->phase]++;
    }
    assert_true(products[PHASE_FORWARD] > 0 && products[PHASE_BACKWARD] > 0);
    text printed = {0};
    graph_print(g, &printed);
    expect_graph_text(g, text_string(&printed));
    text_release(&before);
    text_release(&after);
    text_release(&printed);
    graph_destroy(g);
    graph_destroy(plain);
}

static void tf32_marks_attention_and_its_gradient(void **state) {
    (void)state;
    graph *g = graph_create("attention");
    shape size = SHAPE(1, 2, 4, 8);
    value *x[3];
    for (int i = 0; i < 3; i++)
        x[i] = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &size, (const char *[]){"q", "k", "v"}[i]);
    const node *n = build_attention_node(g, x[0], x[1], x[2], true, 0.5)->producer;
    build_attention_gradient(g, n, x[0]);
    precision_allow_tf32(g, PRECISION_FP32);
    for (int i = 0; i < g->node_count; i++)
        assert_null(attribute_find(&g->nodes[i]->attributes, "tf32"));
    precision_allow_tf32(g, PRECISION_TF32);
    assert_int_equal(g->node_count, 2);
    for (int i = 0; i < g->node_count; i++)
        assert_int_equal(attribute_integer(&g->nodes[i]->attributes, "tf32"), 1);
    assert_int_equal(graph_verify(g), DYNO_OK);
    graph_destroy(g);
}

static void tables_of_angles_stay_f32(void **state) {
    (void)state;
    graph *g = graph_create("attention");
    shape size = SHAPE(1, 2, 4, 8), angles = SHAPE(4, 4);
    value *x = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &size, "x");
    rope_table table = {graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &angles, "cos"),
                        graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &angles, "sin")};
    const node *n = build_rotated_attention(g, x, x, x, table, true, 0.5)->producer;
    assert_int_equal(precision_apply(g, PRECISION_BF16), DYNO_OK);
    assert_int_equal(graph_verify(g), DYNO_OK);
    assert_int_equal(n->inputs[ATTENTION_Q]->type, DTYPE_BF16);
    assert_ptr_equal(n->inputs[3], table.cos);
    assert_ptr_equal(n->inputs[4], table.sin);
    graph_destroy(g);
}

static void tf32_is_refused_where_there_is_none(void **state) {
    (void)state;
    expect_failure(precision_check(PRECISION_TF32, BACKEND_CPU), DYNO_UNSUPPORTED,
                   "use --precision fp32 or bf16");
    assert_int_equal(precision_check(PRECISION_TF32, BACKEND_CUDA), DYNO_OK);
    for (int p = PRECISION_FP32; p <= PRECISION_FP16; p++)
        for (int b = 0; b < BACKEND_COUNT; b++)
            assert_int_equal(precision_check((precision)p, (backend)b), DYNO_OK);
}

/* b is also read in f32, so it stays whole; f16 has no rest that would fit. */
static void weights_that_only_products_read_are_split(void **state) {
    (void)state;
    for (int p = PRECISION_BF16; p <= PRECISION_FP16; p++) {
        graph *g = differentiate(forward, (precision)p);
        assert_int_equal(low_copies_bind(g), DYNO_OK);
        value *b = graph_find_value(g, "b");
        graph_add_output(g, build_exp(g, b), "in full");
        low_copies_split(g);
        low_copies_split(g); /* nothing is left to do */
        assert_int_equal(graph_verify(g), DYNO_OK);
        assert_ptr_equal(graph_find_value(g, "b"), b);
        value *rest = graph_find_value(g, "rest.a");
        assert_int_equal(rest != NULL, p == PRECISION_BF16);
        assert_int_equal(graph_find_value(g, "a") != NULL, p == PRECISION_FP16);
        if (rest) {
            assert_true(weight_is_split(rest) && rest->type == DTYPE_U16);
            assert_string_equal(weight_name(rest), "a");
            assert_ptr_equal(low_copy_find(g, rest), graph_find_value(g, "low.a"));
        }
        assert_int_equal(optimizer_append_adamw(g, &(optimizer_options){.one_launch = true}),
                         DYNO_OK);
        assert_int_equal(graph_verify(g), DYNO_OK);
        assert_non_null(graph_find_value(g, "m.a"));
        graph_destroy(g);
    }
}

static void names_are_parsed_back(void **state) {
    (void)state;
    for (int i = 0; i < PRECISION_COUNT; i++) {
        precision p;
        assert_int_equal(precision_parse(precision_name((precision)i), &p), DYNO_OK);
        assert_int_equal(p, i);
    }
    precision p;
    expect_failure(precision_parse("fp8", &p), DYNO_INVALID, "there are fp32, tf32, bf16 and fp16");
}

/* ---- whole models ---- */

enum { BATCH = 2, CONTEXT = 12, ROWS = BATCH * CONTEXT, MEMORY_LIMIT = 1 << 25 };

static const model_config tiny = {.name = "tiny",
                                  .d_model = 32,
                                  .d_ff = 48,
                                  .layers = 2,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_dim = 8,
                                  .vocab = 40,
                                  .norm_eps = 1e-5,
                                  .rope_theta = 10000};

static trainer *make(precision p, step_mode mode, step_extent extent) {
    step_options options = small_model_step(&tiny, BATCH, CONTEXT, extent);
    options.pipeline.precision = p;
    options.pipeline.mode = mode;
    options.keep_logits = false;
    trainer *t;
    if (trainer_create(device_cpu(), &options, MEMORY_LIMIT, &t) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    if (weights_init(trainer_storage(t), &tiny, 3) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return t;
}

static float step(trainer *t, int number) {
    int32_t ids[ROWS + 1];
    for (int i = 0; i <= ROWS; i++)
        ids[i] = (int32_t)((i * i + 7 * i * (number % 3)) % tiny.vocab);
    float loss;
    if (trainer_step(t, ids, ids + 1, 3e-3, &loss) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return loss;
}

static void expect_near_fp32(precision p, step_mode mode, int steps, double tolerance) {
    trainer *full = make(PRECISION_FP32, STEP_EAGER, STEP_FULL), *low = make(p, mode, STEP_FULL);
    for (int i = 0; i < steps; i++) {
        double want = (double)step(full, i), got = (double)step(low, i);
        if (!(fabs(got - want) <= tolerance * want))
            fail_msg("%s, step %d: loss %g, in fp32 %g", precision_name(p), i, got, want);
    }
    trainer_destroy(full);
    trainer_destroy(low);
}

static void losses_in_bf16_and_fp16_follow_those_in_fp32(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        expect_near_fp32(PRECISION_FP32, (step_mode)mode, 40, 1e-4);
        expect_near_fp32(PRECISION_BF16, (step_mode)mode, 40, 0.01);
        expect_near_fp32(PRECISION_FP16, (step_mode)mode, 40, 0.01);
    }
}

static void gradients_through_casts_are_near_those_in_fp32(void **state) {
    (void)state;
    for (int p = PRECISION_BF16; p <= PRECISION_FP16; p++) {
        trainer *full = make(PRECISION_FP32, STEP_EAGER, STEP_BACKWARD);
        trainer *low = make((precision)p, STEP_EAGER, STEP_BACKWARD);
        step(full, 1);
        step(low, 1);
        for (int i = 0; i < model_parameter_count(&tiny); i++) {
            char name[100] = "g.";
            model_parameter parameter = model_parameter_at(&tiny, i);
            tensor want = trainer_find(full, strcat(name, parameter.name));
            tensor got = trainer_find(low, name);
            assert_int_equal(got.type, DTYPE_F32);
            double *a = tensor_to_doubles(&got), *b = tensor_to_doubles(&want);
            double error = relative_error(a, b, shape_elements(&want.shape));
            if (!(error < (p == PRECISION_BF16 ? 0.03 : 0.01)))
                fail_msg("%s in %s: off by %g", name, precision_name((precision)p), error);
            free(a);
            free(b);
        }
        trainer_destroy(full);
        trainer_destroy(low);
    }
}

/* Before the first step and after every one. In bf16 ties go away from zero. */
static void low_copies_are_always_the_weights_rounded(void **state) {
    (void)state;
    for (int p = PRECISION_BF16; p <= PRECISION_FP16; p++) {
        trainer *t = make((precision)p, STEP_COMPILED, STEP_FULL);
        float *weight = memory_allocate((size_t)(tiny.d_ff * tiny.d_model), sizeof *weight);
        int copies = 0;
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < model_parameter_count(&tiny); i++) {
                char name[100] = LOW_COPY_PREFIX;
                model_parameter parameter = model_parameter_at(&tiny, i);
                tensor copy = trainer_find(t, strcat(name, parameter.name));
                assert_int_equal(weight_read(trainer_storage(t), &parameter, weight), DYNO_OK);
                for (int64_t j = 0; copy.data && j < shape_elements(&copy.shape); j++) {
                    uint16_t want = p == PRECISION_BF16 ? split_weight_high(weight[j])
                                                        : dtype_f32_to_f16(weight[j]);
                    assert_int_equal(((const uint16_t *)copy.data)[j], want);
                }
                copies += copy.data != NULL;
            }
            step(t, round);
        }
        assert_int_equal(copies, 3 * (7 * tiny.layers + 1));
        free(weight);
        trainer_destroy(t);
    }
}

static void eager_launches_every_cast(void **state) {
    (void)state;
    trainer *t = make(PRECISION_BF16, STEP_EAGER, STEP_FULL);
    const plan *p = trainer_plan(t);
    int casts = 0, of_weights = 0;
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        if (strcmp(l->op_name, "cast") != 0)
            continue;
        casts++;
        of_weights += p->buffers[l->inputs[0].buffer].role == ROLE_PARAMETER;
    }
    assert_int_equal(of_weights, 7 * tiny.layers + 1); /* one for each matrix that is multiplied */
    assert_true(casts > 3 * of_weights);
    trainer_destroy(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32_inserts_nothing),
        cmocka_unit_test(products_are_low_and_all_else_is_full),
        cmocka_unit_test(a_cast_is_shared_by_all_who_read_it_and_views_take_what_they_get),
        cmocka_unit_test(gradients_come_back_in_full_and_start_from_the_loss_scale),
        cmocka_unit_test(gradients_of_a_low_value_are_added_in_full),
        cmocka_unit_test(weight_gradients_of_folded_casts_are_full_at_once),
        cmocka_unit_test(weight_gradients_stay_in_the_type_of_their_products),
        cmocka_unit_test(only_pairs_of_casts_that_change_nothing_are_folded),
        cmocka_unit_test(low_copies_take_the_place_of_the_weights_casts),
        cmocka_unit_test(tf32_marks_every_product_and_changes_nothing_else),
        cmocka_unit_test(tf32_marks_attention_and_its_gradient),
        cmocka_unit_test(tables_of_angles_stay_f32),
        cmocka_unit_test(tf32_is_refused_where_there_is_none),
        cmocka_unit_test(weights_that_only_products_read_are_split),
        cmocka_unit_test(names_are_parsed_back),
        cmocka_unit_test(losses_in_bf16_and_fp16_follow_those_in_fp32),
        cmocka_unit_test(gradients_through_casts_are_near_those_in_fp32),
        cmocka_unit_test(low_copies_are_always_the_weights_rounded),
        cmocka_unit_test(eager_launches_every_cast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
