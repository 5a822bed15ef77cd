/* table.h - rows and columns.
 *
 * A header says its unit ("mean ms"). Cells are typed: people see the decimals asked for, CSV
 * and JSON get every digit. A real that is not finite shows as an empty cell: there is nothing
 * to say. Rows are filled left to right; cells left over are empty. The structures are open for
 * reading, which renderers do; the functions below write. */
#ifndef REPORT_TABLE_H
#define REPORT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/text.h"
#include "report/renderer.h"

typedef enum table_alignment { TABLE_LEFT, TABLE_RIGHT } table_alignment;

typedef enum cell_kind { CELL_EMPTY, CELL_TEXT, CELL_INTEGER, CELL_REAL } cell_kind;

typedef struct table_cell {
    cell_kind kind;
    const char *text;
    int64_t integer;
    double real;
    int decimals;
} table_cell;

typedef struct table_column {
    const char *key, *header;
    table_alignment alignment;
    bool is_setting;
} table_column;

typedef struct table_row {
    table_cell *cells; /* as many as there are columns */
    int filled;
    bool has_rule_above;
} table_row;

typedef struct report_table {
    const char *title; /* NULL: none */
    table_column *columns;
    table_row *rows;
    const char **notes;
    int column_count, column_capacity;
    int row_count, row_capacity;
    int note_count, note_capacity;
    const char *const *importance; /* see table_set_importance; NULL: in the order of the columns */
    bool next_has_rule;
    arena *strings;
} report_table;

/* `title` may be NULL. Texts are copied. */
report_table *table_create(const char *title);
void table_destroy(report_table *table);

/* Before the first row. `key` names the column in JSON; the headers stand everywhere else. */
void table_add_column(report_table *table, const char *key, const char *header,
                      table_alignment alignment);

/* The same for what was asked for rather than found out: a size, a mode, a status. Where it is the same
 * in every row, a terminal has it above the table; where it varies, it tells the rows apart and is among
 * the last to go. */
void table_add_setting(report_table *table, const char *key, const char *header,
                       table_alignment alignment);

/* Which columns matter where a terminal is too narrow for all: keys, the most important first, ending
 * with NULL; borrowed. TABLE_OTHERS stands for the columns that are not listed, from left to right; they
 * come last if it is not in the list. Settings come behind the first, wherever they are listed. Without
 * a list, columns matter from left to right. */
#define TABLE_OTHERS "*"
void table_set_importance(report_table *table, const char *const *keys);

void table_add_row(report_table *table);
/* A rule above the next row in a terminal: totals. */
void table_add_rule(report_table *table);
void table_add_text(report_table *table, const char *value);
void table_add_format(report_table *table, const char *format, ...) PRINTF_LIKE(2, 3);
void table_add_integer(report_table *table, int64_t value);
void table_add_real(report_table *table, double value, int decimals);
void table_add_empty(report_table *table);

/* A line below the table, in terminals and Markdown. */
void table_add_note(report_table *table, const char *format, ...) PRINTF_LIKE(2, 3);

int table_row_count(const report_table *table);

/* For renderers: appends the cell as people see it, and a number with every digit. */
void table_append_shown(text *out, const table_cell *cell);
void table_append_exact(text *out, const table_cell *cell);
/* Appends `string` as one line, control characters as escapes (base/printable.h). */
void table_append_printable(text *out, const char *string);

/* Appends the table to `out`, as a document of its own. */
void table_render(const report_table *table, table_format format, bool is_bold, text *out);
void table_render_with(const report_table *table, table_format format, render_options options,
                       text *out);

#endif
