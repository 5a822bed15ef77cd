/* test_update_in_products.c - which updates go into products, and where those then stand. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "compiler/autodiff.h"
#include "compiler/mark_saved.h"
#include "compiler/optimizer.h"
#include "graph/op.h"
#include "graph/verify.h"
#include "support/graph_pass.h"

#define LOSS(FROM, SUM, LAST)                                                                      \
    SUM " f32[1,1] activation = sum " FROM " {axes=[0,1]} @forward loss\n" LAST                    \
        " f32[] activation = reshape " SUM " {shape=[]} @forward loss\n"                           \
        "output " LAST " \"loss\"\n"

static graph *step_of(const char *forward, const optimizer_options *how, bool keep_gradients) {
    graph *g = graph_from_text(forward);
    optimizer_options options = *how;
    options.adamw =
        (adamw_options){.beta1 = 0.5, .beta2 = 0.75, .eps = 0.125, .weight_decay = 0.25};
    assert_int_equal(autodiff_append_backward(g, keep_gradients), DYNO_OK);
    assert_int_equal(mark_saved_activations(g), DYNO_OK);
    assert_int_equal(optimizer_append_adamw(g, &options), DYNO_OK);
    assert_int_equal(graph_verify(g), DYNO_OK);
    return g;
}

static const optimizer_options in_products = {.by_block = true, .in_products = true};

static int count_nodes(const graph *g, const char *op_name) {
    int count = 0;
    for (int i = 0; i < g->node_count; i++)
        count += strcmp(g->nodes[i]->op->name, op_name) == 0;
    return count;
}

/* Two weights side by side, as q and k lie, one behind them, and a factor that is no matrix. */
static const char two_layers[] =
    "graph g\n"
    "input %0 f32[5,3] \"x\"\n"
    "parameter %1 f32[2,3] \"q\"\n"
    "parameter %2 f32[4,3] \"k\"\n"
    "parameter %3 f32[7,6] \"o\"\n"
    "parameter %4 f32[5,7] \"s\"\n"
    "%5 f32[6,3] activation = concat %1 %2 {axis=0} @forward layers.0.in\n"
    "%6 f32[5,6] activation = matmul %0 %5 {transpose_a=0, transpose_b=1} @forward layers.0.in\n"
    "%7 f32[5,7] activation = matmul %6 %3 {transpose_a=0, transpose_b=1} @forward layers.0.out\n"
    "%8 f32[5,7] activation = multiply %7 %4 @forward end\n" LOSS("%8", "%9", "%10");

/* o's product stands behind the one that reads o; q and k are rows of one; s is left. */
static void products_update_the_weights_they_make_gradients_of(void **state) {
    (void)state;
    graph *g = step_of(two_layers, &in_products, false);
    expect_graph_text(g, "graph g\n"
                         "input %0 f32[5,3] \"x\"\n"
                         "parameter %1 f32[2,3] \"q\"\n"
                         "parameter %2 f32[4,3] \"k\"\n"
                         "parameter %3 f32[7,6] \"o\"\n"
                         "parameter %4 f32[5,7] \"s\"\n"
                         "input %5 f64[] \"learning_rate\"\n"
                         "input %6 i64[] \"step\"\n"
                         "optimizer-state %7 f32[2,3] \"m.q\"\n"
                         "optimizer-state %8 f32[2,3] \"v.q\"\n"
                         "optimizer-state %9 f32[4,3] \"m.k\"\n"
                         "optimizer-state %10 f32[4,3] \"v.k\"\n"
                         "optimizer-state %11 f32[7,6] \"m.o\"\n"
                         "optimizer-state %12 f32[7,6] \"v.o\"\n"
                         "optimizer-state %13 f32[5,7] \"m.s\"\n"
                         "optimizer-state %14 f32[5,7] \"v.s\"\n"
                         "%15 f32[6,3] activation = concat %1 %2 {axis=0} @forward "
                         "layers.0.in\n"
                         "%16 f32[5,6] saved = matmul %0 %15 {transpose_a=0, transpose_b=1} "
                         "@forward layers.0.in\n"
                         "%17 f32[5,7] saved = matmul %16 %3 {transpose_a=0, transpose_b=1} "
                         "@forward layers.0.out\n"
                         "%18 f32[5,7] activation = multiply %17 %4 @forward end\n"
                         "%19 f32[1,1] activation = sum %18 {axes=[0,1]} @forward loss\n"
                         "%20 f32[] activation = reshape %19 {shape=[]} @forward loss\n"
                         "%21 f32[] activation = fill {number=1.0, type=1} @backward loss\n"
                         "%22 f32[1,1] activation = reshape %21 {shape=[1,1]} @backward "
                         "loss\n"
                         "%23 f32[5,7] activation = broadcast %22 {shape=[5,7]} @backward "
                         "loss\n"
                         "%24 f32[5,7] activation = multiply %23 %4 @backward end\n"
                         "%25 f32[5,7] gradient = multiply %23 %17 @backward end\n"
                         "%26 f32[] activation = fill {number=1.0, type=1} @optimizer "
                         "optimizer\n"
                         "%27 f32[5,7] parameter, %28 f32[5,7] optimizer-state, %29 "
                         "f32[5,7] optimizer-state = adamw_many %5 %6 %26 %4 %25 %13 %14 "
                         "{beta1=0.5, beta2=0.75, eps=0.125, weight_decay=0.25, "
                         "low_copies=0} @optimizer optimizer.end\n"
                         "%30 f32[5,6] activation = matmul %24 %3 {transpose_a=0, "
                         "transpose_b=0} @backward layers.0.out\n"
                         "%31 f32[7,6] parameter, %32 f32[7,6] optimizer-state, %33 "
                         "f32[7,6] optimizer-state = matmul_adamw %5 %6 %24 %16 %3 %11 %12 "
                         "{transpose_a=1, transpose_b=0, beta1=0.5, beta2=0.75, eps=0.125, "
                         "weight_decay=0.25, low_copies=0} @backward layers.0.out\n"
                         "%34 f32[2,3] parameter, %35 f32[2,3] optimizer-state, %36 "
                         "f32[2,3] optimizer-state, %37 f32[4,3] parameter, %38 f32[4,3] "
                         "optimizer-state, %39 f32[4,3] optimizer-state = matmul_adamw %5 "
                         "%6 %30 %0 %1 %7 %8 %2 %9 %10 {transpose_a=1, transpose_b=0, "
                         "beta1=0.5, beta2=0.75, eps=0.125, weight_decay=0.25, "
                         "low_copies=0} @backward layers.0.in\n"
                         "output %20 \"loss\"\n");
    graph_destroy(g);
}

/* Each of these needs all gradients, or has them known by others. */
static void what_needs_the_gradients_keeps_the_products(void **state) {
    (void)state;
    optimizer_options clips = in_products, apart = {.by_block = true};
    clips.clip_norm = 1;
    const optimizer_options *const how[] = {&in_products, &clips, &apart};
    for (int i = 0; i < 3; i++) {
        graph *g = step_of(two_layers, how[i], i == 0);
        assert_int_equal(count_nodes(g, "matmul_adamw"), 0);
        graph_destroy(g);
    }
    graph *g = step_of(two_layers, &in_products, false);
    assert_int_equal(count_nodes(g, "matmul_adamw"), 2);
    assert_int_equal(count_nodes(g, "matmul"), 3);
    graph_destroy(g);
}

/* w is used twice: its gradient is a sum of two products. */
static void a_gradient_that_several_products_add_up_to_is_not_taken(void **state) {
    (void)state;
    graph *g = step_of("graph g\n"
                       "input %0 f32[5,3] \"x\"\n"
                       "parameter %1 f32[3,3] \"w\"\n"
                       "%2 f32[5,3] activation = matmul %0 %1 {transpose_a=0, transpose_b=1} "
                       "@forward layers.0\n"
                       "%3 f32[5,3] activation = matmul %2 %1 {transpose_a=0, transpose_b=1} "
                       "@forward layers.1\n" LOSS("%3", "%4", "%5"),
                       &in_products, false);
    assert_int_equal(count_nodes(g, "matmul_adamw"), 0);
    assert_int_equal(count_nodes(g, "adamw_many"), 1);
    graph_destroy(g);
}

/* The product that makes a's gradient reads b, and the other way round. */
static void a_product_that_reads_weights_updates_none(void **state) {
    (void)state;
    graph *g = step_of("graph g\n"
                       "parameter %0 f32[5,3] \"a\"\n"
                       "parameter %1 f32[3,3] \"b\"\n"
                       "%2 f32[5,3] activation = matmul %0 %1 {transpose_a=0, transpose_b=1} "
                       "@forward layers.0\n" LOSS("%2", "%3", "%4"),
                       &in_products, false);
    assert_int_equal(count_nodes(g, "matmul_adamw"), 0);
    graph_destroy(g);
}

/* Only rows of a product lie as the weights do. */
static void a_gradient_that_is_columns_of_a_product_is_not_taken(void **state) {
    (void)state;
    graph *g = step_of("graph g\n"
                       "input %0 f32[5,6] \"x\"\n"
                       "parameter %1 f32[2,3] \"a\"\n"
                       "parameter %2 f32[2,3] \"b\"\n"
                       "%3 f32[2,6] activation = concat %1 %2 {axis=1} @forward layers.0\n"
                       "%4 f32[5,2] activation = matmul %0 %3 {transpose_a=0, transpose_b=1} "
                       "@forward layers.0\n" LOSS("%4", "%5", "%6"),
                       &in_products, false);
    assert_int_equal(count_nodes(g, "matmul_adamw"), 0);
    graph_destroy(g);
}

/* Where products update all there is, nothing of the other way is left. */
static void without_other_parameters_there_is_no_other_update(void **state) {
    (void)state;
    graph *g = step_of("graph g\n"
                       "input %0 f32[5,3] \"x\"\n"
                       "parameter %1 f32[2,3] \"w\"\n"
                       "%2 f32[5,2] activation = matmul %0 %1 {transpose_a=0, transpose_b=1} "
                       "@forward layers.0\n" LOSS("%2", "%3", "%4"),
                       &in_products, false);
    const node *last = g->nodes[g->node_count - 1];
    assert_string_equal(last->op->name, "matmul_adamw");
    assert_int_equal(last->phase, PHASE_BACKWARD);
    assert_int_equal(count_nodes(g, "fill"), 1); /* the loss's own gradient */
    graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_update_the_weights_they_make_gradients_of),
        cmocka_unit_test(what_needs_the_gradients_keeps_the_products),
        cmocka_unit_test(a_gradient_that_several_products_add_up_to_is_not_taken),
        cmocka_unit_test(a_product_that_reads_weights_updates_none),
        cmocka_unit_test(a_gradient_that_is_columns_of_a_product_is_not_taken),
        cmocka_unit_test(without_other_parameters_there_is_no_other_update),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
