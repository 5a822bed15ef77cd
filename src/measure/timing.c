#include "measure/timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "measure/keys.h"
#include "plan/scope.h"

/* Without what the host takes before and after, which is in the last phase. */
static step_times without_host(const plan *p, step_times times) {
    if (p->launch_count) {
        times.total_ns -= times.outside_ns;
        times.phase_ns[p->launches[p->launch_count - 1].phase] -= times.outside_ns;
    }
    return times;
}

static void add_step(results_cell *cell, const plan *p, const step_times *times) {
    char together[64] = "";
    cell_add_sample(cell, SERIES_STEP, "ns", times->total_ns);
    if (times->communication_ns) {
        cell_add_sample(cell, SERIES_COLLECTIVES, "ns", times->communication_ns);
        cell_add_sample(cell, SERIES_EXPOSED, "ns", times->exposed_ns);
    }
    for (int i = 0; i < PHASE_COUNT; i++) {
        int launches = plan_total_cost(p, (phase)i).launches;
        if (!launches || launches == plan_total_cost(p, PHASE_COUNT).launches)
            continue;
        if (times->phase_ns[i]) {
            cell_add_sample(cell, phase_name((phase)i), "ns", times->phase_ns[i]);
        } else {
            size_t used = strlen(together);
            snprintf(together + used, sizeof together - used, "%s%s", used ? "+" : "",
                     phase_name((phase)i));
        }
    }
    if (times->together_ns)
        cell_add_sample(cell, together, "ns", times->together_ns);
}

dyno_status timing_run(executor *e, const plan *p, const timing_options *options,
                       results_cell *cell) {
    for (int64_t i = 0; i < options->warmup + options->steps; i++) {
        step_times times;
        bool is_stopped = options->should_stop && options->should_stop(options->context);
        dyno_status status = is_stopped ? DYNO_INTERRUPTED : executor_run(e, NULL, &times);
        if (status == DYNO_INTERRUPTED) /* before this step, or in it */
            return dyno_fail(status, "interrupted after %lld of %lld steps", (long long)i,
                             (long long)(options->warmup + options->steps));
        RETURN_IF_FAILED(status);
        if (!cell_find_metric(cell, METRIC_FIRST_STEP_NS))
            cell_set_metric(cell, METRIC_FIRST_STEP_NS, "ns", times.total_ns);
        if (options->by_events)
            times = without_host(p, times);
        if (i < options->warmup)
            cell_add_sample(cell, SERIES_WARMUP, "ns", times.total_ns);
        else
            add_step(cell, p, &times);
        if (options->on_step)
            options->on_step(options->context, i + 1);
    }
    return DYNO_OK;
}

/* Steps done before, beside what timing_run counts. */
typedef struct counting {
    const timing_options *options;
    int64_t before;
} counting;

static void count_step(void *context, int64_t steps_done) {
    const counting *c = context;
    if (c->options->on_step)
        c->options->on_step(c->options->context, c->before + steps_done);
}

static bool should_stop(void *context) {
    const counting *c = context;
    return c->options->should_stop && c->options->should_stop(c->options->context);
}

dyno_status timing_run_for(executor *e, const plan *p, const timing_options *options,
                           const timing_span *span, results_cell *cell) {
    counting count = {.options = options};
    timing_options part = *options;
    part.on_step = count_step;
    part.should_stop = should_stop;
    part.context = &count;
    part.steps = 0;
    RETURN_IF_FAILED(timing_run(e, p, &part, cell));
    count.before = options->warmup;
    part.warmup = 0;
    part.steps = 1;
    int64_t until = clock_now_ns() + (int64_t)(span->seconds * 1e9);
    for (int64_t reps = 0; reps < span->most; reps++) {
        if (reps >= span->least && clock_now_ns() >= until)
            break;
        if (should_stop(&count))
            return dyno_fail(DYNO_INTERRUPTED, "interrupted after %lld timed repetitions",
                             (long long)reps);
        RETURN_IF_FAILED(timing_run(e, p, &part, cell));
        count.before++;
        cell_set_integer(cell, PARAM_REPS, reps + 1);
    }
    return DYNO_OK;
}

/* ---- where the time of a step goes ---- */

/* What one key (a class, a phase, a scope) took in an average step. */
typedef struct share {
    char key[SCOPE_TEXT_BYTES];
    double time_ns, running_ns;
    int64_t count;
    double flops, bytes;
} share;

typedef struct shares {
    share *items;
    int count, capacity;
} shares;

/* Of an average traced step. Times of launches add up to the step, but for what lies between. */
typedef struct traced_step {
    double *time_ns;    /* by launch */
    double *running_ns; /* by launch, where several may have run at once; else NULL */
    double step_ns;
} traced_step;

static share *find_share(shares *all, const char *key) {
    for (int i = 0; i < all->count; i++)
        if (strcmp(all->items[i].key, key) == 0)
            return &all->items[i];
    MEMORY_GROW(all->items, all->count, all->capacity);
    share *s = &all->items[all->count++];
    *s = (share){0};
    snprintf(s->key, sizeof s->key, "%s", key);
    return s;
}

static int longest_first(const void *a, const void *b) {
    double x = ((const share *)a)->time_ns, y = ((const share *)b)->time_ns;
    return (x < y) - (x > y);
}

static void write_breakdown(results_cell *cell, const char *name, const char *key, shares *all,
                            const traced_step *traced) {
    static const results_column columns[] = {{COLUMN_TIME, "ns"},
                                             {COLUMN_COUNT, ""},
                                             {COLUMN_FLOPS, "FLOP"},
                                             {COLUMN_BYTES, "B"},
                                             {COLUMN_RUNNING, "ns"}};
    results_breakdown *table =
        cell_add_breakdown(cell, name, &key, 1, columns, traced->running_ns ? 5 : 4);
    qsort(all->items, (size_t)all->count, sizeof *all->items, longest_first);
    share between = {.key = "(between launches)", .time_ns = traced->step_ns};
    for (int i = 0; i < all->count; i++)
        between.time_ns -= all->items[i].time_ns;
    for (int i = 0; i <= all->count; i++) {
        const share *s = i < all->count ? &all->items[i] : &between;
        const char *keys[] = {s->key};
        results_value values[] = {results_real(s->time_ns), results_integer(s->count),
                                  results_real(s->flops), results_real(s->bytes),
                                  results_real(s->running_ns)};
        breakdown_add_row(table, keys, values);
    }
    free(all->items);
}

/* "attention_avx512 64x128": with the variant, where it is not the kernel's own choice. */
static scope_text name_launch(const plan_launch *l) {
    scope_text name;
    snprintf(name.text, sizeof name.text, "%s%s%s", l->kernel_name, l->variant ? " " : "",
             l->variant ? l->variant : "");
    return name;
}

/* Adds `part`, from 0 to 1, of what launch i of the plan took. */
static void add_part(share *to, const plan *p, const traced_step *traced, int i, double part) {
    const plan_launch *l = &p->launches[i];
    int times = plan_launch_times(p, i);
    to->time_ns += part * traced->time_ns[i];
    to->running_ns += traced->running_ns ? part * traced->running_ns[i] : 0;
    to->flops += part * times * l->flops;
    to->bytes += part * times * (l->bytes_read + l->bytes_written);
}

/* A launch of two phases is counted in its own, and its time and cost are divided by FLOPs. */
static void write_breakdowns(const plan *p, const traced_step *traced, results_cell *cell) {
    double cast_ns = 0;
    enum { BY_CLASS, BY_KERNEL, BY_PHASE, BY_SCOPE, TABLES };
    static const char *const NAMES[TABLES] = {[BY_CLASS] = BREAKDOWN_BY_CLASS,
                                              [BY_KERNEL] = BREAKDOWN_BY_KERNEL,
                                              [BY_PHASE] = BREAKDOWN_BY_PHASE,
                                              [BY_SCOPE] = BREAKDOWN_BY_SCOPE};
    static const char *const KEYS[TABLES] = {[BY_CLASS] = KEY_CLASS,
                                             [BY_KERNEL] = KEY_KERNEL,
                                             [BY_PHASE] = KEY_PHASE,
                                             [BY_SCOPE] = KEY_SCOPE};
    shares all[TABLES] = {{0}};
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        scope_text scope = scope_fold_layers(p->scopes[l->scope]);
        scope_text kernel_name = name_launch(l);
        const char *keys[TABLES] = {l->class_name, kernel_name.text, phase_name(l->phase),
                                    scope.text};
        for (int j = 0; j < TABLES; j++) {
            share *s = find_share(&all[j], keys[j]);
            s->count += plan_launch_times(p, i);
            if (j != BY_PHASE)
                add_part(s, p, traced, i, 1);
        }
        for (int f = 0; f < PHASE_COUNT; f++)
            if (plan_launch_share(l, (phase)f) > 0)
                add_part(find_share(&all[BY_PHASE], phase_name((phase)f)), p, traced, i,
                         plan_launch_share(l, (phase)f));
    }
    for (int i = 0; i < p->launch_count; i++)
        cast_ns += plan_launch_is_cast(&p->launches[i]) ? traced->time_ns[i] : 0;
    cell_set_metric_real(cell, METRIC_CAST_NS, "ns", cast_ns);
    for (int j = 0; j < TABLES; j++)
        write_breakdown(cell, NAMES[j], KEYS[j], &all[j], traced);
}

static dyno_status check_stop(const timing_options *options, int64_t done, int64_t steps) {
    if (options->should_stop && options->should_stop(options->context))
        return dyno_fail(DYNO_INTERRUPTED, "interrupted after %lld of %lld traced steps",
                         (long long)done, (long long)steps);
    return DYNO_OK;
}

/* ---- launch by launch ---- */

static dyno_status trace_steps(executor *e, const plan *p, const timing_options *options,
                               results_cell *cell, traced_step *traced) {
    int64_t steps = options->steps, total_ns = 0, in_launches_ns = 0;
    trace *t = trace_create(p->launch_count);
    dyno_status status = executor_run(e, t, NULL); /* first use of pages and libraries */
    for (int64_t step = 0; step < steps && status == DYNO_OK; step++) {
        status = check_stop(options, step, steps);
        if (status == DYNO_OK)
            status = executor_run(e, t, NULL);
        if (status != DYNO_OK)
            break;
        total_ns += t->step_end_ns - t->step_begin_ns;
        for (int i = 0; i < p->launch_count; i++) {
            traced->time_ns[i] += (double)(t->end_ns[i] - t->begin_ns[i]);
            in_launches_ns += t->end_ns[i] - t->begin_ns[i];
        }
    }
    trace_destroy(t);
    RETURN_IF_FAILED(status);
    for (int i = 0; i < p->launch_count; i++)
        traced->time_ns[i] /= (double)steps;
    traced->step_ns = (double)total_ns / (double)steps;
    cell_set_metric(cell, METRIC_TRACED_STEP_NS, "ns", total_ns / steps);
    cell_set_metric(cell, METRIC_IN_LAUNCHES_NS, "ns", in_launches_ns / steps);
    return DYNO_OK;
}

/* ---- by the device's own records ---- */

/* A step of a large model leaves a thousand records. */
enum { MOST_OBSERVED_STEPS = 32 };

/* One step more than asked for, for one-time work; it is not in *total_ns. */
static dyno_status run_observed(executor *e, const timing_options *options, int steps,
                                int64_t *total_ns) {
    *total_ns = 0;
    for (int step = -1; step < steps; step++) {
        step_times times;
        RETURN_IF_FAILED(check_stop(options, step < 0 ? 0 : step, steps));
        RETURN_IF_FAILED(executor_run(e, NULL, &times));
        *total_ns += step < 0 ? 0 : times.total_ns;
    }
    return DYNO_OK;
}

static void record_device(const activity_times *seen, int steps, int64_t total_ns,
                          results_cell *cell) {
    cell_set_metric(cell, METRIC_TRACED_STEP_NS, "ns", total_ns / steps);
    cell_set_metric(cell, METRIC_DEVICE_SPAN_NS, "ns", seen->span_ns / steps);
    cell_set_metric(cell, METRIC_DEVICE_BUSY_NS, "ns", seen->busy_ns / steps);
    cell_set_metric(cell, METRIC_DEVICE_UNKNOWN_NS, "ns", (int64_t)seen->unknown_ns / steps);
    cell_set_metric(cell, METRIC_LAUNCHES_UNSEEN, "", seen->unseen);
    if (steps > 1)
        cell_set_metric(cell, METRIC_BETWEEN_STEPS_NS, "ns", seen->between_ns / (steps - 1));
}

static dyno_status observe_steps(executor *e, const plan *p, const timing_options *options,
                                 results_cell *cell, traced_step *traced) {
    int steps = options->steps < MOST_OBSERVED_STEPS ? (int)options->steps : MOST_OBSERVED_STEPS;
    int64_t total_ns = 0;
    activity records;
    activity_times seen = {0};
    RETURN_IF_FAILED(executor_observe_begin(e));
    dyno_status status = run_observed(e, options, steps, &total_ns);
    dyno_status ended = executor_observe_end(e, &records);
    status = status == DYNO_OK ? ended : status;
    int *streams = memory_allocate((size_t)p->launch_count, sizeof *streams);
    for (int i = 0; i < p->launch_count; i++)
        streams[i] = p->launches[i].stream;
    if (status == DYNO_OK)
        status = activity_analyse(&records,
                                  &(activity_question){.launch_count = p->launch_count,
                                                       .stream = streams,
                                                       .first_step = 1,
                                                       .step_count = steps},
                                  &seen);
    free(streams);
    activity_release(&records);
    RETURN_IF_FAILED(status);
    traced->running_ns = memory_allocate((size_t)p->launch_count, sizeof *traced->running_ns);
    for (int i = 0; i < p->launch_count; i++) {
        traced->time_ns[i] = seen.share_ns[i] / steps;
        traced->running_ns[i] = (double)seen.running_ns[i] / steps;
    }
    traced->step_ns = (double)seen.span_ns / steps;
    record_device(&seen, steps, total_ns, cell);
    activity_times_release(&seen);
    return DYNO_OK;
}

dyno_status timing_break_down(executor *e, const plan *p, const timing_options *options,
                              results_cell *cell) {
    traced_step traced = {.time_ns =
                              memory_allocate((size_t)p->launch_count, sizeof *traced.time_ns)};
    dyno_status status = observe_steps(e, p, options, cell, &traced);
    if (status == DYNO_UNSUPPORTED)
        status = trace_steps(e, p, options, cell, &traced);
    if (status == DYNO_OK)
        write_breakdowns(p, &traced, cell);
    free(traced.time_ns);
    free(traced.running_ns);
    return status;
}

int64_t timing_peak_rss_bytes(void) {
    FILE *file = fopen("/proc/self/status", "r");
    if (!file)
        return 0;
    char line[256];
    long long kibibytes = 0, number;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %lld kB", &number) == 1)
            kibibytes = number;
    fclose(file);
    return kibibytes * 1024;
}

void timing_reset_peak_rss(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file)
        return; /* the peak then counts from the start of the process */
    fputs("5", file);
    fclose(file);
}
