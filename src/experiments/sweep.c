#include "experiments/sweep.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/stop.h"
#include "base/threads.h"
#include "base/units.h"
#include "measure/environment.h"
#include "measure/gpu.h"
#include "measure/keys.h"
#include "measure/plan_record.h"

dyno_status sweep_prepare(sweep *s, const flags *given, const experiment_context *context,
                          results *run) {
    *s = (sweep){.given = given, .context = context, .run = run};
    int threads = (int)flags_integer(given, "threads");
    RETURN_IF_FAILED(threads_check(threads));
    threads_set_count(threads);
    RETURN_IF_FAILED(experiment_start(context)); /* a GPU's driver makes threads of its own */
    RETURN_IF_FAILED(
        device_open_as(flags_text(given, "device"), flags_text(given, "target"), &s->device));
    s->tuned = autotune_create(&s->device->target);
    s->memory_limit = flags_is_set(given, "memory")
                          ? flags_bytes(given, "memory")
                          : s->device->functions->available_bytes(s->device);
    return DYNO_OK;
}

static bool is_cpu(const sweep *s) { return s->device->target.kind == TARGET_CPU; }

static dyno_status measure_gpu(sweep *s) {
    RETURN_IF_FAILED(gpu_measure(s->device, s->run, &s->rates));
    s->peaks = (machine_peaks){.gflops_f32 = s->rates.fp32 * 1e3,
                               .bandwidth = {.copy = s->rates.copy_gb_s}};
    return DYNO_OK;
}

/* Where products of bf16 are slower than those of fp32, bf16 is converted and fp32 is its peak. */
static void keep_better_peaks(sweep *s, double fp32, machine_peak bf16) {
    if (fp32 > s->peaks.gflops_f32)
        s->peaks.gflops_f32 = fp32;
    if (bf16.gflops > s->bf16.gflops)
        s->bf16 = bf16;
    results_set_environment_real(s->run, ENV_PEAK_GFLOPS, s->peaks.gflops_f32);
    if (s->bf16.gflops > s->peaks.gflops_f32) {
        results_set_environment_real(s->run, ENV_PEAK_BF16_GFLOPS, s->bf16.gflops);
        results_set_environment_text(s->run, ENV_PEAK_BF16_BY, s->bf16.by);
    }
}

static machine_peak measure_bf16(const sweep *s) {
    bool has_rows = flags_list_has(s->given, "precision", precision_name(PRECISION_BF16));
    return has_rows ? machine_measure_peak_bf16(&s->device->target, threads_count())
                    : (machine_peak){0};
}

static dyno_status measure_cpu(sweep *s) {
    RETURN_IF_FAILED(machine_peaks_get(&s->device->target, threads_count(), &s->peaks));
    RETURN_IF_FAILED(stop_check("measuring the machine"));
    keep_better_peaks(s, s->peaks.gflops_f32, measure_bf16(s));
    results_set_environment_real(s->run, ENV_READ_GBS, s->peaks.bandwidth.read);
    results_set_environment_real(s->run, ENV_COPY_GBS, s->peaks.bandwidth.copy);
    return DYNO_OK;
}

dyno_status sweep_start(sweep *s) {
    environment_capture(s->run);
    results_set_environment_text(s->run, ENV_DEVICE, s->device->description);
    results_set_environment_text(s->run, ENV_TARGET, s->device->target.name);
    RETURN_IF_FAILED(stop_check("measuring the machine"));
    if (!is_cpu(s))
        RETURN_IF_FAILED(gpu_describe(s->device, s->run));
    if (strcmp(flags_text(s->given, "peaks"), "none") == 0)
        return DYNO_OK;
    RETURN_IF_FAILED(is_cpu(s) ? measure_cpu(s) : measure_gpu(s));
    s->has_peaks = true;
    return DYNO_OK;
}

dyno_status sweep_finish(sweep *s, dyno_status status) {
    /* Somebody else may have been busy when the sweep began; the better of two is the peak. Whoever
     * asked to stop does not wait for the second. */
    if (is_cpu(s) && s->has_peaks && status == DYNO_OK)
        keep_better_peaks(s, machine_measure_peak_flops_f32(&s->device->target, threads_count()),
                          measure_bf16(s));
    sweep_close(s);
    return status;
}

void sweep_close(sweep *s) {
    autotune_destroy(s->tuned);
    s->tuned = NULL;
    device_close(s->device);
    s->device = NULL;
}

bool sweep_should_stop(void *s) { return experiment_should_stop(((const sweep *)s)->context); }

void sweep_show_progress(void *of, int64_t steps_done) {
    const sweep *s = of;
    double done = s->work_done + s->step_work * (double)steps_done;
    experiment_progress(s->context, done < s->work_total ? done : s->work_total, s->work_total,
                        s->label);
}

void sweep_show_planning(sweep *s, int64_t cells_done) {
    enum { PAUSE_NS = 500000000 };
    int64_t now = clock_now_ns(), cells = s->run->planned_cells;
    if (s->planning_since_ns == 0)
        s->planning_since_ns = s->planning_shown_ns = now;
    if (now - s->planning_shown_ns < PAUSE_NS)
        return;
    if (s->planning_shown_ns == s->planning_since_ns)
        experiment_note(s->context,
                        "%lld cells are planned before the first is measured, which takes about %s",
                        (long long)cells,
                        units_duration((double)(now - s->planning_since_ns) / 1e9 * (double)cells /
                                       (double)cells_done)
                            .text);
    s->planning_shown_ns = now;
    snprintf(s->label, sizeof s->label, "planning cell %lld of %lld", (long long)cells_done + 1,
             (long long)cells);
    experiment_progress(s->context, 0, 1, s->label);
}

double sweep_predict_seconds(const sweep *s, const plan *p, precision math) {
    static const double ASSUMED_GFLOPS = 100, ASSUMED_COPY_GB_S = 10;
    double flops_a_second = 1e9 * (s->has_peaks ? sweep_peak_gflops(s, math) : ASSUMED_GFLOPS);
    double bytes_a_second = 1e9 * (s->has_peaks ? s->peaks.bandwidth.copy : ASSUMED_COPY_GB_S);
    double seconds = 0;
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        double compute = l->flops / flops_a_second;
        double moving = (l->bytes_read + l->bytes_written) / bytes_a_second;
        seconds += plan_launch_times(p, i) * (compute > moving ? compute : moving);
    }
    return seconds > 1e-9 ? seconds : 1e-9;
}

void sweep_tell_estimate(const sweep *s, double seconds, const char *way_out) {
    enum { LONG_SECONDS = 60 };
    if (!s->has_peaks) {
        if (s->run->planned_cells > 1)
            experiment_note(s->context, "%lld cells", (long long)s->run->planned_cells);
        return;
    }
    bool is_long = seconds > LONG_SECONDS;
    if (s->run->planned_cells > 1 || is_long)
        experiment_note(s->context,
                        "%lld cell%s; at this machine's peak rates this takes %s, often longer%s%s",
                        (long long)s->run->planned_cells, s->run->planned_cells == 1 ? "" : "s",
                        seconds < 1 ? "less than a second" : units_duration(seconds).text,
                        is_long && way_out ? "; " : "", is_long && way_out ? way_out : "");
}

timing_options sweep_timing(sweep *s) {
    return (timing_options){
        .should_stop = sweep_should_stop, .on_step = sweep_show_progress, .context = s};
}

double sweep_peak_gflops(const sweep *s, precision math) {
    if (is_cpu(s))
        return math == PRECISION_BF16 && s->bf16.gflops > s->peaks.gflops_f32 ? s->bf16.gflops
                                                                              : s->peaks.gflops_f32;
    double tflops = math == PRECISION_BF16   ? s->rates.bf16
                    : math == PRECISION_FP16 ? s->rates.fp16
                    : math == PRECISION_TF32 ? s->rates.tf32
                                             : s->rates.fp32;
    return tflops * 1e3;
}

void sweep_describe_device(const sweep *s, precision math, results_cell *cell) {
    cell_set_text(cell, PARAM_DEVICE, s->device->name);
    if (is_cpu(s)) /* the environment has its peak */
        cell_set_integer(cell, PARAM_THREADS, threads_count());
    else if (s->has_peaks)
        cell_set_metric_real(cell, METRIC_PEAK_GFLOPS, "GFLOP/s", sweep_peak_gflops(s, math));
}

contention_watch *sweep_watch(const sweep *s) {
    return is_cpu(s) ? contention_begin("/proc") : NULL;
}

void sweep_watched(contention_watch *watch, results_cell *cell) {
    if (!watch)
        return;
    contention seen = contention_end(watch);
    contention_record(&seen, cell);
}

void sweep_record_plan(results_cell *cell, const plan *p, const memory_account *account) {
    plan_record_cost(p, cell);
    cell_set_metric(cell, METRIC_SAVED_BYTES, "B", memory_account_saved_bytes(p));
    cell_set_metric(cell, METRIC_PREDICTED_BYTES, "B", account->peak_bytes);
    cell_set_metric(cell, METRIC_PREDICTED_RESERVED_BYTES, "B", account->reserved_bytes);
    if (p->memory_mode == PLAN_MEMORY_STATIC)
        cell_set_metric(cell, METRIC_ARENA_BYTES, "B", p->arena_bytes);
}

void sweep_record_model_flops(results_cell *cell, model_flops flops, step_extent extent) {
    bool has_backward = extent != STEP_FORWARD;
    cell_set_metric_real(cell, METRIC_MODEL_FLOPS, "FLOP",
                         flops.forward + (has_backward ? flops.backward : 0));
    cell_set_metric_real(cell, METRIC_MODEL_FORWARD_FLOPS, "FLOP", flops.forward);
    if (has_backward)
        cell_set_metric_real(cell, METRIC_MODEL_BACKWARD_FLOPS, "FLOP", flops.backward);
}

dyno_status sweep_record_memory(const sweep *s, results_cell *cell, const memory_pool *pool) {
    cell_set_metric(cell, METRIC_PEAK_BYTES, "B", memory_pool_peak_taken_bytes(pool));
    cell_set_metric(cell, METRIC_RESERVED_BYTES, "B", memory_pool_reserved_bytes(pool));
    cell_set_metric(cell, METRIC_RSS_BYTES, "B", timing_peak_rss_bytes());
    if (is_cpu(s))
        return DYNO_OK;
    cell_set_metric(cell, METRIC_COMMITTED_BYTES, "B", memory_pool_committed_bytes(pool));
    return gpu_record_memory(s->device, cell);
}

bool sweep_admit(const sweep *s, results_cell *cell, const memory_account *account) {
    if (account->reserved_bytes <= s->memory_limit)
        return true;
    cell_set_status(cell, RESULTS_OOM, "");
    cell_set_metric(cell, METRIC_NEEDED_BYTES, "B", account->reserved_bytes);
    cell_set_metric(cell, METRIC_AVAILABLE_BYTES, "B", s->memory_limit);
    return false;
}

dyno_status sweep_settle(results_cell *cell, dyno_status status) {
    if (status == DYNO_OK)
        cell_set_status(cell, RESULTS_OK, "");
    else if (status == DYNO_OUT_OF_MEMORY)
        cell_set_status(cell, RESULTS_OOM, dyno_error_message());
    else /* records that were lost (DYNO_CORRUPT): what is there is not all of it */
        cell_set_status(cell,
                        status == DYNO_INTERRUPTED || status == DYNO_CORRUPT ? RESULTS_INCOMPLETE
                                                                             : RESULTS_FAILED,
                        dyno_error_message());
    return status == DYNO_INTERRUPTED ? status : DYNO_OK;
}
