#include "measure/timing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
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
    cell_add_sample(cell, "step", "ns", times->total_ns);
    for (int i = 0; i < PHASE_COUNT; i++) {
        int launches = plan_total_cost(p, (phase)i).launches;
        if (!launches || launches == p->launch_count)
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
        if (options->should_stop && options->should_stop())
            return dyno_fail(DYNO_INTERRUPTED, "interrupted after %lld of %lld steps", (long long)i,
                             (long long)(options->warmup + options->steps));
        step_times times;
        RETURN_IF_FAILED(executor_run(e, NULL, &times));
        if (!cell_find_metric(cell, "first_step_ns"))
            cell_set_metric(cell, "first_step_ns", "ns", times.total_ns);
        if (options->by_marks)
            times = without_host(p, times);
        if (i < options->warmup)
            cell_add_sample(cell, "warmup", "ns", times.total_ns);
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

dyno_status timing_run_for(executor *e, const plan *p, const timing_options *options,
                           const timing_span *span, results_cell *cell) {
    counting count = {.options = options};
    timing_options part = *options;
    part.on_step = count_step;
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
        if (options->should_stop && options->should_stop())
            return dyno_fail(DYNO_INTERRUPTED, "interrupted after %lld timed repetitions",
                             (long long)reps);
        RETURN_IF_FAILED(timing_run(e, p, &part, cell));
        count.before++;
        cell_set_integer(cell, "reps", reps + 1);
    }
    return DYNO_OK;
}

/* What one key (a class, a phase, a scope) took in all traced steps together. */
typedef struct share {
    char key[SCOPE_TEXT_BYTES];
    int64_t time_ns, count;
    double flops, bytes;
} share;

typedef struct shares {
    share *items;
    int count, capacity;
} shares;

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

static void add_launch(shares *all, const char *key, const plan_launch *l, int64_t ns) {
    share *s = find_share(all, key);
    s->time_ns += ns;
    s->count++;
    s->flops += l->flops;
    s->bytes += l->bytes_read + l->bytes_written;
}

static int longest_first(const void *a, const void *b) {
    int64_t x = ((const share *)a)->time_ns, y = ((const share *)b)->time_ns;
    return (x < y) - (x > y);
}

static void write_breakdown(results_cell *cell, const char *name, const char *key, shares *all,
                            int64_t between_ns, int64_t steps) {
    static const results_column columns[] = {
        {"time", "ns"}, {"count", ""}, {"flops", "FLOP"}, {"bytes", "B"}};
    results_breakdown *table = cell_add_breakdown(cell, name, &key, 1, columns, 4);
    qsort(all->items, (size_t)all->count, sizeof *all->items, longest_first);
    for (int i = 0; i <= all->count; i++) {
        share between = {.key = "(between launches)", .time_ns = between_ns};
        const share *s = i < all->count ? &all->items[i] : &between;
        const char *keys[] = {s->key};
        double n = (double)steps;
        results_value values[] = {results_real((double)s->time_ns / n),
                                  results_integer(s->count / steps), results_real(s->flops / n),
                                  results_real(s->bytes / n)};
        breakdown_add_row(table, keys, values);
    }
    free(all->items);
}

/* "attention_avx512 64x128": with the tile, where it is not the kernel's own. */
static scope_text name_launch(const plan_launch *l) {
    scope_text name;
    kernel_tile tile = kernel_tile_asked(&l->attributes);
    snprintf(name.text, sizeof name.text, "%s%s%s", l->kernel_name,
             kernel_tile_is_open(tile) ? "" : " ",
             kernel_tile_is_open(tile) ? "" : kernel_tile_format(tile).text);
    return name;
}

dyno_status timing_break_down(executor *e, const plan *p, const timing_options *options,
                              results_cell *cell) {
    int64_t steps = options->steps;
    shares by_class = {0}, by_phase = {0}, by_scope = {0}, by_kernel = {0};
    int64_t total_ns = 0, in_launches_ns = 0;
    trace *t = trace_create(p->launch_count);
    dyno_status status = DYNO_OK;
    for (int64_t step = 0; step < steps && status == DYNO_OK; step++) {
        if (options->should_stop && options->should_stop())
            status = dyno_fail(DYNO_INTERRUPTED, "interrupted after %lld of %lld traced steps",
                               (long long)step, (long long)steps);
        else
            status = executor_run(e, t, NULL);
        if (status != DYNO_OK)
            break;
        total_ns += t->step_end_ns - t->step_begin_ns;
        for (int i = 0; i < p->launch_count; i++) {
            const plan_launch *l = &p->launches[i];
            int64_t ns = t->end_ns[i] - t->begin_ns[i];
            in_launches_ns += ns;
            add_launch(&by_class, l->class_name, l, ns);
            add_launch(&by_kernel, name_launch(l).text, l, ns);
            add_launch(&by_phase, phase_name(l->phase), l, ns);
            add_launch(&by_scope, scope_fold_layers(p->scopes[l->scope]).text, l, ns);
        }
    }
    trace_destroy(t);
    if (status != DYNO_OK) {
        free(by_class.items);
        free(by_kernel.items);
        free(by_phase.items);
        free(by_scope.items);
        return status;
    }
    int64_t between = total_ns - in_launches_ns;
    write_breakdown(cell, "by_class", "class", &by_class, between, steps);
    write_breakdown(cell, "by_kernel", "kernel", &by_kernel, between, steps);
    write_breakdown(cell, "by_phase", "phase", &by_phase, between, steps);
    write_breakdown(cell, "by_scope", "scope", &by_scope, between, steps);
    cell_set_metric(cell, "traced_step_ns", "ns", total_ns / steps);
    cell_set_metric(cell, "in_launches_ns", "ns", in_launches_ns / steps);
    return DYNO_OK;
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
