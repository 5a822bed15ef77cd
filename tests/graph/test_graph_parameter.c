/* test_graph_parameter.c - how records of parameters are built, verified, printed and kept. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "compiler/lower/lower.h"
#include "compiler/passes/autodiff.h"
#include "compiler/passes/optimizer.h"
#include "compiler/passes/uses.h"
#include "graph/graph_parameter.h"
#include "graph/graph_text.h"
#include "graph/verify.h"
#include "model/parameters.h"
#include "model/transformer.h"
#include "ops/add/add.h"
#include "ops/detach/detach.h"
#include "support/graph_pass.h"

/* A parameter of block 3 with all that can belong to one, and one that is split. */
#define RECORDS                                                                                    \
    "graph g\n"                                                                                    \
    "parameter %0 f32[4] \"w\" in \"both\" block 3\n"                                              \
    "parameter %1 u16[4] \"rest.u\"\n"                                                             \
    "parameter %2 f16[4] \"low.w\" in \"low.both\"\n"                                              \
    "parameter %3 bf16[4] \"low.u\"\n"                                                             \
    "optimizer-state %4 f32[4] \"m.w\"\n"                                                          \
    "optimizer-state %5 f32[4] \"v.w\"\n"                                                          \
    "%6 f32[4] gradient = exp %0 @backward layers.3.mlp.up\n"                                      \
    "%7 f32[4] gradient = exp %0 @backward layers.3.attn\n"                                        \
    "output %6 \"g.w\"\n"                                                                          \
    "gradient-of \"u\" %7\n"

static graph *parse(const char *source) {
    graph *g;
    if (graph_parse(source, &g) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return g;
}

static void text_leads_to_the_records_and_back(void **state) {
    (void)state;
    graph *g = graph_from_text(RECORDS);
    assert_int_equal(g->parameter_count, 2);
    const graph_parameter *w = g->parameters[0], *u = g->parameters[1];
    assert_string_equal(w->name, "w");
    assert_string_equal(u->name, "u");
    assert_true(w->block == 3 && u->block == -1);
    assert_true(!w->is_split && u->is_split);
    assert_true(w->value == g->values[0] && u->value == g->values[1]);
    assert_true(w->low_copy == g->values[2] && u->low_copy == g->values[3]);
    assert_true(w->first_moment == g->values[4] && w->second_moment == g->values[5]);
    assert_true(!u->first_moment && !u->second_moment);
    assert_true(w->gradient == g->values[6] && u->gradient == g->values[7]);
    for (int i = 0; i < g->value_count; i++)
        assert_ptr_equal(g->values[i]->parameter, i == 1 || i == 3 || i == 7 ? u : w);
    assert_true(graph_leaf_parameter(g->values[1]) == u && !graph_leaf_parameter(g->values[3]));
    const graph_scope *up = &g->scopes[g->nodes[0]->scope], *attn = &g->scopes[g->nodes[1]->scope];
    assert_true(up->block == 3 && up->part == BLOCK_MLP);
    assert_true(attn->block == 3 && attn->part == BLOCK_OTHER);
    expect_graph_text(g, RECORDS);
    graph_destroy(g);
}

/* A leaf that stands behind nodes of a block is none of theirs. */
static void only_its_own_line_gives_a_parameter_a_block(void **state) {
    (void)state;
    graph *g = graph_from_text("graph g\n"
                               "parameter %0 f32[] \"w\"\n"
                               "%1 f32[] activation = exp %0 @forward layers.2.attn\n"
                               "parameter %2 f32[] \"u\"\n");
    assert_true(g->parameters[0]->block == -1 && g->parameters[1]->block == -1);
    graph_destroy(g);
}

static void builders_make_the_records_that_text_tells(void **state) {
    (void)state;
    graph *g = graph_create("built");
    shape s = SHAPE(4);
    int outer = graph_enter_block(g, 7);
    value *leaf = graph_add_parameter(g, DTYPE_F32, &s, "w");
    int inner = graph_enter_part(g, "mlp", BLOCK_MLP);
    graph_enter_scope(g, "up");
    value *y = build_add(g, leaf, leaf);
    assert_int_equal(g->scopes[y->producer->scope].block, 7);
    assert_int_equal(g->scopes[y->producer->scope].part, BLOCK_MLP);
    graph_leave_scope(g, inner);
    assert_int_equal(g->scopes[g->current_scope].part, BLOCK_OTHER);
    graph_leave_scope(g, outer);
    assert_int_equal(g->scopes[g->current_scope].block, -1);
    graph_parameter *p = leaf->parameter;
    graph_set_gradient(g, p, y);
    graph_join_family(g, &leaf, 1, "all");
    graph_add_part(g, p, PARAMETER_LOW_COPY, DTYPE_BF16);
    graph_add_part(g, p, PARAMETER_FIRST_MOMENT, DTYPE_F32);
    graph_add_part(g, p, PARAMETER_SECOND_MOMENT, DTYPE_F32);
    static const char leaves[] = "parameter %1 bf16[4] \"low.w\" in \"low.all\"\n"
                                 "optimizer-state %2 f32[4] \"m.w\"\n"
                                 "optimizer-state %3 f32[4] \"v.w\"\n"
                                 "%4 f32[4] gradient = add %0 %0 @forward layers.7.mlp.up\n"
                                 "gradient-of \"w\" %4\n";
    char wanted[512] = "graph built\nparameter %0 f32[4] \"w\" in \"all\" block 7\n";
    expect_graph_text(g, strcat(wanted, leaves));
    graph_destroy(g);
}

/* Whoever reads a dump sees the same records that the compiler had. */
static void records_of_a_model_are_parsed_back(void **state) {
    (void)state;
    model_config config = {.name = "tiny",
                           .d_model = 8,
                           .d_ff = 12,
                           .layers = 3,
                           .heads = 2,
                           .kv_heads = 1,
                           .head_dim = 4,
                           .vocab = 11,
                           .norm_eps = 1e-5,
                           .rope_theta = 10000};
    graph *g, *parsed;
    assert_int_equal(
        transformer_build(&config, &(transformer_options){.batch = 1, .context = 2}, &g), DYNO_OK);
    assert_int_equal(autodiff_append_backward(g, false), DYNO_OK);
    assert_int_equal(g->parameter_count, model_parameter_count(&config));
    text printed = {0};
    graph_print(g, &printed);
    assert_int_equal(graph_parse(text_string(&printed), &parsed), DYNO_OK);
    text_release(&printed);
    assert_int_equal(parsed->parameter_count, g->parameter_count);
    for (int i = 0; i < g->parameter_count; i++) {
        const graph_parameter *p = g->parameters[i], *q = parsed->parameters[i];
        assert_string_equal(p->name, model_parameter_at(&config, i).name);
        assert_string_equal(p->name, q->name);
        assert_int_equal(p->block, i == 0 || i > 9 * config.layers ? -1 : (i - 1) / 9);
        assert_int_equal(p->block, q->block);
        assert_string_equal(p->gradient->name, q->gradient->name);
        assert_string_equal(g->scopes[p->gradient->producer->scope].path,
                            parsed->scopes[q->gradient->producer->scope].path);
    }
    for (int i = 0; i < g->node_count; i++) {
        const graph_scope *a = &g->scopes[g->nodes[i]->scope];
        const graph_scope *b = &parsed->scopes[parsed->nodes[i]->scope];
        assert_string_equal(a->path, b->path);
        assert_true(a->block == b->block && a->part == b->part);
    }
    graph_destroy(parsed);
    graph_destroy(g);
}

/* ---- broken records ---- */

static void expect_broken(graph *g, const char *who, const char *detail) {
    expect_failure(graph_verify(g), DYNO_INVALID, who);
    expect_failure(graph_verify(g), DYNO_INVALID, "breaks the rule 'parameter'");
    expect_failure(graph_verify(g), DYNO_INVALID, detail);
    graph_destroy(g);
}

static void what_belongs_to_a_parameter_has_its_shape(void **state) {
    (void)state;
    static const struct {
        const char *text, *detail;
    } cases[] = {
        {"%1 f32[3] gradient = fill {number=1.0, type=1} @backward\ngradient-of \"w\" %1\n",
         "its gradient is [3], the parameter is [4]"},
        {"parameter %1 bf16[2,2] \"low.w\"\n", "its low copy is [2,2], the parameter is [4]"},
        {"optimizer-state %1 f32[5] \"m.w\"\n", "its first moment is [5]"},
        {"optimizer-state %1 f32[1] \"v.w\"\n", "its second moment is [1]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char source[256] = "graph g\nparameter %0 f32[4] \"w\"\n";
        expect_broken(parse(strcat(source, cases[i].text)), "parameter 'w'", cases[i].detail);
    }
}

static void parameters_have_names_of_their_own(void **state) {
    (void)state;
    expect_broken(parse("graph g\n"
                        "parameter %0 f32[4] \"w\"\n"
                        "parameter %1 f32[4] \"u\"\n"
                        "parameter %2 f32[2] \"w\"\n"),
                  "parameter 'w'", "another parameter has its name");
}

static void a_split_parameter_has_both_halves(void **state) {
    (void)state;
    static const char *const copies[] = {"", "parameter %1 f16[4] \"low.w\"\n"};
    for (int i = 0; i < 2; i++) {
        char source[256] = "graph g\nparameter %0 u16[4] \"rest.w\"\n";
        expect_broken(parse(strcat(source, copies[i])), "parameter 'w'", "it is split, but not");
    }
}

static void values_lead_back_to_their_record(void **state) {
    (void)state;
    graph *g = parse(RECORDS);
    g->values[2]->parameter = g->parameters[1];
    expect_broken(g, "parameter 'w'", "its low copy leads to no record, or to another");
    g = parse(RECORDS);
    g->parameters[1]->gradient = build_detach(g, g->values[6]);
    expect_broken(g, "parameter 'u'", "its gradient leads to no record, or to another");
    g = parse(RECORDS);
    g->values[7]->role = ROLE_ACTIVATION;
    expect_broken(g, "parameter 'u'", "its gradient cannot have the role activation");
}

static void text_that_tells_no_record_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"parameter %1 f32[4] \"u\" block -1\n", "line 3: expected a block such as 3"},
        {"parameter %1 f32[4] \"u\" block x\n", "line 3: expected a block such as 3"},
        {"input %1 f32[4] \"x\" block 1\n", "line 3: expected no block"},
        {"parameter %1 f16[4] \"low.w\" block 1\n", "line 3: expected no block"},
        {"gradient-of \"u\" %0\n", "line 3: there is no parameter 'u'"},
        {"gradient-of \"w\" %1\n", "line 3: value %1 is not defined above"},
        {"gradient-of %0\n", "line 3: expected a name in quotes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graph *g;
        char source[256] = "graph g\nparameter %0 f32[4] \"w\"\n";
        expect_failure(graph_parse(strcat(source, cases[i].line), &g), DYNO_INVALID,
                       cases[i].message);
        assert_null(g);
    }
}

/* ---- what passes do to them ---- */

static void a_replaced_gradient_moves_and_a_dropped_one_is_forgotten(void **state) {
    (void)state;
    graph *g = graph_from_text(RECORDS);
    value *before = g->parameters[1]->gradient, *after = build_detach(g, g->values[6]);
    uses *u = uses_create(g);
    uses_replace(u, before, after);
    uses_destroy(u);
    assert_ptr_equal(g->parameters[1]->gradient, after);
    assert_ptr_equal(after->parameter, g->parameters[1]);
    assert_null(before->parameter);
    assert_string_equal(after->name, "g.u");
    graph_set_order(g, g->nodes, 2); /* the detach goes */
    assert_null(g->parameters[1]->gradient);
    assert_ptr_equal(g->parameters[0]->gradient, g->values[6]);
    graph_destroy(g);
}

/* A graph that was dumped behind one pass can be taken up by the next. */
static void the_optimizer_finds_gradients_in_parsed_text(void **state) {
    (void)state;
    graph *g = graph_from_text("graph g\n"
                               "parameter %0 f32[4] \"a\"\n"
                               "parameter %1 f32[4] \"b\"\n"
                               "%2 f32[4] gradient = exp %0 @backward\n"
                               "%3 f32[4] gradient = exp %1 @backward\n"
                               "gradient-of \"a\" %3\n"
                               "gradient-of \"b\" %2\n");
    assert_int_equal(optimizer_append_adamw(g, &(optimizer_options){0}), DYNO_OK);
    assert_int_equal(graph_verify(g), DYNO_OK);
    for (int i = 0; i < 2; i++) {
        const graph_parameter *p = g->parameters[i];
        const node *update = g->nodes[g->node_count - 2 + i];
        assert_ptr_equal(update->inputs[0], p->value);
        assert_ptr_equal(update->inputs[1], p->gradient);
        assert_ptr_equal(update->inputs[2], p->first_moment);
        assert_ptr_equal(update->inputs[3], p->second_moment);
    }
    graph_destroy(g);
}

static void expect_name(const plan *p, int index, const char *name) {
    assert_in_range(index, 0, p->name_count - 1);
    assert_string_equal(p->names[index].name, name);
}

static void plans_carry_what_belongs_to_a_parameter(void **state) {
    (void)state;
    graph *g = graph_from_text(RECORDS);
    plan *p;
    assert_int_equal(lower_graph(g, target_usual(TARGET_CPU), &p), DYNO_OK);
    graph_destroy(g);
    assert_int_equal(p->parameter_count, 2);
    const plan_parameter *w = &p->parameters[0], *u = &p->parameters[1];
    assert_string_equal(w->name, "w");
    expect_name(p, w->value, "w");
    expect_name(p, w->low_copy, "low.w");
    expect_name(p, w->gradient, "g.w");
    expect_name(p, w->first_moment, "m.w");
    expect_name(p, w->second_moment, "v.w");
    assert_false(w->is_split);
    assert_string_equal(u->name, "u");
    expect_name(p, u->value, "rest.u");
    expect_name(p, u->low_copy, "low.u");
    assert_true(u->is_split);
    assert_int_equal(u->gradient, -1); /* no output: nobody may look at it */
    assert_true(u->first_moment == -1 && u->second_moment == -1);
    plan_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_leads_to_the_records_and_back),
        cmocka_unit_test(only_its_own_line_gives_a_parameter_a_block),
        cmocka_unit_test(builders_make_the_records_that_text_tells),
        cmocka_unit_test(records_of_a_model_are_parsed_back),
        cmocka_unit_test(what_belongs_to_a_parameter_has_its_shape),
        cmocka_unit_test(parameters_have_names_of_their_own),
        cmocka_unit_test(a_split_parameter_has_both_halves),
        cmocka_unit_test(values_lead_back_to_their_record),
        cmocka_unit_test(text_that_tells_no_record_is_refused),
        cmocka_unit_test(a_replaced_gradient_moves_and_a_dropped_one_is_forgotten),
        cmocka_unit_test(the_optimizer_finds_gradients_in_parsed_text),
        cmocka_unit_test(plans_carry_what_belongs_to_a_parameter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
