/* test_view_profile.c - what the tables of a profile say, from records whose times are known. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/keys.h"
#include "measure/profile_record.h"
#include "report/view.h"
#include "support/expect.h"

/* One launch: what it is and how long it takes, in us. */
typedef struct known_launch {
    const char *kernel, *op, *class_name, *scope, *phase;
    int64_t us;
    double flops, bytes;
} known_launch;

enum { STEPS = 2, US = 1000 };

/* A model of two layers, the second slower: products, softmax, a fill that takes next to nothing. */
static const known_launch FORWARD[] = {
    {"gemm", "matmul", "matmul", "layers.0.attn.scores", "forward", 30, 3e6, 1e3},
    {"scale_f32", "scale", "element-wise", "layers.0.attn.scale", "forward", 5, 1e3, 1e4},
    {"softmax_f32", "exp", "element-wise", "layers.0.attn.softmax", "forward", 25, 1e3, 1e4},
    {"gemm", "matmul", "matmul", "layers.0.attn.values", "forward", 20, 2e6, 1e3},
    {"gemm", "matmul", "matmul", "layers.1.mlp.up", "forward", 120, 4e6, 1e3},
};
static const known_launch BACKWARD[] = {
    {"fill 1.3, StdDev 7", "fill", "copy", "layers.1.mlp.up", "backward", 1, 0, 4},
    {"gemm_tn", "matmul", "matmul", "layers.1.mlp.up", "backward", 200, 8e6, 1e3},
    {"gemm", "matmul", "matmul", "layers.0.attn.scores", "backward", 99, 6e6, 1e3},
};
static const known_launch UPDATE[] = {
    {"adamw_f32", "adamw", "optimizer", "optimizer", "optimizer", 50, 1e3, 1e6},
};
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static int64_t add_launches(kernel_groups *groups, int step, int64_t at, const known_launch *all,
                            int count) {
    for (int i = 0; i < count; i++, at += all[i - 1].us * US)
        expect_ok(kernel_groups_add(groups, &(launch_record){.step = step,
                                                             .kernel = all[i].kernel,
                                                             .op = all[i].op,
                                                             .class_name = all[i].class_name,
                                                             .scope = all[i].scope,
                                                             .phase = all[i].phase,
                                                             .begin_ns = at,
                                                             .end_ns = at + all[i].us * US,
                                                             .share_ns = (double)(all[i].us * US),
                                                             .has_cost = true,
                                                             .flops = all[i].flops,
                                                             .bytes = all[i].bytes}));
    return at;
}

static results *new_run(void) {
    results *run = results_create(RUN_PROFILE, 0, NULL);
    results_set_environment_real(run, ENV_PEAK_GFLOPS, 100);
    results_set_environment_real(run, ENV_COPY_GBS, 10);
    run->is_complete = true;
    return run;
}

static results_cell *new_cell(results *run, const char *pass, const char *device, double host_us) {
    results_cell *cell = results_add_cell(run);
    cell_set_text(cell, PARAM_MODEL, "tiny");
    cell_set_integer(cell, PARAM_CONTEXT, 16);
    cell_set_text(cell, PARAM_PASS, pass);
    cell_set_text(cell, PARAM_MODE, "eager");
    cell_set_text(cell, PARAM_MATH, "fp32");
    cell_set_text(cell, PARAM_DEVICE, device);
    cell_set_status(cell, RESULTS_OK, "");
    cell_add_sample_real(cell, SERIES_STEP, "ns", host_us * US);
    cell_add_sample_real(cell, SERIES_TRACED, "ns", host_us * US * 1.5);
    cell_add_sample_real(cell, SERIES_UNTRACED, "ns", host_us * US);
    return cell;
}

/* A forward, or a whole step, on a device. */
static results_cell *add_profile(results *run, bool is_step, const char *device, double host_us) {
    results_cell *cell = new_cell(run, is_step ? "step" : "forward", device, host_us);
    int count;
    const grouping *by = profile_groupings(true, &count);
    kernel_groups *groups = kernel_groups_create(by, count);
    for (int step = 0; step < STEPS; step++) {
        int64_t at = add_launches(groups, step, 10000 * US * step, FORWARD, COUNT(FORWARD));
        if (is_step) {
            at = add_launches(groups, step, at, BACKWARD, COUNT(BACKWARD));
            add_launches(groups, step, at, UPDATE, COUNT(UPDATE));
        }
    }
    profile_record_groups(groups, STEPS, cell);
    kernel_groups_destroy(groups);
    return cell;
}

static const char *render(const results *run, table_format format) {
    static text out;
    text_release(&out);
    view_render(run, (view_options){.format = format}, &out);
    return text_string(&out);
}

static void expect_says(const results *run, const char *part) {
    const char *said = render(run, TABLE_TERMINAL);
    if (!strstr(said, part)) {
        fputs(said, stderr); /* a message is cut */
        fail_msg("no '%s'", part);
    }
}

static void expect_silent(const results *run, const char *part) {
    const char *said = render(run, TABLE_TERMINAL);
    if (strstr(said, part))
        fail_msg("'%s' is in:\n%s", part, said);
}

static void kernels_have_the_columns_of_nsys(void **state) {
    (void)state;
    results *run = new_run();
    add_profile(run, true, "cpu", 600);
    expect_says(run, "Time %  Total ms  Instances  Avg us  Med us  Min us  Max us  StdDev us");
    /* gemm: 30 + 20 + 120 + 99 us in a step, over two steps */
    expect_says(run, "  48.9     0.269          4   67.25   64.50   20.00  120.00      46.01");
    results_destroy(run);
}

/* A parser of text once took a fill of 1.3 us for the top of every backward. */
static void the_top_kernel_of_each_phase_is_found_by_launch(void **state) {
    (void)state;
    results *run = new_run();
    add_profile(run, true, "cpu", 600);
    expect_says(run,
                "the top kernel of the forward is gemm: 0.170 ms in 3 instances, 85.0 % of it");
    expect_says(run,
                "the top kernel of the backward is gemm_tn: 0.200 ms in 1 instance, 66.7 % of it");
    expect_says(run, "the top kernels of forward and backward are not the same");
    expect_says(run, "fill 1.3, StdDev 7\n");
    results_destroy(run);
    run = new_run();
    add_profile(run, false, "cpu", 300);
    expect_silent(run, "the top kernel of the backward");
    results_destroy(run);
}

static void what_is_not_a_product_is_told_by_class(void **state) {
    (void)state;
    results *run = new_run();
    add_profile(run, false, "cpu", 300);
    expect_says(run, "0.030 of 0.200 ms, 15.0 %, are not matrix products");
    expect_says(run, "element-wise  softmax       0.025    0.025      12.5         1");
    results_destroy(run);
}

static void the_share_of_products_is_that_of_inference_and_of_a_training_step(void **state) {
    (void)state;
    results *run = new_run();
    add_profile(run, false, "cpu", 300);
    expect_silent(run, "inference against one training step");
    add_profile(run, true, "cpu", 600);
    expect_says(run, "matrix products are 85.0 % of inference and 85.3 % of a training step");
    results_destroy(run);
}

/* A product of 60 us and a loss head of 40 us, of which a step has three quarters in the backward. */
static void add_compiled(results *run, const char *pass) {
    results_cell *cell = new_cell(run, pass, "cpu", 100);
    int count;
    const grouping *by = profile_groupings(true, &count);
    kernel_groups *groups = kernel_groups_create(by, count);
    launch_record product = {.kernel = "gemm",
                             .op = "matmul",
                             .class_name = "matmul",
                             .scope = "layers.0.mlp.up",
                             .phase = "forward",
                             .end_ns = 60 * US,
                             .share_ns = 60 * US};
    launch_record head = {.kernel = "loss_head_chunked",
                          .op = "loss_head",
                          .class_name = "loss",
                          .scope = "head",
                          .phase = "forward",
                          .begin_ns = 60 * US,
                          .end_ns = 100 * US,
                          .share_ns = 40 * US,
                          .backward_part = strcmp(pass, "step") == 0 ? 0.75 : 0};
    expect_ok(kernel_groups_add(groups, &product));
    expect_ok(kernel_groups_add(groups, &head));
    profile_record_groups(groups, 1, cell);
    kernel_groups_destroy(groups);
}

static void the_loss_head_has_a_product_inside_and_a_column_of_its_own(void **state) {
    (void)state;
    results *run = new_run();
    add_compiled(run, "forward");
    add_compiled(run, "step");
    expect_says(run, "matrix products are 60.0 % of inference and 60.0 % of a training step; with "
                     "the kernels that have products inside, 100.0 % and 100.0 %");
    expect_says(run, "matrix products %  attention kernels %  loss head %  others %");
    expect_says(run,
                "  its backward                0.0                  0.0        100.0       0.0");
    results_destroy(run);
}

/* Its time is divided; the least and the most are those of the launch. */
static void a_part_of_a_launch_has_no_average(void **state) {
    (void)state;
    results *run = new_run();
    add_compiled(run, "step");
    expect_says(run,
                "the top kernel of the backward is loss_head_chunked: 0.030 ms in the instance "
                "that it shares with another phase, 100.0 % of it");
    results_set_environment_text(run, ENV_SHOWN_BY, "launch");
    expect_says(
        run, "0.010    10.0           40.00   40.00   40.00"); /* not 10 us, of 40 at the least */
    results_destroy(run);
}

/* Two sentences once differed in nothing but their numbers. */
static void a_share_of_products_is_said_of_what_varies(void **state) {
    (void)state;
    static const char *const MODES[] = {"eager", "compiled"};
    results *run = new_run();
    add_profile(run, false, "cpu", 300);
    add_profile(run, true, "cpu", 600);
    expect_says(run, "tiny, context 16: matrix products are 85.0 % of inference");
    for (int i = 0; i < 2; i++) {
        results_cell *cell = add_profile(run, i == 1, "cpu", 500);
        cell_set_text(cell, PARAM_MODE, "compiled");
        cell_set_text(cell, PARAM_MATH, "bf16");
    }
    for (int i = 0; i < 2; i++) {
        char wanted[128];
        snprintf(wanted, sizeof wanted,
                 "tiny, context 16, mode %s, math %s: matrix products are 85.0 %% of inference",
                 MODES[i], i ? "bf16" : "fp32");
        expect_says(run, wanted);
    }
    results_destroy(run);
}

/* "Training" shares were once printed for runs whose backward had run out of memory. */
static void nothing_is_derived_from_a_step_that_ran_out_of_memory(void **state) {
    (void)state;
    results *run = new_run();
    add_profile(run, false, "cpu", 300);
    results_cell *step = add_profile(run, true, "cpu", 600); /* whatever was recorded until then */
    cell_set_status(step, RESULTS_OOM, "in scope 'layers.1.mlp.up'");
    expect_silent(run, "inference against one training step");
    expect_silent(run, "top kernel of the backward");
    expect_says(run, "OOM");
    expect_says(run, "in scope 'layers.1.mlp.up'");
    cell_set_status(step, RESULTS_SKIP, "flash attention needs compiled mode");
    expect_says(run, "SKIP");
    expect_says(run, "flash attention needs compiled mode");
    results_destroy(run);
}

static void inside_attention_the_ratio_of_times_stands_beside_that_of_flops(void **state) {
    (void)state;
    results *run = new_run();
    add_profile(run, false, "cpu", 300);
    expect_says(run, "forward: softmax with scale and mask takes 0.030 ms for 0.0000 GFLOP, the "
                     "products of scores and values 0.050 ms for 0.0050 GFLOP: 0.60 x the time for "
                     "0.0004 x the FLOPs");
    results_destroy(run);
}

/* In 16 bits casts once counted as products and as softmax, by the scope they stand in. */
static void inside_attention_casts_are_a_part_of_their_own(void **state) {
    (void)state;
    static const known_launch LAUNCHES[] = {
        {"cast_bf16", "cast", "element-wise", "layers.0.attn.scores", "forward", 10, 0, 1e4},
        {"gemm", "matmul", "matmul", "layers.0.attn.scores", "forward", 30, 3e6, 1e3},
        {"cast_f32", "cast", "element-wise", "layers.0.attn.scale", "forward", 4, 0, 1e4},
        {"scale_f32", "scale", "element-wise", "layers.0.attn.scale", "forward", 5, 1e3, 1e4},
        {"fused", "cast+exp", "fused", "layers.0.attn.softmax", "forward", 25, 1e3, 1e4},
        {"fused", "cast+cast", "fused", "layers.0.attn.values", "forward", 6, 0, 1e4},
        {"gemm", "matmul", "matmul", "layers.0.attn.values", "forward", 20, 2e6, 1e3}};
    results *run = new_run();
    results_cell *cell = new_cell(run, "forward", "cpu", 100);
    int count;
    const grouping *by = profile_groupings(true, &count);
    kernel_groups *groups = kernel_groups_create(by, count);
    add_launches(groups, 0, 0, LAUNCHES, COUNT(LAUNCHES));
    profile_record_groups(groups, 1, cell);
    kernel_groups_destroy(groups);
    expect_says(run, "\nforward  scores: Q K^T           0.030       30.0");
    expect_says(run, "\nforward  scale, mask, softmax    0.030       30.0");
    expect_says(run, "\nforward  values: P V             0.020       20.0");
    expect_says(run, "\nforward  casts                   0.020       20.0");
    expect_says(run, "takes 0.030 ms for 0.0000 GFLOP, the products of scores and values 0.050 ms");
    results_destroy(run);
    run = new_run();
    add_profile(run, false, "cpu", 300);
    expect_silent(run, "forward  casts");
    results_destroy(run);
}

static void what_to_speed_up_next_is_what_is_most_above_its_floor(void **state) {
    (void)state;
    results *run = new_run();
    add_profile(run, true, "cpu", 600);
    /* 200 us for 8e6 FLOP at 100 GFLOP/s: a floor of 80 us. AdamW: 1e6 B at 10 GB/s are 100 us, more
     * than it takes, so that there is nothing to gain. */
    const char *table = strstr(render(run, TABLE_TERMINAL), "what to speed up next");
    const char *first = strstr(table, "0.120          21.8             0.430    0.200     0.080  "
                                      "compute");
    assert_non_null(first);
    assert_true(first < strstr(table, "0.080          14.5"));
    table = strstr(table, "all launches are");
    assert_non_null(table);
    assert_null(strstr(strstr(render(run, TABLE_TERMINAL), "what to speed up next"), "adamw  "));
    results_destroy(run);
}

static void without_measured_rates_there_are_no_floors(void **state) {
    (void)state;
    results *run = results_create(RUN_PROFILE, 0, NULL);
    run->is_complete = true;
    add_profile(run, true, "cpu", 600);
    expect_says(run, "StdDev us  GFLOP/s  GB/s  op");
    expect_says(run, "no floors: no peak was measured");
    expect_silent(run, "roofline");
    expect_silent(run, "what to speed up next");
    results_destroy(run);
}

static void launches_of_a_scope_itself_have_a_line(void **state) {
    (void)state;
    static const known_launch LAUNCHES[] = {
        {"gemm", "matmul", "matmul", "head.up", "forward", 30, 3e6, 1e3},
        {"copy_f32", "copy", "copy", "head", "forward", 12, 0, 1e3}};
    results *run = new_run();
    results_cell *cell = new_cell(run, "forward", "cpu", 50);
    int count;
    const grouping *by = profile_groupings(true, &count);
    kernel_groups *groups = kernel_groups_create(by, count);
    add_launches(groups, 0, 0, LAUNCHES, COUNT(LAUNCHES));
    profile_record_groups(groups, 1, cell);
    kernel_groups_destroy(groups);
    expect_says(run, "\nhead             0.042    0.042  100.0         2\n"
                     "  up             0.030    0.030   71.4         1\n"
                     "  (itself)       0.012    0.012   28.6         1\n");
    results_destroy(run);
}

static void layers_are_folded_into_one_line_with_their_spread(void **state) {
    (void)state;
    results *run = new_run();
    results_set_environment_integer(run, ENV_SHOWN_DEPTH, 1);
    add_profile(run, false, "cpu", 300);
    /* 80 us in the first layer, 120 in the second */
    expect_says(run,
                "layers.*       0.200    0.200  100.0       2             0.100   0.080   0.120");
    expect_silent(run, "\n  attn");
    results_set_environment_integer(run, ENV_SHOWN_DEPTH, 2);
    expect_says(run, "\n  attn");
    expect_silent(run, "\n    softmax");
    results_set_environment_integer(run, ENV_SHOWN_DEPTH, 0);
    expect_says(run, "\nlayers.1");
    expect_says(run, "\n    softmax");
    results_destroy(run);
}

/* ---- host against device ---- */

static void a_device_that_waits_for_the_host_is_host_bound(void **state) {
    (void)state;
    results *run = new_run();
    add_profile(run, false, "cuda:0", 400); /* busy for 200 us */
    expect_says(run, "HOST-BOUND: the device is idle");
    expect_says(run, "  HOST-BOUND  ");
    expect_says(run, "faster launches alone do not shorten the step");
    results_destroy(run);
    run = new_run();
    add_profile(run, false, "cuda:0", 210);
    expect_silent(run, "  HOST-BOUND  ");
    expect_silent(run, "faster launches alone");
    results_destroy(run);
    run = new_run();
    add_profile(run, false, "cpu", 400); /* there is nobody to wait for */
    expect_silent(run, "HOST-BOUND");
    results_destroy(run);
}

static void what_tracing_costs_is_said(void **state) {
    (void)state;
    results *run = new_run();
    add_profile(run, false, "cpu", 300);
    expect_says(run, "tracing costs, % of an untraced step                          50.0");
    results_destroy(run);
}

static void a_cell_that_was_only_timed_is_incomplete(void **state) {
    (void)state;
    results *run = new_run();
    run->is_complete = false;
    add_profile(run, false, "cpu", 300);
    new_cell(run, "step", "cpu", 600);
    expect_says(run, "timed, but not traced");
    expect_says(run, "INCOMPLETE");
    results_destroy(run);
}

/* ---- what is asked for, and files ---- */

static void a_table_that_was_asked_for_is_all_that_a_file_gets(void **state) {
    (void)state;
    results *run = new_run();
    add_profile(run, false, "cpu", 300);
    add_profile(run, true, "cpu", 600);
    results_set_environment_text(run, ENV_SHOWN_BY, "phase");
    const char *csv = render(run, TABLE_CSV);
    assert_ptr_equal(strstr(csv, "model,context,pass,mode,math,device,status,note,phase,count,"),
                     csv);
    assert_non_null(strstr(csv, "tiny,16,forward,eager,fp32,cpu,OK,,forward,5,0.2,100,"));
    assert_non_null(strstr(csv, "tiny,16,step,eager,fp32,cpu,OK,,backward,3,0.3,"));
    assert_null(strstr(csv, "\r\n\r\n")); /* one table */
    expect_says(run, "phases: tiny, context 16, step");
    expect_silent(run, "what to speed up next");
    results_destroy(run);
}

static void every_way_to_group_has_its_table(void **state) {
    (void)state;
    static const char *const WAYS[][2] = {
        {"kernel", "kernels: tiny"}, {"class", "op classes: tiny"}, {"op", "ops: tiny"},
        {"scope", "scopes: tiny"},   {"phase", "phases: tiny"},     {"launch", "launches: tiny"}};
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        results *run = new_run();
        add_profile(run, true, "cpu", 600);
        results_set_environment_text(run, ENV_SHOWN_BY, WAYS[i][0]);
        expect_says(run, WAYS[i][1]);
        results_destroy(run);
    }
}

/* Whatever became of a cell, a file tells of it. */
static void a_cell_without_a_profile_is_a_row_of_the_file(void **state) {
    (void)state;
    static const char *const WAYS[] = {"kernel", "class", "op", "scope", "phase", "launch"};
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        results *run = new_run();
        add_profile(run, true, "cpu", 600);
        results_set_environment_text(run, ENV_SHOWN_BY, WAYS[i]);
        results_cell *cell = new_cell(run, "forward", "cpu", 100);
        cell_set_status(cell, RESULTS_OOM, "too large");
        const char *csv = render(run, TABLE_CSV);
        assert_non_null(strstr(csv, "tiny,16,step,eager,fp32,cpu,OK,,"));
        assert_non_null(strstr(csv, "tiny,16,forward,eager,fp32,cpu,OOM,too large,,"));
        cell_set_status(cell, RESULTS_OK, "");
        assert_non_null(strstr(render(run, TABLE_CSV),
                               "tiny,16,forward,eager,fp32,cpu,INCOMPLETE,\"timed, but not "
                               "traced\",,"));
        results_destroy(run);
    }
}

static void the_tree_is_a_table_for_files_where_its_depth_is_asked_for(void **state) {
    (void)state;
    results *run = new_run();
    add_profile(run, true, "cpu", 600);
    results_set_environment_text(run, ENV_SHOWN_BY, "scope");
    results_set_environment_integer(run, ENV_SHOWN_DEPTH, 2); /* as every record has it */
    assert_null(strstr(render(run, TABLE_CSV), "layers.*.attn,"));
    results_set_environment_integer(run, ENV_SHOWN_TREE, 1);
    const char *csv = render(run, TABLE_CSV);
    assert_non_null(strstr(csv, "OK,,layers.*.attn,"));
    assert_null(strstr(csv, "softmax"));
    results_set_environment_integer(run, ENV_SHOWN_DEPTH, 0);
    assert_non_null(strstr(render(run, TABLE_CSV), "OK,,layers.1,"));
    results_destroy(run);
}

static void rows_that_are_left_out_are_counted(void **state) {
    (void)state;
    results *run = new_run();
    results_set_environment_integer(run, ENV_SHOWN_TOP, 1);
    add_profile(run, true, "cpu", 600);
    expect_says(run, "5 more rows have 51.1 % of the time together; --top 0 shows them");
    results_set_environment_integer(run, ENV_SHOWN_TOP, 0);
    expect_silent(run, "more rows");
    results_destroy(run);
}

/* A file may be anybody's: breakdowns of another form, without columns, without rows. */
static void a_file_that_lacks_things_has_gaps(void **state) {
    (void)state;
    static const char *const NAMES[] = {BREAKDOWN_KINDS, BREAKDOWN_BY_KERNEL, BREAKDOWN_DEVICES,
                                        BREAKDOWN_SCOPES, BREAKDOWN_BY_PHASE};
    results *run = new_run();
    results_cell *cell = new_cell(run, "step", "cuda:0", 100);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        results_breakdown *b =
            cell_add_breakdown(cell, NAMES[i], (const char *const[]){"odd"}, 1,
                               (const results_column[]){{COLUMN_TIME, "pages"}}, 1);
        breakdown_add_row(b, (const char *const[]){"layers.1"},
                          (const results_value[]){results_real(-1)});
    }
    static const table_format FORMATS[] = {TABLE_TERMINAL, TABLE_MARKDOWN, TABLE_CSV, TABLE_JSON};
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++)
        assert_true(strlen(render(run, FORMATS[i])) > 0);
    static const char *const BY[] = {"kernel", "launch", "phase", "nonsense"};
    for (size_t i = 0; i < sizeof BY / sizeof *BY; i++) {
        results_set_environment_text(run, ENV_SHOWN_BY, BY[i]);
        for (size_t j = 0; j < sizeof FORMATS / sizeof *FORMATS; j++)
            render(run, FORMATS[j]);
    }
    results_destroy(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_have_the_columns_of_nsys),
        cmocka_unit_test(the_top_kernel_of_each_phase_is_found_by_launch),
        cmocka_unit_test(what_is_not_a_product_is_told_by_class),
        cmocka_unit_test(the_share_of_products_is_that_of_inference_and_of_a_training_step),
        cmocka_unit_test(the_loss_head_has_a_product_inside_and_a_column_of_its_own),
        cmocka_unit_test(a_part_of_a_launch_has_no_average),
        cmocka_unit_test(a_share_of_products_is_said_of_what_varies),
        cmocka_unit_test(nothing_is_derived_from_a_step_that_ran_out_of_memory),
        cmocka_unit_test(inside_attention_the_ratio_of_times_stands_beside_that_of_flops),
        cmocka_unit_test(inside_attention_casts_are_a_part_of_their_own),
        cmocka_unit_test(what_to_speed_up_next_is_what_is_most_above_its_floor),
        cmocka_unit_test(without_measured_rates_there_are_no_floors),
        cmocka_unit_test(launches_of_a_scope_itself_have_a_line),
        cmocka_unit_test(layers_are_folded_into_one_line_with_their_spread),
        cmocka_unit_test(a_device_that_waits_for_the_host_is_host_bound),
        cmocka_unit_test(what_tracing_costs_is_said),
        cmocka_unit_test(a_cell_that_was_only_timed_is_incomplete),
        cmocka_unit_test(a_table_that_was_asked_for_is_all_that_a_file_gets),
        cmocka_unit_test(every_way_to_group_has_its_table),
        cmocka_unit_test(a_cell_without_a_profile_is_a_row_of_the_file),
        cmocka_unit_test(the_tree_is_a_table_for_files_where_its_depth_is_asked_for),
        cmocka_unit_test(rows_that_are_left_out_are_counted),
        cmocka_unit_test(a_file_that_lacks_things_has_gaps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
