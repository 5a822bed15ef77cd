#include "experiments/scale_times.h"

#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "plan/least_time.h"
#include "plan/memory_account.h"
#include "plan/scope.h"
#include "simulate/network.h"

/* No launch is shorter than the chip takes to start one. */
static double by_rates(const plan *p, const plan_launch *l, const target_rates *rates) {
    double start = p->memory_mode == PLAN_MEMORY_STATIC ? rates->planned_launch : rates->launch;
    return fmax(least_time_of_launch(l, rates), start) * 1e9;
}

/* ---- a profile ---- */

static bool has_text(const results_cell *cell, const char *name, const char *text) {
    const results_value *found = cell_find_parameter(cell, name);
    return found && found->kind == RESULTS_TEXT && strcmp(found->text, text) == 0;
}

static bool has_number(const results_cell *cell, const char *name, int64_t number) {
    return results_number(cell_find_parameter(cell, name)) == (double)number;
}

static const results_breakdown *find_kinds(const results_cell *cell, const scale_wanted *wanted) {
    bool is_it =
        cell->status == RESULTS_OK && has_text(cell, PARAM_PASS, "step") &&
        has_text(cell, PARAM_MODEL, wanted->model) && has_text(cell, PARAM_MODE, wanted->mode) &&
        has_text(cell, PARAM_MATH, wanted->math) && has_number(cell, PARAM_BATCH, wanted->batch) &&
        has_number(cell, PARAM_CONTEXT, wanted->context);
    return is_it ? cell_find_breakdown(cell, BREAKDOWN_KINDS) : NULL;
}

dyno_status scale_profile_read(const char *directory, const scale_wanted *wanted,
                               scale_profile *out) {
    *out = (scale_profile){0};
    results *run;
    RETURN_IF_FAILED(results_read(directory, &run));
    for (int64_t i = 0; i < run->cell_count && !out->kinds; i++)
        out->kinds = find_kinds(run->cells[i], wanted);
    if (out->kinds) {
        out->run = run;
        return DYNO_OK;
    }
    results_destroy(run);
    return dyno_fail(DYNO_INVALID,
                     "--profile: '%s' has no profile of a whole step of %s, %s, %s, batch %lld, "
                     "context %lld; make one: dyno profile --pass step --mode %s --precision %s "
                     "--batch %lld --context %lld --out DIR",
                     directory, wanted->model, wanted->mode, wanted->math, (long long)wanted->batch,
                     (long long)wanted->context, wanted->mode, wanted->math,
                     (long long)wanted->batch, (long long)wanted->context);
}

void scale_profile_release(scale_profile *profile) {
    results_destroy(profile->run);
    *profile = (scale_profile){0};
}

static int key_index(const results_breakdown *b, const char *name) {
    for (int i = 0; i < b->key_count; i++)
        if (strcmp(b->keys[i], name) == 0)
            return i;
    return -1;
}

static int column_index(const results_breakdown *b, const char *name) {
    for (int i = 0; i < b->column_count; i++)
        if (strcmp(b->columns[i].name, name) == 0)
            return i;
    return -1;
}

static bool row_has(const results_breakdown *b, const results_row *row, const char *key,
                    const char *text) {
    int at = key_index(b, key);
    return at >= 0 && strcmp(row->keys[at], text) == 0;
}

/* Mean of the launches with the same kernel, op, scope (layers folded) and phase; NAN: none. A launch that is
 * several pieces of work on the device has a row for each of them, which add up. */
static double by_profile(const plan *p, const plan_launch *l, const results_breakdown *b) {
    scope_text scope = scope_fold_layers(p->scopes[l->scope]);
    int time = column_index(b, COLUMN_TIME), count = column_index(b, COLUMN_COUNT);
    double ns = NAN;
    for (int64_t i = 0; i < b->row_count && time >= 0 && count >= 0; i++) {
        const results_row *row = &b->rows[i];
        if (!row_has(b, row, KEY_PLANNED, l->kernel_name) || !row_has(b, row, KEY_OP, l->op_name) ||
            !row_has(b, row, KEY_SCOPE, scope.text) ||
            !row_has(b, row, KEY_PHASE, phase_name(l->phase)))
            continue;
        double one = results_number(&row->values[time]) / results_number(&row->values[count]);
        if (isfinite(one) && one >= 0)
            ns = isnan(ns) ? one : ns + one;
    }
    return ns;
}

int scale_times_of_plan(const plan *p, const target_rates *rates, const scale_profile *profile,
                        double *launch_ns) {
    int unknown = 0;
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        collective_op which;
        launch_ns[i] = 0;
        if (network_launch_is_collective(l, &which))
            continue;
        double ns = profile ? by_profile(p, l, profile->kinds) : NAN;
        unknown += profile && isnan(ns);
        launch_ns[i] = isnan(ns) ? by_rates(p, l, rates) : ns;
    }
    return unknown;
}

/* ---- a host ---- */

static bool fits_the_cache(const plan *p, const scale_host *host) {
    return memory_account_plan(p).reserved_bytes * host->ranks <= p->target.l3_bytes;
}

void scale_share_memory(const plan *p, const scale_host *host, double *launch_ns) {
    if (host->cores == 0 || host->all_bytes_a_second <= 0 || fits_the_cache(p, host))
        return;
    double at_once = fmin(host->ranks, (double)host->cores / host->threads);
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        double rate =
            launch_ns[i] > 0 ? (l->bytes_read + l->bytes_written) / launch_ns[i] * 1e9 : 0;
        if (rate <= host->alone_bytes_a_second)
            launch_ns[i] *= fmax(1, at_once * rate / host->all_bytes_a_second);
    }
}
