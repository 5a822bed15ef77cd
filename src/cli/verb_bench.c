/* verb_bench.c - `dyno bench`: the full grid of models, contexts, warm-ups and passes, timed. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/threads.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/model_flags.h"
#include "cli/progress.h"
#include "measure/environment.h"
#include "measure/machine.h"
#include "measure/timing.h"
#include "plan/memory_account.h"
#include "report/view.h"
#include "train/step_plan.h"
#include "train/weights.h"

static const flag_spec FLAGS[] = {
    MODEL_FLAGS,
    BATCH_FLAG,
    {"context", "LIST", FLAG_INTEGER_LIST, "128", .help = "context lengths in tokens", .minimum = 1,
     .maximum = 1 << 24},
    {"pass", "LIST", FLAG_TEXT_LIST, "forward,forward+backward,step",
     .help = "how much of a step: forward, forward+backward (or backward), step"},
    {"warmup", "LIST", FLAG_INTEGER_LIST, "1", .help = "untimed steps before the timed ones",
     .minimum = 0, .maximum = 1000000},
    {"steps", NULL, FLAG_INTEGER, "10", .help = "timed steps", .minimum = 1, .maximum = 1000000},
    {"seed", NULL, FLAG_INTEGER, "0", .help = "of weights and tokens", .minimum = 0,
     .maximum = INT64_MAX},
    {"threads", NULL, FLAG_INTEGER, "0", .help = "threads; 0 takes every core there is",
     .minimum = 0, .maximum = 4096},
    {"mode", NULL, FLAG_CHOICE, "eager",
     .help = "eager: a launch for each op; compiled: fused kernels, memory planned beforehand",
     .choices = STEP_MODE_CHOICES},
    {"memory", "SIZE", FLAG_BYTES, NULL,
     .help = "what a cell may use; default: what the machine has free"},
    {"breakdown", NULL, FLAG_SWITCH, NULL,
     .help = "also trace steps: time by op class, kernel, phase and scope"},
    {"out", "DIR", FLAG_TEXT, NULL, .help = "keeps every sample in DIR/run.json"},
    {"format", NULL, FLAG_CHOICE, "table", .help = "how to print", .choices = TABLE_FORMAT_CHOICES},
};

static const flags_example EXAMPLES[] = {
    {"bench", "small at context 128: forward, forward+backward and whole step"},
    {"bench --model small,medium --context 128:1024:*2 --warmup 0,1,5 --out runs/grid",
     "the grid, kept for `dyno show runs/grid`"},
    {"bench --breakdown --pass step", "where the time of a step goes"},
    {"bench --model 2.7B --context 512 --memory 16GiB", "says OOM and what it would need"},
    {"bench --d-model 512 --d-ff 2048 --layers 4 --heads 8 --kv-heads 2", "a shape of your own"},
};

static const flags_verb VERB = {
    .name = "bench",
    .summary = "Times training steps over the full grid of --model x --context x --warmup x "
               "--pass, one row a cell. Warm-up steps are other samples and never averaged in. A "
               "cell that would not fit is not run: it says OOM, what it needs and what there is. "
               "Ctrl-C ends with what was measured so far, marked incomplete.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
};

typedef struct grid {
    const flags *given;
    results *run;
    const model_config *models;
    const int64_t *contexts, *warmups;
    step_pass *passes;
    int model_count, context_count, warmup_count, pass_count;
    int64_t memory_limit;
    progress *line;
    double work_done, work_total, cell_work; /* in FLOPs */
    int64_t cell_steps;
    char label[96];
} grid;

/* What is kept between the cells of one model. */
typedef struct bench_model {
    const model_config *config;
    memory_pool *pool;
    storage *shared;
    bool has_weights;
} bench_model;

static dyno_status make_plan(const grid *g, const model_config *config, int64_t context,
                             step_pass pass, plan **out) {
    step_mode mode;
    RETURN_IF_FAILED(step_mode_parse(flags_text(g->given, "mode"), &mode));
    step_options options = {.config = *config,
                            .batch = flags_integer(g->given, "batch"),
                            .context = context,
                            .pipeline = {.pass = pass,
                                         .mode = mode,
                                         .target = BACKEND_CPU,
                                         .optimizer = step_default_optimizer()}};
    return step_plan_create(&options, out);
}

/* Plans every cell once, so that what cannot be built is said before anything is measured, and
 * sums the work for the progress line. */
static dyno_status plan_cells(grid *g) {
    for (int m = 0; m < g->model_count; m++)
        for (int c = 0; c < g->context_count; c++)
            for (int i = 0; i < g->pass_count; i++) {
                plan *p;
                RETURN_IF_FAILED(make_plan(g, &g->models[m], g->contexts[c], g->passes[i], &p));
                for (int w = 0; w < g->warmup_count; w++)
                    g->work_total += plan_total_cost(p, PHASE_COUNT).flops *
                                     (double)(g->warmups[w] + flags_integer(g->given, "steps"));
                plan_destroy(p);
            }
    g->run->planned_cells =
        (int64_t)g->model_count * g->context_count * g->warmup_count * g->pass_count;
    return DYNO_OK;
}

static void describe_cell(const grid *g, results_cell *cell, const model_config *config,
                          int64_t context, int64_t warmup, step_pass pass) {
    cell_set_text(cell, "model", config->name);
    cell_set_integer(cell, "context", context);
    cell_set_integer(cell, "batch", flags_integer(g->given, "batch"));
    cell_set_integer(cell, "warmup", warmup);
    cell_set_integer(cell, "steps", flags_integer(g->given, "steps"));
    cell_set_text(cell, "pass", step_pass_name(pass));
    cell_set_text(cell, "mode", flags_text(g->given, "mode"));
    cell_set_text(cell, "math", "fp32");
    cell_set_text(cell, "device", "cpu");
    cell_set_integer(cell, "threads", threads_count());
    cell_set_integer(cell, "seed", flags_integer(g->given, "seed"));
}

static void record_plan(results_cell *cell, const plan *p, const memory_account *account,
                        int64_t tokens) {
    plan_cost all = plan_total_cost(p, PHASE_COUNT);
    cell_set_metric(cell, "tokens", "", tokens);
    cell_set_metric(cell, "launches", "", all.launches);
    cell_set_metric_real(cell, "flops", "FLOP", all.flops);
    cell_set_metric_real(cell, "bytes_moved", "B", all.bytes_read + all.bytes_written);
    for (int i = 0; i < PHASE_COUNT; i++) {
        plan_cost part = plan_total_cost(p, (phase)i);
        char name[64];
        snprintf(name, sizeof name, "%s_flops", phase_name((phase)i));
        if (part.launches)
            cell_set_metric_real(cell, name, "FLOP", part.flops);
    }
    cell_set_metric(cell, "predicted_bytes", "B", account->peak_bytes);
    cell_set_metric(cell, "predicted_reserved_bytes", "B", account->reserved_bytes);
}

/* Random tokens, and a learning rate that hardly moves the weights which the cells share. */
static void fill_inputs(const executor *e, const model_config *config, uint64_t seed) {
    static const char *const names[] = {"tokens", "targets"};
    for (int i = 0; i < 2; i++) {
        rng_stream random = rng_stream_init(seed, rng_hash_name(names[i]));
        tensor ids = executor_find(e, names[i]);
        for (int64_t j = 0; j < shape_elements(&ids.shape); j++)
            ((int32_t *)ids.data)[j] =
                (int32_t)(rng_bits(random, (uint64_t)j) % (uint64_t)config->vocab);
    }
    tensor rate = executor_find(e, "learning_rate"), step = executor_find(e, "step");
    if (rate.data)
        *(double *)rate.data = 1e-6;
    if (step.data)
        *(int64_t *)step.data = 1;
}

static void show_progress(void *context, int64_t steps_done) {
    grid *g = context;
    progress_update(g->line, g->work_done + g->cell_work * (double)steps_done, g->label);
}

/* Weights are drawn once per model. All else that the cell before left goes back first, so that
 * each cell's memory is its own. */
static dyno_status run_cell(grid *g, bench_model *m, const plan *p, int64_t warmup,
                            results_cell *cell) {
    storage_keep_parameters(m->shared, p);
    memory_pool_trim(m->pool);
    timing_reset_peak_rss();
    executor *e;
    RETURN_IF_FAILED(executor_create(p, m->pool, m->shared, &e));
    uint64_t seed = (uint64_t)flags_integer(g->given, "seed");
    if (!m->has_weights) {
        weights_init(m->shared, m->config, seed);
        m->has_weights = true;
    }
    fill_inputs(e, m->config, seed);
    timing_options options = {.warmup = warmup,
                              .steps = flags_integer(g->given, "steps"),
                              .should_stop = interrupt_requested,
                              .on_step = show_progress,
                              .context = g};
    dyno_status status = timing_run(e, p, &options, cell);
    cell_set_metric(cell, "peak_bytes", "B", memory_pool_peak_taken_bytes(m->pool));
    cell_set_metric(cell, "reserved_bytes", "B", memory_pool_reserved_bytes(m->pool));
    cell_set_metric(cell, "rss_bytes", "B", timing_peak_rss_bytes());
    if (status == DYNO_OK && flags_switch(g->given, "breakdown"))
        status = timing_break_down(e, p, &options, cell);
    executor_destroy(e);
    return status;
}

/* Fails only when the sweep is to end; what happens to one cell is that cell's status. */
static dyno_status measure_cell(grid *g, bench_model *m, int64_t context, int64_t warmup,
                                step_pass pass) {
    results_cell *cell = results_add_cell(g->run);
    describe_cell(g, cell, m->config, context, warmup, pass);
    snprintf(g->label, sizeof g->label, "%s, context %lld, %s", m->config->name,
             (long long)context, step_pass_name(pass));
    plan *p;
    dyno_status status = make_plan(g, m->config, context, pass, &p);
    if (status != DYNO_OK) {
        cell_set_status(cell, RESULTS_FAILED, dyno_error_message());
        return DYNO_OK;
    }
    memory_account account = memory_account_plan(p);
    record_plan(cell, p, &account, flags_integer(g->given, "batch") * context);
    g->cell_work = plan_total_cost(p, PHASE_COUNT).flops;
    if (account.reserved_bytes > g->memory_limit) {
        cell_set_status(cell, RESULTS_OOM, "");
        cell_set_metric(cell, "needed_bytes", "B", account.reserved_bytes);
        cell_set_metric(cell, "available_bytes", "B", g->memory_limit);
    } else {
        status = run_cell(g, m, p, warmup, cell);
        if (status == DYNO_OK)
            cell_set_status(cell, RESULTS_OK, "");
        else if (status == DYNO_OUT_OF_MEMORY)
            cell_set_status(cell, RESULTS_OOM, dyno_error_message());
        else
            cell_set_status(cell, status == DYNO_INTERRUPTED ? RESULTS_INCOMPLETE : RESULTS_FAILED,
                            dyno_error_message());
    }
    g->work_done += g->cell_work * (double)(warmup + flags_integer(g->given, "steps"));
    plan_destroy(p);
    return status == DYNO_INTERRUPTED ? status : DYNO_OK;
}

static dyno_status measure_model(grid *g, const model_config *config) {
    bench_model m = {.config = config};
    RETURN_IF_FAILED(memory_pool_create(g->memory_limit, &m.pool));
    m.shared = storage_create(m.pool);
    dyno_status status = DYNO_OK;
    for (int c = 0; c < g->context_count && status == DYNO_OK; c++)
        for (int w = 0; w < g->warmup_count && status == DYNO_OK; w++)
            for (int i = 0; i < g->pass_count && status == DYNO_OK; i++)
                status = measure_cell(g, &m, g->contexts[c], g->warmups[w], g->passes[i]);
    storage_destroy(m.shared);
    memory_pool_destroy(m.pool);
    return status;
}

static dyno_status measure_grid(grid *g) {
    machine_peaks peaks;
    RETURN_IF_FAILED(machine_peaks_get(threads_count(), &peaks));
    results_set_environment_real(g->run, "peak_gflops", peaks.gflops_f32);
    results_set_environment_real(g->run, "read_gbs", peaks.bandwidth.read);
    results_set_environment_real(g->run, "copy_gbs", peaks.bandwidth.copy);
    RETURN_IF_FAILED(plan_cells(g));
    g->line = progress_create(g->work_total);
    dyno_status status = DYNO_OK;
    for (int m = 0; m < g->model_count && status == DYNO_OK; m++)
        status = measure_model(g, &g->models[m]);
    progress_destroy(g->line);
    /* Somebody else may have been busy when the sweep began; the better of two is the peak. */
    double again = machine_measure_peak_flops_f32(threads_count());
    if (again > peaks.gflops_f32)
        results_set_environment_real(g->run, "peak_gflops", again);
    g->run->is_complete = status == DYNO_OK;
    return status;
}

static dyno_status parse_passes(grid *g) {
    const char *const *names = flags_text_list(g->given, "pass", &g->pass_count);
    g->passes = memory_allocate((size_t)g->pass_count, sizeof *g->passes);
    for (int i = 0; i < g->pass_count; i++)
        RETURN_IF_FAILED(step_pass_parse(names[i], &g->passes[i]));
    return DYNO_OK;
}

static dyno_status prepare(grid *g, model_config **models) {
    threads_set_count((int)flags_integer(g->given, "threads"));
    RETURN_IF_FAILED(model_flags_resolve(g->given, models, &g->model_count));
    g->models = *models;
    g->contexts = flags_list(g->given, "context", &g->context_count);
    g->warmups = flags_list(g->given, "warmup", &g->warmup_count);
    RETURN_IF_FAILED(parse_passes(g));
    if (flags_text(g->given, "out"))
        RETURN_IF_FAILED(file_make_output_directory(flags_text(g->given, "out")));
    g->memory_limit = flags_bytes(g->given, "memory");
    if (!flags_is_set(g->given, "memory"))
        g->memory_limit = memory_pool_available_bytes();
    return DYNO_OK;
}

/* Shows and keeps whatever there is, also after an interruption. */
static dyno_status publish(const grid *g, table_format format) {
    text out = {0};
    view_render(g->run, (view_options){.format = format, .is_bold = table_wants_bold()}, &out);
    cli_print(&out);
    text_release(&out);
    const char *directory = flags_text(g->given, "out");
    return directory ? results_write(g->run, directory) : DYNO_OK;
}

int cli_bench(int argc, char **argv) {
    grid g = {0};
    flags *given;
    int exit_code;
    if (!cli_parse_flags(&VERB, argc, argv, &given, &exit_code))
        return exit_code;
    g.given = given;
    model_config *models = NULL;
    table_format format;
    dyno_status status = table_format_parse(flags_text(given, "format"), &format);
    if (status == DYNO_OK)
        status = prepare(&g, &models);
    if (status == DYNO_OK) {
        interrupt_install();
        g.run = results_create("bench", argc, (const char *const *)argv);
        environment_capture(g.run);
        status = measure_grid(&g);
        if (status == DYNO_OK || status == DYNO_INTERRUPTED) {
            dyno_status published = publish(&g, format);
            status = published == DYNO_OK ? status : published;
        }
        results_destroy(g.run);
    }
    free(models);
    free(g.passes);
    exit_code = status == DYNO_OK ? 0 : cli_report_failure(status);
    flags_destroy(given);
    return exit_code;
}
