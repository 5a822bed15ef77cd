/* test_swap_attention.c - attention in small ops is swapped where it may be, with the same numbers.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "compiler/passes/precision.h"
#include "compiler/passes/swap_attention.h"
#include "model/attention.h"
#include "model/transformer.h"
#include "ops/op_list.h"
#include "support/graph_pass.h"
#include "support/same_gradients.h"
#include "support/small_model.h"

/* A graph of grouped attention: 2 batches, 4 heads, 2 key/value heads, 3 tokens, head size 8.
 * Numbers are those of the whole text; the parts a test changes are arguments. */
#define LEAVES                                                                                     \
    "graph g\n"                                                                                    \
    "input %0 f32[2,4,3,8] \"q\"\n"                                                                \
    "input %1 f32[2,2,3,8] \"k\"\n"                                                                \
    "input %2 f32[2,2,3,8] \"v\"\n"
#define BEGIN(COMPARED, HIDDEN, SHOWN)                                                             \
    LEAVES                                                                                         \
    "%3 i32[3] activation = iota {length=3} @forward mask\n"                                       \
    "%4 i32[3,1] activation = reshape %3 {shape=[3,1]} @forward mask\n"                            \
    "%5 i32[1,3] activation = reshape %3 {shape=[1,3]} @forward mask\n"                            \
    "%6 i32[3,3] activation = broadcast %4 {shape=[3,3]} @forward mask\n"                          \
    "%7 i32[3,3] activation = broadcast %5 {shape=[3,3]} @forward mask\n"                          \
    "%8 bool[3,3] activation = greater_equal " COMPARED " @forward mask\n"                         \
    "%9 f32[] activation = fill {number=" HIDDEN ", type=1} @forward mask\n"                       \
    "%10 f32[2,2,6,8] activation = reshape %0 {shape=[2,2,6,8]} @forward a.scores\n"               \
    "%11 f32[2,2,6,3] activation = matmul %10 %1 {transpose_a=0, transpose_b=1} @forward "         \
    "a.scores\n"                                                                                   \
    "%12 f32[2,2,6,3] activation = scale %11 {s=0.25} @forward a.scale\n"                          \
    "%13 f32[2,2,2,3,3] activation = reshape %12 {shape=[2,2,2,3,3]} @forward a.scale\n"           \
    "%14 bool[1,1,1,3,3] activation = reshape %8 {shape=[1,1,1,3,3]} @forward a.mask\n"            \
    "%15 bool[2,2,2,3,3] activation = broadcast %14 {shape=[2,2,2,3,3]} @forward a.mask\n"         \
    "%16 f32[1,1,1,1,1] activation = reshape %9 {shape=[1,1,1,1,1]} @forward a.mask\n"             \
    "%17 f32[2,2,2,3,3] activation = broadcast %16 {shape=[2,2,2,3,3]} @forward a.mask\n"          \
    "%18 f32[2,2,2,3,3] activation = select %15 " SHOWN " %17 @forward a.mask\n"
#define SOFTMAX(SEEN, AXIS, ROW, TOTAL)                                                            \
    "%19 f32[" ROW "] activation = max " SEEN " {axes=[" AXIS "]} @forward a.softmax\n"            \
    "%20 f32[" ROW "] activation = detach %19 @forward a.softmax\n"                                \
    "%21 f32[2,2,2,3,3] activation = broadcast %20 {shape=[2,2,2,3,3]} @forward a.softmax\n"       \
    "%22 f32[2,2,2,3,3] activation = subtract " SEEN " %21 @forward a.softmax\n"                   \
    "%23 f32[2,2,2,3,3] activation = exp %22 @forward a.softmax\n"                                 \
    "%24 f32[" ROW "] activation = sum " TOTAL " {axes=[" AXIS "]} @forward a.softmax\n"           \
    "%25 f32[2,2,2,3,3] activation = broadcast %24 {shape=[2,2,2,3,3]} @forward a.softmax\n"       \
    "%26 f32[2,2,2,3,3] activation = divide %23 %25 @forward a.softmax\n"
#define END                                                                                        \
    "%27 f32[2,2,6,3] activation = reshape %26 {shape=[2,2,6,3]} @forward a.values\n"              \
    "%28 f32[2,2,6,8] activation = matmul %27 %2 {transpose_a=0, transpose_b=0} @forward "         \
    "a.values\n"                                                                                   \
    "%29 f32[2,4,3,8] activation = reshape %28 {shape=[2,4,3,8]} @forward a\n"
#define OUTPUT "output %29 \"o\"\n"
#define OVER_KEYS(SEEN) SOFTMAX(SEEN, "4", "2,2,2,3,1", "%23")
#define CAUSAL BEGIN("%6 %7", "-inf", "%13") OVER_KEYS("%18") END
#define SWAPPED(IS_CAUSAL)                                                                         \
    LEAVES "%3 f32[2,4,3,8] activation, %4 f32[2,4,3] activation = attention %0 %1 %2 "            \
           "{causal=" IS_CAUSAL ", scale=0.25} @forward a.flash\n"

static void expect_swap(const char *source, const char *wanted) {
    graph *g = graph_from_text(source);
    assert_int_equal(swap_attention(g), DYNO_OK);
    expect_graph_text(g, wanted);
    graph_destroy(g);
}

static void expect_no_swap(const char *source) { expect_swap(source, source); }

static void attention_becomes_one_op(void **state) {
    (void)state;
    expect_swap(CAUSAL OUTPUT, SWAPPED("1") "output %3 \"o\"\n");
    expect_swap(BEGIN("%6 %7", "-inf", "%17") OVER_KEYS("%13") END OUTPUT,
                SWAPPED("0") "output %3 \"o\"\n");
}

static void who_reads_the_rows_of_the_product_gets_them(void **state) {
    (void)state;
    expect_swap(CAUSAL "%30 f32[2,2,6,8] activation = exp %28 @forward a\n" OUTPUT
                       "output %30 \"y\"\n",
                SWAPPED("1") "%5 f32[2,2,6,8] activation = reshape %3 {shape=[2,2,6,8]} @forward "
                             "a.flash\n"
                             "%6 f32[2,2,6,8] activation = exp %5 @forward a\n"
                             "output %6 \"y\"\n"
                             "output %3 \"o\"\n");
    expect_swap(CAUSAL "output %28 \"rows\"\n" OUTPUT,
                SWAPPED("1") "%5 f32[2,2,6,8] activation = reshape %3 {shape=[2,2,6,8]} @forward "
                             "a.flash\n"
                             "output %3 \"o\"\n"
                             "output %5 \"rows\"\n");
}

static void weights_and_scores_that_others_read_are_kept(void **state) {
    (void)state;
    expect_no_swap(CAUSAL "output %26 \"weights\"\n" OUTPUT);
    expect_no_swap(CAUSAL "output %11 \"scores\"\n" OUTPUT);
    expect_no_swap(CAUSAL "%30 f32[2,2,6,3] activation = exp %12 @forward\n" OUTPUT
                          "output %30 \"y\"\n");
}

static void what_only_looks_like_attention_is_left_alone(void **state) {
    (void)state;
    /* The mask shows what comes later; what is hidden is not hidden altogether. */
    expect_no_swap(BEGIN("%7 %6", "-inf", "%13") OVER_KEYS("%18") END OUTPUT);
    expect_no_swap(BEGIN("%6 %6", "-inf", "%13") OVER_KEYS("%18") END OUTPUT);
    expect_no_swap(BEGIN("%6 %7", "-10000.0", "%13") OVER_KEYS("%18") END OUTPUT);
    /* The softmax is over queries; the sum is of something else. */
    expect_no_swap(BEGIN("%6 %7", "-inf", "%13") SOFTMAX("%18", "3", "2,2,2,1,3", "%23")
                       END OUTPUT);
    expect_no_swap(BEGIN("%6 %7", "-inf", "%13") SOFTMAX("%18", "4", "2,2,2,3,1", "%22")
                       END OUTPUT);
}

static void casts_of_low_types_are_part_of_the_pattern(void **state) {
    (void)state;
    for (int p = PRECISION_FP32; p < PRECISION_COUNT; p++) {
        graph *g = graph_from_text(CAUSAL OUTPUT);
        assert_int_equal(precision_apply(g, (precision)p), DYNO_OK);
        assert_int_equal(swap_attention(g), DYNO_OK);
        assert_int_equal(graph_count_ops(g, &op_attention), 1);
        assert_int_equal(graph_count_ops(g, &op_matmul), 0);
        bool is_low = precision_low_type((precision)p) != DTYPE_F32;
        assert_int_equal(graph_count_ops(g, &op_cast), is_low ? 3 : 0); /* Q, K, V */
        assert_int_equal(graph_find_value(g, "o")->type, precision_low_type((precision)p));
        graph_destroy(g);
    }
}

/* Swaps the second and compares them. Takes the graphs. */
static void expect_same_numbers(graph *naive, graph *swapped, int64_t layers, int64_t vocab,
                                uint64_t seed) {
    assert_int_equal(swap_attention(swapped), DYNO_OK);
    graph *graphs[2] = {naive, swapped};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(graph_count_ops(graphs[i], &op_attention), i ? layers : 0);
        assert_int_equal(graph_count_ops(graphs[i], &op_exp), i ? 0 : layers);
    }
    expect_same_gradients(naive, swapped, vocab, seed);
}

static void a_swapped_model_has_the_same_gradients(void **state) {
    (void)state;
    for (uint64_t round = 0; round < 8; round++) {
        draw d = draw_create(round, 1);
        model_config config = small_model_draw(&d);
        transformer_options size = small_model_draw_size(&d);
        graph *graphs[2];
        for (int i = 0; i < 2; i++)
            assert_int_equal(transformer_build(&config, &size, &graphs[i]), DYNO_OK);
        expect_same_numbers(graphs[0], graphs[1], config.layers, config.vocab, round);
    }
}

static void attention_alone_is_swapped_with_and_without_a_mask(void **state) {
    (void)state;
    for (int causal = 0; causal < 2; causal++)
        for (int64_t context = 1; context < 6; context++) {
            attention_options options = {
                .shape = {2, context, 6, 3, 5}, .is_causal = causal, .has_gradient = true};
            graph *graphs[2];
            for (int i = 0; i < 2; i++)
                assert_int_equal(attention_build(&options, &graphs[i]), DYNO_OK);
            expect_same_numbers(graphs[0], graphs[1], 1, 1, (uint64_t)context);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_becomes_one_op),
        cmocka_unit_test(who_reads_the_rows_of_the_product_gets_them),
        cmocka_unit_test(weights_and_scores_that_others_read_are_kept),
        cmocka_unit_test(what_only_looks_like_attention_is_left_alone),
        cmocka_unit_test(casts_of_low_types_are_part_of_the_pattern),
        cmocka_unit_test(a_swapped_model_has_the_same_gradients),
        cmocka_unit_test(attention_alone_is_swapped_with_and_without_a_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
