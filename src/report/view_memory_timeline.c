/* view_memory_timeline.c - bytes by role over one step: drawn for a terminal, summed up by phase for
 * people, launch by launch for files. */
#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "report/view_memory.h"
#include "report/view_parts.h"
#include "report/view_ways.h"

static const double MIB = 0x1p20;

/* From the bottom of the picture to its top: what stays, then what comes and goes. */
static const struct {
    const char *column, *label;
    char letter;
} ROLES[] = {{"parameter", "weights", 'W'},
             {"optimizer-state", "optimizer state", 'O'},
             {"gradient", "gradients", 'G'},
             {"saved", "saved", 'S'},
             {"activation", "activations", 'A'},
             {"workspace", "workspace", 'K'},
             {"input", "inputs", 'I'}};
enum { ROLES_COUNT = sizeof ROLES / sizeof *ROLES };

static const results_breakdown *timeline_of(const results_cell *cell) {
    const results_breakdown *b = cell_find_breakdown(cell, BREAKDOWN_TIMELINE);
    return b && b->key_count == 3 && b->row_count ? b : NULL;
}

static const char *const PHASES[] = {"forward", "backward", "optimizer", "communication"};
enum { PHASES_COUNT = sizeof PHASES / sizeof *PHASES };

static int phase_of(const results_row *row) {
    for (int i = 0; i < PHASES_COUNT; i++)
        if (strcmp(row->keys[0], PHASES[i]) == 0)
            return i;
    return -1;
}

static double sum_of(const results_breakdown *b, int64_t row) {
    double sum = 0;
    for (int r = 0; r < ROLES_COUNT; r++) {
        double bytes = view_memory_value(b, row, ROLES[r].column);
        sum += isfinite(bytes) ? bytes : 0;
    }
    return sum;
}

/* ---- the picture ---- */

static void draw(const results_cell *cell, const results_breakdown *b, report_document *out) {
    text title = {0};
    view_memory_append_cell(cell, &title);
    text_append(&title, ": memory over one step, launch by launch");
    document_areas *plot = document_add_areas(out, text_string(&title),
                                              "MiB. Below: f forward, b backward, o optimizer. "
                                              "Each column is the fullest of its launches",
                                              ROLES_COUNT, b->row_count);
    text_release(&title);
    for (int64_t i = 0; i < b->row_count; i++) {
        int phase = phase_of(&b->rows[i]);
        plot->marks[i] = phase < 0 ? '.' : PHASES[phase][0];
        for (int r = 0; r < ROLES_COUNT; r++)
            plot->areas[r].values[i] = view_memory_value(b, i, ROLES[r].column) / MIB;
    }
    for (int r = 0; r < ROLES_COUNT; r++) {
        plot->areas[r].label = ROLES[r].label;
        plot->areas[r].letter = ROLES[r].letter;
    }
}

/* ---- by phase ---- */

static void add_phase(const results_breakdown *b, int phase, report_table *t) {
    int64_t launches = 0, first = -1, last = -1, fullest = -1;
    for (int64_t i = 0; i < b->row_count; i++) {
        if (phase_of(&b->rows[i]) != phase)
            continue;
        launches++;
        first = first < 0 ? i : first;
        last = i;
        if (fullest < 0 || sum_of(b, i) > sum_of(b, fullest))
            fullest = i;
    }
    if (!launches)
        return;
    table_add_row(t);
    table_add_text(t, phase < 0 ? "before the step" : PHASES[phase]);
    if (phase < 0) {
        table_add_empty(t);
        table_add_empty(t);
    } else {
        table_add_integer(t, launches);
        table_add_format(t, "%lld to %lld",
                         (long long)view_whole(view_memory_value(b, first, COLUMN_LAUNCH)),
                         (long long)view_whole(view_memory_value(b, last, COLUMN_LAUNCH)));
    }
    for (int r = 0; r < ROLES_COUNT; r++)
        table_add_real(t, view_memory_value(b, fullest, ROLES[r].column) / MIB, 1);
    table_add_real(t, sum_of(b, fullest) / MIB, 1);
    table_add_real(t, view_memory_value(b, last, COLUMN_RESERVED) / MIB, 1);
    table_add_text(t, b->rows[fullest].keys[1]);
    table_add_text(t, b->rows[fullest].keys[2]);
}

static void note_measured(const results_breakdown *b, report_table *t) {
    double largest = 0;
    int64_t differing = 0;
    for (int64_t i = 0; i < b->row_count; i++) {
        double difference =
            fabs(view_memory_value(b, i, COLUMN_MEASURED) - view_memory_value(b, i, COLUMN_BLOCKS));
        if (isnan(difference))
            return;
        differing += difference > 0;
        largest = fmax(largest, difference);
    }
    if (differing)
        table_add_note(t,
                       "measured and predicted differ at %lld of %lld launches, by %.0f B at most",
                       (long long)differing, (long long)b->row_count - 1, largest);
    else
        table_add_note(t, "measured while each of the %lld launches ran: equal to the byte",
                       (long long)b->row_count - 1);
}

static report_table *phases_table(const results_cell *cell, const results_breakdown *b) {
    report_table *t = view_memory_begin_table(cell, "the fullest moment of each phase");
    table_add_column(t, "phase", "phase", TABLE_LEFT);
    table_add_column(t, "launches", "launches", TABLE_RIGHT);
    table_add_column(t, "from_to", "from, to", TABLE_RIGHT);
    for (int r = 0; r < ROLES_COUNT; r++) {
        text header = {0};
        text_format(&header, "%s MiB", ROLES[r].label);
        table_add_column(t, ROLES[r].column, text_string(&header), TABLE_RIGHT);
        text_release(&header);
    }
    table_add_column(t, "all_mib", "all MiB", TABLE_RIGHT);
    table_add_column(t, "reserved_mib", "reserved MiB", TABLE_RIGHT);
    table_add_column(t, "scope", "scope", TABLE_LEFT);
    table_add_column(t, "op", "op", TABLE_LEFT);
    static const char *const importance[] = {"phase",    "all_mib", "scope",    "saved",
                                             "gradient", "op",      "launches", NULL};
    table_set_importance(t, importance);
    for (int phase = -1; phase < PHASES_COUNT; phase++)
        add_phase(b, phase, t);
    note_measured(b, t);
    return t;
}

/* ---- launch by launch ---- */

static bool is_measured(const results *run) {
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_breakdown *b = timeline_of(run->cells[i]);
        if (b && isfinite(view_memory_value(b, 0, COLUMN_MEASURED)))
            return true;
    }
    return false;
}

static void add_launches(const results_cell *cell, const results_breakdown *b, bool has_measured,
                         report_table *t) {
    for (int64_t i = 0; i < b->row_count; i++) {
        view_memory_begin_row(t, cell, true);
        view_add_whole(t, view_memory_value(b, i, COLUMN_LAUNCH));
        for (int k = 0; k < 3; k++)
            table_add_text(t, b->rows[i].keys[k]);
        for (int r = 0; r < ROLES_COUNT; r++)
            view_add_whole(t, view_memory_value(b, i, ROLES[r].column));
        view_add_whole(t, sum_of(b, i));
        view_add_whole(t, view_memory_value(b, i, COLUMN_BLOCKS));
        view_add_whole(t, view_memory_value(b, i, COLUMN_RESERVED));
        if (has_measured) {
            view_add_whole(t, view_memory_value(b, i, COLUMN_MEASURED_TENSORS));
            view_add_whole(t, view_memory_value(b, i, COLUMN_MEASURED));
        }
    }
}

static report_table *launches_table(const results *run) {
    bool has_measured = is_measured(run);
    report_table *t = view_memory_begin_table(NULL, "bytes while each launch runs");
    table_add_column(t, "launch", "launch", TABLE_RIGHT);
    table_add_column(t, "phase", "phase", TABLE_LEFT);
    table_add_column(t, "scope", "scope", TABLE_LEFT);
    table_add_column(t, "op", "op", TABLE_LEFT);
    for (int r = 0; r < ROLES_COUNT; r++) {
        text header = {0};
        text_format(&header, "%s B", ROLES[r].column);
        table_add_column(t, ROLES[r].column, text_string(&header), TABLE_RIGHT);
        text_release(&header);
    }
    table_add_column(t, "all", "all B", TABLE_RIGHT);
    table_add_column(t, "blocks", "in blocks B", TABLE_RIGHT);
    table_add_column(t, "reserved", "reserved B", TABLE_RIGHT);
    if (has_measured) {
        table_add_column(t, "measured_tensors", "measured tensors B", TABLE_RIGHT);
        table_add_column(t, "measured", "measured in blocks B", TABLE_RIGHT);
    }
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_breakdown *b = timeline_of(run->cells[i]);
        if (b)
            add_launches(run->cells[i], b, has_measured, t);
        else
            view_memory_begin_row(t, run->cells[i], true);
    }
    return t;
}

void view_memory_timeline(const results *run, bool is_full, report_document *out) {
    if (is_full) {
        document_add_table(out, launches_table(run));
        return;
    }
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_breakdown *b = timeline_of(run->cells[i]);
        if (!b)
            continue;
        draw(run->cells[i], b, out);
        document_add_table(out, phases_table(run->cells[i], b));
    }
}
