/* view_profile_kernels.c - the rows of a profile: kernels with the columns that nsys has and ours, or
 * the same by class, op, scope, phase or launch; and what to speed up next. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/name_table.h"
#include "measure/keys.h"
#include "report/profile_rows.h"
#include "report/view_parts.h"

/* A way to group, the breakdown that has it and the key of its rows. */
typedef struct by_table {
    const char *name, *breakdown, *key, *title;
} by_table;

static const by_table BY[] = {
    {"kernel", BREAKDOWN_BY_KERNEL, KEY_KERNEL, "kernels"},
    {"class", BREAKDOWN_BY_CLASS, KEY_CLASS, "op classes"},
    {"op", BREAKDOWN_BY_OP, KEY_OP, "ops"},
    {"scope", BREAKDOWN_BY_SCOPE, KEY_SCOPE, "scopes"},
    {"phase", BREAKDOWN_BY_PHASE, KEY_PHASE, "phases"},
    {"launch", BREAKDOWN_BY_LAUNCH, KEY_LAUNCH, "launches"},
};

static const by_table *find_by(const char *name) {
    for (size_t i = 0; i < sizeof BY / sizeof *BY; i++)
        if (strcmp(BY[i].name, name) == 0)
            return &BY[i];
    return &BY[0];
}

/* What the columns of a table depend on. */
typedef struct groups_view {
    const by_table *by;
    const results_cell *cell;
    profile_rows rows, kinds;
    double whole_ns;
    bool is_full, has_counters, is_launch;
    bool has_cost, has_floor; /* FLOPs and bytes; and the rates that make floors of them */
} groups_view;

static bool has_number(const profile_rows *rows, const char *column) {
    for (int64_t i = 0; i < rows->count; i++)
        if (!isnan(profile_rows_number(rows, i, column)))
            return true;
    return false;
}

static const char *const DETAILS[] = {KEY_KERNEL, KEY_OP, KEY_SCOPE, KEY_PHASE, KEY_GRID};
enum { DETAIL_COUNT = sizeof DETAILS / sizeof *DETAILS };

static bool has_detail(const groups_view *v, int detail) {
    const char *key = DETAILS[detail];
    if (strcmp(key, v->by->key) == 0 || (!v->is_launch && strcmp(key, KEY_KERNEL) == 0))
        return false; /* the row's own, or too many */
    for (int64_t i = 0; i < v->kinds.count && !v->is_full; i++)
        if (*profile_rows_text(&v->kinds, i, key))
            return true;
    return v->is_full;
}

/* Times of a row: kernels have them as nsys does, the others first what counts. */
typedef enum time_column {
    TIME_PERCENT,
    TIME_MS,
    COUNT,
    AVG,
    MED,
    MIN,
    MAX,
    STD,
    TIMES
} time_column;

static const struct {
    const char *key, *ours, *of_nsys;
} TIME_NAMES[TIMES] = {[TIME_PERCENT] = {"time_percent", "time %", "Time %"},
                       [TIME_MS] = {"time_ms", "time ms", "Total ms"},
                       [COUNT] = {"count", "count", "Instances"},
                       [AVG] = {"avg_us", "avg us", "Avg us"},
                       [MED] = {"med_us", "med us", "Med us"},
                       [MIN] = {"min_us", "min us", "Min us"},
                       [MAX] = {"max_us", "max us", "Max us"},
                       [STD] = {"std_us", "stddev us", "StdDev us"}};

static time_column time_at(bool is_kernel, int place) {
    static const time_column OURS[] = {COUNT, TIME_MS, TIME_PERCENT};
    return is_kernel || place > 2 ? (time_column)place : OURS[place];
}

/* Launches of other programs have no names; what they are is told by their details. */
static bool has_key(const groups_view *v) {
    return !v->is_launch || !v->cell || !profile_is_foreign(v->cell);
}

static void add_columns(const groups_view *v, report_table *t) {
    /* nsys has the name last, where it may be long. */
    bool is_kernel = strcmp(v->by->key, KEY_KERNEL) == 0;
    if (!is_kernel && has_key(v))
        table_add_column(t, v->by->key, v->by->key, TABLE_LEFT);
    for (int i = 0; i < TIMES; i++) {
        time_column c = time_at(is_kernel, i);
        table_add_column(t, TIME_NAMES[c].key,
                         is_kernel ? TIME_NAMES[c].of_nsys : TIME_NAMES[c].ours, TABLE_RIGHT);
    }
    if (v->has_cost) {
        table_add_column(t, "gflops", "GFLOP/s", TABLE_RIGHT);
        table_add_column(t, "gb_per_s", "GB/s", TABLE_RIGHT);
    }
    if (v->has_floor) {
        table_add_column(t, "roofline_percent", "roofline %", TABLE_RIGHT);
        table_add_column(t, "above_floor_ms", "above floor ms", TABLE_RIGHT);
    }
    if (v->has_counters) {
        table_add_column(t, "cycles", "cycles", TABLE_RIGHT);
        table_add_column(t, "instructions", "instructions", TABLE_RIGHT);
        table_add_column(t, "cache_misses", "cache misses", TABLE_RIGHT);
    }
    for (int i = 0; i < DETAIL_COUNT; i++)
        if (has_detail(v, i))
            table_add_column(t, DETAILS[i], DETAILS[i], TABLE_LEFT);
    if (is_kernel)
        table_add_column(t, KEY_KERNEL, "Name", TABLE_LEFT);
    static const char *const IMPORTANCE[] = {
        "kernel",           "class",   "op",     "scope",  "phase",  "launch",
        "time_percent",     "time_ms", "count",  "avg_us", "med_us", "above_floor_ms",
        "gflops",           "min_us",  "max_us", "std_us", "grid",   "gb_per_s",
        "roofline_percent", NULL};
    static const char *const KERNEL_IMPORTANCE[] = {
        "kernel",   "time_percent",     "time_ms", "count",  "avg_us", "op",     "scope",
        "phase",    "above_floor_ms",   "med_us",  "gflops", "min_us", "max_us", "std_us",
        "gb_per_s", "roofline_percent", "grid",    NULL};
    table_set_importance(t, is_kernel ? KERNEL_IMPORTANCE : IMPORTANCE);
}

/* "layers.*.mlp.up +2": the one with most of the row's time, and how many others there are. */
static void add_detail(const groups_view *v, int64_t row, const char *key, report_table *t) {
    if (v->is_launch) {
        table_add_text(t, profile_rows_text(&v->rows, row, key));
        return;
    }
    profile_main most =
        profile_rows_main(&v->kinds, v->by->key, profile_rows_text(&v->rows, row, v->by->key), key);
    if (most.count > 1)
        table_add_format(t, "%s +%d", most.text, most.count - 1);
    else
        table_add_text(t, most.text);
}

static double rate(double amount, double ns) { return ns > 0 ? amount / ns : (double)NAN; }

/* What has no FLOPs, as a copy, or a kernel that adds up the parts of another's product, has no rate:
 * 0.0 would read as the slowest of all. */
static double rate_of_some(double amount, double ns) {
    return amount > 0 ? rate(amount, ns) : (double)NAN;
}

/* The floor of a row whose launches may differ is the sum over those that do not. */
static double floor_of(const groups_view *v, int64_t row) {
    return v->is_launch ? profile_rows_floor(&v->rows, row)
                        : profile_rows_floor_of(&v->kinds, v->by->key,
                                                profile_rows_text(&v->rows, row, v->by->key));
}

static double above(double ns, double floor_ns) {
    return ns > floor_ns ? ns - floor_ns : 0 * floor_ns;
}

static void add_count(report_table *t, double value) {
    if (value >= 0 && value < 0x1p53 && value >= floor(value) && value <= floor(value))
        table_add_integer(t, (int64_t)value);
    else
        table_add_real(t, value, 2);
}

static void add_time(const groups_view *v, int64_t row, time_column column, report_table *t) {
#define NUMBER(name) profile_rows_number(&v->rows, row, name)
    double ns = NUMBER(COLUMN_RUNNING);
    switch (column) {
    case TIME_PERCENT:
        table_add_real(t, 100 * ns / v->whole_ns, 1);
        break;
    case TIME_MS:
        table_add_real(t, ns / 1e6, 3);
        break;
    case COUNT:
        add_count(t, NUMBER(COLUMN_COUNT));
        break;
    case AVG: {
        /* A row of a launch that phases share has a part of its time; the least and the most are of all of it. An
         * average of equal times may be below them by rounding. */
        double average = rate(ns, NUMBER(COLUMN_COUNT)), rounding = 1 - 1e-9;
        bool is_of_a_part = average < rounding * NUMBER(COLUMN_MIN);
        table_add_real(t, is_of_a_part ? (double)NAN : average / 1e3, 2);
        break;
    }
    case MED:
        table_add_real(t, NUMBER(COLUMN_MEDIAN) / 1e3, 2);
        break;
    case MIN:
        table_add_real(t, NUMBER(COLUMN_MIN) / 1e3, 2);
        break;
    case MAX:
        table_add_real(t, NUMBER(COLUMN_MAX) / 1e3, 2);
        break;
    case STD:
    case TIMES:
        table_add_real(t, NUMBER(COLUMN_STD) / 1e3, 2);
        break;
    }
}

static void add_group(const groups_view *v, int64_t row, report_table *t) {
    bool is_kernel = strcmp(v->by->key, KEY_KERNEL) == 0;
    double ns = NUMBER(COLUMN_RUNNING);
    profile_add_row(v->cell, v->is_full, t);
    if (!is_kernel && has_key(v))
        table_add_text(t, profile_rows_text(&v->rows, row, v->by->key));
    for (int i = 0; i < TIMES; i++)
        add_time(v, row, time_at(is_kernel, i), t);
    if (v->has_cost) {
        table_add_real(t, rate_of_some(NUMBER(COLUMN_FLOPS), ns), 1);
        table_add_real(t, rate_of_some(NUMBER(COLUMN_BYTES), ns), 1);
    }
    if (v->has_floor) {
        double floor_ns = floor_of(v, row);
        table_add_real(t, 100 * rate(floor_ns, ns), 1);
        table_add_real(t, above(ns, floor_ns) / 1e6, 3);
    }
    if (v->has_counters) {
        add_count(t, NUMBER(COLUMN_CYCLES));
        add_count(t, NUMBER(COLUMN_INSTRUCTIONS));
        add_count(t, NUMBER(COLUMN_CACHE_MISSES));
    }
    for (int i = 0; i < DETAIL_COUNT; i++)
        if (has_detail(v, i))
            add_detail(v, row, DETAILS[i], t);
    if (is_kernel)
        table_add_text(t, profile_rows_text(&v->rows, row, v->by->key));
#undef NUMBER
}

/* What the rows that are not shown have together. */
static void note_rest(const groups_view *v, int64_t shown, report_table *t) {
    double rest = 0;
    for (int64_t i = shown; i < v->rows.count; i++)
        rest += profile_rows_number(&v->rows, i, COLUMN_RUNNING);
    if (shown < v->rows.count)
        table_add_note(t, "%lld more rows have %.1f %% of the time together; --top 0 shows them",
                       (long long)(v->rows.count - shown), 100 * rest / v->whole_ns);
}

static void note_units(const groups_view *v, report_table *t) {
    double steps = view_metric(v->cell, METRIC_TRACED_STEPS);
    if (steps > 1)
        table_add_note(t,
                       strcmp(v->by->key, KEY_KERNEL) == 0
                           ? "Time %%, Total and Instances are of one step, the mean of %.0f "
                             "traced ones; the others are of single launches"
                           : "time and count are of one step, the mean of %.0f traced ones; the "
                             "others are of single launches",
                       steps);
    if (v->is_launch)
        view_note_split_launches(v->cell, t);
    if (v->has_cost && !v->has_floor)
        table_add_note(t, "no floors: %s",
                       profile_is_foreign(v->cell)
                           ? "the peaks of the machine that recorded the trace are not known"
                           : "no peak was measured (--peaks none)");
    if (v->has_floor)
        table_add_note(t,
                       "floor: bytes over %.1f GB/s or FLOP over %.1f GFLOP/s, measured here, "
                       "whichever takes longer; roofline %% = floor / time, over 100 where the "
                       "data was in a cache",
                       v->rows.bandwidth / 1e9, v->rows.peak_flops / 1e9);
    if (v->has_counters)
        table_add_note(t, "cycles, instructions and cache misses are of one more step, in user "
                          "code of all threads, those that wait for the others included");
}

/* ---- the top kernel of each phase ---- */

typedef struct top_kernel {
    const char *name;
    double ns, count, phase_ns;
} top_kernel;

static top_kernel find_top(const profile_rows *kinds, const char *phase) {
    top_kernel *kernels = memory_allocate((size_t)kinds->count, sizeof *kernels), top = {0};
    name_table by_name = {0};
    double phase_ns = 0;
    int count = 0;
    for (int64_t i = 0; i < kinds->count; i++) {
        if (strcmp(profile_rows_text(kinds, i, KEY_PHASE), phase) != 0)
            continue;
        const char *name = profile_rows_text(kinds, i, KEY_KERNEL);
        int at = name_table_find(&by_name, name);
        if (at < 0) {
            at = count++;
            kernels[at].name = name;
            name_table_set(&by_name, name, at);
        }
        kernels[at].ns += profile_rows_number(kinds, i, COLUMN_RUNNING);
        kernels[at].count += profile_rows_number(kinds, i, COLUMN_COUNT);
        phase_ns += profile_rows_number(kinds, i, COLUMN_RUNNING);
    }
    for (int i = 0; i < count; i++)
        top = kernels[i].ns > top.ns ? kernels[i] : top;
    top.phase_ns = phase_ns;
    name_table_release(&by_name);
    free(kernels);
    return top;
}

static void note_top(const char *phase, const top_kernel *top, report_table *t) {
    if (!top->name)
        return;
    text count = {0};
    if (top->count > 0)
        text_format(&count, "%.0f instance%s", top->count, top->count > 1 ? "s" : "");
    else
        text_append(&count, "the instance that it shares with another phase");
    table_add_note(t, "the top kernel of the %s is %s: %.3f ms in %s, %.1f %% of it", phase,
                   top->name, top->ns / 1e6, text_string(&count), 100 * top->ns / top->phase_ns);
    text_release(&count);
}

static void note_tops(const results_cell *cell, const profile_rows *kinds, report_table *t) {
    top_kernel forward = find_top(kinds, SERIES_FORWARD),
               backward = find_top(kinds, SERIES_BACKWARD);
    note_top(SERIES_FORWARD, &forward, t);
    note_top(SERIES_BACKWARD, &backward, t);
    if (forward.name && backward.name)
        table_add_note(t, "the top kernels of forward and backward are %s",
                       strcmp(forward.name, backward.name) == 0 ? "the same" : "not the same");
    if (!forward.name && !backward.name && profile_is_foreign(cell))
        table_add_note(t, "no range of the program is called 'forward' or 'backward': ranges of "
                          "these names would tell their kernels apart");
}

static bool has_floors(const profile_rows *rows) {
    return has_number(rows, COLUMN_FLOPS) && rows->peak_flops > 0 && rows->bandwidth > 0;
}

static groups_view view_of(const results *run, const results_cell *cell, const char *by,
                           bool is_full) {
    groups_view v = {.by = find_by(by), .cell = cell, .is_full = is_full};
    v.rows = profile_rows_find(run, cell, v.by->breakdown);
    v.kinds = profile_rows_find(run, cell, BREAKDOWN_KINDS);
    v.whole_ns = profile_rows_sum(&v.rows, COLUMN_RUNNING);
    v.is_launch = strcmp(v.by->key, KEY_LAUNCH) == 0;
    /* A file has the same columns for every cell. */
    v.has_cost = is_full || has_number(&v.rows, COLUMN_FLOPS);
    v.has_floor = is_full || has_floors(&v.rows);
    v.has_counters = is_full || has_number(&v.rows, COLUMN_CYCLES);
    return v;
}

void profile_add_groups(const results *run, const results_cell *cell, const char *by,
                        report_document *out) {
    groups_view v = view_of(run, cell, by, false);
    report_table *t = profile_create_table(run, cell, v.by->title, false);
    add_columns(&v, t);
    int64_t top = profile_shown_number(run, ENV_SHOWN_TOP, 10);
    int64_t shown = top && top < v.rows.count ? top : v.rows.count;
    for (int64_t i = 0; i < shown; i++)
        add_group(&v, i, t);
    note_rest(&v, shown, t);
    if (strcmp(v.by->name, "kernel") == 0)
        note_tops(cell, &v.kinds, t);
    note_units(&v, t);
    document_add_table(out, t);
}

static void add_full_columns(const profile_part *part, report_table *t) {
    groups_view v = {.by = part->context,
                     .cell = part->run->cells[0],
                     .is_full = true,
                     .is_launch = strcmp(((const by_table *)part->context)->key, KEY_LAUNCH) == 0,
                     .has_cost = true,
                     .has_floor = true,
                     .has_counters = true};
    add_columns(&v, t);
}

static void add_full_rows(const profile_part *part, const results_cell *cell, report_table *t) {
    const by_table *by = part->context;
    groups_view v = view_of(part->run, cell, by->name, true);
    for (int64_t row = 0; row < v.rows.count; row++)
        add_group(&v, row, t);
}

void profile_add_all_groups(const results *run, const char *by, report_document *out) {
    const by_table *table = find_by(by);
    profile_part part = {.run = run,
                         .title = table->title,
                         .context = table,
                         .add_columns = add_full_columns,
                         .add_rows = add_full_rows};
    profile_add_every_cell(run, &part, out);
}

/* ---- what to speed up next ---- */

typedef struct candidate {
    int64_t row;
    double above_ns;
} candidate;

static int most_above_first(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->above_ns < y->above_ns || x->above_ns > y->above_ns)
        return x->above_ns < y->above_ns ? 1 : -1;
    return (x->row > y->row) - (x->row < y->row);
}

/* Kinds of launches, those first that are most above their floor. The caller frees it. */
static candidate *sort_candidates(const profile_rows *kinds) {
    candidate *sorted = memory_allocate((size_t)kinds->count, sizeof *sorted);
    for (int64_t i = 0; i < kinds->count; i++) {
        double ns = profile_rows_number(kinds, i, COLUMN_TIME);
        double over = above(ns, profile_rows_floor(kinds, i));
        sorted[i] = (candidate){i, isnan(over) ? 0 : over};
    }
    qsort(sorted, (size_t)kinds->count, sizeof *sorted, most_above_first);
    return sorted;
}

static void add_candidate(const profile_rows *kinds, const candidate *c, double step_ns,
                          report_table *t) {
    double ns = profile_rows_number(kinds, c->row, COLUMN_TIME);
    table_add_real(t, c->above_ns / 1e6, 3);
    table_add_real(t, 100 * c->above_ns / step_ns, 1);
    table_add_real(t, (step_ns - c->above_ns) / 1e6, 3);
    table_add_real(t, ns / 1e6, 3);
    table_add_real(t, profile_rows_floor(kinds, c->row) / 1e6, 3);
    table_add_text(t, profile_rows_is_bound_by_memory(kinds, c->row) ? "memory" : "compute");
    add_count(t, profile_rows_number(kinds, c->row, COLUMN_COUNT));
    table_add_text(t, profile_rows_text(kinds, c->row, KEY_PHASE));
    table_add_text(t, profile_rows_text(kinds, c->row, KEY_SCOPE));
    table_add_text(t, profile_rows_text(kinds, c->row, KEY_OP));
    table_add_text(t, profile_rows_text(kinds, c->row, KEY_KERNEL));
}

/* A pass that is not a whole step is called what it is. */
static const char *name_of_pass(const results_cell *cell) {
    const char *pass = view_text(cell, PARAM_PASS);
    return *pass ? pass : "step";
}

void profile_append_next(const results *run, const results_cell *cell, text *out) {
    profile_rows kinds = profile_rows_find(run, cell, BREAKDOWN_KINDS);
    if (!has_floors(&kinds) || kinds.count == 0)
        return;
    double step_ns = profile_device_number(run, cell, COLUMN_SPAN);
    candidate *sorted = sort_candidates(&kinds);
    const candidate *top = &sorted[0];
    double launches = profile_rows_number(&kinds, top->row, COLUMN_COUNT);
    if (top->above_ns > 0)
        text_format(
            out,
            "%s in %s (%s, %.0f launch%s) takes %.2f ms more than bytes and FLOPs ask for: "
            "at its floor the %s would take %.2f ms instead of %.2f, the mean of those traced",
            profile_rows_text(&kinds, top->row, KEY_OP),
            profile_rows_text(&kinds, top->row, KEY_SCOPE),
            profile_rows_text(&kinds, top->row, KEY_PHASE), launches, launches > 1 ? "es" : "",
            top->above_ns / 1e6, name_of_pass(cell), (step_ns - top->above_ns) / 1e6,
            step_ns / 1e6);
    free(sorted);
}

void profile_add_next(const results *run, const results_cell *cell, bool is_full,
                      report_document *out) {
    profile_rows kinds = profile_rows_find(run, cell, BREAKDOWN_KINDS);
    double step_ns = profile_device_number(run, cell, COLUMN_SPAN), all = 0;
    if (!has_floors(&kinds))
        return;
    report_table *t = profile_create_table(run, cell, "what to speed up next", is_full);
    table_add_column(t, "above_floor_ms", "above floor ms", TABLE_RIGHT);
    table_add_column(t, "gain_percent", "step gains %", TABLE_RIGHT);
    table_add_column(t, "step_ms", "step would be ms", TABLE_RIGHT);
    table_add_column(t, "time_ms", "time ms", TABLE_RIGHT);
    table_add_column(t, "floor_ms", "floor ms", TABLE_RIGHT);
    table_add_column(t, "bound", "bound by", TABLE_LEFT);
    table_add_column(t, "count", "launches", TABLE_RIGHT);
    table_add_column(t, KEY_PHASE, KEY_PHASE, TABLE_LEFT);
    table_add_column(t, KEY_SCOPE, KEY_SCOPE, TABLE_LEFT);
    table_add_column(t, KEY_OP, KEY_OP, TABLE_LEFT);
    table_add_column(t, KEY_KERNEL, KEY_KERNEL, TABLE_LEFT);
    static const char *const IMPORTANCE[] = {"above_floor_ms", "scope",   "op",      "phase",
                                             "gain_percent",   "time_ms", "step_ms", "floor_ms",
                                             "count",          "bound",   "kernel",  NULL};
    table_set_importance(t, IMPORTANCE);
    candidate *sorted = sort_candidates(&kinds);
    int64_t top = is_full ? 0 : profile_shown_number(run, ENV_SHOWN_TOP, 10);
    for (int64_t i = 0; i < kinds.count; i++) {
        all += sorted[i].above_ns;
        if (sorted[i].above_ns > 0 && (!top || i < top)) {
            profile_add_row(cell, is_full, t);
            add_candidate(&kinds, &sorted[i], step_ns, t);
        }
    }
    free(sorted);
    table_add_note(t,
                   "a row: launches that are alike but for their layer. Its gain: the step without "
                   "what they take above their floor");
    view_note_split_launches(cell, t);
    table_add_note(t,
                   "all launches are %.3f ms above their floors, of a traced step of %.3f ms; "
                   "both are means, as every time of a launch is",
                   all / 1e6, step_ns / 1e6);
    if (profile_is_host_bound(run, cell))
        table_add_note(t,
                       "HOST-BOUND: the device waits for the host, so that faster launches alone "
                       "do not shorten the step; --mode compiled replays it as one graph");
    document_add_table(out, t);
}
