/* test_figure.c - which figures a run has and what is in them, as text; and what becomes of them as SVG and as
 * pgfplots. */
#include "support/expect.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "measure/keys.h"
#include "report/figure.h"
#include "report/figure_ticks.h"

/* ---- a run to draw ---- */

static void add_samples(results_cell *cell, const char *series, int count, const double *ms) {
    for (int i = 0; i < count; i++)
        cell_add_sample_real(cell, series, "ms", ms[i]);
}

/* Of a bench; `settings` are pairs of parameter and text, ending with NULL. */
static results_cell *add_cell(results *run, const char *const *settings, double ms) {
    results_cell *cell = results_add_cell(run);
    for (; *settings; settings += 2)
        cell_set_text(cell, settings[0], settings[1]);
    cell_set_status(cell, RESULTS_OK, NULL);
    if (ms > 0)
        add_samples(cell, SERIES_STEP, 3, (double[]){ms, ms, 2 * ms});
    return cell;
}

static results_cell *add_bench(results *run, const char *model, const char *pass, const char *math,
                               double ms) {
    return add_cell(
        run, (const char *[]){PARAM_MODEL, model, PARAM_PASS, pass, PARAM_MATH, math, NULL}, ms);
}

/* ---- figures as text ---- */

static void append_point(const figure *f, const figure_point *p, text *out) {
    if (figure_is_bars(f))
        text_format(out, " [%s]", f->categories[(int)p->x]);
    else
        text_format(out, " %g", p->x);
    if (isnan(p->y))
        text_format(out, "=%s", p->status);
    else
        text_format(out, "=%g%s%s%s%s%s", p->y, p->is_hollow ? "h" : "",
                    strcmp(p->status, "OK") == 0 ? "" : "!",
                    strcmp(p->status, "OK") == 0 ? "" : p->status, p->label[0] ? "@" : "",
                    p->label);
}

/* "title\nname: x=y x=y\n" */
static void describe(const figure *f, text *out) {
    text_format(out, "%s\n", f->title);
    for (int i = 0; i < f->count; i++) {
        text_format(out, "%s:", f->lines[i].name);
        for (int j = 0; j < f->lines[i].count; j++)
            append_point(f, &f->lines[i].points[j], out);
        text_append(out, "\n");
    }
    if (f->limit > 0)
        text_format(out, "limit %g\n", f->limit);
    if (f->left_out)
        text_format(out, "left out %d\n", f->left_out);
}

/* Every figure is rendered as well: no figure may be one that a renderer cannot live with. */
static void expect_figures(const results *run, const char *wanted) {
    figure_list list = figure_list_create(run);
    text out = {0}, rendered = {0};
    for (int i = 0; i < list.count; i++) {
        describe(list.figures[i], &out);
        figure_append_svg(list.figures[i], &rendered);
        figure_append_tex(list.figures[i], &rendered);
    }
    assert_string_equal(text_string(&out), wanted);
    assert_null(strstr(text_string(&rendered), "nan"));
    assert_null(strstr(text_string(&rendered), "inf"));
    text_release(&out);
    text_release(&rendered);
    figure_list_release(&list);
}

static void expect_rendered(const results *run, void (*append)(const figure *f, text *out),
                            const char *part) {
    figure_list list = figure_list_create(run);
    text out = {0};
    for (int i = 0; i < list.count; i++)
        append(list.figures[i], &out);
    if (!strstr(text_string(&out), part))
        fail_msg("'%s' is not in\n%s", part, text_string(&out));
    text_release(&out);
    figure_list_release(&list);
}

/* ---- bench ---- */

static void time_over_the_context_has_a_line_for_what_varies(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    for (int i = 0; i < 2; i++)
        for (int context = 8; context <= 32; context *= 2) {
            results_cell *cell = add_bench(run, "small", i ? "step" : "forward", "fp32",
                                           context == 32 && i ? 0 : context * (i + 1));
            cell_set_integer(cell, PARAM_CONTEXT, context);
            if (context == 32 && i)
                cell_set_status(cell, RESULTS_OOM, "needs more");
        }
    expect_figures(run, "bench: time over the context\n"
                        "forward: 8=8 16=16 32=32\n"
                        "step: 8=16 16=32 32=OOM\n");
    expect_rendered(run, figure_append_svg,
                    "<title>forward, context (tokens) 8: median 8 ms; "
                    "samples 8, 8, 16</title></circle>");
    expect_rendered(run, figure_append_svg, ">OOM<title>step, context (tokens) 32: OOM</title>");
    expect_rendered(run, figure_append_tex, "(8,8) += (0,8) -= (0,0)\n");
    expect_rendered(
        run, figure_append_tex,
        "\\node[font=\\tiny,text=red] at ({axis cs:32,64}|-{rel axis cs:0,0.89}) {OOM};\n");
    results_destroy(run);
}

/* A cell that calls itself OK and has no samples is not drawn as one. */
static void an_incomplete_cell_is_named_so(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    for (int context = 8; context <= 32; context *= 2)
        cell_set_integer(add_bench(run, "small", "step", "fp32", context == 16 ? 0 : context),
                         PARAM_CONTEXT, context);
    expect_figures(run, "bench: time over the context\nbench: 8=8 16=INCOMPLETE 32=32\n");
    results_destroy(run);
}

static void one_setting_has_no_figure(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    expect_figures(run, "");
    add_bench(run, "small", "step", "fp32", 5);
    expect_figures(run, "");
    results_destroy(run);
    run = results_create("doctor", 0, NULL);
    add_bench(run, "small", "step", "fp32", 5);
    expect_figures(run, "");
    results_destroy(run);
}

/* More lines than colours: one figure for each pass. */
static void many_lines_are_split_by_pass(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    for (int i = 0; i < 20; i++) {
        char model[8] = {(char)('a' + i / 4), '\0'};
        results_cell *cell = add_bench(run, model, i % 2 ? "step" : "forward", "fp32", 1 + i);
        cell_set_integer(cell, PARAM_CONTEXT, i / 2 % 2 ? 16 : 8);
    }
    expect_figures(run, "bench: time over the context, forward\n"
                        "a: 8=1 16=3\nb: 8=5 16=7\nc: 8=9 16=11\nd: 8=13 16=15\ne: 8=17 16=19\n"
                        "bench: time over the context, step\n"
                        "a: 8=2 16=4\nb: 8=6 16=8\nc: 8=10 16=12\nd: 8=14 16=16\ne: 8=18 16=20\n");
    results_destroy(run);
}

static void warm_up_steps_are_drawn_apart_from_the_timed_ones(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    for (int warmup = 0; warmup <= 2; warmup += 2) {
        results_cell *cell = add_bench(run, "small", "step", "fp32", 0);
        cell_set_integer(cell, PARAM_WARMUP, warmup);
        add_samples(cell, SERIES_WARMUP, warmup, (double[]){9, 3});
        add_samples(cell, SERIES_STEP, 3, (double[]){warmup ? 1 : 8, 1, 2});
    }
    expect_figures(run, "bench: every step in its order\n"
                        "warmup 0: 0=8 1=1 2=2\n"
                        "warmup 2: 0=9h 1=3h 2=1 3=1 4=2\n");
    expect_rendered(run, figure_append_svg, "<circle class=\"hollow\"");
    expect_rendered(run, figure_append_svg, "<li>hollow: warm-up, which is in no mean</li>");
    expect_rendered(run, figure_append_svg, "the record in this page has the same numbers");
    expect_rendered(run, figure_append_tex, "\\begin{semilogyaxis}");
    results_destroy(run);
}

static void precisions_are_bars_for_each_pass(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    for (int i = 0; i < 8; i++) {
        results_cell *cell = add_bench(run, i < 4 ? "small" : "large", i % 2 ? "step" : "forward",
                                       i / 2 % 2 ? "bf16" : "fp32", i == 7 ? 0 : 1 + i);
        cell_set_text(cell, PARAM_GRADIENTS, i / 2 % 2 ? "bf16" : "fp32"); /* follows from it */
        if (i == 7)
            cell_set_status(cell, RESULTS_OOM, "");
    }
    expect_figures(run, "bench: time, forward\n"
                        "fp32: [small]=1 [large]=5\nbf16: [small]=3 [large]=7\n"
                        "bench: time, step\n"
                        "fp32: [small]=2 [large]=6\nbf16: [small]=4 [large]=OOM\n");
    expect_rendered(run, figure_append_svg, "<title>bf16, small: median 3 ms; samples 3, 3, 6");
    expect_rendered(run, figure_append_svg, ">OOM<title>bf16, large: OOM</title>");
    expect_rendered(run, figure_append_tex, "xbar,xmin=0");
    expect_rendered(run, figure_append_tex, "x dir=both,x explicit] coordinates");
    results_destroy(run);
}

/* What varies alone names the bars; there is nothing to have colours for. */
static void one_parameter_names_bars_of_one_colour(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    add_bench(run, "small", "step", "fp32", 4);
    add_bench(run, "small", "step", "bf16", 2);
    expect_figures(run, "bench: time\n: [fp32]=4 [bf16]=2\n");
    results_destroy(run);
}

static void recomputing_is_time_against_memory(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    for (int i = 0; i < 3; i++) {
        static const char *const ways[] = {"none", "every:2", "nested"};
        results_cell *cell = add_bench(run, "small", "step", "fp32", i == 0 ? 0 : 10 + i);
        cell_set_text(cell, PARAM_RECOMPUTE, ways[i]);
        cell_set_metric(cell, METRIC_PREDICTED_BYTES, "B", 3000 - 1000 * i);
        if (i)
            cell_set_metric(cell, METRIC_PEAK_BYTES, "B", 3001 - 1000 * i);
        else
            cell_set_status(cell, RESULTS_OOM, "");
    }
    expect_figures(run, "bench: time against peak memory\n"
                        "predicted: 1000=12h 2000=11h 3000=OOM\n"
                        "measured: 1001=12@nested 2001=11@every:2\n");
    expect_rendered(run, figure_append_svg, "peak 1001 B</title>");
    expect_rendered(run, figure_append_tex, "only marks");
    results_destroy(run);
}

static results_cell *add_ranks(results *run, const char *way, double step, double collectives,
                               double exposed) {
    results_cell *cell = add_cell(
        run, (const char *[]){PARAM_MODEL, "small", PARAM_PASS, "step", PARAM_PARALLEL, way, NULL},
        0);
    cell_set_integer(cell, PARAM_RANKS, 2);
    add_samples(cell, SERIES_STEP, 1, &step);
    if (collectives > 0) {
        add_samples(cell, SERIES_COLLECTIVES, 1, &collectives);
        add_samples(cell, SERIES_EXPOSED, 1, &exposed);
    }
    return cell;
}

static void a_step_of_several_ranks_adds_up(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    add_ranks(run, "ddp-naive", 10, 4, 4);
    add_ranks(run, "ddp-overlap", 8, 4, 1);
    add_ranks(run, "none", 6, 0, 0); /* has no communication */
    cell_set_status(add_ranks(run, "fsdp", 0, 0, 0), RESULTS_FAILED, "why");
    expect_figures(run, "bench: what a step consists of\n"
                        "computing only: [ddp-naive]=6 [ddp-overlap]=4 [fsdp]=FAILED\n"
                        "computing, communication hidden behind it: [ddp-naive]=0 [ddp-overlap]=3 "
                        "[fsdp]=FAILED\n"
                        "exposed communication: [ddp-naive]=4 [ddp-overlap]=1 [fsdp]=FAILED\n");
    expect_rendered(run, figure_append_tex, "xbar stacked");
    results_destroy(run);
}

static void add_stages(results_cell *cell, int64_t weights, int64_t state, int64_t measured) {
    static const char *const keys[] = {KEY_STAGE, KEY_KIND};
    const results_column columns[] = {{COLUMN_PREDICTED, "B"}, {COLUMN_MEASURED, "B"}};
    results_breakdown *b = cell_add_breakdown(cell, BREAKDOWN_MEMORY_STAGES, keys, 2, columns, 2);
    for (int stage = 0; stage < 2; stage++) {
        const char *at = stage ? "peak" : "after init";
        breakdown_add_row(
            b, (const char *[]){at, "parameter"},
            (results_value[]){results_integer(weights), results_integer(weights * measured)});
        breakdown_add_row(
            b, (const char *[]){at, "optimizer-state"},
            (results_value[]){results_integer(state), results_integer(state * measured)});
        breakdown_add_row(
            b, (const char *[]){at, "saved"},
            (results_value[]){results_integer(10 * stage), results_integer(10 * stage * measured)});
    }
}

static void memory_of_a_rank_is_stacked_by_kind_at_the_fullest_moment(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    add_stages(add_ranks(run, "ddp-flat", 10, 0, 0), 100, 200, 1);
    add_stages(add_ranks(run, "zero1", 10, 0, 0), 100, 50, 0); /* nothing was measured */
    add_ranks(run, "other", 10, 0, 0);
    expect_figures(run, "bench: memory of rank 0 by kind, at the fullest moment of the step\n"
                        "weights: [ddp-flat]=100 [zero1]=100\n"
                        "state: [ddp-flat]=200 [zero1]=50\n"
                        "activations: [ddp-flat]=10 [zero1]=10\n");
    expect_rendered(run, figure_append_svg, "200 B, measured, at the moment &quot;peak&quot;");
    expect_rendered(run, figure_append_svg, "50 B, predicted, at the moment &quot;peak&quot;");
    results_destroy(run);
}

/* ---- other verbs ---- */

static results_cell *add_memory(results *run, int context, int64_t bytes) {
    results_cell *cell =
        add_cell(run, (const char *[]){PARAM_MODEL, "xl", PARAM_PASS, "step", NULL}, 0);
    cell_set_integer(cell, PARAM_CONTEXT, context);
    cell_set_metric(cell, METRIC_PREDICTED_BYTES, "B", bytes);
    cell_set_metric(cell, METRIC_MEMORY_BYTES, "B", 1 << 20);
    return cell;
}

static void peaks_over_the_context_have_the_limit_of_the_device(void **state) {
    (void)state;
    results *run = results_create(RUN_MEMORY, 0, NULL);
    add_memory(run, 128, 1 << 18);
    add_memory(run, 512, 1 << 19);
    results_cell *large = add_memory(run, 2048, 1 << 21);
    cell_set_metric(large, METRIC_NEEDED_BYTES, "B", 1 << 21);
    cell_set_metric(large, METRIC_AVAILABLE_BYTES, "B", 1 << 20);
    cell_set_status(large, RESULTS_OOM, "");
    expect_figures(run, "memory: peak memory over the context\n"
                        "memory: 128=262144 512=524288 2048=2.09715e+06!OOM\n"
                        "limit 1.04858e+06\n");
    expect_rendered(run, figure_append_svg, "class=\"limit\"");
    expect_rendered(run, figure_append_svg, "dashed: memory of the device, 1 MiB");
    expect_rendered(run, figure_append_svg, "predicted; OOM needs 2.00 MiB, there is 1.00 MiB");
    expect_rendered(run, figure_append_tex, "(128,0.25)");
    results_destroy(run);
}

/* fp32 and bf16 that need the same, and do not fit. */
static void words_at_one_place_are_not_written_over_each_other(void **state) {
    (void)state;
    results *run = results_create(RUN_MEMORY, 0, NULL);
    for (int i = 0; i < 4; i++) {
        results_cell *cell = add_memory(run, i / 2 ? 2048 : 128, i / 2 ? 1 << 21 : 1 << 18);
        cell_set_text(cell, PARAM_MATH, i % 2 ? "bf16" : "fp32");
        cell_set_status(cell, i / 2 ? RESULTS_OOM : RESULTS_OK, "");
    }
    figure_list list = figure_list_create(run);
    assert_int_equal(list.count, 1);
    text out = {0};
    figure_append_svg(list.figures[0], &out);
    double x[2], y[2];
    const char *at = text_string(&out);
    for (int i = 0; i < 2; i++) {
        at = strstr(at, "class=\"missing\"");
        assert_non_null(at);
        assert_int_equal(sscanf(at, "class=\"missing\" x=\"%lf\" y=\"%lf\"", &x[i], &y[i]), 2);
        at++;
    }
    assert_true(x[0] >= x[1] && x[0] <= x[1]);
    assert_true(fabs(y[0] - y[1]) >= 12);
    text_release(&out);
    figure_list_release(&list);
    results_destroy(run);
}

/* A limit that is far away must not flatten the lines. */
static void a_limit_far_above_is_said_and_not_drawn(void **state) {
    (void)state;
    results *run = results_create(RUN_MEMORY, 0, NULL);
    add_memory(run, 128, 1 << 10);
    add_memory(run, 512, 1 << 11);
    expect_rendered(run, figure_append_svg, "far above: memory of the device, 1 MiB");
    figure_list list = figure_list_create(run);
    assert_true(figure_y_range(list.figures[0]).high < 1 << 12);
    figure_list_release(&list);
    results_destroy(run);
}

static void a_peak_at_one_size_is_stacked_by_kind(void **state) {
    (void)state;
    results *run = results_create(RUN_MEMORY, 0, NULL);
    results_cell *cell = add_memory(run, 128, 600);
    cell_set_metric(cell, METRIC_AT_PEAK_PREFIX "parameter", "B", 100);
    cell_set_metric(cell, METRIC_AT_PEAK_PREFIX "saved", "B", 300);
    cell_set_metric(cell, METRIC_AT_PEAK_PREFIX "activation", "B", 200);
    expect_figures(run, "memory: what makes the peak, from the plan\n"
                        "weights: []=100\nactivations: []=500\nlimit 1.04858e+06\n");
    results_destroy(run);
}

static void attention_has_time_and_memory_over_the_length(void **state) {
    (void)state;
    results *run = results_create(RUN_ATTENTION, 0, NULL);
    for (int i = 0; i < 4; i++) {
        bool is_flash = i >= 2;
        results_cell *cell =
            add_cell(run, (const char *[]){PARAM_IMPL, is_flash ? "flash" : "naive", NULL}, 1 + i);
        if (is_flash) /* naive has none: it does not name lines */
            cell_set_text(cell, PARAM_TILE, "auto");
        cell_set_integer(cell, PARAM_SEQ, i % 2 ? 512 : 256);
        cell_set_metric(cell, METRIC_PEAK_BYTES, "B", 100 * (1 + i));
    }
    expect_figures(run, "attention: time over the length\n"
                        "naive: 256=1 512=2\nflash: 256=3 512=4\n"
                        "attention: peak memory over the length\n"
                        "naive: 256=100 512=200\nflash: 256=300 512=400\n");
    results_destroy(run);
}

static void tiles_at_one_length_are_bars(void **state) {
    (void)state;
    results *run = results_create(RUN_ATTENTION, 0, NULL);
    add_cell(run, (const char *[]){PARAM_IMPL, "flash", PARAM_TILE, "32x32", NULL}, 3);
    add_cell(run, (const char *[]){PARAM_IMPL, "flash", PARAM_TILE, "64x32", NULL}, 2);
    expect_figures(run, "attention: time\n: [32x32]=3 [64x32]=2\n");
    results_destroy(run);
}

static results_cell *add_collective(results *run, int ranks, int bytes, double ms) {
    results_cell *cell =
        add_cell(run, (const char *[]){PARAM_OP, "all-reduce", PARAM_TRANSPORT, "shared", NULL}, 0);
    cell_set_integer(cell, PARAM_RANKS, ranks);
    cell_set_integer(cell, PARAM_BYTES, bytes);
    for (int r = 0; r < ranks && ms > 0; r++) {
        char name[32];
        snprintf(name, sizeof name, SERIES_RANK_PREFIX "%d", r);
        add_samples(cell, name, 2, (double[]){ms, ms + r});
    }
    return cell;
}

static void collectives_have_bandwidth_and_time_of_the_slowest_rank(void **state) {
    (void)state;
    results *run = results_create(RUN_ALLREDUCE, 0, NULL);
    add_collective(run, 2, 1000000, 1); /* 1 and 2 ms: 1.5 */
    add_collective(run, 2, 3000000, 1);
    add_collective(run, 4, 1000000, 0);
    cell_set_status(add_collective(run, 4, 3000000, 0), RESULTS_SKIP, "too few cores");
    expect_figures(run, "allreduce: bus bandwidth over the bytes\n"
                        "ranks 2: 1e+06=0.666667 3e+06=2\n"
                        "ranks 4: 1e+06=INCOMPLETE 3e+06=SKIP\n"
                        "allreduce: time over the bytes\n"
                        "ranks 2: 1e+06=1.5 3e+06=1.5\n"
                        "ranks 4: 1e+06=INCOMPLETE 3e+06=SKIP\n");
    expect_rendered(run, figure_append_svg, ">1 MB</text>");
    expect_rendered(run, figure_append_svg, "bytes 3 MB: median 2 GB/s; samples 3, 1.5</title>");
    results_destroy(run);
}

static void scaling_has_steps_over_ranks_and_the_most_ranks(void **state) {
    (void)state;
    results *run = results_create(RUN_SCALE, 0, NULL);
    for (int i = 0; i < 4; i++) {
        results_cell *cell =
            add_cell(run,
                     (const char *[]){PARAM_PART, i < 3 ? PART_STEP : PART_LIMIT, PARAM_PARALLEL,
                                      i < 3 ? "fsdp" : "ddp", NULL},
                     0);
        if (i < 3)
            cell_set_integer(cell, PARAM_RANKS, 8 << i);
        cell_set_metric_real(cell, METRIC_STEP_NS, "ns", 1e6 * (10 + i));
        cell_set_metric_real(cell, METRIC_COMPUTE_NS, "ns", 5e6);
        cell_set_metric_real(cell, METRIC_COLLECTIVES_NS, "ns", 4e6 + 1e6 * i);
        cell_set_metric_real(cell, METRIC_EXPOSED_NS, "ns", 1e6);
        cell_set_metric(cell, METRIC_LARGEST_RANKS, "", 848);
        cell_set_metric(cell, METRIC_STEP_TOKENS, "", 4096);
    }
    results_cell *last =
        add_cell(run, (const char *[]){PARAM_PART, PART_LIMIT, PARAM_PARALLEL, "fsdp", NULL}, 0);
    cell_set_metric(last, METRIC_LARGEST_RANKS, "", 1127);
    expect_figures(run, "scale: step time over the ranks\n"
                        "scale: 8=10 16=11 32=12h\n"
                        "scale: the most ranks before communication dominates\n"
                        ": [ddp]=848 [fsdp]=1127\n");
    expect_rendered(run, figure_append_svg, "848 ranks in a step of 4096 tokens</title>");
    results_destroy(run);
}

/* ---- limits and hostile records ---- */

static void what_is_left_out_is_said(void **state) {
    (void)state;
    results *run = results_create(RUN_ATTENTION, 0, NULL);
    for (int i = 0; i < 60; i++) {
        char tile[8];
        snprintf(tile, sizeof tile, "%dx1", i);
        add_cell(run, (const char *[]){PARAM_TILE, tile, NULL}, 1);
    }
    expect_rendered(run, figure_append_svg, "<li>12 points are left out; the table has them</li>");
    results_destroy(run);
}

/* Every model and pass a figure of its own: nobody looks at hundreds, and their number is a file's to choose. */
static void a_run_has_only_so_many_figures(void **state) {
    (void)state;
    results *run = results_create(RUN_BENCH, 0, NULL);
    for (int i = 0; i < 100; i++)
        for (int j = 0; j < 2; j++) {
            char pass[16];
            snprintf(pass, sizeof pass, "pass %d", i);
            add_bench(run, "small", pass, j ? "bf16" : "fp32", 10);
        }
    figure_list list = figure_list_create(run);
    assert_int_equal(list.count, 32);
    assert_true(list.is_cut);
    figure_list_release(&list);
    results_destroy(run);
}

/* Numbers at both ends of what a double holds: every figure is made, and rendered without inf and nan. */
static void extreme_numbers_end_and_are_drawn_as_numbers(void **state) {
    (void)state;
    static const double EXTREMES[][2] = {
        {5e-324, 5e-322}, {1.7e308, 1}, {-300, 400}, {INFINITY, 1}, {1e-310, 1e300}};
    for (size_t i = 0; i < sizeof EXTREMES / sizeof *EXTREMES; i++) {
        results *run = results_create(RUN_BENCH, 0, NULL);
        for (int j = 0; j < 3; j++) {
            results_cell *cell = add_bench(run, "small", "step", "fp32", 1);
            add_samples(cell, SERIES_STEP, 2, EXTREMES[i]);
            cell_set_real(cell, PARAM_CONTEXT, j == 0 ? EXTREMES[i][0] : 8 * j);
        }
        figure_list list = figure_list_create(run);
        text out = {0};
        for (int j = 0; j < list.count; j++) {
            figure_append_svg(list.figures[j], &out);
            figure_append_tex(list.figures[j], &out);
        }
        assert_null(strstr(text_string(&out), "nan"));
        assert_null(strstr(text_string(&out), "inf\""));
        text_release(&out);
        figure_list_release(&list);
        results_destroy(run);
    }
}

static void hostile_texts_and_numbers_are_drawn_without_harm(void **state) {
    (void)state;
    static const char evil[] = "<script>\"'&\\end{document}$%\x1b[31m";
    static const char *const verbs[] = {RUN_BENCH, RUN_ATTENTION, RUN_MEMORY, RUN_ALLREDUCE,
                                        RUN_SCALE};
    static const char *const keys[] = {PARAM_CONTEXT, PARAM_SEQ,      PARAM_BYTES,    PARAM_RANKS,
                                       PARAM_WARMUP,  PARAM_PARALLEL, PARAM_RECOMPUTE};
    const double numbers[] = {-1, 0, 1e308, 5e-324, 1};
    for (int v = 0; v < 5; v++)
        for (int k = 0; k < 7; k++) {
            results *run = results_create(verbs[v], 0, NULL);
            for (int i = 0; i < 6; i++) {
                results_cell *cell = add_bench(run, evil, i % 2 ? evil : "step", "bf16", 0);
                cell_set_text(cell, PARAM_PART, i % 2 ? PART_STEP : PART_LIMIT);
                if (i < 5)
                    cell_set_real(cell, keys[k], numbers[i]);
                else
                    cell_set_text(cell, keys[k], evil);
                cell_add_sample_real(cell, SERIES_STEP, i == 3 ? evil : "ms", numbers[i % 5]);
                cell_add_sample_real(cell, SERIES_WARMUP, "ms", numbers[i % 5]);
                cell_add_sample_real(cell, SERIES_COLLECTIVES, "ms", numbers[i % 5]);
                cell_add_sample_real(cell, SERIES_EXPOSED, "ms", numbers[(i + 1) % 5]);
                cell_set_metric_real(cell, METRIC_PEAK_BYTES, "B", numbers[i % 5]);
                cell_set_metric_real(cell, METRIC_PREDICTED_BYTES, "B", numbers[(i + 2) % 5]);
                cell_set_metric_real(cell, METRIC_AVAILABLE_BYTES, "B", numbers[i % 5]);
                cell_set_metric_real(cell, METRIC_STEP_NS, "ns", numbers[i % 5]);
                cell_set_metric_real(cell, METRIC_LARGEST_RANKS, "", numbers[i % 5]);
            }
            figure_list list = figure_list_create(run);
            text svg = {0}, tex = {0};
            for (int i = 0; i < list.count; i++) {
                figure_append_svg(list.figures[i], &svg);
                figure_append_tex(list.figures[i], &tex);
            }
            assert_null(strstr(text_string(&svg), "<script"));
            assert_null(strchr(text_string(&svg), '\x1b'));
            assert_null(strstr(text_string(&tex), "\\end{document}"));
            text_release(&svg);
            text_release(&tex);
            figure_list_release(&list);
            results_destroy(run);
        }
}

/* ---- ticks ---- */

static void expect_ticks(figure_unit unit, bool is_logarithmic, double low, double high,
                         const char *wanted) {
    figure_axis axis = {"", unit, is_logarithmic};
    double ticks[FIGURE_MOST_TICKS];
    text out = {0};
    int count = figure_ticks(&axis, (figure_range){low, high}, ticks);
    for (int i = 0; i < count; i++) {
        text_append(&out, i ? ", " : "");
        figure_append_number(&out, unit, ticks[i]);
    }
    assert_string_equal(text_string(&out), wanted);
    text_release(&out);
}

static void ticks_are_round_numbers(void **state) {
    (void)state;
    expect_ticks(FIGURE_NUMBERS, false, 0, 14, "0, 2, 4, 6, 8, 10, 12, 14");
    expect_ticks(FIGURE_NUMBERS, false, 4.9, 6.9, "5, 5.5, 6, 6.5");
    expect_ticks(FIGURE_NUMBERS, true, 0.3, 40, "0.5, 1, 2, 5, 10, 20");
    expect_ticks(FIGURE_NUMBERS, true, 0.3, 400, "1, 10, 100");
    expect_ticks(FIGURE_NUMBERS, true, 3, 4, "3, 4"); /* none is inside: the ends */
    expect_ticks(FIGURE_BINARY_BYTES, true, 7e9, 3e11,
                 "8 GiB, 16 GiB, 32 GiB, 64 GiB, 128 GiB, 256 GiB");
    expect_ticks(FIGURE_BINARY_BYTES, false, 0, 80 << 20,
                 "0 B, 16 MiB, 32 MiB, 48 MiB, 64 MiB, 80 MiB");
    expect_ticks(FIGURE_DECIMAL_BYTES, true, 1e5, 1e7,
                 "100 kB, 200 kB, 500 kB, 1 MB, 2 MB, 5 MB, 10 MB");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_over_the_context_has_a_line_for_what_varies),
        cmocka_unit_test(an_incomplete_cell_is_named_so),
        cmocka_unit_test(one_setting_has_no_figure),
        cmocka_unit_test(many_lines_are_split_by_pass),
        cmocka_unit_test(warm_up_steps_are_drawn_apart_from_the_timed_ones),
        cmocka_unit_test(precisions_are_bars_for_each_pass),
        cmocka_unit_test(one_parameter_names_bars_of_one_colour),
        cmocka_unit_test(recomputing_is_time_against_memory),
        cmocka_unit_test(a_step_of_several_ranks_adds_up),
        cmocka_unit_test(memory_of_a_rank_is_stacked_by_kind_at_the_fullest_moment),
        cmocka_unit_test(peaks_over_the_context_have_the_limit_of_the_device),
        cmocka_unit_test(words_at_one_place_are_not_written_over_each_other),
        cmocka_unit_test(a_limit_far_above_is_said_and_not_drawn),
        cmocka_unit_test(a_peak_at_one_size_is_stacked_by_kind),
        cmocka_unit_test(attention_has_time_and_memory_over_the_length),
        cmocka_unit_test(tiles_at_one_length_are_bars),
        cmocka_unit_test(collectives_have_bandwidth_and_time_of_the_slowest_rank),
        cmocka_unit_test(scaling_has_steps_over_ranks_and_the_most_ranks),
        cmocka_unit_test(what_is_left_out_is_said),
        cmocka_unit_test(a_run_has_only_so_many_figures),
        cmocka_unit_test(extreme_numbers_end_and_are_drawn_as_numbers),
        cmocka_unit_test(hostile_texts_and_numbers_are_drawn_without_harm),
        cmocka_unit_test(ticks_are_round_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
