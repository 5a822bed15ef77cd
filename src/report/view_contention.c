/* view_contention.c - a line below a table that was measured on a busy machine.
 *
 * A cell was delayed when one of its threads waited for a core for a twentieth of the time or more,
 * and was preempted (a wake-up also waits, briefly). The cause follows from the sum over all cells,
 * because the processor time of others is counted in ticks that are longer than some cells. Three
 * causes look alike in the times and have different remedies: other processes, more threads than
 * cores, and a limit on processor time. */
#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "report/view_parts.h"

static const double HELD_UP_SHARE = 0.05, HELD_UP_NS = 1e6;
static const double OTHERS_CORES = 0.05; /* below that no other process matters */
static const double TOLD_NS = 200e6;     /* of less, ticks do not show what others used */
/* Linux stops threads that are over their limit once in each period: most cells see it, not one. */
static const double LIMITED_SHARE = 0.20, LIMIT_PERIOD_NS = 100e6;

typedef struct busy_times {
    double cores, threads;
    double watched_ns, others_ns; /* others_ns NAN: not known */
    double worst_share;           /* of a cell's time that a thread waited; NAN: likewise */
    double preemptions;
    int cells, held_up;
} busy_times;

static void add_cell(busy_times *sum, const results_cell *cell) {
    double watched = view_metric(cell, METRIC_WATCHED_NS),
           waited = view_metric(cell, METRIC_WAITED_NS);
    double preemptions = view_metric(cell, METRIC_PREEMPTIONS);
    if (cell->status != RESULTS_OK || !(watched > 0))
        return;
    sum->cells++;
    sum->watched_ns += watched;
    sum->others_ns += view_metric(cell, METRIC_ALL_CPU_NS) - view_metric(cell, METRIC_OWN_CPU_NS);
    sum->preemptions += preemptions;
    /* No fmin() and fmax() here: they drop the NAN of a cell without the metric. */
    bool is_waking = waited < HELD_UP_NS || (waited >= 0 && preemptions <= 0);
    double share = is_waking ? 0 : waited > watched ? 1 : waited / watched;
    sum->held_up += share >= HELD_UP_SHARE;
    sum->worst_share = isnan(share) || share > sum->worst_share ? share : sum->worst_share;
}

static busy_times sum_cells(const results *run) {
    busy_times sum = {
        .cores = results_number(results_find_environment(run, ENV_CORES_AVAILABLE)),
        .threads = results_number(results_find_environment(run, ENV_THREADS)),
    };
    for (int64_t i = 0; i < run->cell_count; i++)
        add_cell(&sum, run->cells[i]);
    return sum;
}

/* "a thread waited up to 48 % of the time for a core, in 4 of 6 cells" */
static void append_wait(const busy_times *sum, text *out) {
    text_format(out, "a thread waited up to %.0f %% of the time for a core",
                100 * sum->worst_share);
    if (sum->cells > 1)
        text_format(out, ", in %d of %d cells", sum->held_up, sum->cells);
}

/* In cores; NAN when that is not known. */
static double others_of(const busy_times *sum) {
    double others = sum->others_ns / sum->watched_ns;
    return sum->watched_ns < TOLD_NS ? (double)NAN : others < 0 ? 0 : others;
}

/* `of_peaks`: what was measured are peaks, for one thread and for many. */
static void blame_others(const busy_times *sum, bool of_peaks, text *out) {
    double others = others_of(sum), fewer = isnan(others) ? 1 : floor(sum->cores - others);
    text_append(out, "busy machine: ");
    if (!isnan(others))
        text_format(out, "others used %.0f %% of the %.0f core%s while this was measured%s",
                    fmin(100, 100 * others / sum->cores), sum->cores, sum->cores > 1 ? "s" : "",
                    sum->held_up ? ", and " : "");
    if (sum->held_up)
        append_wait(sum, out);
    text_format(out, "; %s: run again on an idle machine",
                of_peaks ? "peaks are measured too low" : "times can be far too long, medians too");
    if (!of_peaks && fewer < sum->threads && sum->threads > 1)
        text_format(out, ", or with --threads %.0f", fmax(1, fewer));
}

static void blame_threads(const busy_times *sum, text *out) {
    text_format(out, "%.0f threads on %.0f core%s wait for one another: ", sum->threads, sum->cores,
                sum->cores > 1 ? "s" : "");
    append_wait(sum, out);
    text_format(out, "; --threads %.0f is as many as there are cores", sum->cores);
}

static void blame_limit(const busy_times *sum, text *out) {
    append_wait(sum, out);
    text_format(out, ", without other processes: processor time seems to be limited, as in a "
                     "container; times are too long: raise the limit, or set --threads to as many "
                     "cores as it allows");
}

void view_note_contention(const results *run, report_table *table) {
    busy_times sum = sum_cells(run);
    if (!sum.cells || !(sum.cores > 0) || !(sum.threads > 0))
        return;
    double others = others_of(&sum);
    bool of_peaks = strcmp(run->verb, RUN_DOCTOR) == 0;
    bool has_others = others >= OTHERS_CORES, is_crowded = sum.threads > sum.cores;
    /* Where waits are not known: others used more than our threads left free. */
    if (isnan(sum.worst_share))
        has_others = others > fmax(0, sum.cores - sum.threads) + 2 * OTHERS_CORES;
    text said = {0};
    if (has_others && (sum.held_up || isnan(sum.worst_share)))
        blame_others(&sum, of_peaks, &said);
    else if (sum.held_up && is_crowded)
        blame_threads(&sum, &said);
    else if (sum.held_up && isnan(others))
        blame_others(&sum, of_peaks, &said);
    else if (2 * sum.held_up >= sum.cells && sum.worst_share >= LIMITED_SHARE &&
             sum.preemptions * LIMIT_PERIOD_NS >= sum.watched_ns)
        blame_limit(&sum, &said);
    if (said.length)
        table_add_note(table, "%s", text_string(&said));
    text_release(&said);
}
