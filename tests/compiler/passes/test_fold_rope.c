/* test_fold_rope.c - attention rotates queries and keys itself where it may and where the target's
 * kernels can. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "compiler/passes/fold_rope.h"
#include "compiler/passes/merge_products.h"
#include "compiler/passes/precision.h"
#include "compiler/passes/swap_attention.h"
#include "graph/verify.h"
#include "model/transformer.h"
#include "ops/op_list.h"
#include "support/graph_pass.h"
#include "support/same_gradients.h"
#include "support/small_model.h"

/* 2 batches, 3 tokens, 4 heads and 2 key/value heads of size 8, as one product gives them: the
 * first so many of 8 are rotated. */
#define TABLES                                                                                     \
    "%1 f32[3,4] activation, %2 f32[3,4] activation = rope_table {length=3, head_dim=8, "          \
    "theta=10000.0} @forward constants\n"
#define MERGED(INVERSE, HEADS)                                                                     \
    "graph g\n"                                                                                    \
    "input %0 f32[2,3,8,8] \"x\"\n" TABLES                                                         \
    "%3 f32[2,3,8,8] activation = rope %0 %1 %2 {inverse=" INVERSE ", heads=" HEADS "} @forward "  \
    "a.rope\n"                                                                                     \
    "%4 f32[2,3,4,8] activation, %5 f32[2,3,2,8] activation, %6 f32[2,3,2,8] activation = split "  \
    "%3 {axis=2, sizes=[4,2,2]} @forward a\n"                                                      \
    "%7 f32[2,4,3,8] activation = transpose %4 {order=[0,2,1,3]} @forward a\n"                     \
    "%8 f32[2,2,3,8] activation = transpose %5 {order=[0,2,1,3]} @forward a\n"                     \
    "%9 f32[2,2,3,8] activation = transpose %6 {order=[0,2,1,3]} @forward a\n"
#define ATTENTION(OPERANDS)                                                                        \
    "%10 f32[2,4,3,8] activation, %11 f32[2,4,3] activation = attention " OPERANDS                 \
    " {causal=1, scale=0.5} @forward a.flash\n"
#define OUTPUT "output %10 \"o\"\n"
#define MERGED_FOLDED                                                                              \
    "graph g\n"                                                                                    \
    "input %0 f32[2,3,8,8] \"x\"\n" TABLES                                                         \
    "%3 f32[2,3,4,8] activation, %4 f32[2,3,2,8] activation, %5 f32[2,3,2,8] activation = split "  \
    "%0 {axis=2, sizes=[4,2,2]} @forward a\n"                                                      \
    "%6 f32[2,4,3,8] activation = transpose %3 {order=[0,2,1,3]} @forward a\n"                     \
    "%7 f32[2,2,3,8] activation = transpose %4 {order=[0,2,1,3]} @forward a\n"                     \
    "%8 f32[2,2,3,8] activation = transpose %5 {order=[0,2,1,3]} @forward a\n"                     \
    "%9 f32[2,4,3,8] activation, %10 f32[2,4,3] activation = attention %6 %7 %8 %1 %2 {causal=1, " \
    "scale=0.5} @forward a.flash\n"                                                                \
    "output %9 \"o\"\n"

/* Queries and keys rotated each for themselves. */
#define APART(Q_INVERSE, K_TABLES)                                                                 \
    "graph g\n"                                                                                    \
    "input %0 f32[2,4,3,8] \"q\"\n"                                                                \
    "input %1 f32[2,2,3,8] \"k\"\n"                                                                \
    "input %2 f32[2,2,3,8] \"v\"\n"                                                                \
    "input %3 f32[3,4] \"cos\"\n"                                                                  \
    "input %4 f32[3,4] \"sin\"\n"                                                                  \
    "%5 f32[2,4,3,8] activation = rope %0 %3 %4 {inverse=" Q_INVERSE "} @forward a\n"              \
    "%6 f32[2,2,3,8] activation = rope %1 " K_TABLES " {inverse=0} @forward a\n"                   \
    "%7 f32[2,4,3,8] activation, %8 f32[2,4,3] activation = attention %5 %6 %2 {causal=1, "        \
    "scale=0.5} @forward a.flash\n"                                                                \
    "output %7 \"o\"\n"
#define APART_FOLDED                                                                               \
    "graph g\n"                                                                                    \
    "input %0 f32[2,4,3,8] \"q\"\n"                                                                \
    "input %1 f32[2,2,3,8] \"k\"\n"                                                                \
    "input %2 f32[2,2,3,8] \"v\"\n"                                                                \
    "input %3 f32[3,4] \"cos\"\n"                                                                  \
    "input %4 f32[3,4] \"sin\"\n"                                                                  \
    "%5 f32[2,4,3,8] activation, %6 f32[2,4,3] activation = attention %0 %1 %2 %3 %4 {causal=1, "  \
    "scale=0.5} @forward a.flash\n"                                                                \
    "output %5 \"o\"\n"

static void expect_fold(const char *source, target_kind on, const char *wanted) {
    graph *g = graph_from_text(source);
    assert_int_equal(fold_rope(g, target_usual(on)), DYNO_OK);
    expect_graph_text(g, wanted);
    graph_destroy(g);
}

static void expect_no_fold(const char *source) { expect_fold(source, TARGET_CPU, source); }

static void heads_rotated_together_are_rotated_by_attention(void **state) {
    (void)state;
    expect_fold(MERGED("0", "6") ATTENTION("%7 %8 %9") OUTPUT, TARGET_CPU, MERGED_FOLDED);
}

static void queries_and_keys_rotated_apart_are_rotated_by_attention(void **state) {
    (void)state;
    expect_fold(APART("0", "%3 %4"), TARGET_CPU, APART_FOLDED);
}

static void kernels_that_cannot_rotate_keep_the_rope(void **state) {
    (void)state;
    static const char *const sources[] = {MERGED("0", "6") ATTENTION("%7 %8 %9") OUTPUT,
                                          APART("0", "%3 %4")};
    for (int i = 0; i < 2; i++)
        expect_fold(sources[i], TARGET_CUDA, sources[i]);
}

static void what_others_read_stays_rotated(void **state) {
    (void)state;
    expect_no_fold(MERGED("0", "6") ATTENTION("%7 %8 %9") "output %3 \"rotated\"\n" OUTPUT);
    expect_no_fold(MERGED("0", "6") ATTENTION("%7 %8 %9") "output %8 \"k\"\n" OUTPUT);
    expect_no_fold(MERGED("0", "6")
                       ATTENTION("%7 %8 %9") "%12 f32[2,3,2,8] activation = exp %5 @forward a\n"
                                             "output %10 \"o\"\noutput %12 \"y\"\n");
    expect_no_fold(MERGED("0", "6") ATTENTION("%7 %8 %8") OUTPUT); /* values that are the keys */
}

static void other_rotations_stay(void **state) {
    (void)state;
    /* Of some of the keys, of values as well, of queries alone; backwards. */
    expect_no_fold(MERGED("0", "5") ATTENTION("%7 %8 %9") OUTPUT);
    expect_no_fold(MERGED("0", "8") ATTENTION("%7 %8 %9") OUTPUT);
    expect_no_fold(MERGED("0", "4") ATTENTION("%7 %8 %9") OUTPUT);
    expect_no_fold(MERGED("1", "6") ATTENTION("%7 %8 %9") OUTPUT);
    expect_no_fold(MERGED("0", "6") ATTENTION("%7 %9 %8") OUTPUT); /* keys that are not rotated */
    expect_no_fold(APART("1", "%3 %4"));
    expect_no_fold(APART("0", "%4 %3"));
}

/* A rotation in f32 of what is low before and after it. */
#define LOW(TYPE)                                                                                  \
    "graph g\n"                                                                                    \
    "input %0 " TYPE "[2,4,3,8] \"q\"\n"                                                           \
    "input %1 bf16[2,2,3,8] \"k\"\n"                                                               \
    "input %2 bf16[2,2,3,8] \"v\"\n"                                                               \
    "input %3 f32[3,4] \"cos\"\n"                                                                  \
    "input %4 f32[3,4] \"sin\"\n"                                                                  \
    "%5 f32[2,4,3,8] activation = cast %0 {type=1} @forward a\n"                                   \
    "%6 f32[2,4,3,8] activation = rope %5 %3 %4 {inverse=0} @forward a\n"                          \
    "%7 bf16[2,4,3,8] activation = cast %6 {type=2} @forward a\n"                                  \
    "%8 f32[2,2,3,8] activation = cast %1 {type=1} @forward a\n"                                   \
    "%9 f32[2,2,3,8] activation = rope %8 %3 %4 {inverse=0} @forward a\n"                          \
    "%10 bf16[2,2,3,8] activation = cast %9 {type=2} @forward a\n"                                 \
    "%11 bf16[2,4,3,8] activation, %12 f32[2,4,3] activation = attention %7 %10 %2 {causal=1, "    \
    "scale=0.5} @forward a.flash\n"                                                                \
    "output %11 \"o\"\n"

static void casts_for_the_rotation_go_with_it(void **state) {
    (void)state;
    expect_fold(LOW("bf16"), TARGET_CPU,
                "graph g\n"
                "input %0 bf16[2,4,3,8] \"q\"\n"
                "input %1 bf16[2,2,3,8] \"k\"\n"
                "input %2 bf16[2,2,3,8] \"v\"\n"
                "input %3 f32[3,4] \"cos\"\n"
                "input %4 f32[3,4] \"sin\"\n"
                "%5 bf16[2,4,3,8] activation, %6 f32[2,4,3] activation = attention %0 %1 %2 %3 %4 "
                "{causal=1, scale=0.5} @forward a.flash\n"
                "output %5 \"o\"\n");
    expect_no_fold(LOW("f16")); /* to round before the rotation is something else */
}

/* A model as the pipeline has it when the pass comes. */
static graph *build_model(const model_config *config, const transformer_options *size,
                          precision p) {
    graph *g;
    assert_int_equal(transformer_build(config, size, &g), DYNO_OK);
    assert_int_equal(merge_products(g, true), DYNO_OK);
    assert_int_equal(precision_apply(g, p), DYNO_OK);
    assert_int_equal(swap_attention(g), DYNO_OK);
    return g;
}

static void a_folded_model_has_the_same_gradients(void **state) {
    (void)state;
    for (uint64_t round = 0; round < 8; round++) {
        draw d = draw_create(round, 1);
        model_config config = small_model_draw(&d);
        transformer_options size = small_model_draw_size(&d);
        graph *plain = build_model(&config, &size, PRECISION_FP32);
        graph *folded = build_model(&config, &size, PRECISION_FP32);
        assert_int_equal(fold_rope(folded, target_usual(TARGET_CPU)), DYNO_OK);
        assert_int_equal(graph_count_ops(plain, &op_rope), config.layers);
        assert_int_equal(graph_count_ops(folded, &op_rope), 0);
        expect_same_gradients(plain, folded, config.vocab, round);
    }
}

static void no_model_has_a_rotation_left_in_any_precision(void **state) {
    (void)state;
    for (int p = PRECISION_FP32; p <= PRECISION_FP16; p++)
        for (uint64_t round = 0; round < 4; round++) {
            draw d = draw_create(round, 1);
            model_config config = small_model_draw(&d);
            transformer_options size = {.batch = 2, .context = 5};
            graph *g = build_model(&config, &size, (precision)p);
            assert_int_equal(fold_rope(g, target_usual(TARGET_CPU)), DYNO_OK);
            assert_int_equal(graph_verify(g), DYNO_OK);
            assert_int_equal(graph_count_ops(g, &op_rope), 0);
            for (int i = 0; i < g->node_count; i++)
                if (g->nodes[i]->op == &op_attention)
                    assert_int_equal(g->nodes[i]->inputs[0]->type,
                                     precision_low_type((precision)p));
            graph_destroy(g);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_rotated_together_are_rotated_by_attention),
        cmocka_unit_test(queries_and_keys_rotated_apart_are_rotated_by_attention),
        cmocka_unit_test(kernels_that_cannot_rotate_keep_the_rope),
        cmocka_unit_test(what_others_read_stays_rotated),
        cmocka_unit_test(other_rotations_stay),
        cmocka_unit_test(casts_for_the_rotation_go_with_it),
        cmocka_unit_test(a_folded_model_has_the_same_gradients),
        cmocka_unit_test(no_model_has_a_rotation_left_in_any_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
