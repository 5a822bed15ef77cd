/* table.h - rows and columns, rendered for a terminal, Markdown, CSV or JSON.
 *
 * A header says its unit ("mean ms"). Cells are typed: people see the decimals asked for, CSV
 * and JSON get every digit. A real that is not finite shows as an empty cell: there is nothing
 * to say. Rows are filled left to right; cells left over are empty. */
#ifndef REPORT_TABLE_H
#define REPORT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

typedef enum table_alignment { TABLE_LEFT, TABLE_RIGHT } table_alignment;

typedef enum table_format {
    TABLE_TERMINAL,
    TABLE_MARKDOWN,
    TABLE_CSV, /* RFC 4180, header included; no title and no notes */
    TABLE_JSON /* an array with one object a row */
} table_format;

typedef struct report_table report_table;

/* `title` may be NULL. Texts are copied. */
report_table *table_create(const char *title);
void table_destroy(report_table *table);

/* Before the first row. `key` names the column in JSON; the headers stand everywhere else. */
void table_add_column(report_table *table, const char *key, const char *header,
                      table_alignment alignment);

void table_add_row(report_table *table);
/* A rule above the next row in a terminal: totals. */
void table_add_rule(report_table *table);
void table_add_text(report_table *table, const char *value);
void table_add_integer(report_table *table, int64_t value);
void table_add_real(report_table *table, double value, int decimals);
void table_add_empty(report_table *table);

/* A line below the table, in terminals and Markdown. */
void table_add_note(report_table *table, const char *format, ...) PRINTF_LIKE(2, 3);

int table_row_count(const report_table *table);

/* "table", "md", "csv", "json"; `table` is TABLE_TERMINAL. */
#define TABLE_FORMAT_CHOICES "table|md|csv|json"
NODISCARD dyno_status table_format_parse(const char *name, table_format *out);

/* True when stdout is a terminal and the user has not set NO_COLOR. */
bool table_wants_bold(void);

/* Appends `string` with whatever a terminal would obey (escape sequences) made harmless. */
void table_append_printable(text *out, const char *string);

/* Appends the table to `out`. `is_bold` makes a terminal's header bold. */
void table_render(const report_table *table, table_format format, bool is_bold, text *out);

#endif
