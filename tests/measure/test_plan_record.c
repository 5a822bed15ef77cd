/* test_plan_record.c - what a plan says of itself before it runs: FLOPs by scope and by phase. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "measure/plan_record.h"
#include "plan/memory_account.h"
#include "support/expect.h"
#include "support/small_model.h"

static plan *plan_step(step_mode mode, step_extent extent) {
    step_options options = small_model_step(&small_model_fixed, 2, 5, extent);
    options.keep_logits = false; /* compiled, a loss head then takes the place of the logits */
    options.pipeline.keep_gradients = false;
    options.pipeline.mode = mode;
    plan *p;
    expect_ok(step_plan_create(&options, &p));
    return p;
}

static double metric(const results_cell *cell, const char *name) {
    const results_metric *found = cell_find_metric(cell, name);
    return found ? results_number(&found->value) : 0;
}

/* FLOPs of the last product and the loss in one phase; their scopes are "head" and "loss". */
static double end_of_model(const results_cell *cell, const char *column) {
    const results_breakdown *b = cell_find_breakdown(cell, BREAKDOWN_BY_SCOPE);
    double flops = 0;
    for (int64_t i = 0; i < b->row_count; i++)
        for (int j = 0; j < b->column_count; j++)
            if (strcmp(b->columns[j].name, column) == 0 &&
                (strcmp(b->rows[i].keys[0], "head") == 0 ||
                 strcmp(b->rows[i].keys[0], "loss") == 0))
                flops += results_number(&b->rows[i].values[j]);
    return flops;
}

static void the_loss_head_has_in_each_phase_the_flops_of_eager(void **state) {
    (void)state;
    for (int extent = STEP_FORWARD; extent < STEP_EXTENT_COUNT; extent++) {
        results *run = results_create("plan", 0, NULL);
        results_cell *cells[STEP_MODE_COUNT];
        for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
            plan *p = plan_step((step_mode)mode, (step_extent)extent);
            plan_record(p, 0, cells[mode] = results_add_cell(run));
            plan_destroy(p);
        }
        static const char *const phases[] = {COLUMN_FORWARD, COLUMN_BACKWARD};
        for (int i = 0; i < 2; i++) {
            double eager = end_of_model(cells[STEP_EAGER], phases[i]);
            double compiled = end_of_model(cells[STEP_COMPILED], phases[i]);
            assert_int_equal(eager > 0, i == 0 || extent > STEP_FORWARD);
            /* The mean over the tokens and its gradient are a few FLOPs in either phase. */
            assert_true(fabs(compiled - eager) <= 0.02 * eager);
        }
        results_destroy(run);
    }
}

static void phases_add_up_and_launches_of_two_are_told(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        plan *p = plan_step((step_mode)mode, STEP_FULL);
        results *run = results_create("plan", 0, NULL);
        results_cell *cell = results_add_cell(run);
        plan_record_cost(p, cell);
        double sum = 0, launches = 0;
        for (int i = 0; i < PHASE_COUNT; i++) {
            sum += plan_total_cost(p, (phase)i).flops;
            launches += plan_total_cost(p, (phase)i).launches;
        }
        assert_true(fabs(sum - metric(cell, METRIC_FLOPS)) <= 1e-9 * sum);
        assert_true(launches == metric(cell, METRIC_LAUNCHES));
        assert_true(fabs(metric(cell, METRIC_FORWARD_FLOPS) + metric(cell, METRIC_BACKWARD_FLOPS) +
                         metric(cell, METRIC_OPTIMIZER_FLOPS) - sum) <= 1e-9 * sum);
        assert_true(metric(cell, METRIC_SPLIT_LAUNCHES) == (mode == STEP_COMPILED));
        for (int i = 0; i < p->launch_count; i++) {
            const plan_launch *l = &p->launches[i];
            double share = 0;
            for (int f = 0; f < PHASE_COUNT; f++)
                share += plan_launch_share(l, (phase)f);
            assert_true(fabs(share - 1) < 1e-12);
            assert_int_equal(plan_launch_share(l, l->phase) < 1,
                             strcmp(l->op_name, "loss_head") == 0);
        }
        results_destroy(run);
        plan_destroy(p);
    }
}

static void casts_are_counted_where_they_are_launches(void **state) {
    (void)state;
    static const struct {
        const char *op_name;
        bool is_cast;
    } names[] = {{"cast", true},           {"cast+cast", true},  {"cast+multiply", false},
                 {"multiply+cast", false}, {"broadcast", false}, {"cas", false},
                 {"cast+", false}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(plan_launch_is_cast(&(plan_launch){.op_name = names[i].op_name}),
                         names[i].is_cast);
    for (int math = PRECISION_FP32; math <= PRECISION_BF16; math++) {
        step_options options = small_model_step(&small_model_fixed, 2, 5, STEP_FULL);
        options.pipeline.precision = (precision)math;
        plan *p;
        expect_ok(step_plan_create(&options, &p));
        results *run = results_create("plan", 0, NULL);
        results_cell *cell = results_add_cell(run);
        plan_record_cost(p, cell);
        assert_int_equal(metric(cell, METRIC_CAST_LAUNCHES) > 0, math == PRECISION_BF16);
        results_destroy(run);
        plan_destroy(p);
    }
}

static void
what_waits_for_the_backward_is_less_when_compiled_and_nothing_in_a_forward(void **state) {
    (void)state;
    plan *forward = plan_step(STEP_EAGER, STEP_FORWARD), *eager = plan_step(STEP_EAGER, STEP_FULL),
         *compiled = plan_step(STEP_COMPILED, STEP_FULL);
    assert_int_equal(memory_account_saved_bytes(forward), 0);
    assert_true(memory_account_saved_bytes(compiled) > 0);
    assert_true(memory_account_saved_bytes(eager) > memory_account_saved_bytes(compiled));
    plan_destroy(forward);
    plan_destroy(eager);
    plan_destroy(compiled);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_head_has_in_each_phase_the_flops_of_eager),
        cmocka_unit_test(phases_add_up_and_launches_of_two_are_told),
        cmocka_unit_test(casts_are_counted_where_they_are_launches),
        cmocka_unit_test(
            what_waits_for_the_backward_is_less_when_compiled_and_nothing_in_a_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
