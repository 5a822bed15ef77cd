/* verb_attention.c - `dyno attention`: attention alone, timed over lengths, head sizes and ways to
 * compute it.
 *
 * A row of the table is a point of the grid. It has a cell for each of its passes, because one can
 * fit where the other does not: the forward from runs of the forward alone, and forward+backward,
 * whose runs give the backward and the whole. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/sweep.h"
#include "measure/timing.h"
#include "plan/memory_formula.h"
#include "train/attention_plan.h"

/* Ways to compute attention. */
static const struct {
    const char *name;
    dyno_status (*make_plan)(const attention_plan_options *options, plan **out);
} IMPLS[] = {{"naive", attention_plan_naive}, {"flash", attention_plan_flash}};
#define IMPL_CHOICES "naive|flash"

/* Grids worth having under a name. What the user gives comes before what they say. */
enum { MOST_SIZES = 16 };
typedef struct preset {
    const char *name;
    int64_t seqs[MOST_SIZES], head_dims[MOST_SIZES];
    int seq_count, head_dim_count;
    int64_t reps;
} preset;
static const preset PRESETS[] = {
    {"naive-table", {256, 1024, 4096, 8192, 16384}, {16, 32, 64, 128}, 5, 4, 100},
};
enum { PRESET_COUNT = sizeof PRESETS / sizeof *PRESETS };
#define PRESET_CHOICES "naive-table"

/* Without --reps: as many as fit --seconds, between these. */
enum { LEAST_REPS = 3, MOST_REPS = 100 };

static const flag_spec FLAGS[] = {
    {"impl", "LIST", FLAG_CHOICE_LIST, "naive",
     .help = "naive: the model's own ops, the scores exist in memory; flash: one op each way, they "
             "never exist together",
     .choices = IMPL_CHOICES},
    {"mode", "LIST", FLAG_CHOICE_LIST, "eager,compiled",
     .help = "eager: a launch for each op; compiled: fused kernels, memory planned beforehand",
     .choices = STEP_MODE_CHOICES},
    {"precision", "LIST", FLAG_CHOICE_LIST, "fp32", .help = "of the products; softmax stays fp32",
     .choices = PRECISION_CHOICES},
    {"causal", "LIST", FLAG_CHOICE_LIST, "no",
     .help = "yes: a query sees only keys up to its own position", .choices = "no|yes"},
    {"batch", NULL, FLAG_INTEGER, "8", .help = "sequences", .minimum = 1, .maximum = 1 << 20},
    {"heads", NULL, FLAG_INTEGER, "1", .help = "heads", .minimum = 1, .maximum = 1 << 16},
    {"seq", "LIST", FLAG_INTEGER_LIST, "256,1024,2048", .help = "sequence lengths in tokens",
     .minimum = 1, .maximum = 1 << 24},
    {"head-dim", "LIST", FLAG_INTEGER_LIST, "64", .help = "head sizes", .minimum = 1,
     .maximum = 1 << 16},
    {"preset", NULL, FLAG_CHOICE, NULL,
     .help = "naive-table: sequence 256 to 16384, head sizes 16 to 128, 100 repetitions; flags "
             "change it",
     .choices = PRESET_CHOICES},
    {"pass", "LIST", FLAG_CHOICE_LIST, "forward,backward,both",
     .help = "what to measure; backward and both come from the same runs",
     .choices = "forward|backward|both"},
    {"reps", "N", FLAG_INTEGER, NULL,
     .help = "timed repetitions; default: as many as fit --seconds, 3 to 100", .minimum = 1,
     .maximum = 1000000},
    {"seconds", "S", FLAG_REAL, "2", .help = "time for a pass of a row, when --reps is not given",
     .real_minimum = 0.001, .real_maximum = 1e6},
    {"warmup", NULL, FLAG_INTEGER, "1", .help = "untimed repetitions before the timed ones",
     .minimum = 0, .maximum = 1000000},
    {"seed", NULL, FLAG_INTEGER, "0", .help = "of Q, K, V and dO", .minimum = 0,
     .maximum = INT64_MAX},
    SWEEP_FLAGS,
};

static const flags_example EXAMPLES[] = {
    {"attention", "naive attention, eager and compiled, at three lengths"},
    {"attention --impl naive,flash --mode compiled --seq 256:4096:*2",
     "one against the other: time, and memory before the backward"},
    {"attention --seq 256:4096:*2 --head-dim 16,64 --causal no,yes --out runs/attention",
     "a grid, kept for `dyno show runs/attention`"},
    {"attention --preset naive-table --seconds 2 --memory 16GiB",
     "the table of the classic write-up; rows that do not fit say why"},
    {"attention --seq 4096 --pass forward --reps 20 --format csv", "forwards only, every digit"},
};

static const flags_verb VERB = {
    .name = "attention",
    .summary =
        "Times attention alone: O = softmax(Q K^T / sqrt(head size)) V and the gradients of Q, K "
        "and V, over the grid of --impl x --mode x --precision x --causal x --seq x --head-dim. "
        "Forward, "
        "backward and end-to-end are each measured, never added up. A row that would not fit is "
        "not run: it says OOM and which values make it. Under the table: how time grows with the "
        "length. Ctrl-C ends with what was measured so far, marked incomplete.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
};

/* One cell to measure. */
typedef struct point {
    int impl; /* into IMPLS */
    attention_plan_options options;
    double predicted_seconds; /* of one run; 0: does not fit */
} point;

typedef struct grid {
    const flags *given;
    sweep sweep;
    const preset *preset;
    point *points;
    int count, capacity;
    memory_pool *pool;
    progress *line;
    double seconds_done, seconds_total; /* as predicted */
    double run_seconds;                 /* of one run of the cell being measured, as predicted */
    int64_t runs_before;                /* runs of that cell in earlier calls of timing_run */
    char label[96];
} grid;

static int64_t given_reps(const grid *g) {
    if (flags_is_set(g->given, "reps"))
        return flags_integer(g->given, "reps");
    return g->preset && !flags_is_set(g->given, "seconds") ? g->preset->reps : 0;
}

/* Repetitions to expect of something that takes so long. */
static int64_t expect_reps(const grid *g, double seconds) {
    if (given_reps(g))
        return given_reps(g);
    double fitting = floor(flags_real(g->given, "seconds") / seconds);
    return fitting < LEAST_REPS ? LEAST_REPS : fitting < MOST_REPS ? (int64_t)fitting : MOST_REPS;
}

/* Each launch as fast as arithmetic and memory allow: what cells take relative to one another. */
static double predict_seconds(const grid *g, const plan *p) {
    const machine_peaks *peaks = &g->sweep.peaks;
    double seconds = 0;
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        double compute = l->flops / (peaks->gflops_f32 * 1e9);
        double moving = (l->bytes_read + l->bytes_written) / (peaks->bandwidth.copy * 1e9);
        seconds += compute > moving ? compute : moving;
    }
    return seconds > 1e-9 ? seconds : 1e-9;
}

static double predict_cell(const grid *g, double run_seconds) {
    return run_seconds * (double)(flags_integer(g->given, "warmup") + expect_reps(g, run_seconds));
}

static dyno_status make_plan(const grid *g, const point *at, plan **out) {
    attention_plan_options options = at->options;
    options.target = g->sweep.device->backend;
    return IMPLS[at->impl].make_plan(&options, out);
}

/* Plans every cell once, so that what cannot be built is said before anything is measured, and
 * sums the work for the progress line. */
static dyno_status plan_cells(grid *g) {
    for (int i = 0; i < g->count; i++) {
        plan *p;
        RETURN_IF_FAILED(make_plan(g, &g->points[i], &p));
        if (memory_account_plan(p).reserved_bytes <= g->sweep.memory_limit) {
            g->points[i].predicted_seconds = predict_seconds(g, p);
            g->seconds_total += predict_cell(g, g->points[i].predicted_seconds);
        }
        plan_destroy(p);
    }
    g->sweep.run->planned_cells = g->count;
    return DYNO_OK;
}

static void describe_cell(const grid *g, const point *at, results_cell *cell) {
    const attention_plan_options *o = &at->options;
    cell_set_text(cell, "impl", IMPLS[at->impl].name);
    cell_set_text(cell, "mode", step_mode_name(o->mode));
    cell_set_text(cell, "causal", o->is_causal ? "yes" : "no");
    cell_set_integer(cell, "batch", o->shape.batch);
    cell_set_integer(cell, "heads", o->shape.heads);
    cell_set_integer(cell, "seq", o->shape.context);
    cell_set_integer(cell, "head_dim", o->shape.head_dim);
    cell_set_text(cell, "pass", step_pass_name(o->pass));
    cell_set_text(cell, "math", precision_name(o->precision));
    sweep_describe_device(&g->sweep, o->precision, cell);
    cell_set_integer(cell, "warmup", flags_integer(g->given, "warmup"));
    cell_set_integer(cell, "seed", flags_integer(g->given, "seed"));
}

static void record_before_backward(const plan *p, results_cell *cell) {
    for (int i = 0; i < p->launch_count; i++)
        if (p->launches[i].phase == PHASE_BACKWARD) {
            cell_set_metric(cell, "before_backward_bytes", "B", memory_account_bytes_before(p, i));
            return;
        }
}

/* "at attn.softmax in the forward: 8 x 16384 x 16384 x 4 B x 3 = 24.00 GiB (...)". What the
 * allocator holds may be more, where freed blocks are too small for what comes next. */
static void explain_oom(const plan *p, const memory_account *account, results_cell *cell) {
    text reason = {0};
    if (account->peak_launch >= 0) {
        const plan_launch *l = &p->launches[account->peak_launch];
        text_format(&reason, "at %s in the %s: ", p->scopes[l->scope], phase_name(l->phase));
    }
    int64_t alive = memory_formula_explain(p, account->peak_launch, &reason);
    int64_t between = account->reserved_bytes - alive;
    if (between > alive / 100)
        text_format(&reason, ", and %s free in between", units_bytes(between).text);
    cell_set_status(cell, RESULTS_OOM, text_string(&reason));
    text_release(&reason);
}

static void show_progress(void *context, int64_t runs_done) {
    grid *g = context;
    progress_update(
        g->line, g->seconds_done + g->run_seconds * (double)(g->runs_before + runs_done), g->label);
}

/* One run at a time until the time is up: an estimate from the first ones would take a moment's
 * disturbance for the rule. */
static dyno_status time_for_seconds(grid *g, executor *e, const plan *p, timing_options options,
                                    results_cell *cell) {
    int64_t until = clock_now_ns() + (int64_t)(flags_real(g->given, "seconds") * 1e9);
    options.warmup = 0;
    options.steps = 1;
    for (int64_t reps = 0; reps < MOST_REPS; reps++) {
        if (reps >= LEAST_REPS && clock_now_ns() >= until)
            break;
        if (interrupt_requested())
            return dyno_fail(DYNO_INTERRUPTED, "interrupted after %lld timed repetitions",
                             (long long)reps);
        RETURN_IF_FAILED(timing_run(e, p, &options, cell));
        g->runs_before++;
        cell_set_integer(cell, "reps", reps + 1);
    }
    return DYNO_OK;
}

static dyno_status time_runs(grid *g, executor *e, const plan *p, results_cell *cell) {
    int64_t reps = given_reps(g);
    timing_options options = {.warmup = flags_integer(g->given, "warmup"),
                              .steps = reps,
                              .should_stop = interrupt_requested,
                              .on_step = show_progress,
                              .context = g};
    g->runs_before = 0;
    if (reps)
        cell_set_integer(cell, "reps", reps);
    RETURN_IF_FAILED(timing_run(e, p, &options, cell));
    if (reps)
        return DYNO_OK;
    g->runs_before = options.warmup;
    return time_for_seconds(g, e, p, options, cell);
}

/* Nothing is left of the cell before, so that each cell's memory is its own. */
static dyno_status run_cell(grid *g, const plan *p, results_cell *cell) {
    memory_pool_trim(g->pool);
    timing_reset_peak_rss();
    storage *leaves = storage_create(g->pool);
    executor *e;
    int64_t begin = clock_now_ns();
    dyno_status status = executor_create(p, g->pool, leaves, &e);
    if (status == DYNO_OK) {
        cell_set_metric(cell, "setup_ns", "ns", clock_now_ns() - begin);
        status = attention_fill(e, (uint64_t)flags_integer(g->given, "seed"));
        if (status == DYNO_OK)
            status = time_runs(g, e, p, cell);
        dyno_status recorded = sweep_record_memory(&g->sweep, cell, g->pool);
        status = status == DYNO_OK ? recorded : status;
        executor_destroy(e);
    }
    storage_destroy(leaves);
    return status;
}

/* Fails only when the sweep is to end; what happens to one cell is that cell's status. */
static dyno_status measure_cell(grid *g, const point *at) {
    results_cell *cell = results_add_cell(g->sweep.run);
    describe_cell(g, at, cell);
    snprintf(g->label, sizeof g->label, "%s %s, sequence %lld, head size %lld, %s",
             IMPLS[at->impl].name, step_mode_name(at->options.mode),
             (long long)at->options.shape.context, (long long)at->options.shape.head_dim,
             step_pass_name(at->options.pass));
    plan *p;
    dyno_status status = make_plan(g, at, &p);
    if (status != DYNO_OK)
        return sweep_settle(cell, status);
    memory_account account = memory_account_plan(p);
    sweep_record_plan(cell, p, &account);
    record_before_backward(p, cell);
    if (sweep_admit(&g->sweep, cell, &account)) {
        g->run_seconds = at->predicted_seconds;
        status = sweep_settle(cell, run_cell(g, p, cell));
        g->seconds_done += predict_cell(g, at->predicted_seconds);
    } else {
        explain_oom(p, &account, cell);
    }
    plan_destroy(p);
    return status;
}

static dyno_status measure_grid(grid *g) {
    RETURN_IF_FAILED(plan_cells(g));
    RETURN_IF_FAILED(memory_pool_create(g->sweep.device, g->sweep.memory_limit, &g->pool));
    g->line = progress_create(g->seconds_total);
    dyno_status status = DYNO_OK;
    for (int i = 0; i < g->count && status == DYNO_OK; i++)
        status = measure_cell(g, &g->points[i]);
    progress_destroy(g->line);
    memory_pool_destroy(g->pool);
    return status;
}

static bool list_has(const flags *given, const char *flag, const char *word) {
    int count;
    const char *const *words = flags_text_list(given, flag, &count);
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], word) == 0)
            return true;
    return false;
}

/* The flag's, unless it was left open and the preset has its own. */
static const int64_t *choose_sizes(const grid *g, const char *flag, const int64_t *of_preset,
                                   int preset_count, int *count) {
    if (!g->preset || flags_is_set(g->given, flag))
        return flags_list(g->given, flag, count);
    *count = preset_count;
    return of_preset;
}

static void add_point(grid *g, const point *at) {
    MEMORY_GROW(g->points, g->count, g->capacity);
    g->points[g->count++] = *at;
}

/* The ways to compute one thing, one after the other: each row's neighbours are what it is to be
 * held against. */
static dyno_status add_rows(grid *g, point at) {
    int impl_count, mode_count, precision_count;
    const char *const *impls = flags_text_list(g->given, "impl", &impl_count);
    const char *const *modes = flags_text_list(g->given, "mode", &mode_count);
    const char *const *precisions = flags_text_list(g->given, "precision", &precision_count);
    for (int i = 0; i < impl_count; i++)
        for (int way = 0; way < mode_count * precision_count; way++) {
            RETURN_IF_FAILED(
                precision_parse(precisions[way % precision_count], &at.options.precision));
            at.impl = 0;
            while (strcmp(IMPLS[at.impl].name, impls[i]) != 0)
                at.impl++;
            RETURN_IF_FAILED(step_mode_parse(modes[way / precision_count], &at.options.mode));
            at.options.pass = STEP_FORWARD;
            if (list_has(g->given, "pass", "forward"))
                add_point(g, &at);
            at.options.pass = STEP_BACKWARD;
            if (list_has(g->given, "pass", "backward") || list_has(g->given, "pass", "both"))
                add_point(g, &at);
        }
    return DYNO_OK;
}

static dyno_status choose_points(grid *g) {
    const char *wanted = flags_text(g->given, "preset");
    for (int i = 0; wanted && i < PRESET_COUNT; i++)
        if (strcmp(PRESETS[i].name, wanted) == 0)
            g->preset = &PRESETS[i];
    static const preset none;
    const preset *chosen = g->preset ? g->preset : &none;
    int seq_count, head_dim_count, causal_count;
    const int64_t *seqs = choose_sizes(g, "seq", chosen->seqs, chosen->seq_count, &seq_count);
    const int64_t *head_dims =
        choose_sizes(g, "head-dim", chosen->head_dims, chosen->head_dim_count, &head_dim_count);
    const char *const *causal = flags_text_list(g->given, "causal", &causal_count);
    int64_t batch = flags_integer(g->given, "batch"), heads = flags_integer(g->given, "heads");
    for (int c = 0; c < causal_count; c++)
        for (int d = 0; d < head_dim_count; d++)
            for (int t = 0; t < seq_count; t++) {
                attention_shape sizes = {batch, seqs[t], heads, heads, head_dims[d]};
                point at = {
                    .options = {.shape = sizes, .is_causal = strcmp(causal[c], "yes") == 0}};
                RETURN_IF_FAILED(add_rows(g, at));
            }
    return DYNO_OK;
}

int cli_attention(int argc, char **argv) {
    grid g = {0};
    flags *given;
    int exit_code;
    if (!cli_parse_flags(&VERB, argc, argv, &given, &exit_code))
        return exit_code;
    g.given = given;
    dyno_status status = choose_points(&g);
    if (status == DYNO_OK)
        status = sweep_prepare(&g.sweep, given);
    if (status == DYNO_OK) {
        status = sweep_start(&g.sweep, argc, argv);
        if (status == DYNO_OK)
            status = measure_grid(&g);
        status = sweep_finish(&g.sweep, status);
    }
    free(g.points);
    exit_code = status == DYNO_OK ? 0 : cli_report_failure(status);
    flags_destroy(given);
    return exit_code;
}
