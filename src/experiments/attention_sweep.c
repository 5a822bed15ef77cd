#include "experiments/attention_sweep.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/units.h"
#include "measure/keys.h"
#include "measure/statistics.h"
#include "ops/op_list.h"
#include "plan/memory_formula.h"

static const attention_impl IMPLS[] = {{"naive", attention_plan_naive, false},
                                       {"flash", attention_plan_flash, true}};

const attention_impl *attention_impl_find(const char *name) {
    size_t i = 0;
    while (strcmp(IMPLS[i].name, name) != 0)
        i++;
    return &IMPLS[i];
}

void attention_sweep_add(attention_sweep *s, const attention_point *at) {
    MEMORY_GROW(s->points, s->count, s->capacity);
    s->points[s->count++] = *at;
}

dyno_status attention_sweep_plan(const attention_sweep *s, const attention_point *at, plan **out) {
    attention_plan_options options = at->options;
    options.target = &s->sweep.device->target;
    options.forward = at->forward[0] ? at->forward : NULL;
    options.backward = at->backward[0] ? at->backward : NULL;
    options.tuning = autotune_kernels(s->sweep.tuned);
    return at->impl->make_plan(&options, out);
}

/* ---- how long it takes ---- */

/* Repetitions to expect of something that takes so long. */
static int64_t expect_reps(const attention_sweep *s, double seconds) {
    if (flags_is_set(s->given, "reps"))
        return flags_integer(s->given, "reps");
    double fitting = floor(flags_real(s->given, "seconds") / seconds);
    return fitting < ATTENTION_LEAST_REPS  ? ATTENTION_LEAST_REPS
           : fitting < ATTENTION_MOST_REPS ? (int64_t)fitting
                                           : ATTENTION_MOST_REPS;
}

static double predict_cell(const attention_sweep *s, double run_seconds) {
    return run_seconds * (double)(flags_integer(s->given, "warmup") + expect_reps(s, run_seconds));
}

/* How many times its prediction a run of `at` takes, as the last measured point of the same impl,
 * mode, precision and extent did. While there is none 1, or NAN where predictions are no times because
 * no peaks were measured. */
static double learned_factor(const attention_sweep *s, const attention_point *at) {
    for (const attention_point *other = at - 1; other >= s->points; other--) {
        const attention_plan_options *a = &at->options, *b = &other->options;
        if (other->impl != at->impl || a->mode != b->mode || a->precision != b->precision ||
            a->extent != b->extent || !other->cell || other->cell->status != RESULTS_OK)
            continue;
        double median = statistics_of_series(cell_find_series(other->cell, SERIES_STEP)).median;
        return median / 1e9 / other->predicted_seconds;
    }
    return s->sweep.has_peaks ? 1 : (double)NAN;
}

/* True, and the cell says so, when it would take longer than a cell may. `run_seconds` may be NAN:
 * not known. */
static bool is_too_long(const attention_sweep *s, results_cell *cell, double run_seconds,
                        const char *how_known) {
    double limit = flags_real(s->given, "seconds-per-cell"), needed = predict_cell(s, run_seconds);
    if (limit == 0 || isnan(needed) || needed <= limit)
        return false;
    text reason = {0};
    text_format(&reason, "would take about %s: %lld runs of ", units_duration(needed).text,
                (long long)(flags_integer(s->given, "warmup") + expect_reps(s, run_seconds)));
    if (run_seconds < 1)
        text_format(&reason, "%.3f ms", run_seconds * 1e3);
    else
        text_append(&reason, units_duration(run_seconds).text);
    text_format(&reason, ", %s; --seconds-per-cell allows %s", how_known,
                units_duration(limit).text);
    cell_set_status(cell, RESULTS_SKIP, text_string(&reason));
    cell_set_metric_real(cell, METRIC_ESTIMATED_S, "s", needed);
    text_release(&reason);
    return true;
}

/* ---- planning ---- */

/* A plan that no kernel can run is a row that says so, unless all are. */
static dyno_status plan_point(attention_sweep *s, attention_point *at) {
    plan *p;
    dyno_status status = attention_sweep_plan(s, at, &p);
    if (refusals_are_of(status)) {
        refusals_add(&s->refused, status);
        at->is_refused = true;
        snprintf(at->reason, sizeof at->reason, "%s", dyno_error_message());
        return DYNO_OK;
    }
    RETURN_IF_FAILED(status);
    if (memory_account_plan(p).reserved_bytes <= s->sweep.memory_limit) {
        at->predicted_seconds = sweep_predict_seconds(&s->sweep, p, at->options.precision);
        s->sweep.work_total += predict_cell(s, at->predicted_seconds);
    }
    plan_destroy(p);
    return DYNO_OK;
}

static dyno_status plan_points(attention_sweep *s) {
    for (int i = 0; i < s->count; i++) {
        sweep_show_planning(&s->sweep, i);
        RETURN_IF_FAILED(plan_point(s, &s->points[i]));
    }
    RETURN_IF_FAILED(refusals_conclude(&s->refused, s->count));
    sweep_tell_estimate(&s->sweep, s->sweep.work_total,
                        "--seconds, --reps and --seconds-per-cell shorten it");
    return DYNO_OK;
}

/* ---- what a cell says of itself ---- */

const plan_launch *attention_find_launch(const plan *p, bool is_gradient) {
    const op *wanted = is_gradient ? &op_attention_gradient : &op_attention;
    for (int i = 0; i < p->launch_count; i++)
        if (p->launches[i].kernel && strcmp(p->launches[i].op_name, wanted->name) == 0)
            return &p->launches[i];
    return NULL;
}

/* "128x128/64x128": forward and backward, the kernel's own where none was asked for. */
static void record_tiles(const plan *p, results_cell *cell) {
    text tiles = {0};
    for (int i = 0; i < 2; i++) {
        const plan_launch *l = attention_find_launch(p, i == 1);
        if (!l)
            continue;
        launch_layouts at;
        kernel_variant all[KERNEL_MOST_VARIANTS] = {{"own"}};
        choose_kernel_describe(p, l, &at);
        if (l->kernel->variants)
            l->kernel->variants(&at.args, all);
        text_format(&tiles, "%s%s", tiles.length ? "/" : "", l->variant ? l->variant : all[0].name);
    }
    if (tiles.length)
        cell_set_text(cell, PARAM_TILES_USED, text_string(&tiles));
    text_release(&tiles);
}

static void describe_cell(const attention_sweep *s, const attention_point *at, results_cell *cell) {
    const attention_plan_options *o = &at->options;
    cell_set_text(cell, PARAM_IMPL, at->impl->name);
    cell_set_text(cell, PARAM_MODE, step_mode_name(o->mode));
    cell_set_text(cell, PARAM_CAUSAL, o->is_causal ? "yes" : "no");
    cell_set_integer(cell, PARAM_BATCH, o->shape.batch);
    cell_set_integer(cell, PARAM_HEADS, o->shape.heads);
    cell_set_integer(cell, PARAM_SEQ, o->shape.context);
    cell_set_integer(cell, PARAM_HEAD_DIM, o->shape.head_dim);
    cell_set_text(cell, PARAM_PASS, step_extent_name(o->extent));
    cell_set_text(cell, PARAM_MATH, precision_name(o->precision));
    if (at->tile[0])
        cell_set_text(cell, PARAM_TILE, at->tile);
    sweep_describe_device(&s->sweep, o->precision, cell);
    cell_set_integer(cell, PARAM_WARMUP, flags_integer(s->given, "warmup"));
    cell_set_integer(cell, PARAM_SEED, flags_integer(s->given, "seed"));
}

static void record_before_backward(const plan *p, results_cell *cell) {
    for (int i = 0; i < p->launch_count; i++)
        if (p->launches[i].phase == PHASE_BACKWARD) {
            cell_set_metric(cell, METRIC_BEFORE_BACKWARD_BYTES, "B",
                            memory_account_bytes_before(p, i));
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

/* ---- measuring ---- */

/* Untimed runs first: from them it is known how long the others will take. */
static dyno_status time_runs(attention_sweep *s, executor *e, const plan *p, results_cell *cell) {
    timing_options options = sweep_timing(&s->sweep);
    options.warmup = flags_integer(s->given, "warmup");
    options.by_events = true;
    RETURN_IF_FAILED(timing_run(e, p, &options, cell));
    if (options.warmup) {
        double seconds = statistics_of_series(cell_find_series(cell, SERIES_WARMUP)).min / 1e9;
        if (is_too_long(s, cell, seconds, "as the first one showed"))
            return DYNO_OK;
    }
    options.warmup = 0;
    if (!flags_is_set(s->given, "reps")) {
        timing_span span = {flags_real(s->given, "seconds"), ATTENTION_LEAST_REPS,
                            ATTENTION_MOST_REPS};
        RETURN_IF_FAILED(timing_run_for(e, p, &options, &span, cell));
    } else {
        options.steps = flags_integer(s->given, "reps");
        cell_set_integer(cell, PARAM_REPS, options.steps);
        RETURN_IF_FAILED(timing_run(e, p, &options, cell));
    }
    cell_set_status(cell, RESULTS_OK, "");
    return DYNO_OK;
}

/* Nothing is left of the cell before, so that each cell's memory is its own. */
static dyno_status run_cell(attention_sweep *s, const plan *p, results_cell *cell) {
    memory_pool_trim(s->pool);
    timing_reset_peak_rss();
    storage *leaves = storage_create(s->pool);
    executor *e;
    int64_t begin = clock_now_ns();
    dyno_status status = executor_create(p, s->pool, leaves, &e);
    if (status == DYNO_OK) {
        cell_set_metric(cell, METRIC_SETUP_NS, "ns", clock_now_ns() - begin);
        status = attention_fill(e, (uint64_t)flags_integer(s->given, "seed"));
        contention_watch *watch = sweep_watch(&s->sweep);
        if (status == DYNO_OK)
            status = time_runs(s, e, p, cell);
        sweep_watched(watch, cell);
        dyno_status recorded = sweep_record_memory(&s->sweep, cell, s->pool);
        status = status == DYNO_OK ? recorded : status;
        executor_destroy(e);
    }
    storage_destroy(leaves);
    return status;
}

static dyno_status measure_plan(attention_sweep *s, const attention_point *at, const plan *p) {
    memory_account account = memory_account_plan(p);
    sweep_record_plan(at->cell, p, &account);
    sweep_record_model_flops(at->cell,
                             model_flops_of_attention(&at->options.shape, at->options.is_causal),
                             at->options.extent);
    record_before_backward(p, at->cell);
    record_tiles(p, at->cell);
    if (!sweep_admit(&s->sweep, at->cell, &account)) {
        explain_oom(p, &account, at->cell);
        return DYNO_OK;
    }
    double seconds = at->predicted_seconds * learned_factor(s, at);
    if (is_too_long(s, at->cell, seconds, "as its operations and the rows before tell"))
        return DYNO_OK;
    s->sweep.step_work = at->predicted_seconds;
    dyno_status status = run_cell(s, p, at->cell);
    return status == DYNO_OK ? status : sweep_settle(at->cell, status);
}

/* Fails only when the sweep is to end; what happens to one cell is that cell's status. */
static dyno_status measure_point(attention_sweep *s, attention_point *at) {
    at->cell = results_add_cell(s->sweep.run);
    describe_cell(s, at, at->cell);
    snprintf(s->sweep.label, sizeof s->sweep.label, "%s %s, sequence %lld, head size %lld, %s %s",
             at->impl->name, step_mode_name(at->options.mode), (long long)at->options.shape.context,
             (long long)at->options.shape.head_dim, step_extent_name(at->options.extent), at->tile);
    if (at->is_refused) {
        cell_set_status(at->cell, RESULTS_SKIP, at->reason);
        return DYNO_OK;
    }
    plan *p;
    dyno_status status = attention_sweep_plan(s, at, &p);
    if (status != DYNO_OK)
        return sweep_settle(at->cell, status);
    status = measure_plan(s, at, p);
    if (at->predicted_seconds > 0)
        s->sweep.work_done += predict_cell(s, at->predicted_seconds);
    plan_destroy(p);
    return status;
}

dyno_status attention_sweep_run(attention_sweep *s) {
    s->sweep.run->planned_cells = s->count;
    RETURN_IF_FAILED(plan_points(s));
    RETURN_IF_FAILED(memory_pool_create(s->sweep.device, s->sweep.memory_limit, &s->pool));
    sweep_show_progress(&s->sweep, 0);
    dyno_status status = DYNO_OK;
    for (int i = 0; i < s->count && status == DYNO_OK; i++) {
        status = measure_point(s, &s->points[i]);
        if (status == DYNO_OK)
            experiment_keep_cell(s->sweep.context);
    }
    memory_pool_destroy(s->pool);
    return status;
}
