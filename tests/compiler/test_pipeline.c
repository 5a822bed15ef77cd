/* test_pipeline.c - what each pass leaves behind, and the dump after it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "compiler/pipeline.h"
#include "support/graph_pass.h"

static const char forward[] = "graph g\n"
                              "parameter %0 f32[2] \"w\"\n"
                              "%1 f32[2] activation = exp %0 @forward layer\n"
                              "%2 f32[1] activation = sum %1 {axes=[0]} @forward loss\n"
                              "%3 f32[] activation = reshape %2 {shape=[]} @forward loss\n"
                              "output %3 \"loss\"\n";

static plan *compile(pipeline_options options) {
    graph *g = graph_from_text(forward);
    plan *p;
    if (pipeline_compile(g, &options, &p) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    graph_destroy(g);
    return p;
}

static void each_pass_ends_with_its_phase(void **state) {
    (void)state;
    for (int extent = 0; extent < STEP_EXTENT_COUNT; extent++) {
        plan *p = compile((pipeline_options){.extent = (step_extent)extent});
        for (int i = 0; i < PHASE_COUNT; i++)
            assert_int_equal(plan_total_cost(p, (phase)i).launches > 0, i <= extent);
        for (int i = 1; i < p->launch_count; i++)
            assert_true(p->launches[i - 1].phase <= p->launches[i].phase);
        assert_int_equal(plan_find_name(p, "m.w") != NULL, extent == STEP_FULL);
        assert_int_equal(plan_find_name(p, "learning_rate") != NULL, extent == STEP_FULL);
        assert_non_null(plan_find_name(p, "loss"));
        plan_destroy(p);
    }
}

/* A backward whose gradients nobody could read would be no backward. */
static void gradients_are_kept_where_the_step_ends_with_them_or_when_asked(void **state) {
    (void)state;
    plan *backward = compile((pipeline_options){.extent = STEP_BACKWARD});
    plan *step = compile((pipeline_options){.extent = STEP_FULL});
    plan *kept = compile((pipeline_options){.extent = STEP_FULL, .keep_gradients = true});
    assert_non_null(plan_find_name(backward, "g.w"));
    assert_null(plan_find_name(step, "g.w"));
    assert_non_null(plan_find_name(kept, "g.w"));
    plan_destroy(backward);
    plan_destroy(step);
    plan_destroy(kept);
}

static void only_what_a_later_phase_reads_is_saved(void **state) {
    (void)state;
    plan *alone = compile((pipeline_options){.extent = STEP_FORWARD});
    plan *both = compile((pipeline_options){.extent = STEP_BACKWARD});
    int saved[2] = {0};
    for (int i = 0; i < alone->buffer_count; i++)
        saved[0] += alone->buffers[i].role == ROLE_SAVED;
    for (int i = 0; i < both->buffer_count; i++)
        saved[1] += both->buffers[i].role == ROLE_SAVED;
    assert_int_equal(saved[0], 0);
    assert_int_equal(saved[1], 1); /* of exp, its result */
    plan_destroy(alone);
    plan_destroy(both);
}

static void the_graph_is_dumped_after_the_pass_asked_for(void **state) {
    (void)state;
    static const struct {
        const char *pass, *has, *has_not;
    } cases[] = {{"build", "@forward layer", "@backward"},
                 {"autodiff", "@backward layer", "@optimizer"},
                 {"optimizer", "@optimizer optimizer", "@communication"}};
    for (int i = 0; i < 3; i++) {
        text dump = {0};
        plan_destroy(compile(
            (pipeline_options){.extent = STEP_FULL, .dump_after = cases[i].pass, .dump = &dump}));
        assert_non_null(strstr(text_string(&dump), cases[i].has));
        assert_null(strstr(text_string(&dump), cases[i].has_not));
        if (i == 0)
            assert_string_equal(text_string(&dump), forward);
        graph_destroy(graph_from_text(text_string(&dump))); /* what is dumped can be read back */
        text_release(&dump);
    }
}

static bool is_dumped(const char *pass, const char *wanted, pipeline_options options) {
    text dump = {0};
    options.dump_after = pass;
    options.dump = &dump;
    plan_destroy(compile(options));
    bool is_found = strstr(text_string(&dump), wanted) != NULL;
    text_release(&dump);
    return is_found;
}

/* Also where a pass has nothing to do: then it shows what it was given. */
static void every_pass_can_be_dumped_by_its_name(void **state) {
    (void)state;
    bool is_plan = false;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++, is_plan = false)
        for (int i = 0; pipeline_pass_name(i); i++) {
            is_plan = is_plan || strcmp(pipeline_pass_name(i), "lower") == 0;
            assert_true(
                is_dumped(pipeline_pass_name(i), is_plan ? "plan g" : "graph g",
                          (pipeline_options){.extent = STEP_FULL, .mode = (step_mode)mode}));
        }
    pipeline_options compiled = {.extent = STEP_FULL, .mode = STEP_COMPILED};
    assert_false(is_dumped("streams", ", static, arena ", compiled));
    assert_true(is_dumped("memory", ", static, arena ", compiled));
}

static void a_graph_that_breaks_a_rule_is_refused_with_the_pass(void **state) {
    (void)state;
    graph *g = graph_from_text(forward);
    g->values[1]->output_index = 1;
    plan *p;
    expect_failure(pipeline_compile(g, &(pipeline_options){0}, &p), DYNO_INVALID,
                   "after the pass 'build': ");
    assert_null(p);
    graph_destroy(g);
    g = graph_from_text("graph g\nparameter %0 f32[] \"w\"\n");
    expect_failure(pipeline_compile(g, &(pipeline_options){.extent = STEP_BACKWARD}, &p),
                   DYNO_INVALID, "no scalar output named 'loss'");
    assert_null(p);
    graph_destroy(g);
}

static void passes_are_known_by_name(void **state) {
    (void)state;
    step_extent extent;
    for (int i = 0; i < STEP_EXTENT_COUNT; i++) {
        assert_int_equal(step_extent_parse(step_extent_name((step_extent)i), &extent), DYNO_OK);
        assert_int_equal(extent, i);
    }
    assert_int_equal(step_extent_parse("backward", &extent), DYNO_OK);
    assert_int_equal(extent, STEP_BACKWARD);
    expect_failure(step_extent_parse("sideways", &extent), DYNO_INVALID,
                   "there is no pass 'sideways'; there are forward, forward+backward and step");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_pass_ends_with_its_phase),
        cmocka_unit_test(gradients_are_kept_where_the_step_ends_with_them_or_when_asked),
        cmocka_unit_test(only_what_a_later_phase_reads_is_saved),
        cmocka_unit_test(the_graph_is_dumped_after_the_pass_asked_for),
        cmocka_unit_test(every_pass_can_be_dumped_by_its_name),
        cmocka_unit_test(a_graph_that_breaks_a_rule_is_refused_with_the_pass),
        cmocka_unit_test(passes_are_known_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
