/* test_graph_text.c - printing and parsing graphs; building that fails. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph_text.h"
#include "graph/verify.h"
#include "ops/add/add.h"
#include "ops/op_list.h"
#include "ops/scale/scale.h"
#include "support/op_cases.h"

static void expect_printing_to_be_parsed_back(const graph *g) {
    text first = {0}, second = {0};
    graph *parsed;
    graph_print(g, &first);
    if (graph_parse(text_string(&first), &parsed) != DYNO_OK)
        fail_msg("%s\nof:\n%s", dyno_error_message(), text_string(&first));
    graph_print(parsed, &second);
    assert_string_equal(text_string(&first), text_string(&second));
    assert_int_equal(graph_verify(parsed), graph_verify(g));
    graph_destroy(parsed);
    text_release(&first);
    text_release(&second);
}

static void a_graph_of_every_op_is_parsed_back(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        graph *g = graph_create("every-op");
        for (int o = 0; o < op_list_count(); o++) {
            draw d = draw_create((uint64_t)(round * 100 + o), 500);
            int outer = graph_enter_scope(g, o % 2 ? "layers.3" : "head");
            int inner = graph_enter_scope(g, op_list_at(o)->name);
            op_instance in = op_case_build(op_case_find(op_list_at(o)), g, false, &d);
            if (o % 3 == 0)
                graph_leave_scope(g, inner);
            graph_leave_scope(g, outer);
            in.n->phase = (phase)(o % PHASE_COUNT);
            if (op_inplace_input(in.n, 0) < 0)
                in.n->outputs[0]->role = o % 2 ? ROLE_SAVED : ROLE_GRADIENT;
            if (o % 5 == 0)
                graph_add_output(g, in.n->outputs[0], op_list_at(o)->name);
        }
        assert_int_equal(graph_verify(g), DYNO_OK);
        expect_printing_to_be_parsed_back(g);
        graph_destroy(g);
    }
}

static void families_are_parsed_back(void **state) {
    (void)state;
    graph *g = graph_create("family");
    shape s = SHAPE(2, 3);
    value *a = graph_add_leaf(g, ROLE_PARAMETER, DTYPE_F32, &s, "a");
    graph_add_leaf(g, ROLE_PARAMETER, DTYPE_F32, &s, "b");
    value *c = graph_add_leaf(g, ROLE_PARAMETER, DTYPE_F32, &s, "c");
    graph_join_family(g, (value *[]){a, c}, 2, "both of them");
    expect_printing_to_be_parsed_back(g);
    graph_join_family(g, (value *[]){a, build_add(g, a, c)}, 2, "no leaf");
    assert_int_equal(graph_status(g), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "family 'no leaf'"));
    graph_destroy(g);
}

static void real_attributes_keep_every_bit(void **state) {
    (void)state;
    static const double reals[] = {0,      -0.0,  1,         -3,    0.1, 1.0 / 3,  1e300,
                                   5e-324, 1e100, 123456789, 1e-17, 2e9, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        graph *g = graph_create("real"), *parsed;
        value *a = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &(shape){0}, "a");
        build_scale(g, a, reals[i]);
        text out = {0};
        graph_print(g, &out);
        assert_int_equal(graph_parse(text_string(&out), &parsed), DYNO_OK);
        double again = attribute_real(&parsed->nodes[0]->attributes, "s");
        assert_memory_equal(&again, &reals[i], sizeof again);
        text_release(&out);
        graph_destroy(parsed);
        graph_destroy(g);
    }
}

static const char *const example = "graph tiny\n"
                                   "input %0 i32[8] \"tokens\"\n"
                                   "parameter %1 f32[97,64] \"model.embed_tokens.weight\"\n"
                                   "%2 f32[8,64] saved = gather %1 %0 @forward embed\n"
                                   "%3 f32[8,1] activation = mean %2 {axes=[1]} @forward norm.0\n"
                                   "output %3 \"loss\"\n";

static void the_headers_example_is_parsed(void **state) {
    (void)state;
    graph *g;
    text out = {0};
    assert_int_equal(graph_parse(example, &g), DYNO_OK);
    assert_int_equal(graph_verify(g), DYNO_OK);
    graph_print(g, &out);
    assert_string_equal(text_string(&out), example);
    assert_string_equal(g->name, "tiny");
    value *loss = graph_find_value(g, "loss"), *tokens = graph_find_value(g, "tokens");
    assert_true(loss && loss->is_output && loss->producer == g->nodes[1]);
    assert_true(tokens && !tokens->producer && tokens->type == DTYPE_I32);
    assert_null(graph_find_value(g, "los"));
    assert_string_equal(g->scopes[g->nodes[1]->scope].path, "norm.0");
    text_release(&out);
    graph_destroy(g);
}

static void blank_lines_and_blanks_are_ignored(void **state) {
    (void)state;
    graph *g;
    text out = {0};
    assert_int_equal(graph_parse("graph g\n\n  input  %0  f32[ 2 , 3 ]  \"a\"  \n\n\n", &g),
                     DYNO_OK);
    graph_print(g, &out);
    assert_string_equal(text_string(&out), "graph g\ninput %0 f32[2,3] \"a\"\n");
    text_release(&out);
    graph_destroy(g);
}

#define A "graph g\ninput %0 f32[2,3] \"a\"\n"

static void bad_text_is_refused_with_its_line(void **state) {
    (void)state;
    static const struct {
        const char *source, *line, *says;
    } bad[] = {
        {"", "line 1", "graph NAME"},
        {"grape g", "line 1", "graph NAME"},
        {"graph", "line 1", "graph NAME"},
        {"graph g extra words", "line 1", "extra"},
        {"graph g\n\n\n?", "line 4", "a leaf, a node or an output"},
        {"graph g\nthing %0 f32[1] \"a\"", "line 2", "'thing' is no role"},
        {"graph g\ninput 0 f32[1] \"a\"", "line 2", "a value such as"},
        {"graph g\ninput %0 f33[1] \"a\"", "line 2", "an element type"},
        {"graph g\ninput %0 f32 \"a\"", "line 2", "'['"},
        {"graph g\ninput %0 f32[1;2] \"a\"", "line 2", "',' or ']'"},
        {"graph g\ninput %0 f32[1,] \"a\"", "line 2", "an integer"},
        {"graph g\ninput %0 f32[1,1,1,1,1,1,1] \"a\"", "line 2", "at most 6"},
        {"graph g\ninput %0 f32[99999999999999999999] \"a\"", "line 2", "an integer"},
        {"graph g\ninput %0 f32[1] a", "line 2", "a name in quotes"},
        {"graph g\ninput %0 f32[1] \"a\n", "line 2", "a closing quote"},
        {"graph g\ninput %0 f32[0] \"a\"", "line 2", "below 1"},
        {"graph g\ninput %0 f32[9223372036854775807,9] \"a\"", "line 2", "overflows"},
        {"graph g\ninput %0 f32[1] \"a\" b", "line 2", "the end of the line"},
        {"graph g\ninput %5 f32[1] \"a\"", "line 2", "%0"},
        {A "output %1 \"x\"", "line 3", "%1 is not defined above"},
        {A "output %-1 \"x\"", "line 3", "not defined"},
        {A "%1 f32[2,3] activation = add %0 %1 @forward", "line 3", "%1 is not defined above"},
        {A "%2 f32[2,3] activation = add %0 %0 @forward", "line 3", "%1"},
        {A "%1 f32[2,3] nothing = add %0 %0 @forward", "line 3", "a role"},
        {A "%1 f32[2,3] activation add %0 %0 @forward", "line 3", "'= op'"},
        {A "%1 f32[2,3] activation = plus %0 %0 @forward", "line 3", "there is no op 'plus'"},
        {A "%1 f32[2,3] activation = add %0 %0", "line 3", "a phase"},
        {A "%1 f32[2,3] activation = add %0 %0 @sideways", "line 3", "no phase 'sideways'"},
        {A "%1 f32[2,3] activation = add %0 @forward", "line 3", "takes 2 inputs, 1 given"},
        {A "%1 f32[2,3] activation = scale %0 @forward", "line 3", "'s' must be given"},
        {A "%1 f32[2,3] activation = scale %0 {s=2} @forward", "line 3", "as a real"},
        {A "%1 f32[2,3] activation = scale %0 {s} @forward", "line 3", "an attribute"},
        {A "%1 f32[2,3] activation = scale %0 {s=2.0 @forward", "line 3", "'}'"},
        {A "%1 f32[2,3] activation = scale %0 {s=2.0x} @forward", "line 3", "a number"},
        {A "%1 f32[2,3] activation = scale %0 {} @forward", "line 3", "an attribute"},
        {A "%1 f32[2,3] activation = sum %0 {axes=[2]} @forward", "line 3", "axes"},
        {A "%1 i32[9] activation = iota {length=99999999999999999999} @forward", "line 3",
         "a number"},
        {A "%1 f32[9223372036854775807,9] activation = add %0 %0 @forward", "line 3", "overflows"},
        {A "%1 f32[-2,3] activation = add %0 %0 @forward", "line 3", "below 1"},
        {A "%1 f32[2,3] activation, %2 f32[] saved = add %0 %0 @forward", "line 3",
         "has 1 outputs, 2 are named"},
        {A "%1 f32[2,3] input = adamw %0 @optimizer", "line 3", "takes 7 inputs, 1 given"},
        {A "%1 f32[] activation = global_norm @optimizer", "line 3", "at least 1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        graph *g = (graph *)&state;
        dyno_status status = graph_parse(bad[i].source, &g);
        const char *message = dyno_error_message();
        if (status != DYNO_INVALID || g || !strstr(message, bad[i].line) ||
            !strstr(message, bad[i].says))
            fail_msg("%s\n: status %d, message '%s', wanted '%s' and '%s'", bad[i].source,
                     (int)status, message, bad[i].line, bad[i].says);
    }
}

/* Every prefix of a graph is refused or parsed; none crashes or leaks. */
static void text_cut_anywhere_is_harmless(void **state) {
    (void)state;
    char cut[512];
    for (size_t length = 0; length <= strlen(example); length++) {
        snprintf(cut, sizeof cut, "%.*s", (int)length, example);
        graph *g;
        if (graph_parse(cut, &g) == DYNO_OK)
            graph_destroy(g);
        else
            assert_null(g);
    }
}

static void building_goes_on_after_a_failure_and_tells_the_first(void **state) {
    (void)state;
    graph *g = graph_create("broken");
    shape two = SHAPE(2), three = SHAPE(3);
    value *a = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &two, "a");
    value *b = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &three, "b");
    int outer = graph_enter_scope(g, "layers.0");
    value *sum = build_add(g, a, b);
    graph_leave_scope(g, outer);
    assert_non_null(sum);
    value *more = build_add(g, sum, a); /* on the harmless value; would fail again */
    value *wrong = graph_add_node(g, &op_adamw, &more, 1, NULL, 0);
    assert_non_null(wrong->producer->outputs[2]);
    graph_add_output(g, wrong, "out");
    assert_int_equal(graph_status(g), DYNO_INVALID);
    assert_string_equal(dyno_error_message(),
                        "add in scope 'layers.0': input 0 is f32[2] and input 1 is f32[3]; they "
                        "must be alike");
    graph_destroy(g);
}

static void scopes_nest_and_are_kept_once(void **state) {
    (void)state;
    graph *g = graph_create("scopes");
    for (int i = 0; i < 3; i++) {
        int outer = graph_enter_scope(g, "layers.0"), inner = graph_enter_scope(g, "attn");
        assert_string_equal(g->scopes[g->current_scope].path, "layers.0.attn");
        graph_leave_scope(g, inner);
        assert_string_equal(g->scopes[g->current_scope].path, "layers.0");
        graph_leave_scope(g, outer);
        assert_int_equal(g->current_scope, 0);
    }
    assert_int_equal(g->scope_count, 3);
    assert_int_equal(graph_intern_scope(g, "layers.0.attn", 0), 2);
    graph_destroy(g);
}

/* The text form and `dyno list ops` rely on names; a fused kernel on expressions. */
static void ops_describe_themselves(void **state) {
    (void)state;
    for (int o = 0; o < op_list_count(); o++) {
        const op *kind = op_list_at(o);
        assert_ptr_equal(op_find(kind->name), kind);
        assert_true(kind->summary && kind->infer && kind->cost && kind->reference && kind->kernels);
        assert_non_null(op_class_name(kind->class));
        if (kind->count_outputs)
            assert_int_equal(kind->output_count, OP_ANY_COUNT);
        else
            assert_in_range(kind->output_count, 1, OP_MAX_OUTPUTS);
        for (int round = 0; round < 5; round++) {
            graph *g = graph_create("cost");
            draw d = draw_create((uint64_t)(o + 100 * round), 300);
            op_instance in = op_case_build(op_case_find(kind), g, false, &d);
            op_cost cost = kind->cost(in.n);
            assert_true(cost.flops >= 0 && cost.bytes_read >= 0 && cost.bytes_written > 0);
            graph_destroy(g);
        }
    }
    assert_null(op_find("no-such-op"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_of_every_op_is_parsed_back),
        cmocka_unit_test(families_are_parsed_back),
        cmocka_unit_test(real_attributes_keep_every_bit),
        cmocka_unit_test(the_headers_example_is_parsed),
        cmocka_unit_test(blank_lines_and_blanks_are_ignored),
        cmocka_unit_test(bad_text_is_refused_with_its_line),
        cmocka_unit_test(text_cut_anywhere_is_harmless),
        cmocka_unit_test(building_goes_on_after_a_failure_and_tells_the_first),
        cmocka_unit_test(scopes_nest_and_are_kept_once),
        cmocka_unit_test(ops_describe_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
