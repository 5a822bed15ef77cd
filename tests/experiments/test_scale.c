/* test_scale.c - `dyno scale` piece by piece: ways, times of launches, tensor parallelism, limits. */
#include "support/expect.h"

#include <math.h>
#include <string.h>

#include <stdlib.h>

#include "base/memory.h"
#include "experiments/scale_measure.h"
#include "experiments/scale_step.h"
#include "measure/keys.h"
#include "model/parameters.h"
#include "plan/memory_account.h"
#include "support/small_model.h"

static void expect_near(double found, double expected) {
    if (!(fabs(found - expected) <= 1e-6 * fabs(expected)))
        fail_msg("%.12g, not %.12g", found, expected);
}

/* ---- ways ---- */

static void ways_are_those_of_the_compiler_and_two_on_paper(void **state) {
    (void)state;
    scale_way way;
    expect_ok(scale_way_parse("ddp-bucket", &way));
    assert_string_equal(way.name, "ddp-bucket:25");
    assert_false(way.is_tensor);
    expect_ok(scale_way_parse("tp", &way));
    assert_true(way.is_tensor && way.is_tensor_alone);
    expect_ok(scale_way_parse("fsdp+tp:4", &way));
    assert_true(way.is_tensor && !way.is_tensor_alone && way.group == 4);
    assert_int_equal(way.parallel.mode, PARALLEL_FSDP);
    static const char *const bad[] = {"",           "pp",        "tp:4",
                                      "fsdp+tp:",   "fsdp+tp:1", "fsdp+tp:x",
                                      "fsdp+tp:-2", "fsdp+tpx",  "fsdp+tp:9999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (scale_way_parse(bad[i], &way) != DYNO_INVALID)
            fail_msg("'%s' was taken", bad[i]);
}

static void ranks_are_divided_into_groups(void **state) {
    (void)state;
    model_config config = small_model_fixed;
    config.heads = 16;
    scale_way way;
    scale_division division;
    expect_ok(scale_way_parse("fsdp", &way));
    expect_ok(scale_way_divide(&way, 64, 8, &config, &division));
    assert_true(division.group == 1 && division.groups == 64);
    expect_ok(scale_way_parse("tp", &way));
    expect_ok(scale_way_divide(&way, 16, 8, &config, &division));
    assert_true(division.group == 16 && division.groups == 1);
    assert_int_equal(scale_way_divide(&way, 32, 8, &config, &division), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "16 heads"));
    expect_ok(scale_way_parse("fsdp+tp", &way)); /* groups are nodes */
    expect_ok(scale_way_divide(&way, 64, 8, &config, &division));
    assert_true(division.group == 8 && division.groups == 8);
    assert_int_equal(scale_way_divide(&way, 12, 8, &config, &division), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "whole groups"));
}

/* ---- times ---- */

static plan *two_launches(void) {
    plan *p = plan_create("by hand");
    p->micro_batches = 1;
    static const char *scopes[] = {"layers.1.mlp"};
    p->scopes = scopes;
    p->scope_count = 1;
    static const double flops[] = {4e9, 1e6}, bytes[] = {1e6, 8e6};
    for (int i = 0; i < 2; i++) {
        plan_launch *l = plan_add_launch(p, 0, 0);
        l->kernel_name = i ? "add_f32" : "matmul_f32";
        l->op_name = l->class_name = i ? "add" : "matmul";
        l->phase = PHASE_FORWARD;
        l->flops = flops[i];
        l->bytes_read = bytes[i];
        l->workspace = -1;
    }
    plan_finish(p);
    return p;
}

/* 1 TFLOP/s, 1 GB/s, 5 us to start a launch. */
static const target_rates RATES = {.fp32 = 1e12, .memory = 1e9, .launch = 5e-6};

static void a_launch_takes_the_longer_of_flops_and_bytes(void **state) {
    (void)state;
    plan *p = two_launches();
    double ns[2];
    assert_int_equal(scale_times_of_plan(p, &RATES, NULL, ns), 0);
    expect_near(ns[0], 4e6);
    expect_near(ns[1], 8e6);
    p->launches[0].flops = p->launches[0].bytes_read = 1;
    assert_int_equal(scale_times_of_plan(p, &RATES, NULL, ns), 0);
    expect_near(ns[0], 5e3); /* no launch is shorter than its start */
    plan_destroy(p);
}

static void a_profile_gives_the_mean_of_launches_that_are_alike(void **state) {
    (void)state;
    results *run = results_create(RUN_PROFILE, 0, NULL);
    results_cell *cell = results_add_cell(run);
    static const char *const keys[] = {KEY_PLANNED, KEY_OP, KEY_SCOPE, KEY_PHASE};
    static const results_column columns[] = {{COLUMN_TIME, "ns"}, {COLUMN_COUNT, ""}};
    results_breakdown *kinds = cell_add_breakdown(cell, BREAKDOWN_KINDS, keys, 4, columns, 2);
    const char *products[] = {"matmul_f32", "matmul", "layers.*.mlp", "forward"};
    const char *others[] = {"matmul_f32", "matmul", "layers.*.mlp", "backward"};
    breakdown_add_row(kinds, products, (results_value[]){results_real(900), results_integer(3)});
    breakdown_add_row(kinds, others, (results_value[]){results_real(7), results_integer(1)});
    scale_profile profile = {.run = run, .kinds = kinds};
    plan *p = two_launches();
    double ns[2];
    assert_int_equal(scale_times_of_plan(p, &RATES, &profile, ns), 1); /* the sum is not in it */
    expect_near(ns[0], 300);
    expect_near(ns[1], 8e6);
    plan_destroy(p);
    scale_profile_release(&profile);
}

static void ranks_share_the_memory_s_bandwidth(void **state) {
    (void)state;
    plan *p = two_launches();
    p->launches[0].bytes_read = 1000;
    p->launches[1].bytes_read = 8000;
    /* 1 and 8 bytes a ns: one rank alone gets 8, all of them together 10. */
    scale_host host = {.cores = 2,
                       .ranks = 2,
                       .threads = 1,
                       .alone_bytes_a_second = 8e9,
                       .all_bytes_a_second = 10e9};
    plan_add_buffer(p, &(plan_buffer){.bytes = 64, .is_persistent = true}); /* more than no cache */
    double ns[2] = {1000, 1000};
    scale_share_memory(p, &host, ns);
    expect_near(ns[0], 1000);
    expect_near(ns[1], 1600); /* 2 x 8 of 10 */
    ns[1] = 1000;
    p->launches[1].bytes_read = 9000; /* more than the memory gives: from a cache */
    scale_share_memory(p, &host, ns);
    expect_near(ns[1], 1000);
    p->launches[1].bytes_read = 8000;
    p->target.l3_bytes = 1 << 20; /* all of it fits */
    scale_share_memory(p, &host, ns);
    expect_near(ns[1], 1000);
    plan_destroy(p);
}

/* ---- steps ---- */

static const network NETWORK = {.inside = 1e9, .across = 1e8, .per_node = 4, .latency_ns = 0};

static step_options options_of(int64_t ranks, parallel_mode mode) {
    step_options options = small_model_step(&small_model_fixed, 2, 8, STEP_FULL);
    options.pipeline.mode = STEP_COMPILED;
    options.pipeline.is_unfused = true;
    options.pipeline.micro_batches = 1;
    options.pipeline.parallel = (parallel_options){.mode = mode, .ranks = ranks};
    return options;
}

static scale_step replay(const step_options *options, scale_division division) {
    plan *p;
    scale_step step;
    expect_ok(step_plan_create(options, &p));
    double *ns = memory_allocate((size_t)p->launch_count, sizeof *ns);
    for (int i = 0; i < p->launch_count; i++)
        ns[i] = p->launches[i].op_name && strstr(p->launches[i].op_name, "all_") ? 0 : 1000;
    scale_question asked = {.options = options, .division = division, .network = &NETWORK};
    scale_step_replay(p, &asked, ns, &step);
    free(ns);
    plan_destroy(p);
    return step;
}

static void bytes_and_memory_of_a_step_are_the_plan_s(void **state) {
    (void)state;
    step_options options = options_of(4, PARALLEL_DDP_FLAT);
    plan *p;
    expect_ok(step_plan_create(&options, &p));
    scale_step step = replay(&options, (scale_division){1, 4});
    expect_near(step.bytes_sent, plan_total_cost(p, PHASE_COUNT).bytes_sent);
    assert_int_equal(step.memory_bytes, memory_account_plan(p).reserved_bytes);
    assert_int_equal(step.tokens, 4 * 2 * 8);
    /* Nothing overlaps: what is sent at 1 byte a ns, behind what is computed. */
    expect_near(step.collectives_ns, step.bytes_sent);
    expect_near(step.step_ns, step.compute_ns + step.collectives_ns);
    plan_destroy(p);
}

static void
tensor_parallel_divides_the_plan_of_one_rank_and_sums_the_residual_stream(void **state) {
    (void)state;
    step_options options = options_of(1, PARALLEL_FSDP);
    scale_step one = replay(&options, (scale_division){1, 1});
    scale_step four = replay(&options, (scale_division){4, 1});
    /* batch 2 x context 8 x d_model, 4 bytes; two all-reduces a block in forward and in backward */
    double residual = 2 * 8 * (double)small_model_fixed.d_model * 4;
    double sums = 4 * (double)small_model_fixed.layers * 1.5 * residual;
    expect_near(four.compute_ns, one.compute_ns / 4);
    expect_near(four.bytes_sent, sums);
    expect_near(four.collectives_ns, sums);
    expect_near(four.exposed_ns, sums);
    expect_near(four.step_ns, four.compute_ns + sums);
    expect_near(four.flops, one.flops / 4);
    assert_int_equal(four.tokens, one.tokens);
    double whole = 2 * (double)small_model_fixed.layers * residual;
    double memory = fmin((double)one.memory_bytes, (double)one.memory_bytes / 4 + 0.75 * whole);
    assert_true(fabs((double)four.memory_bytes - memory) <= 1);
}

static void groups_send_their_parts_between_nodes(void **state) {
    (void)state;
    step_options options = options_of(2, PARALLEL_FSDP);
    scale_step plain = replay(&options, (scale_division){1, 2});
    scale_step groups = replay(&options, (scale_division){4, 2});
    step_options alone = options_of(1, PARALLEL_FSDP);
    scale_step group = replay(&alone, (scale_division){4, 1});
    expect_near(groups.bytes_sent, plain.bytes_sent / 4 + group.bytes_sent);
    /* Two ranks of other groups are on two nodes: a tenth of the bandwidth. */
    expect_near(groups.collectives_ns, 10 * plain.collectives_ns / 4 + group.collectives_ns);
    assert_int_equal(groups.tokens, plain.tokens);
}

static void limits_are_made_of_the_plans(void **state) {
    (void)state;
    step_options options = options_of(1, PARALLEL_FSDP);
    limits_model m;
    expect_ok(scale_limits_model(&options, 64, 1e9, &m));
    double parameters = (double)model_parameter_elements(&small_model_fixed);
    plan *p;
    expect_ok(step_plan_create(&options, &p));
    expect_near(m.forward_flops, plan_total_cost(p, PHASE_FORWARD).flops * 4); /* 64 of 16 tokens */
    expect_near(m.backward_flops, plan_total_cost(p, PHASE_BACKWARD).flops * 4);
    expect_near(m.residual_bytes, 64 * (double)small_model_fixed.d_model * 4);
    /* fp32, the loss beside the gradients, lists padded for two ranks */
    assert_true(m.gradient_bytes >= 4 * parameters && m.gradient_bytes <= 4 * parameters + 64);
    assert_true(m.weight_bytes >= 4 * parameters && m.weight_bytes <= 4 * parameters + 4096);
    plan_destroy(p);
}

/* ---- measuring ---- */

static void launches_of_many_ranks_are_timed_in_one_process(void **state) {
    (void)state;
    scale_measure *m;
    expect_ok(scale_measure_create(2, true, &m));
    for (int64_t ranks = 1; ranks <= 3; ranks++) {
        step_options options = options_of(ranks, PARALLEL_FSDP);
        plan *p;
        expect_ok(step_plan_create(&options, &p));
        double *ns = memory_allocate((size_t)p->launch_count, sizeof *ns);
        expect_ok(scale_measure_plan(m, p, &small_model_fixed, 1, ns));
        int collectives = 0;
        for (int i = 0; i < p->launch_count; i++) {
            collective_op which;
            bool is_collective = network_launch_is_collective(&p->launches[i], &which);
            collectives += is_collective;
            assert_true(is_collective ? ns[i] == 0 : ns[i] >= 0 && ns[i] < 1e10);
        }
        assert_true((collectives > 0) == (ranks > 1));
        free(ns);
        plan_destroy(p);
    }
    scale_measure_destroy(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ways_are_those_of_the_compiler_and_two_on_paper),
        cmocka_unit_test(ranks_are_divided_into_groups),
        cmocka_unit_test(a_launch_takes_the_longer_of_flops_and_bytes),
        cmocka_unit_test(a_profile_gives_the_mean_of_launches_that_are_alike),
        cmocka_unit_test(ranks_share_the_memory_s_bandwidth),
        cmocka_unit_test(bytes_and_memory_of_a_step_are_the_plan_s),
        cmocka_unit_test(tensor_parallel_divides_the_plan_of_one_rank_and_sums_the_residual_stream),
        cmocka_unit_test(groups_send_their_parts_between_nodes),
        cmocka_unit_test(limits_are_made_of_the_plans),
        cmocka_unit_test(launches_of_many_ranks_are_timed_in_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
