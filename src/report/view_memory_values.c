/* view_memory_values.c - the values of a step: those of the peak, the largest, what is saved, what each
 * block has, and what changes would save. */
#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "report/view_memory.h"
#include "report/view_parts.h"
#include "report/view_ways.h"

static const double MIB = 0x1p20;

enum { SHOWN_ALLOCATIONS = 16, SHOWN_OPS = 5 }; /* rows for people; files have all */

/* A part that is one table for a breakdown: its columns, and the rows of a cell. */
typedef struct breakdown_part {
    const char *breakdown;
    int keys, columns;
    int earlier_columns; /* of runs before a column was added to it; 0: none was */
    const char *title;
    /* `b` is NULL where the table is of all cells. */
    void (*add_columns)(const results_breakdown *b, bool is_full, report_table *t);
    void (*add_rows)(const results_cell *cell, const results_breakdown *b, bool is_full,
                     report_table *t);
} breakdown_part;

static const results_breakdown *find_part(const breakdown_part *part, const results_cell *cell) {
    const results_breakdown *b =
        view_breakdown_of_form(cell, part->breakdown, part->keys, part->columns);
    return b || !part->earlier_columns
               ? b
               : view_breakdown_of_form(cell, part->breakdown, part->keys, part->earlier_columns);
}

/* One table of all cells. */
static void append_whole_part(const breakdown_part *part, const results *run,
                              report_document *out) {
    report_table *t = view_memory_begin_table(NULL, part->title);
    part->add_columns(NULL, true, t);
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_breakdown *b = find_part(part, run->cells[i]);
        if (b)
            part->add_rows(run->cells[i], b, true, t);
        else
            view_memory_begin_row(t, run->cells[i], true);
    }
    document_add_table(out, t);
}

static void append_part(const breakdown_part *part, const results *run, bool is_full,
                        report_document *out) {
    if (is_full) {
        append_whole_part(part, run, out);
        return;
    }
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_breakdown *b = find_part(part, run->cells[i]);
        if (!b)
            continue;
        report_table *t = view_memory_begin_table(run->cells[i], part->title);
        part->add_columns(b, false, t);
        part->add_rows(run->cells[i], b, false, t);
        document_add_table(out, t);
    }
}

/* ---- the peak ---- */

static void add_peak_columns(const results_breakdown *b, bool is_full, report_table *t) {
    (void)b;
    (void)is_full;
    table_add_column(t, "value", "value", TABLE_LEFT);
    table_add_column(t, "role", "role", TABLE_LEFT);
    table_add_column(t, "formula", "formula", TABLE_LEFT);
    table_add_column(t, "count", "count", TABLE_RIGHT);
    table_add_column(t, "bytes", "all B", TABLE_RIGHT);
}

static void add_peak_rows(const results_cell *cell, const results_breakdown *b, bool is_full,
                          report_table *t) {
    for (int64_t i = 0; i < b->row_count; i++) {
        view_memory_begin_row(t, cell, is_full);
        for (int k = 0; k < 3; k++)
            table_add_text(t, b->rows[i].keys[k]);
        view_add_whole(t, view_memory_value(b, i, COLUMN_COUNT));
        view_add_whole(t, view_memory_value(b, i, COLUMN_BYTES));
    }
}

void view_memory_peak(const results *run, bool is_full, report_document *out) {
    static const breakdown_part part = {.breakdown = BREAKDOWN_PEAK_VALUES,
                                        .keys = 3,
                                        .columns = 2,
                                        .title = "values alive at the peak",
                                        .add_columns = add_peak_columns,
                                        .add_rows = add_peak_rows};
    if (is_full) {
        append_part(&part, run, true, out);
        return;
    }
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_breakdown *b =
            view_breakdown_of_form(run->cells[i], BREAKDOWN_PEAK_VALUES, 3, 2);
        if (b)
            document_add_table(out, view_create_peak_table(run->cells[i], b));
    }
}

/* ---- the largest allocations ---- */

static void add_allocation_columns(const results_breakdown *b, bool is_full, report_table *t) {
    (void)b;
    table_add_column(t, "value", "value", TABLE_LEFT);
    table_add_column(t, "op", "op", TABLE_LEFT);
    table_add_column(t, "role", "role", TABLE_LEFT);
    table_add_column(t, "count", "count", TABLE_RIGHT);
    table_add_column(t, "formula", "each", TABLE_LEFT);
    table_add_column(t, "bytes", is_full ? "each B" : "each MiB", TABLE_RIGHT);
    table_add_column(t, "born", "born at", TABLE_RIGHT);
    table_add_column(t, "dies", "dies after", TABLE_RIGHT);
    static const char *const importance[] = {"value", "bytes", "formula", "role", "born",
                                             "dies",  "count", "op",      NULL};
    table_set_importance(t, importance);
}

static void add_allocation_rows(const results_cell *cell, const results_breakdown *b, bool is_full,
                                report_table *t) {
    int64_t launches = view_whole(view_metric(cell, METRIC_LAUNCHES));
    int64_t shown = is_full || b->row_count < SHOWN_ALLOCATIONS ? b->row_count : SHOWN_ALLOCATIONS;
    for (int64_t i = 0; i < shown; i++) {
        double bytes = view_memory_value(b, i, COLUMN_BYTES);
        bool is_persistent = view_memory_value(b, i, COLUMN_PERSISTENT) > 0;
        double last = view_memory_value(b, i, COLUMN_LAST_USED);
        view_memory_begin_row(t, cell, is_full);
        for (int k = 0; k < 3; k++)
            table_add_text(t, b->rows[i].keys[k]);
        view_add_whole(t, view_memory_value(b, i, COLUMN_COUNT));
        table_add_text(t, b->rows[i].keys[3]);
        if (is_full)
            view_add_whole(t, bytes);
        else
            table_add_real(t, bytes / MIB, 2);
        if (is_persistent)
            table_add_text(t, "before");
        else
            view_add_whole(t, view_memory_value(b, i, COLUMN_BORN));
        if (is_persistent || last >= (double)launches)
            table_add_text(t, "stays");
        else
            view_add_whole(t, last);
    }
    if (!is_full)
        table_add_note(t,
                       "count: how many there are of one name, op, role and shape; launches of "
                       "birth and death are the first one's%s",
                       shown < b->row_count ? "; --format csv has the others" : "");
}

void view_memory_allocations(const results *run, bool is_full, report_document *out) {
    static const breakdown_part part = {.breakdown = BREAKDOWN_ALLOCATIONS,
                                        .keys = 4,
                                        .columns = 5,
                                        .title = "largest allocations",
                                        .add_columns = add_allocation_columns,
                                        .add_rows = add_allocation_rows};
    append_part(&part, run, is_full, out);
}

/* ---- saved for the backward ---- */

static void add_saved_columns(const results_breakdown *b, bool is_full, report_table *t) {
    (void)b;
    table_add_column(t, "scope", "scope", TABLE_LEFT);
    table_add_column(t, "op", "op", TABLE_LEFT);
    table_add_column(t, "count", "count", TABLE_RIGHT);
    table_add_column(t, "formula", "each", TABLE_LEFT);
    table_add_column(t, "bytes", is_full ? "all B" : "all MiB", TABLE_RIGHT);
    table_add_column(t, "share", "% of saved", TABLE_RIGHT);
    static const char *const importance[] = {"scope", "bytes", "share", "formula", NULL};
    table_set_importance(t, importance);
}

static void add_saved_rows(const results_cell *cell, const results_breakdown *b, bool is_full,
                           report_table *t) {
    double all = view_metric(cell, METRIC_SAVED_BYTES), told = 0;
    int64_t shown = is_full || b->row_count < SHOWN_OPS ? b->row_count : SHOWN_OPS;
    for (int64_t i = 0; i < shown; i++) {
        double bytes = view_memory_value(b, i, COLUMN_BYTES);
        told += bytes;
        view_memory_begin_row(t, cell, is_full);
        table_add_text(t, b->rows[i].keys[0]);
        table_add_text(t, b->rows[i].keys[1]);
        view_add_whole(t, view_memory_value(b, i, COLUMN_COUNT));
        table_add_text(t, b->rows[i].keys[2]);
        if (is_full)
            view_add_whole(t, bytes);
        else
            table_add_real(t, bytes / MIB, 2);
        table_add_real(t, all > 0 ? 100 * bytes / all : NAN, 1);
    }
    if (is_full)
        return;
    table_add_note(t, "saved in all %.1f MiB; the rows above are %.1f %% of it", all / MIB,
                   all > 0 ? 100 * told / all : 0);
}

void view_memory_saved(const results *run, bool is_full, report_document *out) {
    static const breakdown_part part = {.breakdown = BREAKDOWN_SAVED_BY_OP,
                                        .keys = 3,
                                        .columns = 2,
                                        .title = "saved for the backward when it begins, by op",
                                        .add_columns = add_saved_columns,
                                        .add_rows = add_saved_rows};
    append_part(&part, run, is_full, out);
}

/* ---- by block ---- */

static const struct {
    const char *column, *header;
} BLOCK_COLUMNS[] = {{"parameter", "weights"},
                     {"gradient", "gradients"},
                     {COLUMN_GRADIENT_SUMS, "sums of gradients"},
                     {"optimizer-state", "optimizer state"},
                     {"saved", "saved for backward"}};
enum { BLOCK_COLUMN_COUNT = sizeof BLOCK_COLUMNS / sizeof *BLOCK_COLUMNS };

/* People see no sums of gradients where there are none. */
static bool shows_block_column(const results_breakdown *b, int column, bool is_full) {
    bool is_shown = is_full || strcmp(BLOCK_COLUMNS[column].column, COLUMN_GRADIENT_SUMS) != 0;
    for (int64_t i = 0; !is_shown && i < b->row_count; i++)
        is_shown = view_memory_value(b, i, BLOCK_COLUMNS[column].column) > 0;
    return is_shown;
}

static void add_block_columns(const results_breakdown *b, bool is_full, report_table *t) {
    table_add_column(t, "block", "block", TABLE_LEFT);
    for (int i = 0; i < BLOCK_COLUMN_COUNT; i++) {
        if (!shows_block_column(b, i, is_full))
            continue;
        text header = {0};
        text_format(&header, "%s %s", BLOCK_COLUMNS[i].header, is_full ? "B" : "MiB");
        table_add_column(t, BLOCK_COLUMNS[i].column, text_string(&header), TABLE_RIGHT);
        text_release(&header);
    }
}

static bool are_blocks_alike(const results_breakdown *b, int64_t x, int64_t y) {
    for (int i = 0; i < b->column_count; i++)
        if (!view_values_are_equal(&b->rows[x].values[i], &b->rows[y].values[i]))
            return false;
    return true;
}

/* "0 to 46", or "24 of 0 to 46" where others are between them. */
static void append_blocks(const results_breakdown *b, int64_t first, text *out) {
    int64_t count = 0, last = first;
    for (int64_t i = first; i < b->row_count - 1; i++)
        if (are_blocks_alike(b, first, i)) {
            count++;
            last = i;
        }
    if (count > 1 && count < last - first + 1)
        text_format(out, "%lld of ", (long long)count);
    text_append(out, b->rows[first].keys[0]);
    if (count > 1)
        text_format(out, " to %s", b->rows[last].keys[0]);
    if (count > 1)
        text_append(out, ", each");
}

static void add_block_bytes(const results_breakdown *b, int64_t row, bool is_full,
                            report_table *t) {
    for (int i = 0; i < BLOCK_COLUMN_COUNT; i++) {
        if (!shows_block_column(b, i, is_full))
            continue;
        double bytes = view_memory_value(b, row, BLOCK_COLUMNS[i].column);
        if (is_full)
            view_add_whole(t, bytes);
        else
            table_add_real(t, bytes / MIB, 2);
    }
}

/* The last row is what belongs to no block. */
static void add_block_rows(const results_cell *cell, const results_breakdown *b, bool is_full,
                           report_table *t) {
    for (int64_t i = 0; i < b->row_count; i++) {
        bool is_rest = i == b->row_count - 1, is_told = false;
        for (int64_t j = 0; !is_full && !is_rest && j < i && !is_told; j++)
            is_told = are_blocks_alike(b, j, i);
        if (is_told)
            continue;
        text name = {0};
        if (is_rest)
            text_append(&name, "no block");
        else if (is_full)
            text_append(&name, b->rows[i].keys[0]);
        else
            append_blocks(b, i, &name);
        view_memory_begin_row(t, cell, is_full);
        table_add_text(t, text_string(&name));
        add_block_bytes(b, i, is_full, t);
        text_release(&name);
    }
}

void view_memory_blocks(const results *run, bool is_full, report_document *out) {
    static const breakdown_part part = {.breakdown = BREAKDOWN_BY_BLOCK,
                                        .keys = 1,
                                        .columns = BLOCK_COLUMN_COUNT,
                                        .earlier_columns = BLOCK_COLUMN_COUNT - 1,
                                        .title = "bytes by block",
                                        .add_columns = add_block_columns,
                                        .add_rows = add_block_rows};
    append_part(&part, run, is_full, out);
}

/* ---- advice ---- */

static void add_advice_columns(const results_breakdown *b, bool is_full, report_table *t) {
    (void)b;
    table_add_column(t, "change", "change", TABLE_LEFT);
    table_add_column(t, "saves", is_full ? "saves B" : "saves MiB", TABLE_RIGHT);
    table_add_column(t, "needs", is_full ? "then needs B" : "then needs MiB", TABLE_RIGHT);
    table_add_column(t, "fits", "fits", TABLE_LEFT);
    table_add_column(t, "time_ms", "step ms on paper", TABLE_RIGHT);
    table_add_column(t, "costs", "costs % time", TABLE_RIGHT);
    table_add_column(t, "effect", "what it does", TABLE_LEFT);
    static const char *const importance[] = {"change",  "saves", "costs",  "fits",
                                             "time_ms", "needs", "effect", NULL};
    table_set_importance(t, importance);
}

static void add_advice_row(const results_cell *cell, const results_breakdown *b, int64_t row,
                           bool is_full, report_table *t) {
    double before = view_memory_value(b, row, COLUMN_BEFORE);
    double after = view_memory_value(b, row, COLUMN_AFTER);
    double slow = view_memory_value(b, row, COLUMN_SECONDS_BEFORE);
    double seconds = view_memory_value(b, row, COLUMN_SECONDS);
    double limit = view_metric(cell, METRIC_MEMORY_BYTES);
    view_memory_begin_row(t, cell, is_full);
    table_add_text(t, b->rows[row].keys[0]);
    if (is_full) {
        view_add_whole(t, before - after);
        view_add_whole(t, after);
    } else {
        table_add_real(t, (before - after) / MIB, 1);
        table_add_real(t, after / MIB, 1);
    }
    table_add_text(t, !(limit > 0) ? "" : after <= limit ? "yes" : "no");
    table_add_real(t, seconds * 1e3, 3);
    table_add_real(t, slow > 0 ? 100 * (seconds / slow - 1) : NAN, 1);
    table_add_text(t, b->rows[row].keys[1]);
}

static void add_advice_rows(const results_cell *cell, const results_breakdown *b, bool is_full,
                            report_table *t) {
    for (int64_t i = 0; i < b->row_count; i++)
        add_advice_row(cell, b, i, is_full, t);
    if (is_full)
        return;
    const char *together = view_text(cell, PARAM_FITS_WITH);
    if (*together)
        table_add_note(t, "would fit with: %s", together);
    table_add_note(t,
                   "one change at a time, the cheapest first, those that save nothing last; time "
                   "is the least that arithmetic, memory and launches take at the chip's rates on "
                   "paper: compare the rows, not a clock");
}

void view_memory_advice(const results *run, bool is_full, report_document *out) {
    static const breakdown_part part = {.breakdown = BREAKDOWN_ADVICE,
                                        .keys = 2,
                                        .columns = 4,
                                        .title = "what would save how much",
                                        .add_columns = add_advice_columns,
                                        .add_rows = add_advice_rows};
    append_part(&part, run, is_full, out);
}
