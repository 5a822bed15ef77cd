/* test_merge_products.c - products of one x by weights of a family. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "compiler/passes/merge_products.h"
#include "graph/op.h"
#include "support/graph_pass.h"
#include "support/small_model.h"

static void expect_merged(const char *source, bool takes_any_heads, const char *wanted) {
    graph *g = graph_from_text(source);
    if (merge_products(g, takes_any_heads) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    expect_graph_text(g, wanted);
    graph_destroy(g);
}

#define TWO_WEIGHTS                                                                                \
    "graph g\n"                                                                                    \
    "input %0 f32[4,8] \"x\"\n"                                                                    \
    "parameter %1 f32[6,8] \"gate\" in \"both\"\n"                                                 \
    "parameter %2 f32[10,8] \"up\" in \"both\"\n"

static void two_products_become_one_and_a_split(void **state) {
    (void)state;
    expect_merged(
        TWO_WEIGHTS
        "%3 f32[4,6] activation = matmul %0 %1 {transpose_a=0, transpose_b=1} @forward l.mlp.gate\n"
        "%4 f32[4,6] activation = sigmoid %3 @forward l.mlp\n"
        "%5 f32[4,10] activation = matmul %0 %2 {transpose_a=0, transpose_b=1} @forward l.mlp.up\n"
        "output %4 \"a\"\n"
        "%6 f32[4,10] activation = exp %5 @forward\n"
        "output %6 \"b\"\n",
        false,
        TWO_WEIGHTS
        "%3 f32[16,8] activation = concat %1 %2 {axis=0} @forward l.mlp.gate+up\n"
        "%4 f32[4,16] activation = matmul %0 %3 {transpose_a=0, transpose_b=1} @forward "
        "l.mlp.gate+up\n"
        "%5 f32[4,6] activation, %6 f32[4,10] activation = split %4 {axis=1, sizes=[6,10]} "
        "@forward l.mlp.gate+up\n"
        "%7 f32[4,6] activation = sigmoid %5 @forward l.mlp\n"
        "%8 f32[4,10] activation = exp %6 @forward\n"
        "output %7 \"a\"\n"
        "output %8 \"b\"\n");
}

/* Not the same x; not of one family; the caller wants a result; scaled. */
static void products_that_differ_stay_apart(void **state) {
    (void)state;
    static const char *const sources[] = {
        TWO_WEIGHTS
        "%3 f32[4,8] activation = exp %0 @forward\n"
        "%4 f32[4,6] activation = matmul %0 %1 {transpose_a=0, transpose_b=1} @forward\n"
        "%5 f32[4,10] activation = matmul %3 %2 {transpose_a=0, transpose_b=1} @forward\n"
        "%6 f32[4,6] activation = exp %4 @forward\n"
        "%7 f32[4,10] activation = exp %5 @forward\n"
        "output %6 \"a\"\n"
        "output %7 \"b\"\n",
        "graph g\n"
        "input %0 f32[4,8] \"x\"\n"
        "parameter %1 f32[6,8] \"gate\" in \"one\"\n"
        "parameter %2 f32[10,8] \"up\" in \"other\"\n"
        "%3 f32[4,6] activation = matmul %0 %1 {transpose_a=0, transpose_b=1} @forward\n"
        "%4 f32[4,10] activation = matmul %0 %2 {transpose_a=0, transpose_b=1} @forward\n"
        "%5 f32[4,6] activation = exp %3 @forward\n"
        "%6 f32[4,10] activation = exp %4 @forward\n"
        "output %5 \"a\"\n"
        "output %6 \"b\"\n",
        TWO_WEIGHTS
        "%3 f32[4,6] activation = matmul %0 %1 {transpose_a=0, transpose_b=1} @forward\n"
        "%4 f32[4,10] activation = matmul %0 %2 {transpose_a=0, transpose_b=1} "
        "@forward\n"
        "output %3 \"a\"\n"
        "output %4 \"b\"\n",
        TWO_WEIGHTS
        "%3 f32[4,6] activation = matmul %0 %1 {transpose_a=0, transpose_b=1} @forward\n"
        "%4 f32[4,10] activation = matmul %0 %2 {transpose_a=0, transpose_b=1, alpha=2.0} "
        "@forward\n"
        "%5 f32[4,6] activation = exp %3 @forward\n"
        "%6 f32[4,10] activation = exp %4 @forward\n"
        "output %5 \"a\"\n"
        "output %6 \"b\"\n"};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        expect_merged(sources[i], true, sources[i]);
}

#define HEADS(QUERIES)                                                                             \
    "graph g\n"                                                                                    \
    "input %0 f32[6,8] \"x\"\n"                                                                    \
    "parameter %1 f32[" QUERIES ",8] \"q\" in \"qkv\"\n"                                           \
    "parameter %2 f32[4,8] \"k\" in \"qkv\"\n"                                                     \
    "parameter %3 f32[4,8] \"v\" in \"qkv\"\n"                                                     \
    "input %4 f32[3,1] \"cos\"\n"                                                                  \
    "input %5 f32[3,1] \"sin\"\n"

static void heads_are_rotated_together(void **state) {
    (void)state;
    expect_merged(
        HEADS("4") "%6 f32[6,4] activation = matmul %0 %1 {transpose_a=0, transpose_b=1} @forward "
                   "a.q\n"
                   "%7 f32[2,3,2,2] activation = reshape %6 {shape=[2,3,2,2]} @forward a\n"
                   "%8 f32[2,2,3,2] activation = transpose %7 {order=[0,2,1,3]} @forward a\n"
                   "%9 f32[2,2,3,2] activation = rope %8 %4 %5 {inverse=0} @forward a.rope\n"
                   "%10 f32[6,4] activation = matmul %0 %2 {transpose_a=0, transpose_b=1} @forward "
                   "a.k\n"
                   "%11 f32[2,3,2,2] activation = reshape %10 {shape=[2,3,2,2]} @forward a\n"
                   "%12 f32[2,2,3,2] activation = transpose %11 {order=[0,2,1,3]} @forward a\n"
                   "%13 f32[2,2,3,2] activation = rope %12 %4 %5 {inverse=0} @forward a.rope\n"
                   "%14 f32[6,4] activation = matmul %0 %3 {transpose_a=0, transpose_b=1} @forward "
                   "a.v\n"
                   "%15 f32[2,3,2,2] activation = reshape %14 {shape=[2,3,2,2]} @forward a\n"
                   "%16 f32[2,2,3,2] activation = transpose %15 {order=[0,2,1,3]} @forward a\n"
                   "%17 f32[2,2,3,2] activation = add %9 %13 @forward\n"
                   "%18 f32[2,2,3,2] activation = add %17 %16 @forward\n"
                   "output %18 \"y\"\n",
        false,
        HEADS(
            "4") "%6 f32[12,8] activation = concat %1 %2 %3 {axis=0} @forward a.q+k+v\n"
                 "%7 f32[6,12] activation = matmul %0 %6 {transpose_a=0, transpose_b=1} @forward "
                 "a.q+k+v\n"
                 "%8 f32[2,3,6,2] activation = reshape %7 {shape=[2,3,6,2]} @forward a.q+k+v\n"
                 "%9 f32[2,3,6,2] activation = rope %8 %4 %5 {inverse=0, heads=4} @forward a.rope\n"
                 "%10 f32[2,3,2,2] activation, %11 f32[2,3,2,2] activation, %12 f32[2,3,2,2] "
                 "activation = "
                 "split %9 {axis=2, sizes=[2,2,2]} @forward a\n"
                 "%13 f32[2,2,3,2] activation = transpose %10 {order=[0,2,1,3]} @forward a\n"
                 "%14 f32[2,2,3,2] activation = transpose %11 {order=[0,2,1,3]} @forward a\n"
                 "%15 f32[2,2,3,2] activation = transpose %12 {order=[0,2,1,3]} @forward a\n"
                 "%16 f32[2,2,3,2] activation = add %13 %14 @forward\n"
                 "%17 f32[2,2,3,2] activation = add %16 %15 @forward\n"
                 "output %17 \"y\"\n");
}

/* Two query heads for each key: laid below one another, which merged strides cannot express. */
#define GROUPED                                                                                    \
    HEADS("8")                                                                                     \
    "%6 f32[6,8] activation = matmul %0 %1 {transpose_a=0, transpose_b=1} @forward a.q\n"          \
    "%7 f32[2,3,4,2] activation = reshape %6 {shape=[2,3,4,2]} @forward a\n"                       \
    "%8 f32[2,4,3,2] activation = transpose %7 {order=[0,2,1,3]} @forward a\n"                     \
    "%9 f32[2,4,3,2] activation = rope %8 %4 %5 {inverse=0} @forward a.rope\n"

static void grouped_queries_stay_out_unless_attention_takes_them(void **state) {
    (void)state;
    static const char source[] = GROUPED
        "%10 f32[6,4] activation = matmul %0 %2 {transpose_a=0, transpose_b=1} @forward a.k\n"
        "%11 f32[2,3,2,2] activation = reshape %10 {shape=[2,3,2,2]} @forward a\n"
        "%12 f32[2,2,3,2] activation = transpose %11 {order=[0,2,1,3]} @forward a\n"
        "%13 f32[2,2,3,2] activation = rope %12 %4 %5 {inverse=0} @forward a.rope\n"
        "%14 f32[6,4] activation = matmul %0 %3 {transpose_a=0, transpose_b=1} @forward a.v\n"
        "%15 f32[2,3,2,2] activation = reshape %14 {shape=[2,3,2,2]} @forward a\n"
        "%16 f32[2,2,3,2] activation = transpose %15 {order=[0,2,1,3]} @forward a\n"
        "%17 f32[2,2,6,2] activation = reshape %9 {shape=[2,2,6,2]} @forward\n"
        "%18 f32[2,2,6,2] activation = exp %17 @forward\n"
        "%19 f32[2,2,3,2] activation = add %13 %16 @forward\n"
        "output %18 \"y\"\n"
        "output %19 \"z\"\n";
    expect_merged(
        source, false,
        GROUPED
        "%10 f32[8,8] activation = concat %2 %3 {axis=0} @forward a.k+v\n"
        "%11 f32[6,8] activation = matmul %0 %10 {transpose_a=0, transpose_b=1} @forward a.k+v\n"
        "%12 f32[2,3,4,2] activation = reshape %11 {shape=[2,3,4,2]} @forward a.k+v\n"
        "%13 f32[2,3,4,2] activation = rope %12 %4 %5 {inverse=0, heads=2} @forward a.rope\n"
        "%14 f32[2,3,2,2] activation, %15 f32[2,3,2,2] activation = split %13 {axis=2, "
        "sizes=[2,2]} @forward a\n"
        "%16 f32[2,2,3,2] activation = transpose %14 {order=[0,2,1,3]} @forward a\n"
        "%17 f32[2,2,3,2] activation = transpose %15 {order=[0,2,1,3]} @forward a\n"
        "%18 f32[2,2,6,2] activation = reshape %9 {shape=[2,2,6,2]} @forward\n"
        "%19 f32[2,2,6,2] activation = exp %18 @forward\n"
        "%20 f32[2,2,3,2] activation = add %16 %17 @forward\n"
        "output %19 \"y\"\n"
        "output %20 \"z\"\n");
    graph *g = graph_from_text(source);
    assert_int_equal(merge_products(g, true), DYNO_OK);
    int products = 0;
    for (int i = 0; i < g->node_count; i++)
        products += strcmp(g->nodes[i]->op->name, "matmul") == 0;
    assert_int_equal(products, 1);
    graph_destroy(g);
}

/* Whatever the precision and the way to attend, nothing is moved that need not be. What is generated computes
 * something, and be it another type. */
static void a_compiled_step_copies_nothing(void **state) {
    (void)state;
    model_config config;
    assert_int_equal(model_config_from_preset("small", &config), DYNO_OK);
    for (int kind = 0; kind < PRECISION_COUNT; kind++)
        for (int way = 0; way < ATTENTION_WAY_COUNT; way++) {
            if (precision_check((precision)kind, target_usual(TARGET_CPU)) != DYNO_OK)
                continue;
            step_options options = small_model_step(&config, 4, 128, STEP_FULL);
            options.pipeline.mode = STEP_COMPILED;
            options.pipeline.attention = (attention_way)way;
            options.pipeline.precision = (precision)kind;
            plan *p;
            assert_int_equal(step_plan_create(&options, &p), DYNO_OK);
            for (int i = 0; i < p->launch_count; i++)
                if (p->launches[i].input_count && p->launches[i].generated < 0 &&
                    strcmp(p->launches[i].class_name, "copy") == 0)
                    fail_msg("%s, %s: %s in %s copies", precision_name((precision)kind),
                             attention_way_name((attention_way)way), p->launches[i].op_name,
                             p->scopes[p->launches[i].scope]);
            plan_destroy(p);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_products_become_one_and_a_split),
        cmocka_unit_test(products_that_differ_stay_apart),
        cmocka_unit_test(heads_are_rotated_together),
        cmocka_unit_test(grouped_queries_stay_out_unless_attention_takes_them),
        cmocka_unit_test(a_compiled_step_copies_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
