/* test_fuse.c - graph text in, groups out; and what a group may never do. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>

#include "compiler/passes/common_subexpressions.h"
#include "compiler/passes/dead_code.h"
#include "compiler/passes/fuse.h"
#include "compiler/pipeline.h"
#include "model/transformer.h"
#include "support/graph_pass.h"
#include "support/small_model.h"

static void expect_after(dyno_status (*pass)(graph *), const char *source, const char *wanted) {
    graph *g = graph_from_text(source);
    assert_int_equal(pass(g), DYNO_OK);
    expect_graph_text(g, wanted);
    graph_destroy(g);
}

static dyno_status fuse_for_cpu(graph *g) { return fuse_groups(g, BACKEND_CPU); }

static void an_elementwise_chain_becomes_one_group(void **state) {
    (void)state;
    expect_after(fuse_for_cpu,
                 "graph g\n"
                 "input %0 f32[4,8] \"x\"\n"
                 "%1 f32[4,8] activation = exp %0 @forward\n"
                 "%2 f32[4,8] activation = multiply %1 %0 @forward\n"
                 "output %2 \"y\"\n",
                 "graph g\n"
                 "input %0 f32[4,8] \"x\"\n"
                 "%1 f32[4,8] activation = exp %0 @forward #1\n"
                 "%2 f32[4,8] activation = multiply %1 %0 @forward #1\n"
                 "output %2 \"y\"\n");
}

static void a_row_sum_joins_its_producer_and_its_readers(void **state) {
    (void)state;
    expect_after(fuse_for_cpu,
                 "graph g\n"
                 "input %0 f32[4,8] \"x\"\n"
                 "%1 f32[4,8] activation = exp %0 @forward\n"
                 "%2 f32[4,1] activation = sum %1 {axes=[1]} @forward\n"
                 "%3 f32[4,8] activation = broadcast %2 {shape=[4,8]} @forward\n"
                 "%4 f32[4,8] activation = divide %1 %3 @forward\n"
                 "output %4 \"y\"\n",
                 "graph g\n"
                 "input %0 f32[4,8] \"x\"\n"
                 "%1 f32[4,8] activation = exp %0 @forward #1\n"
                 "%2 f32[4,1] activation = sum %1 {axes=[1]} @forward #1\n"
                 "%3 f32[4,8] activation = broadcast %2 {shape=[4,8]} @forward\n"
                 "%4 f32[4,8] activation = divide %1 %3 @forward #1\n"
                 "output %4 \"y\"\n");
}

static void a_product_between_keeps_groups_apart(void **state) {
    (void)state;
    expect_after(fuse_for_cpu,
                 "graph g\n"
                 "input %0 f32[8,8] \"x\"\n"
                 "%1 f32[8,8] activation = exp %0 @forward\n"
                 "%2 f32[8,8] activation = matmul %1 %1 {transpose_a=0, transpose_b=0} @forward\n"
                 "%3 f32[8,8] activation = add %1 %2 @forward\n"
                 "output %3 \"y\"\n",
                 "graph g\n"
                 "input %0 f32[8,8] \"x\"\n"
                 "%1 f32[8,8] activation = exp %0 @forward #1\n"
                 "%2 f32[8,8] activation = matmul %1 %1 {transpose_a=0, transpose_b=0} @forward\n"
                 "%3 f32[8,8] activation = add %1 %2 @forward #2\n"
                 "output %3 \"y\"\n");
}

static void a_transposed_read_keeps_groups_apart(void **state) {
    (void)state;
    expect_after(fuse_for_cpu,
                 "graph g\n"
                 "input %0 f32[8,8] \"x\"\n"
                 "%1 f32[8,8] activation = exp %0 @forward\n"
                 "%2 f32[8,8] activation = transpose %1 {order=[1,0]} @forward\n"
                 "%3 f32[8,8] activation = add %1 %2 @forward\n"
                 "output %3 \"y\"\n",
                 "graph g\n"
                 "input %0 f32[8,8] \"x\"\n"
                 "%1 f32[8,8] activation = exp %0 @forward #1\n"
                 "%2 f32[8,8] activation = transpose %1 {order=[1,0]} @forward\n"
                 "%3 f32[8,8] activation = add %1 %2 @forward #2\n"
                 "output %3 \"y\"\n");
}

static void phases_are_not_mixed(void **state) {
    (void)state;
    expect_after(fuse_for_cpu,
                 "graph g\n"
                 "input %0 f32[4,8] \"x\"\n"
                 "%1 f32[4,8] saved = exp %0 @forward\n"
                 "%2 f32[4,8] activation = multiply %1 %0 @backward\n"
                 "output %2 \"y\"\n",
                 "graph g\n"
                 "input %0 f32[4,8] \"x\"\n"
                 "%1 f32[4,8] saved = exp %0 @forward #1\n"
                 "%2 f32[4,8] activation = multiply %1 %0 @backward #2\n"
                 "output %2 \"y\"\n");
}

static void readers_of_one_value_become_one_group(void **state) {
    (void)state;
    expect_after(fuse_for_cpu,
                 "graph g\n"
                 "input %0 f32[4,8] \"x\"\n"
                 "%1 f32[4,8] activation = exp %0 @forward\n"
                 "%2 f32[4,8] activation = log %0 @forward\n"
                 "output %1 \"y\"\n"
                 "output %2 \"z\"\n",
                 "graph g\n"
                 "input %0 f32[4,8] \"x\"\n"
                 "%1 f32[4,8] activation = exp %0 @forward #1\n"
                 "%2 f32[4,8] activation = log %0 @forward #1\n"
                 "output %1 \"y\"\n"
                 "output %2 \"z\"\n");
}

static void each_node_that_can_be_generated_is_a_group_of_its_own(void **state) {
    (void)state;
    expect_after(fuse_each,
                 "graph g\n"
                 "input %0 f32[4,8] \"x\"\n"
                 "%1 f32[4,8] activation = exp %0 @forward\n"
                 "%2 f32[4,1] activation = sum %1 {axes=[1]} @forward\n"
                 "%3 f32[4,8] activation = broadcast %2 {shape=[4,8]} @forward\n"
                 "%4 f32[4,8] activation = divide %1 %3 @forward\n"
                 "%5 f32[1,8] activation = sum %4 {axes=[0]} @forward\n"
                 "output %5 \"y\"\n",
                 "graph g\n"
                 "input %0 f32[4,8] \"x\"\n"
                 "%1 f32[4,8] activation = exp %0 @forward #1\n"
                 "%2 f32[4,1] activation = sum %1 {axes=[1]} @forward #2\n"
                 "%3 f32[4,8] activation = broadcast %2 {shape=[4,8]} @forward\n"
                 "%4 f32[4,8] activation = divide %1 %3 @forward #3\n"
                 "%5 f32[1,8] activation = sum %4 {axes=[0]} @forward\n"
                 "output %5 \"y\"\n");
}

static void blocks_of_column_sums_depend_on_the_rows_alone(void **state) {
    (void)state;
    assert_int_equal(fuse_rows_per_block(512, BACKEND_CPU), 32);
    assert_int_equal(fuse_rows_per_block(2048, BACKEND_CPU), 64);
    assert_int_equal(fuse_rows_per_block(7, BACKEND_CPU), 1);
    assert_int_equal(fuse_rows_per_block(512, BACKEND_CUDA), 2);
    assert_int_equal(fuse_rows_per_block(2048, BACKEND_CUDA), 8);
    assert_int_equal(fuse_rows_per_block(7, BACKEND_CUDA), 1);
    for (int target = 0; target < BACKEND_COUNT; target++)
        for (int64_t rows = 1; rows < 3000; rows++) {
            int64_t length = fuse_rows_per_block(rows, (backend)target);
            assert_true(length >= 1 && rows % length == 0);
        }
}

static void equal_nodes_are_computed_once(void **state) {
    (void)state;
    expect_after(common_subexpressions_merge,
                 "graph g\n"
                 "input %0 f32[4] \"x\"\n"
                 "%1 f32[4] activation = scale %0 {s=2.0} @forward\n"
                 "%2 f32[4] activation = scale %0 {s=2.0} @forward\n"
                 "%3 f32[4] activation = scale %0 {s=3.0} @forward\n"
                 "%4 f32[4] activation = add %1 %2 @forward\n"
                 "%5 f32[4] activation = add %4 %3 @forward\n"
                 "output %5 \"y\"\n",
                 "graph g\n"
                 "input %0 f32[4] \"x\"\n"
                 "%1 f32[4] activation = scale %0 {s=2.0} @forward\n"
                 "%2 f32[4] activation = scale %0 {s=3.0} @forward\n"
                 "%3 f32[4] activation = add %1 %1 @forward\n"
                 "%4 f32[4] activation = add %3 %2 @forward\n"
                 "output %4 \"y\"\n");
}

static void what_nobody_needs_is_dropped(void **state) {
    (void)state;
    expect_after(dead_code_drop,
                 "graph g\n"
                 "input %0 f32[4] \"x\"\n"
                 "%1 f32[4] activation = exp %0 @forward\n"
                 "%2 f32[4] activation = log %1 @forward\n"
                 "%3 f32[4] activation = exp %0 @forward\n"
                 "output %3 \"y\"\n",
                 "graph g\n"
                 "input %0 f32[4] \"x\"\n"
                 "%1 f32[4] activation = exp %0 @forward\n"
                 "output %1 \"y\"\n");
}

/* No path leaves a group and comes back: every group can be placed after all it reads. */
static void expect_convex(const graph *g) {
    int current = 0;
    char *closed = calloc((size_t)g->node_count + 2, 1);
    for (int i = 0; i < g->node_count; i++) {
        int group = g->nodes[i]->group;
        if (!group)
            continue;
        if (group != current && current)
            closed[current] = 1;
        assert_false(closed[group]);
        current = group;
    }
    free(closed);
}

static void groups_of_whole_models_stand_together(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        draw d = draw_create(seed, 1);
        model_config config = small_model_draw(&d);
        transformer_options options = {.batch = 1 + draw_below(&d, 3),
                                       .context = 1 + draw_below(&d, 9)};
        graph *g;
        assert_int_equal(transformer_build(&config, &options, &g), DYNO_OK);
        pipeline_options pipeline = {
            .extent = STEP_FULL, .mode = STEP_COMPILED, .optimizer = step_default_optimizer()};
        plan *p;
        if (pipeline_compile(g, &pipeline, &p) != DYNO_OK)
            fail_msg("%s", dyno_error_message());
        expect_convex(g);
        plan_destroy(p);
        graph_destroy(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_elementwise_chain_becomes_one_group),
        cmocka_unit_test(a_row_sum_joins_its_producer_and_its_readers),
        cmocka_unit_test(a_product_between_keeps_groups_apart),
        cmocka_unit_test(a_transposed_read_keeps_groups_apart),
        cmocka_unit_test(phases_are_not_mixed),
        cmocka_unit_test(readers_of_one_value_become_one_group),
        cmocka_unit_test(each_node_that_can_be_generated_is_a_group_of_its_own),
        cmocka_unit_test(blocks_of_column_sums_depend_on_the_rows_alone),
        cmocka_unit_test(equal_nodes_are_computed_once),
        cmocka_unit_test(what_nobody_needs_is_dropped),
        cmocka_unit_test(groups_of_whole_models_stand_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
