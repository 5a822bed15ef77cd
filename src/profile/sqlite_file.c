/* sqlite_file.c - the few functions of SQLite's C interface that reading takes, by dlopen.
 *
 * They are declared here by hand, because the headers of an absent library are absent too; the interface
 * and the numbers of its constants have not changed since 2004. A file is opened as immutable, so that
 * SQLite takes no locks and looks for no journal. */
#define _GNU_SOURCE
#include "profile/sqlite_file.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/name_table.h"
#include "base/stop.h"
#include "base/text.h"

enum {
    SQLITE_OK = 0,
    SQLITE_NOMEM = 7,
    SQLITE_INTERRUPT = 9,
    SQLITE_IOERR = 10,
    SQLITE_CANTOPEN = 14,
    SQLITE_ROW = 100,
    SQLITE_DONE = 101,
    SQLITE_OPEN_READONLY = 0x01,
    SQLITE_OPEN_URI = 0x40,
    SQLITE_LIMIT_LENGTH = 0,
    SQLITE_DBCONFIG_DEFENSIVE = 1010,
    SQLITE_DBCONFIG_TRUSTED_SCHEMA = 1017
};
enum { MOST_VALUE_BYTES = 16 << 20, STEPS_BETWEEN_QUESTIONS = 100000 };

typedef struct sqlite_library {
    int (*open_v2)(const char *name, void **database, int flags, const char *system);
    int (*close)(void *database);
    int (*prepare_v2)(void *database, const char *sql, int bytes, void **statement,
                      const char **rest);
    int (*step)(void *statement);
    int (*finalize)(void *statement);
    int64_t (*column_int64)(void *statement, int column);
    const unsigned char *(*column_text)(void *statement, int column);
    int (*column_type)(void *statement, int column);
    const char *(*errmsg)(void *database);
    int (*exec)(void *database, const char *sql, void *callback, void *context, char **message);
    int (*limit)(void *database, int which, int value);
    int (*db_config)(void *database, int which, ...);
    void (*progress_handler)(void *database, int steps, int (*ask)(void *), void *context);
    const char *why; /* it cannot be used */
} sqlite_library;

/* What a name of a database is: a plain table or its column, or what computes its rows. */
typedef enum name_kind { NAME_STORED = 1, NAME_COMPUTED } name_kind;

struct sqlite_file {
    void *database;
    char *path;
    name_table names; /* "TABLE" and "TABLE.COLUMN", in capitals; the values are name_kinds */
    arena *strings;
};

struct sqlite_query {
    sqlite_file *file;
    void *statement;
};

static sqlite_library load(void) {
    sqlite_library lib = {0};
    void *handle = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return (sqlite_library){.why = "SQLite (libsqlite3.so.0) is not installed"};
    const struct {
        const char *name;
        void *function;
    } wanted[] = {{"sqlite3_open_v2", &lib.open_v2},
                  {"sqlite3_close", &lib.close},
                  {"sqlite3_prepare_v2", &lib.prepare_v2},
                  {"sqlite3_step", &lib.step},
                  {"sqlite3_finalize", &lib.finalize},
                  {"sqlite3_column_int64", &lib.column_int64},
                  {"sqlite3_column_text", &lib.column_text},
                  {"sqlite3_column_type", &lib.column_type},
                  {"sqlite3_errmsg", &lib.errmsg},
                  {"sqlite3_exec", &lib.exec},
                  {"sqlite3_limit", &lib.limit},
                  {"sqlite3_db_config", &lib.db_config},
                  {"sqlite3_progress_handler", &lib.progress_handler}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *found = dlsym(handle, wanted[i].name);
        if (!found)
            return (sqlite_library){.why = "the libsqlite3.so.0 found lacks a function"};
        memcpy(wanted[i].function, &found, sizeof found);
    }
    return lib;
}

static const sqlite_library *loaded(void) {
    static sqlite_library lib;
    static bool is_done;
    if (!is_done) {
        lib = load();
        is_done = true;
    }
    return &lib;
}

/* The one place where SQLite's codes become ours. */
static dyno_status translate(const sqlite_file *file, int code) {
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return dyno_fail(DYNO_OUT_OF_MEMORY, "reading '%s': SQLite got no memory", file->path);
    case SQLITE_INTERRUPT:
        return dyno_fail(DYNO_INTERRUPTED, "interrupted while reading '%s'", file->path);
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        return dyno_fail(DYNO_IO, "reading '%s': %s", file->path,
                         file->database ? loaded()->errmsg(file->database) : "cannot open it");
    default:
        return dyno_fail(DYNO_CORRUPT, "'%s' is no sound SQLite database: %s", file->path,
                         file->database ? loaded()->errmsg(file->database) : "cannot open it");
    }
}

/* ---- opening ---- */

static int ask_to_stop(void *context) {
    (void)context;
    return stop_is_requested();
}

static void append_uri(text *out, const char *path) {
    text_append(out, "file:");
    for (; *path; path++)
        if (isalnum((unsigned char)*path) || strchr("/._-~", *path))
            text_append_bytes(out, path, 1);
        else
            text_format(out, "%%%02X", (unsigned)(unsigned char)*path);
    text_append(out, "?mode=ro&immutable=1");
}

/* A log beside the file holds changes that are not in it yet. */
static dyno_status check_is_whole(const char *path) {
    text log = {0};
    struct stat status;
    text_format(&log, "%s-wal", path);
    bool has_log = stat(text_string(&log), &status) == 0 && status.st_size > 0;
    text_release(&log);
    if (!has_log)
        return DYNO_OK;
    return dyno_fail(DYNO_INVALID,
                     "'%s' is being written: there is '%s-wal' beside it; wait for nsys to end, or "
                     "export it again",
                     path, path);
}

static void add_name(sqlite_file *file, const char *table, const char *column, name_kind kind) {
    char *name =
        arena_format(file->strings, "%s%s%s", table, column ? "." : "", column ? column : "");
    for (char *c = name; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    name_table_set(&file->names, name, (int)kind);
}

static bool has_name(const sqlite_file *file, const char *table, const char *column,
                     name_kind kind) {
    char name[128];
    snprintf(name, sizeof name, "%s%s%s", table, column ? "." : "", column ? column : "");
    for (char *c = name; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    return name_table_find(&file->names, name) == (int)kind;
}

/* Columns that SQL computes are not among those of this list. What computes all of its rows, a view or a
 * virtual table, is listed without looking into it. */
static dyno_status look_at_schema(sqlite_file *file) {
    static const char SQL[] =
        "SELECT m.name, i.name FROM sqlite_master m JOIN pragma_table_info(m.name) i "
        "WHERE m.type = 'table' AND m.rootpage > 0 "
        "UNION ALL SELECT name, NULL FROM sqlite_master "
        "WHERE type = 'view' OR (type = 'table' AND rootpage = 0)";
    sqlite_query *query;
    RETURN_IF_FAILED(sqlite_query_begin(file, SQL, &query));
    dyno_status status;
    bool has_row;
    while ((status = sqlite_query_next(query, &has_row)) == DYNO_OK && has_row) {
        const char *name = sqlite_query_text(query, 0);
        if (!name)
            continue;
        char *table = memory_copy_string(name);
        const char *column = sqlite_query_text(query, 1);
        add_name(file, table, NULL, column ? NAME_STORED : NAME_COMPUTED);
        if (column)
            add_name(file, table, column, NAME_STORED);
        free(table);
    }
    sqlite_query_end(query);
    return status;
}

static dyno_status open_database(sqlite_file *file) {
    const sqlite_library *lib = loaded();
    text uri = {0};
    append_uri(&uri, file->path);
    int code = lib->open_v2(text_string(&uri), &file->database,
                            SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    text_release(&uri);
    if (code != SQLITE_OK)
        return translate(file, code);
    lib->limit(file->database, SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES);
    lib->db_config(file->database, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
    lib->db_config(file->database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)NULL);
    lib->progress_handler(file->database, STEPS_BETWEEN_QUESTIONS, ask_to_stop, NULL);
    code = lib->exec(file->database, "PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;", NULL,
                     NULL, NULL);
    return code == SQLITE_OK ? look_at_schema(file) : translate(file, code);
}

dyno_status sqlite_file_open(const char *path, sqlite_file **out) {
    int descriptor;
    int64_t size;
    *out = NULL;
    RETURN_IF_FAILED(file_open_regular(path, &descriptor, &size));
    close(descriptor);
    if (loaded()->why)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "'%s' is an SQLite database and %s; install it (Debian: libsqlite3-0)",
                         path, loaded()->why);
    RETURN_IF_FAILED(check_is_whole(path));
    sqlite_file *file = memory_allocate(1, sizeof *file);
    file->path = memory_copy_string(path);
    file->strings = arena_create();
    dyno_status status = open_database(file);
    if (status != DYNO_OK) {
        sqlite_file_close(file);
        return status;
    }
    *out = file;
    return DYNO_OK;
}

void sqlite_file_close(sqlite_file *file) {
    if (!file)
        return;
    if (file->database)
        loaded()->close(file->database);
    name_table_release(&file->names);
    arena_destroy(file->strings);
    free(file->path);
    free(file);
}

bool sqlite_file_has_table(const sqlite_file *file, const char *table) {
    return has_name(file, table, NULL, NAME_STORED);
}

bool sqlite_file_has_view(const sqlite_file *file, const char *name) {
    return has_name(file, name, NULL, NAME_COMPUTED);
}

bool sqlite_file_has_column(const sqlite_file *file, const char *table, const char *column) {
    return has_name(file, table, column, NAME_STORED);
}

int64_t sqlite_file_most_rows(sqlite_file *file, const char *table) {
    char sql[160];
    sqlite_query *query;
    bool has_row = false;
    if (!sqlite_file_has_table(file, table))
        return 0;
    snprintf(sql, sizeof sql, "SELECT MAX(rowid) FROM %s", table);
    if (sqlite_query_begin(file, sql, &query) != DYNO_OK)
        return 0; /* a table without row ids */
    int64_t rows = sqlite_query_next(query, &has_row) == DYNO_OK && has_row
                       ? sqlite_query_integer(query, 0)
                       : 0;
    sqlite_query_end(query);
    return rows > 0 ? rows : 0;
}

/* ---- queries ---- */

dyno_status sqlite_query_begin(sqlite_file *file, const char *sql, sqlite_query **out) {
    void *statement = NULL;
    *out = NULL;
    int code = loaded()->prepare_v2(file->database, sql, -1, &statement, NULL);
    if (code != SQLITE_OK)
        return translate(file, code);
    *out = memory_allocate(1, sizeof **out);
    **out = (sqlite_query){file, statement};
    return DYNO_OK;
}

void sqlite_query_end(sqlite_query *query) {
    if (!query)
        return;
    loaded()->finalize(query->statement);
    free(query);
}

dyno_status sqlite_query_next(sqlite_query *query, bool *has_row) {
    int code = loaded()->step(query->statement);
    *has_row = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? DYNO_OK : translate(query->file, code);
}

int64_t sqlite_query_integer(sqlite_query *query, int column) {
    return loaded()->column_int64(query->statement, column);
}

const char *sqlite_query_text(sqlite_query *query, int column) {
    return (const char *)loaded()->column_text(query->statement, column);
}

bool sqlite_query_is_null(sqlite_query *query, int column) {
    return sqlite_query_type(query, column) == SQLITE_TYPE_NULL;
}

sqlite_type sqlite_query_type(sqlite_query *query, int column) {
    return (sqlite_type)loaded()->column_type(query->statement, column);
}
