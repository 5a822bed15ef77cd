/* test_verify.c - each rule of graph/verify.h, broken once. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "graph/graph_text.h"
#include "graph/op.h"
#include "graph/verify.h"
#include "ops/add/add.h"

#define LEAVES                                                                                     \
    "graph g\n"                                                                                    \
    "parameter %0 f32[4] \"w\"\n"                                                                  \
    "input %1 f32[4] \"x\"\n"                                                                      \
    "optimizer-state %2 f32[4] \"m\"\n"                                                            \
    "optimizer-state %3 f32[4] \"v\"\n"                                                            \
    "input %4 f64[] \"lr\"\n"                                                                      \
    "input %5 i64[] \"step\"\n"                                                                    \
    "input %6 f32[] \"clip\"\n"                                                                    \
    "%7 f32[4] saved = multiply %0 %1 @forward layer\n"                                            \
    "%8 f32[4] activation = exp %7 @forward layer\n"                                               \
    "%9 f32[4] gradient = multiply %7 %7 @backward layer\n"                                        \
    "%10 f32[4] activation = detach %0 @optimizer\n"
#define UPDATE                                                                                     \
    "%11 f32[4] parameter, %12 f32[4] optimizer-state, %13 f32[4] optimizer-state = adamw %0 %9 "  \
    "%2 %3 %4 %5 %6 {beta1=0.9, beta2=0.99, eps=1e-8, weight_decay=0.0} @optimizer update\n"

static graph *parse(const char *source) {
    graph *g;
    if (graph_parse(source, &g) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return g;
}

/* Fails unless the verifier names the node and the rule. Takes the graph. */
static void expect_broken(graph *g, const char *where, const char *rule) {
    dyno_status status = graph_verify(g);
    const char *message = status == DYNO_OK ? "the graph is good" : dyno_error_message();
    char quoted[64] = "'";
    strcat(strcat(quoted, rule), "'");
    if (status != DYNO_INVALID || !strstr(message, where) || !strstr(message, quoted))
        fail_msg("wanted rule '%s' at %s: %s", rule, where, message);
    graph_destroy(g);
}

static void a_good_graph_passes(void **state) {
    (void)state;
    graph *g = parse(LEAVES UPDATE "output %8 \"loss\"\noutput %11 \"w.new\"\n");
    assert_int_equal(graph_verify(g), DYNO_OK);
    graph_destroy(g);
}

static void inputs_come_from_earlier_nodes(void **state) {
    (void)state;
    graph *g = parse(LEAVES);
    node *first = g->nodes[0];
    g->nodes[0] = g->nodes[1];
    g->nodes[1] = first;
    expect_broken(g, "node 0 (exp, scope 'layer')", "order");
}

static void inputs_come_from_this_graph(void **state) {
    (void)state;
    graph *g = parse(LEAVES), *other = parse(LEAVES);
    g->nodes[1]->inputs[0] = other->values[7];
    expect_broken(g, "node 1 (exp", "order");
    graph_destroy(other);
}

static void nodes_have_as_many_operands_as_their_op(void **state) {
    (void)state;
    graph *g = parse(LEAVES);
    g->nodes[2]->input_count = 1;
    expect_broken(g, "node 2 (multiply", "arity");
    g = parse(LEAVES);
    g->nodes[2]->output_count = 0;
    expect_broken(g, "node 2 (multiply", "arity");
}

static void outputs_have_the_types_of_the_shape_rule(void **state) {
    (void)state;
    expect_broken(parse(LEAVES "%11 f32[5] activation = exp %1 @forward wide"),
                  "node 4 (exp, scope 'wide')", "type");
    expect_broken(parse(LEAVES "%11 bf16[4] activation = exp %1 @forward"), "node 4 (exp", "type");
}

/* A pass may have changed an input so that the op's shape rule itself fails. */
static void shape_rules_are_asked_again(void **state) {
    (void)state;
    graph *g = parse(LEAVES);
    g->values[1]->shape = SHAPE(3);
    expect_broken(g, "node 0 (multiply", "type");
}

static void values_know_their_producers(void **state) {
    (void)state;
    graph *g = parse(LEAVES);
    g->values[8]->output_index = 1;
    expect_broken(g, "node 1 (exp", "producer");
    g = parse(LEAVES);
    g->values[8]->producer = g->nodes[0];
    expect_broken(g, "node 1 (exp", "producer");
}

static void outputs_belong_to_this_graph(void **state) {
    (void)state;
    graph *g = parse(LEAVES);
    value stray = *g->values[8];
    stray.id = 1000000;
    g->nodes[1]->outputs[0] = &stray;
    expect_broken(g, "node 1 (exp", "producer");
}

/* A pass that drops a node must not leave its result promised to the caller. */
static void what_the_caller_reads_is_made_by_a_node(void **state) {
    (void)state;
    graph *g = parse(LEAVES "output %8 \"loss\"\n");
    g->nodes[1] = g->nodes[2];
    g->nodes[2] = g->nodes[3];
    g->node_count = 3;
    expect_broken(g, "output 'loss'", "producer");
}

static void only_leaves_have_the_roles_of_leaves(void **state) {
    (void)state;
    expect_broken(parse(LEAVES "%11 f32[4] parameter = exp %1 @forward"), "node 4 (exp", "role");
    expect_broken(parse(LEAVES "%11 f32[4] workspace = exp %1 @forward"), "node 4 (exp", "role");
    expect_broken(parse("graph g\nactivation %0 f32[4] \"x\"\n"), "value 0", "role");
    graph *g = parse(LEAVES UPDATE);
    g->values[11]->role = ROLE_ACTIVATION; /* updated in place, it stays a parameter */
    expect_broken(g, "node 4 (adamw, scope 'update')", "role");
}

static void no_phase_reads_what_a_later_one_makes(void **state) {
    (void)state;
    expect_broken(parse(LEAVES "%11 f32[4] activation = exp %9 @forward late"),
                  "node 4 (exp, scope 'late')", "phase");
    expect_broken(parse(LEAVES "%11 f32[4] activation = exp %10 @backward"), "node 4 (exp",
                  "phase");
    graph *g = parse(LEAVES "%11 f32[4] gradient = exp %9 @communication\n"
                            "%12 f32[4] activation = exp %11 @backward\n");
    assert_int_equal(graph_verify(g), DYNO_OK);
    graph_destroy(g);
}

static void what_the_backward_reads_is_marked_saved(void **state) {
    (void)state;
    expect_broken(parse(LEAVES "%11 f32[4] activation = exp %8 @backward late"),
                  "node 4 (exp, scope 'late')", "saved");
}

static void nobody_reads_what_was_overwritten(void **state) {
    (void)state;
    expect_broken(parse(LEAVES UPDATE "%14 f32[4] activation = exp %0 @optimizer late"),
                  "node 5 (exp, scope 'late')", "in place");
    expect_broken(parse(LEAVES UPDATE "%14 f32[4] activation = exp %2 @optimizer"), "node 5 (exp",
                  "in place");
    expect_broken(parse(LEAVES UPDATE "output %0 \"w\""), "node 4 (adamw", "in place");
}

/* %10 is a view of the weight %0: the same memory. */
static void nobody_reads_an_overwritten_value_through_a_view(void **state) {
    (void)state;
    expect_broken(parse(LEAVES UPDATE "%14 f32[4] activation = exp %10 @optimizer late"),
                  "node 5 (exp, scope 'late')", "in place");
    expect_broken(parse(LEAVES UPDATE "output %10 \"w.old\""), "node 4 (adamw", "in place");
}

/* Weights side by side may be read where they lie. */
static void nobody_reads_an_overwritten_value_through_a_concat(void **state) {
    (void)state;
    static const char source[] =
        "graph g\n"
        "parameter %0 f32[4] \"w\"\n"
        "input %1 f32[4] \"g\"\n"
        "optimizer-state %2 f32[4] \"m\"\n"
        "optimizer-state %3 f32[4] \"v\"\n"
        "input %4 f64[] \"rate\"\n"
        "input %5 i64[] \"step\"\n"
        "input %6 f32[] \"scale\"\n"
        "%7 f32[8] saved = concat %1 %0 {axis=0} @forward\n"
        "%8 f32[4] parameter, %9 f32[4] optimizer-state, %10 f32[4] optimizer-state = adamw %0 "
        "%1 %2 %3 %4 %5 %6 {beta1=0.5, beta2=0.5, eps=0.5, weight_decay=0.5} @optimizer\n"
        "%11 f32[8] activation = exp %7 @optimizer late\n";
    expect_broken(parse(source), "node 2 (exp, scope 'late')", "in place");
}

static void a_graph_that_failed_to_build_tells_its_first_failure(void **state) {
    (void)state;
    graph *g = graph_create("broken");
    shape two = SHAPE(2), three = SHAPE(3), none = SHAPE(0);
    value *a = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &two, "a");
    value *b = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &three, "b");
    build_add(g, a, b);
    graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &none, "empty");
    assert_int_equal(graph_verify(g), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "f32[2]"));
    assert_non_null(strstr(dyno_error_message(), "f32[3]"));
    graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_graph_passes),
        cmocka_unit_test(inputs_come_from_earlier_nodes),
        cmocka_unit_test(inputs_come_from_this_graph),
        cmocka_unit_test(nodes_have_as_many_operands_as_their_op),
        cmocka_unit_test(outputs_have_the_types_of_the_shape_rule),
        cmocka_unit_test(shape_rules_are_asked_again),
        cmocka_unit_test(values_know_their_producers),
        cmocka_unit_test(outputs_belong_to_this_graph),
        cmocka_unit_test(what_the_caller_reads_is_made_by_a_node),
        cmocka_unit_test(only_leaves_have_the_roles_of_leaves),
        cmocka_unit_test(no_phase_reads_what_a_later_one_makes),
        cmocka_unit_test(what_the_backward_reads_is_marked_saved),
        cmocka_unit_test(nobody_reads_what_was_overwritten),
        cmocka_unit_test(nobody_reads_an_overwritten_value_through_a_view),
        cmocka_unit_test(nobody_reads_an_overwritten_value_through_a_concat),
        cmocka_unit_test(a_graph_that_failed_to_build_tells_its_first_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
