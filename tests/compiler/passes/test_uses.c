/* test_uses.c - the readers of values, compared with a walk over the graph. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "compiler/passes/uses.h"
#include "graph/graph_text.h"
#include "ops/add/add.h"
#include "ops/exp/exp.h"
#include "ops/op_list.h"
#include "support/graph_pass.h"

#define GRAPH                                                                                      \
    "graph g\n"                                                                                    \
    "input %0 f32[2,3] \"x\"\n"                                                                    \
    "%1 f32[2,3] activation = exp %0 @forward a\n"                                                 \
    "%2 f32[2,3] activation = add %1 %1 @forward a\n"                                              \
    "%3 f32[2,3] activation = add %1 %0 @forward a\n"                                              \
    "%4 f32[2,3] activation = add %2 %3 @forward a\n"                                              \
    "output %4 \"z\"\n"

/* Every list is what a walk over all nodes finds, in that order. */
static void expect_true_lists(const graph *g, uses *u) {
    for (int i = 0; i < g->value_count; i++) {
        const value *v = g->values[i];
        const node *listed = NULL;
        int count = 0;
        for (int j = 0; j < g->node_count; j++) {
            int reads = 0;
            for (int k = 0; k < g->nodes[j]->input_count; k++)
                reads += g->nodes[j]->inputs[k] == v;
            count += reads;
            if (!reads)
                continue;
            listed = uses_next_reader(u, v, listed);
            assert_ptr_equal(listed, g->nodes[j]);
        }
        assert_int_equal(uses_count(u, v), count);
        assert_null(listed ? uses_next_reader(u, v, listed) : uses_next_reader(u, v, NULL));
    }
}

static void lists_are_those_of_a_walk_over_the_graph(void **state) {
    (void)state;
    graph *g = graph_from_text(GRAPH);
    uses *u = uses_create(g);
    expect_true_lists(g, u);
    assert_int_equal(uses_count(u, g->values[1]), 3);
    uses_destroy(u);
    graph_destroy(g);
}

static void nodes_that_are_added_later_are_listed(void **state) {
    (void)state;
    graph *g = graph_from_text(GRAPH);
    uses *u = uses_create(g);
    value *more = build_add(g, build_exp(g, g->values[1]), g->values[0]);
    expect_true_lists(g, u);
    assert_ptr_equal(uses_next_reader(u, g->values[0], g->nodes[2]), more->producer);
    uses_destroy(u);
    graph_destroy(g);
}

static void inputs_change_one_by_one_and_all_at_once(void **state) {
    (void)state;
    graph *g = graph_from_text(GRAPH);
    uses *u = uses_create(g);
    uses_set_input(u, g->nodes[1], 1, g->values[0]); /* add %1 %0 */
    expect_true_lists(g, u);
    uses_set_input(u, g->nodes[1], 1, g->values[0]);
    expect_true_lists(g, u);
    value **inputs = arena_allocate(g->memory, 2, sizeof *inputs);
    inputs[0] = inputs[1] = g->values[0];
    uses_set_inputs(u, g->nodes[3], inputs, 2);
    expect_true_lists(g, u);
    assert_int_equal(uses_count(u, g->values[2]), 0);
    assert_int_equal(uses_count(u, g->values[0]), 5);
    uses_destroy(u);
    graph_destroy(g);
}

static void replacing_a_value_merges_the_readers_of_both(void **state) {
    (void)state;
    graph *g = graph_from_text(GRAPH);
    uses *u = uses_create(g);
    uses_replace(u, g->values[1], g->values[0]); /* readers before and behind those there are */
    expect_true_lists(g, u);
    assert_int_equal(uses_count(u, g->values[0]), 5);
    assert_null(uses_private_maker(u, g->values[1], &op_exp)); /* nobody reads it any more */
    uses_replace(u, g->values[3], g->values[2]);
    expect_true_lists(g, u);
    uses_destroy(u);
    graph_destroy(g);
}

static void a_private_maker_has_one_reader_and_the_kind_asked_for(void **state) {
    (void)state;
    graph *g = graph_from_text(GRAPH);
    uses *u = uses_create(g);
    assert_ptr_equal(uses_private_maker(u, g->values[2], &op_add), g->nodes[1]);
    assert_null(uses_private_maker(u, g->values[2], &op_exp));
    assert_null(uses_private_maker(u, g->values[1], &op_exp)); /* read three times */
    assert_null(uses_private_maker(u, g->values[0], &op_exp)); /* a leaf */
    assert_null(uses_private_maker(u, g->values[4], &op_add)); /* an output */
    uses_destroy(u);
    graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_those_of_a_walk_over_the_graph),
        cmocka_unit_test(nodes_that_are_added_later_are_listed),
        cmocka_unit_test(inputs_change_one_by_one_and_all_at_once),
        cmocka_unit_test(replacing_a_value_merges_the_readers_of_both),
        cmocka_unit_test(a_private_maker_has_one_reader_and_the_kind_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
