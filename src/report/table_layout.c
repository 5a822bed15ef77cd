#include "report/table_layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/printable.h"
#include "base/wrap.h"

/* Texts that are longer are wrapped where room is scarce: into about so many lines, in a column that is
 * neither narrower nor wider than this unless there is room to spare. Names (one word) stay whole in a
 * column without such texts. */
enum { SHORT_TEXT = 28, LINES_OF_TEXT = 4, NARROWEST_TEXT = 16, WIDEST_NEED = 20, LONG_NAME = 40 };

typedef struct column_state {
    int full, least; /* width in one line; when wrapped */
    int width;       /* the one it gets */
    int rank[3];     /* smaller is more important, compared in this order */
    bool is_shown, is_constant, is_empty;
} column_state;

typedef struct layout_work {
    const report_table *table;
    column_state *columns;
    int room;
    table_layout *out;
} layout_work;

void table_layout_show(const report_table *table, int row, int column, text *shown) {
    shown->length = 0;
    text_append(shown, "");
    if (row < 0)
        table_append_printable(shown, table->columns[column].header);
    else
        table_append_shown(shown, &table->rows[row].cells[column]);
}

static bool is_blank(const table_cell *cell) {
    return cell->kind == CELL_EMPTY || (cell->kind == CELL_TEXT && !cell->text[0]);
}

/* As it is, not as it shows: two numbers that differ in a hidden digit differ. */
static bool are_same(const table_cell *a, const table_cell *b) {
    if (is_blank(a) || is_blank(b))
        return is_blank(a) && is_blank(b);
    if (a->kind != b->kind)
        return false;
    return a->kind == CELL_TEXT      ? strcmp(a->text, b->text) == 0
           : a->kind == CELL_INTEGER ? a->integer == b->integer
                                     : !(a->real < b->real) && !(a->real > b->real);
}

/* The place of the column in the list of importance; of one that is not in it, that of the others. */
static int place_of(const report_table *table, const char *key) {
    int place = 0, others = -1;
    const char *const *listed = table->importance;
    for (; listed && listed[place]; place++) {
        if (strcmp(listed[place], key) == 0)
            return place;
        if (strcmp(listed[place], TABLE_OTHERS) == 0)
            others = place;
    }
    return others >= 0 ? others : place;
}

static bool has_column(const report_table *table, const char *key) {
    for (int j = 0; j < table->column_count; j++)
        if (strcmp(table->columns[j].key, key) == 0)
            return true;
    return false;
}

/* The first of the list that the table has. */
static bool is_first(const report_table *table, int column) {
    const char *const *listed = table->importance;
    while (listed && *listed && !has_column(table, *listed))
        listed++;
    return listed && *listed ? strcmp(*listed, table->columns[column].key) == 0 : column == 0;
}

static void rank_column(const report_table *table, int column, column_state *state) {
    state->rank[0] = is_first(table, column) ? 0 : table->columns[column].is_setting ? 1 : 2;
    state->rank[1] = place_of(table, table->columns[column].key);
    state->rank[2] = column;
}

static int larger(int a, int b) { return a > b ? a : b; }
static int smaller(int a, int b) { return a < b ? a : b; }

/* The widths of a column's cells by what they are. */
typedef struct cell_widths {
    int text, name, number;
} cell_widths;

/* Numbers are never broken, their headers are. */
static int least_width(const char *header, cell_widths cells) {
    int part = larger(cells.text, smaller(cells.name, LONG_NAME));
    if (cells.text > SHORT_TEXT)
        part = smaller(larger(cells.text / LINES_OF_TEXT, NARROWEST_TEXT), WIDEST_NEED);
    part = larger(part, cells.number);
    return larger(part, smaller(wrap_longest_word(header), LONG_NAME));
}

static void measure_column(const layout_work *work, int column) {
    const report_table *table = work->table;
    column_state *state = &work->columns[column];
    text shown = {0};
    cell_widths cells = {0};
    *state = (column_state){.is_shown = true, .is_constant = true, .is_empty = true};
    for (int i = -1; i < table->row_count; i++) {
        table_layout_show(table, i, column, &shown);
        int width = printable_width(text_string(&shown));
        state->full = larger(state->full, width);
        if (i < 0)
            continue;
        const table_cell *cell = &table->rows[i].cells[column];
        state->is_empty = state->is_empty && is_blank(cell);
        state->is_constant = state->is_constant && are_same(cell, &table->rows[0].cells[column]);
        int *widest = cell->kind != CELL_TEXT            ? &cells.number
                      : strchr(text_string(&shown), ' ') ? &cells.text
                                                         : &cells.name;
        *widest = larger(*widest, width);
    }
    table_layout_show(table, -1, column, &shown);
    state->least = least_width(text_string(&shown), cells);
    text_release(&shown);
    rank_column(table, column, state);
}

/* "model small"; numbers by their header, which has the unit: "launches 54". */
static void add_to_heading(layout_work *work, int column) {
    const table_column *about = &work->table->columns[column];
    text *heading = &work->out->heading, value = {0};
    work->columns[column].is_shown = false;
    if (work->columns[column].is_empty)
        return; /* there is nothing to tell */
    table_layout_show(work->table, 0, column, &value);
    text_append(heading, heading->length ? ", " : "");
    table_append_printable(heading, about->is_setting ? about->key : about->header);
    text_format(heading, " %s", text_string(&value));
    text_release(&value);
}

static int least_total(const layout_work *work) {
    int total = -TABLE_GAP;
    for (int j = 0; j < work->table->column_count; j++)
        total += work->columns[j].is_shown ? work->columns[j].least + TABLE_GAP : 0;
    return total;
}

static bool is_less_important(const column_state *a, const column_state *b) {
    for (int i = 0; i < 3; i++)
        if (a->rank[i] != b->rank[i])
            return a->rank[i] > b->rank[i];
    return false;
}

/* Of those that are shown; -1: there is one at most, which stays. */
static int find_least_important(const layout_work *work) {
    int found = -1, shown = 0;
    for (int j = 0; j < work->table->column_count; j++) {
        if (!work->columns[j].is_shown)
            continue;
        shown++;
        if (found < 0 || is_less_important(&work->columns[j], &work->columns[found]))
            found = j;
    }
    return shown > 1 ? found : -1;
}

/* A table of one row has nothing but constants: only its settings are told above it. */
static bool goes_above(const layout_work *work, int column, bool is_tight) {
    const column_state *state = &work->columns[column];
    if (!state->is_shown || !state->is_constant)
        return false;
    if (state->is_empty || work->table->columns[column].is_setting)
        return true;
    return is_tight && work->table->row_count > 1 && state->rank[0] > 0;
}

static void move_constants(layout_work *work, bool is_tight) {
    for (int j = 0; j < work->table->column_count; j++)
        if (goes_above(work, j, is_tight) && find_least_important(work) >= 0)
            add_to_heading(work, j);
}

static void leave_out(layout_work *work) {
    for (int j; least_total(work) > work->room && (j = find_least_important(work)) >= 0;)
        work->columns[j].is_shown = false;
}

static void name_left_out(layout_work *work, const bool *was_shown) {
    text *names = &work->out->left_out;
    for (int j = 0; j < work->table->column_count; j++)
        if (was_shown[j] && !work->columns[j].is_shown) {
            text_append(names, names->length ? ", " : "");
            table_append_printable(names, work->table->columns[j].header);
        }
}

/* What is left of the room goes to the columns that are wrapped, the most important first. A header is
 * in one line or as narrow as it can be. */
static void share_room(layout_work *work) {
    int spare = work->room - least_total(work), count = work->table->column_count;
    bool *is_done = memory_allocate((size_t)count, sizeof *is_done);
    for (int j = 0; j < count; j++)
        work->columns[j].width = work->columns[j].least;
    while (spare > 0) {
        int best = -1;
        for (int j = 0; j < count; j++)
            if (work->columns[j].is_shown && !is_done[j] &&
                (best < 0 || is_less_important(&work->columns[best], &work->columns[j])))
                best = j;
        if (best < 0)
            break;
        column_state *state = &work->columns[best];
        int wanted = state->full - state->least;
        bool is_text = work->table->columns[best].alignment == TABLE_LEFT;
        int given = wanted <= spare ? wanted : is_text ? spare : 0;
        state->width += given;
        spare -= given;
        is_done[best] = true;
    }
    free(is_done);
}

static void fit(layout_work *work) {
    int count = work->table->column_count;
    bool *was_shown = memory_allocate((size_t)count, sizeof *was_shown);
    if (work->table->row_count)
        move_constants(work, false);
    if (work->table->row_count && least_total(work) > work->room)
        move_constants(work, true);
    for (int j = 0; j < count; j++)
        was_shown[j] = work->columns[j].is_shown;
    leave_out(work);
    name_left_out(work, was_shown);
    free(was_shown);
    share_room(work);
}

table_layout table_layout_create(const report_table *table, int columns) {
    size_t count = (size_t)table->column_count;
    table_layout layout = {.columns = memory_allocate(count, sizeof(int)),
                           .widths = memory_allocate(count, sizeof(int))};
    layout_work work = {.table = table,
                        .columns = memory_allocate(count, sizeof(column_state)),
                        .room = columns > TABLE_NARROWEST ? columns : TABLE_NARROWEST,
                        .out = &layout};
    for (int j = 0; j < table->column_count; j++) {
        measure_column(&work, j);
        work.columns[j].width = work.columns[j].full;
    }
    if (columns > 0)
        fit(&work);
    for (int j = 0; j < table->column_count; j++)
        if (work.columns[j].is_shown) {
            layout.columns[layout.count] = j;
            layout.widths[layout.count++] = work.columns[j].width;
        }
    free(work.columns);
    return layout;
}

void table_layout_release(table_layout *layout) {
    free(layout->columns);
    free(layout->widths);
    text_release(&layout->heading);
    text_release(&layout->left_out);
}
