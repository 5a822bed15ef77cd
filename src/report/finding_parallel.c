/* finding_parallel.c - what steps of several ranks hide, save and send. */
#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "report/bench_communication.h"
#include "report/finding_parts.h"
#include "report/finding_verbs.h"
#include "report/memory_kinds.h"
#include "report/view_parts.h"

static bool is_bench(const results *run) {
    return strcmp(run->verb, RUN_BENCH) == 0 && run->cell_count <= FINDING_MOST_CELLS;
}

/* "zero1", and of how many ranks where that varies. */
static void append_way(const results *run, const results_cell *cell, text *out) {
    text_append(out, view_text(cell, PARAM_PARALLEL));
    if (view_parameter_varies(run, PARAM_RANKS))
        text_format(out, " on %g ranks", bench_communication_of(cell).ranks);
}

/* ---- communication ---- */

/* NAN where the cell is not OK. */
static double overlap_of(const results_cell *cell) {
    return isnan(finding_median_ms(cell)) ? (double)NAN
                                          : bench_communication_of(cell).overlap_percent;
}

static const results_cell *most_hidden(const results *run) {
    const results_cell *best = NULL;
    for (int64_t i = 0; i < run->cell_count; i++)
        if (!isnan(overlap_of(run->cells[i])) &&
            (!best || overlap_of(run->cells[i]) > overlap_of(best)))
            best = run->cells[i];
    return best;
}

/* Another way of the same measurement. */
static bool is_other_way(const results_cell *best, const results_cell *cell) {
    return !isnan(overlap_of(cell)) && finding_differ_only_in(best, cell, PARAM_PARALLEL);
}

/* Whether no other way says the same number. */
static bool is_alone_the_most(const results *run, const results_cell *best) {
    for (int64_t i = 0; i < run->cell_count; i++)
        if (is_other_way(best, run->cells[i]) && overlap_of(best) - overlap_of(run->cells[i]) < 0.5)
            return false;
    return true;
}

void finding_append_overlap(const results *run, text *out) {
    enum { MOST = 12 };
    const results_cell *best = is_bench(run) ? most_hidden(run) : NULL;
    int written = 0;
    if (!best)
        return;
    bench_communication c = bench_communication_of(best);
    text_format(out, " Of the communication %.0f %% is hidden behind computing with ",
                c.overlap_percent);
    append_way(run, best, out);
    text_format(out, " (exposed: %.2f of %.2f ms)", c.exposed_ms, c.all_ms);
    for (int64_t i = 0; i < run->cell_count && written < MOST; i++) {
        if (!is_other_way(best, run->cells[i]))
            continue;
        if (!written && is_alone_the_most(run, best))
            text_append(out, ", the most");
        text_format(out, written++ ? ", %.0f %% with " : "; %.0f %% with ",
                    overlap_of(run->cells[i]));
        append_way(run, run->cells[i], out);
    }
    text_append(out, ".");
}

/* ---- sharding ---- */

/* The first way of the same measurement that holds everything on every rank. */
static const results_cell *plain_of(const results *run, const results_cell *cell) {
    for (int64_t i = 0; i < run->cell_count; i++)
        if (strncmp(view_text(run->cells[i], PARAM_PARALLEL), "ddp", 3) == 0 &&
            run->cells[i]->status == RESULTS_OK && memory_stages_of(run->cells[i]) &&
            finding_differ_only_in(cell, run->cells[i], PARAM_PARALLEL))
            return run->cells[i];
    return NULL;
}

static double bytes_at(const results_cell *cell, const char *stage, memory_kind kind, int column) {
    return memory_stage_bytes(memory_stages_of(cell), stage, kind, column);
}

/* "11.77 MiB less state (-50.0 %)" of every kind that differs; the others are named as equal. */
static void append_kinds(const results_cell *cell, const results_cell *plain, text *out) {
    static const memory_kind KINDS[] = {MEMORY_WEIGHTS, MEMORY_GRADIENTS, MEMORY_STATE,
                                        MEMORY_ACTIVATIONS, MEMORY_ALL};
    int column, written = 0;
    const char *stage = memory_fullest_stage(memory_stages_of(plain), &column);
    text same = {0};
    if (!stage || !(bytes_at(cell, stage, MEMORY_ALL, column) > 0))
        return; /* the record does not have that moment */
    for (int i = 0; i < 5; i++) {
        double before = bytes_at(plain, stage, KINDS[i], column),
               after = bytes_at(cell, stage, KINDS[i], column);
        if (!(before > 0) || isnan(after))
            continue;
        double change = 100 * (after / before - 1);
        if (fabs(change) < 0.05 && KINDS[i] == MEMORY_ALL)
            continue;
        if (fabs(change) < 0.05) {
            text_format(&same, "%s%s", same.length ? ", " : "", memory_kind_name(KINDS[i]));
            continue;
        }
        text_append(out, written++ ? ", " : "");
        finding_append_bytes(fabs(after - before), out);
        text_format(out, " %s %s (%+.1f %%)", after < before ? "less" : "more",
                    KINDS[i] == MEMORY_ALL ? "in all" : memory_kind_name(KINDS[i]), change);
    }
    if (same.length)
        text_format(out, "%sthe same %s", written ? ", and " : "", text_string(&same));
    text_release(&same);
}

static void append_sent(const results_cell *cell, text *out) {
    bench_communication c = bench_communication_of(cell);
    if (!(c.sent_bytes > 0))
        return;
    text_format(out, "; a rank sends %.2f MB a step", c.sent_bytes / 1e6);
    if (c.formula_bytes > 0)
        text_format(out, ", %.1f %% of the formula's %.2f MB", 100 * c.sent_bytes / c.formula_bytes,
                    c.formula_bytes / 1e6);
}

static bool is_sharded(const results_cell *cell) {
    static const char *const ways[] = {"zero1", "fsdp", NULL};
    return view_is_one_of(view_text(cell, PARAM_PARALLEL), ways);
}

void finding_append_sharding(const results *run, text *out) {
    for (int64_t i = 0; i < run->cell_count && is_bench(run); i++) {
        const results_cell *cell = run->cells[i];
        bool is_whole = is_sharded(cell) && cell->status == RESULTS_OK && memory_stages_of(cell);
        const results_cell *plain = is_whole ? plain_of(run, cell) : NULL;
        if (!plain)
            continue;
        text kinds = {0};
        append_kinds(cell, plain, &kinds);
        if (kinds.length) {
            text_format(out, " On %g ranks %s needs, against %s at the fullest moment, %s",
                        bench_communication_of(cell).ranks, view_text(cell, PARAM_PARALLEL),
                        view_text(plain, PARAM_PARALLEL), text_string(&kinds));
            append_sent(cell, out);
            text_append(out, ".");
        }
        text_release(&kinds);
    }
}
