/* sqlite_file.h - an SQLite database that is only read, whoever made it.
 *
 * SQLite is looked for at run time (docs/decisions/0030); where it is not installed, opening a file says
 * so. Only plain tables are seen: a view or virtual table of a hostile file could run for ever. Nothing
 * is ever written, not even a journal. */
#ifndef PROFILE_SQLITE_FILE_H
#define PROFILE_SQLITE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct sqlite_file sqlite_file;
typedef struct sqlite_query sqlite_query;

/* The numbers are SQLite's own. */
typedef enum sqlite_type {
    SQLITE_TYPE_INTEGER = 1,
    SQLITE_TYPE_REAL,
    SQLITE_TYPE_TEXT,
    SQLITE_TYPE_BLOB,
    SQLITE_TYPE_NULL
} sqlite_type;

/* On failure *out is NULL. */
NODISCARD dyno_status sqlite_file_open(const char *path, sqlite_file **out);
void sqlite_file_close(sqlite_file *file);

/* Names as SQL compares them: letters of either case alike. */
bool sqlite_file_has_table(const sqlite_file *file, const char *table);
/* Whether there is a view or a virtual table of that name, which is no table here. */
bool sqlite_file_has_view(const sqlite_file *file, const char *name);
bool sqlite_file_has_column(const sqlite_file *file, const char *table, const char *column);
/* Rows of a table at most, without counting them; 0 when it is not there. */
int64_t sqlite_file_most_rows(sqlite_file *file, const char *table);

/* One statement; on failure *out is NULL. */
NODISCARD dyno_status sqlite_query_begin(sqlite_file *file, const char *sql, sqlite_query **out);
void sqlite_query_end(sqlite_query *query);
/* *has_row is false behind the last. base/stop.h is asked meanwhile. */
NODISCARD dyno_status sqlite_query_next(sqlite_query *query, bool *has_row);
/* Of the row, columns from 0; 0 and NULL for a NULL. A text holds until the next row. */
int64_t sqlite_query_integer(sqlite_query *query, int column);
const char *sqlite_query_text(sqlite_query *query, int column);
bool sqlite_query_is_null(sqlite_query *query, int column);
/* As the row has it: SQLite holds no column to its declared type. To be asked before the value, which
 * may convert it. */
sqlite_type sqlite_query_type(sqlite_query *query, int column);

#endif
