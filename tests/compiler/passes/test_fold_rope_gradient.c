/* test_fold_rope_gradient.c - attention's gradient rotates dQ and dK back itself where it may and
 * where the target's kernels can. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "compiler/passes/autodiff.h"
#include "compiler/passes/fold_rope_gradient.h"
#include "compiler/passes/mark_saved.h"
#include "compiler/passes/merge_products.h"
#include "compiler/passes/swap_attention.h"
#include "model/transformer.h"
#include "ops/op_list.h"
#include "support/expect.h"
#include "support/graph_pass.h"
#include "support/same_gradients.h"
#include "support/small_model.h"

/* 2 batches, 3 tokens, 4 heads and 2 key/value heads: dQ, dK and dV as one product wants them. */
#define LEAVES(TYPE, S, HALF)                                                                      \
    "graph g\n"                                                                                    \
    "input %0 " TYPE "[2,4,3," S "] \"q\"\n"                                                       \
    "input %1 " TYPE "[2,2,3," S "] \"k\"\n"                                                       \
    "input %2 " TYPE "[2,2,3," S "] \"v\"\n"                                                       \
    "input %3 " TYPE "[2,4,3," S "] \"o\"\n"                                                       \
    "input %4 " TYPE "[2,4,3," S "] \"dy\"\n"                                                      \
    "input %5 f32[2,4,3] \"lse\"\n"                                                                \
    "input %6 f32[3," HALF "] \"cos\"\n"                                                           \
    "input %7 f32[3," HALF "] \"sin\"\n"
#define GRADIENT(TYPE, S, TABLES, TURNED)                                                          \
    "%8 " TYPE "[2,4,3," S "] activation, %9 " TYPE "[2,2,3," S "] activation, %10 " TYPE          \
    "[2,2,3," S "] activation = attention_gradient %0 %1 %2 %3 %4 %5" TABLES                       \
    " {causal=1, scale=0.5" TURNED "} @backward a.flash\n"
#define TRANSPOSES(TYPE, S)                                                                        \
    "%11 " TYPE "[2,3,2," S "] activation = transpose %10 {order=[0,2,1,3]} @backward a\n"         \
    "%12 " TYPE "[2,3,2," S "] activation = transpose %9 {order=[0,2,1,3]} @backward a\n"          \
    "%13 " TYPE "[2,3,4," S "] activation = transpose %8 {order=[0,2,1,3]} @backward a\n"
#define CONCAT(TYPE, S, PIECES)                                                                    \
    "%14 " TYPE "[2,3,8," S "] activation = concat " PIECES " {axis=2} @backward a\n"
#define ROPE(TYPE, S, INVERSE, HEADS)                                                              \
    "%15 " TYPE "[2,3,8," S "] activation = rope %14 %6 %7 {inverse=" INVERSE ", heads=" HEADS     \
    "} @backward a.rope\n"
#define OUTPUT "output %15 \"dx\"\n"

#define PLAIN(TYPE, S, HALF, PIECES, INVERSE, HEADS)                                               \
    LEAVES(TYPE, S, HALF)                                                                          \
    GRADIENT(TYPE, S, "", "")                                                                      \
    TRANSPOSES(TYPE, S) CONCAT(TYPE, S, PIECES) ROPE(TYPE, S, INVERSE, HEADS) OUTPUT
#define FOLDED(TYPE, S, HALF)                                                                      \
    LEAVES(TYPE, S, HALF)                                                                          \
    GRADIENT(TYPE, S, " %6 %7", ", inverse_rope=1")                                                \
    TRANSPOSES(TYPE, S) CONCAT(TYPE, S, "%13 %12 %11") "output %14 \"dx\"\n"

static void expect_fold(const char *source, target_kind on, const char *wanted) {
    graph *g = graph_from_text(source);
    expect_ok(fold_rope_gradient(g, target_usual(on)));
    expect_graph_text(g, wanted);
    graph_destroy(g);
}

static void expect_no_fold(const char *source) { expect_fold(source, TARGET_CPU, source); }

static void queries_and_keys_are_rotated_back_by_the_gradient(void **state) {
    (void)state;
    expect_fold(PLAIN("f32", "8", "4", "%13 %12 %11", "1", "6"), TARGET_CPU,
                FOLDED("f32", "8", "4"));
    expect_fold(PLAIN("bf16", "64", "32", "%13 %12 %11", "1", "6"), TARGET_CUDA,
                FOLDED("bf16", "64", "32"));
    expect_fold(PLAIN("f16", "80", "40", "%13 %12 %11", "1", "6"), TARGET_CUDA,
                FOLDED("f16", "80", "40"));
}

static void kernels_that_cannot_rotate_keep_the_rope(void **state) {
    (void)state;
    static const char *const sources[] = {PLAIN("f32", "64", "32", "%13 %12 %11", "1", "6"),
                                          PLAIN("bf16", "40", "20", "%13 %12 %11", "1", "6"),
                                          PLAIN("f16", "256", "128", "%13 %12 %11", "1", "6")};
    for (int i = 0; i < 3; i++)
        expect_fold(sources[i], TARGET_CUDA, sources[i]);
}

static void other_rotations_stay(void **state) {
    (void)state;
    /* Forwards; of some of the keys, of values as well, of queries alone; of other pieces. */
    expect_no_fold(PLAIN("f32", "8", "4", "%13 %12 %11", "0", "6"));
    expect_no_fold(PLAIN("f32", "8", "4", "%13 %12 %11", "1", "5"));
    expect_no_fold(PLAIN("f32", "8", "4", "%13 %12 %11", "1", "8"));
    expect_no_fold(PLAIN("f32", "8", "4", "%13 %12 %11", "1", "4"));
    expect_no_fold(PLAIN("f32", "8", "4", "%13 %11 %12", "1", "6"));
    expect_no_fold(PLAIN("f32", "8", "4", "%12 %13 %11", "1", "6"));
}

#define WHOLE                                                                                      \
    LEAVES("f32", "8", "4")                                                                        \
    GRADIENT("f32", "8", "", "")                                                                   \
    TRANSPOSES("f32", "8") CONCAT("f32", "8", "%13 %12 %11") ROPE("f32", "8", "1", "6")

static void what_others_read_stays_as_it_is(void **state) {
    (void)state;
    expect_no_fold(WHOLE "output %14 \"rotated\"\n" OUTPUT);
    expect_no_fold(WHOLE "output %9 \"dk\"\n" OUTPUT);
    expect_no_fold(WHOLE "%16 f32[2,3,4,8] activation = exp %13 @backward a\n" OUTPUT
                         "output %16 \"y\"\n");
}

/* One that rotates Q and K itself rotates their gradients back already. */
static void a_gradient_has_one_pair_of_tables(void **state) {
    (void)state;
    expect_no_fold(LEAVES("f32", "8", "4") GRADIENT("f32", "8", " %6 %7", "") TRANSPOSES("f32", "8")
                       CONCAT("f32", "8", "%13 %12 %11") ROPE("f32", "8", "1", "6") OUTPUT);
}

static void tables_must_be_there_before_the_gradient(void **state) {
    (void)state;
    expect_no_fold("graph g\n"
                   "input %0 f32[1,1,3,8] \"q\"\n"
                   "input %1 f32[1,1,3] \"lse\"\n"
                   "%2 f32[1,1,3,8] activation, %3 f32[1,1,3,8] activation, %4 f32[1,1,3,8] "
                   "activation = attention_gradient %0 %0 %0 %0 %0 %1 {causal=1, scale=0.5} "
                   "@backward a.flash\n"
                   "%5 f32[1,3,1,8] activation = transpose %2 {order=[0,2,1,3]} @backward a\n"
                   "%6 f32[1,3,1,8] activation = transpose %3 {order=[0,2,1,3]} @backward a\n"
                   "%7 f32[1,3,1,8] activation = transpose %4 {order=[0,2,1,3]} @backward a\n"
                   "%8 f32[1,3,3,8] activation = concat %5 %6 %7 {axis=2} @backward a\n"
                   "%9 f32[3,4] activation, %10 f32[3,4] activation = rope_table {length=3, "
                   "head_dim=8, theta=10000.0} @backward constants\n"
                   "%11 f32[1,3,3,8] activation = rope %8 %9 %10 {inverse=1, heads=2} @backward "
                   "a.rope\n"
                   "output %11 \"dx\"\n");
}

/* ---- models ---- */

static graph *build_model(const model_config *config, const transformer_options *size) {
    graph *g;
    expect_ok(transformer_build(config, size, &g));
    expect_ok(merge_products(g, true));
    expect_ok(swap_attention(g));
    expect_ok(autodiff_append_backward(g, true));
    expect_ok(mark_saved_activations(g));
    return g;
}

static void a_folded_model_has_the_same_gradients(void **state) {
    (void)state;
    for (uint64_t round = 0; round < 8; round++) {
        draw d = draw_create(round, 1);
        model_config config = small_model_draw(&d);
        transformer_options size = small_model_draw_size(&d);
        graph *plain = build_model(&config, &size), *folded = build_model(&config, &size);
        expect_ok(fold_rope_gradient(folded, target_usual(TARGET_CPU)));
        assert_int_equal(graph_count_ops(plain, &op_rope), 2 * config.layers);
        assert_int_equal(graph_count_ops(folded, &op_rope), config.layers);
        expect_same_outputs(plain, folded, config.vocab, round);
    }
}

/* Launches of rope in a whole step for a GPU. */
static int count_rotations(precision math, int64_t head_dim) {
    model_config config = small_model_fixed;
    config.head_dim = head_dim;
    step_options options = small_model_step(&config, 2, 5, STEP_FULL);
    options.pipeline.mode = STEP_COMPILED;
    options.pipeline.precision = math;
    options.pipeline.target = target_usual(TARGET_CUDA);
    plan *p;
    expect_ok(step_plan_create(&options, &p));
    int count = 0;
    for (int i = 0; i < p->launch_count; i++)
        count += strcmp(p->launches[i].op_name, op_rope.name) == 0;
    plan_destroy(p);
    return count;
}

static void a_step_on_a_gpu_rotates_in_launches_of_its_own_only_forwards(void **state) {
    (void)state;
    int64_t layers = small_model_fixed.layers;
    assert_int_equal(count_rotations(PRECISION_BF16, 64), layers);
    assert_int_equal(count_rotations(PRECISION_FP16, 128), layers);
    assert_int_equal(count_rotations(PRECISION_BF16, 40), 2 * layers);
    assert_int_equal(count_rotations(PRECISION_FP32, 64), 2 * layers);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_and_keys_are_rotated_back_by_the_gradient),
        cmocka_unit_test(kernels_that_cannot_rotate_keep_the_rope),
        cmocka_unit_test(other_rotations_stay),
        cmocka_unit_test(what_others_read_stays_as_it_is),
        cmocka_unit_test(a_gradient_has_one_pair_of_tables),
        cmocka_unit_test(tables_must_be_there_before_the_gradient),
        cmocka_unit_test(a_folded_model_has_the_same_gradients),
        cmocka_unit_test(a_step_on_a_gpu_rotates_in_launches_of_its_own_only_forwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
