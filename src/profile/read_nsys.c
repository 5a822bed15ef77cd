/* read_nsys.c - the tables of an .sqlite export of Nsight Systems.
 *
 * A table is there only when it has rows, and columns differ between versions: each is looked for before
 * it is selected, and NULL stands for what is absent. Rows are read in the order of the file; nothing is
 * sorted by SQLite, which would write temporary files as large as the table. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/stop.h"
#include "base/text.h"
#include "profile/foreign_trace.h"
#include "profile/sqlite_file.h"

#define KERNELS "CUPTI_ACTIVITY_KIND_KERNEL"
#define COPIES "CUPTI_ACTIVITY_KIND_MEMCPY"
#define FILLS "CUPTI_ACTIVITY_KIND_MEMSET"
#define GRAPHS "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
#define RUNTIME_CALLS "CUPTI_ACTIVITY_KIND_RUNTIME"
#define DRIVER_CALLS "CUPTI_ACTIVITY_KIND_DRIVER"
#define RANGES "NVTX_EVENTS"
#define STRINGS "StringIds"

enum { PROGRESS_ROWS = 4096 };

/* Their numbers are those of a process. */
typedef struct nvtx_domain {
    int64_t process, id;
} nvtx_domain;

typedef struct nsys_file {
    foreign_reading *reading;
    sqlite_file *database;
    bool has_processes; /* the tables of devices say whose work it is */
    int64_t rows_read, rows_in_all;
    int64_t last_end_ns;
    nvtx_domain *libraries; /* NVTX domains that libraries made for themselves */
    int library_count, library_capacity;
} nsys_file;

/* A table, its columns in the order of the query, and what is done with a row. */
typedef struct table_reader {
    const char *table;
    const char *const *columns;
    int column_count;
    int needed;          /* of the columns, the first so many must be there */
    unsigned never_null; /* bits of those that every row must have, where they are there */
    /* Columns with a text, or the number of one in StringIds: tried from the first on. */
    const char *const *texts;
    dyno_status (*take)(nsys_file *file, sqlite_query *row);
    const char *condition; /* of rows; NULL: all of them. Its columns must be there */
} table_reader;

/* ---- queries ---- */

static void append_column(const nsys_file *file, const table_reader *of, const char *column,
                          text *sql) {
    if (sqlite_file_has_column(file->database, of->table, column))
        text_format(sql, "t.\"%s\"", column);
    else
        text_append(sql, "NULL");
}

/* The first text column that is not NULL; numbers among them are looked up. One text is asked for and
 * not joined: ids that are not unique must not multiply the rows. */
static void append_text(const nsys_file *file, const table_reader *of, text *sql) {
    bool has_strings = sqlite_file_has_column(file->database, STRINGS, "id") &&
                       sqlite_file_has_column(file->database, STRINGS, "value");
    text first = {0};
    text_append(&first, "COALESCE(NULL");
    for (const char *const *column = of->texts; *column; column++) {
        text_append(&first, ", ");
        append_column(file, of, *column, &first);
    }
    text_append(&first, ", NULL)");
    text_format(sql, ", CASE typeof(%s) WHEN 'text' THEN %s ELSE ", text_string(&first),
                text_string(&first));
    if (has_strings)
        text_format(sql, "(SELECT s.value FROM " STRINGS " s WHERE s.id = %s LIMIT 1)",
                    text_string(&first));
    else
        text_append(sql, "NULL");
    text_format(sql, " END FROM %s t", of->table);
    text_release(&first);
}

/* SELECT the columns, then the text if there is one. */
static void make_query(const nsys_file *file, const table_reader *of, text *sql) {
    text_append(sql, "SELECT ");
    for (int i = 0; i < of->column_count; i++) {
        text_append(sql, i ? ", " : "");
        append_column(file, of, of->columns[i], sql);
    }
    if (of->texts)
        append_text(file, of, sql);
    else
        text_format(sql, " FROM %s t", of->table);
    if (of->condition)
        text_format(sql, " WHERE %s", of->condition);
}

static dyno_status check_columns(const nsys_file *file, const table_reader *of) {
    for (int i = 0; i < of->needed; i++)
        if (!sqlite_file_has_column(file->database, of->table, of->columns[i]))
            return dyno_fail(DYNO_UNSUPPORTED,
                             "'%s': the table %s has no column %s, without which it cannot be "
                             "read; is it an export of Nsight Systems?",
                             file->reading->path, of->table, of->columns[i]);
    return DYNO_OK;
}

static const char *name_of_type(sqlite_type type) {
    switch (type) {
    case SQLITE_TYPE_REAL:
        return "a fraction";
    case SQLITE_TYPE_TEXT:
        return "a text";
    case SQLITE_TYPE_BLOB:
        return "a blob";
    case SQLITE_TYPE_INTEGER:
    case SQLITE_TYPE_NULL:
        break;
    }
    return "NULL";
}

/* SQLite would convert what is no number to 0, which is a time, a device and an id. */
static dyno_status check_numbers(const nsys_file *file, const table_reader *of, unsigned never_null,
                                 int64_t number, sqlite_query *row) {
    for (int i = 0; i < of->column_count; i++) {
        sqlite_type type = sqlite_query_type(row, i);
        bool is_needed = never_null >> i & 1;
        if (type == SQLITE_TYPE_INTEGER || (type == SQLITE_TYPE_NULL && !is_needed))
            continue;
        return dyno_fail(DYNO_CORRUPT,
                         "'%s', table %s: row %" PRId64 " has %s as its %s, which must be a whole "
                         "number; export it again with nsys export --type sqlite",
                         file->reading->path, of->table, number, name_of_type(type),
                         of->columns[i]);
    }
    return DYNO_OK;
}

/* What must not be NULL, without the columns that this version does not have. */
static unsigned find_never_null(const nsys_file *file, const table_reader *of) {
    unsigned found = 0;
    for (int i = 0; i < of->column_count; i++)
        if (sqlite_file_has_column(file->database, of->table, of->columns[i]))
            found |= of->never_null & 1u << i;
    return found;
}

static void report_progress(nsys_file *file) {
    const foreign_visitor *visitor = file->reading->visitor;
    file->rows_read++;
    if (visitor->on_progress && file->rows_read % PROGRESS_ROWS == 0 && file->rows_in_all)
        visitor->on_progress(visitor->caller, (double)file->rows_read / (double)file->rows_in_all);
}

/* A table that is not there is read as one without rows. */
static dyno_status read_table(nsys_file *file, const table_reader *of) {
    if (!sqlite_file_has_table(file->database, of->table))
        return DYNO_OK;
    RETURN_IF_FAILED(check_columns(file, of));
    text sql = {0};
    make_query(file, of, &sql);
    sqlite_query *row;
    dyno_status status = sqlite_query_begin(file->database, text_string(&sql), &row);
    text_release(&sql);
    bool has_row = true;
    unsigned never_null = find_never_null(file, of);
    for (int64_t number = 1; status == DYNO_OK; number++) {
        status = sqlite_query_next(row, &has_row);
        if (status != DYNO_OK || !has_row)
            break;
        report_progress(file);
        status = check_numbers(file, of, never_null, number, row);
        if (status != DYNO_OK)
            break;
        status = of->take(file, row);
        if (status == DYNO_OK)
            status = stop_check("reading a trace");
        else if (status == DYNO_CORRUPT)
            status = dyno_fail_within(status, "'%s', table %s", file->reading->path, of->table);
    }
    sqlite_query_end(row);
    return status;
}

/* ---- the host ---- */

/* A global id has the thread in its low 24 bits and the process in the next 24. */
static int64_t process_of(int64_t global) { return (int64_t)((uint64_t)global >> 24 & 0xffffff); }
static int64_t thread_of(int64_t global) { return global & 0xffffff; }

static dyno_status find_thread(nsys_file *file, int64_t global, int *out) {
    return host_timeline_thread(file->reading->timeline, process_of(global), thread_of(global),
                                out);
}

/* What began before the recording has a negative time: of it only the rest is known. */
static int64_t since_begin(int64_t ns) { return ns < 0 ? 0 : ns; }

/* Begin, end, correlation, thread. A call that had not returned when the recording ended has no end; one without a
 * correlation launched nothing that could be found. */
static dyno_status take_call(nsys_file *file, sqlite_query *row) {
    if (sqlite_query_is_null(row, 2)) {
        file->reading->trace->skipped++;
        return DYNO_OK;
    }
    host_call call = {.begin_ns = since_begin(sqlite_query_integer(row, 0)),
                      .end_ns = since_begin(sqlite_query_integer(row, 1)),
                      .correlation = sqlite_query_integer(row, 2)};
    if (sqlite_query_is_null(row, 1))
        call.end_ns = call.begin_ns;
    int64_t global = sqlite_query_integer(row, 3);
    RETURN_IF_FAILED(find_thread(file, global, &call.thread));
    call.process = file->has_processes ? process_of(global) : 0;
    file->last_end_ns = call.end_ns > file->last_end_ns ? call.end_ns : file->last_end_ns;
    return host_timeline_add_call(file->reading->timeline, call);
}

static bool is_range_type(int64_t type) {
    enum { PUSH_POP = 59, START_END = 60, TEXT_PUSH_POP = 70, TEXT_START_END = 71 };
    return type == PUSH_POP || type == START_END || type == TEXT_PUSH_POP || type == TEXT_START_END;
}

enum { MOST_LIBRARIES = 256 }; /* domains, over all processes */

/* Thread, domain, name. */
static dyno_status take_domain(nsys_file *file, sqlite_query *row) {
    const char *name = sqlite_query_text(row, 2);
    if (!name || sqlite_query_is_null(row, 1) || !range_domain_is_of_library(name) ||
        file->library_count == MOST_LIBRARIES)
        return DYNO_OK;
    MEMORY_GROW(file->libraries, file->library_count, file->library_capacity);
    file->libraries[file->library_count++] =
        (nvtx_domain){process_of(sqlite_query_integer(row, 0)), sqlite_query_integer(row, 1)};
    return DYNO_OK;
}

static bool is_of_library(const nsys_file *file, int64_t process, int64_t domain) {
    for (int i = 0; i < file->library_count; i++)
        if (file->libraries[i].process == process && file->libraries[i].id == domain)
            return true;
    return false;
}

/* Begin, end, thread, type, domain, name. One that was still open when the recording ended has no end. */
static dyno_status take_range(nsys_file *file, sqlite_query *row) {
    const char *name = sqlite_query_text(row, 5);
    bool has_type = !sqlite_query_is_null(row, 3), has_end = !sqlite_query_is_null(row, 1);
    if (!name || !*name || (has_type ? !is_range_type(sqlite_query_integer(row, 3)) : !has_end)) {
        file->reading->trace->skipped++;
        return DYNO_OK;
    }
    host_span span = {.begin_ns = since_begin(sqlite_query_integer(row, 0)),
                      .end_ns = since_begin(sqlite_query_integer(row, 1)),
                      .sequence = HOST_NONE};
    if (!has_end)
        span.end_ns = span.begin_ns > file->last_end_ns ? span.begin_ns : file->last_end_ns + 1;
    if (is_of_library(file, process_of(sqlite_query_integer(row, 2)), sqlite_query_integer(row, 4)))
        span.kind = RANGE_OF_LIBRARY;
    RETURN_IF_FAILED(host_timeline_name(file->reading->timeline, name, &span.name));
    RETURN_IF_FAILED(find_thread(file, sqlite_query_integer(row, 2), &span.thread));
    return host_timeline_add_span(file->reading->timeline, span);
}

static const char *const CALL_COLUMNS[] = {"start", "end", "correlationId", "globalTid"};
static const char *const RANGE_COLUMNS[] = {"start", "end", "globalTid", "eventType", "domainId"};
static const char *const DOMAIN_COLUMNS[] = {"globalTid", "domainId"};
static const char *const RANGE_TEXTS[] = {"text", "textId", NULL};

/* Places in the lists of columns, as bits. */
enum { START = 1 << 0, END = 1 << 1 };

static const table_reader HOST_TABLES[] = {
    {RUNTIME_CALLS, CALL_COLUMNS, 4, 3, START, NULL, take_call, NULL},
    {DRIVER_CALLS, CALL_COLUMNS, 4, 3, START, NULL, take_call, NULL},
    {RANGES, RANGE_COLUMNS, 5, 2, START, RANGE_TEXTS, take_range, NULL},
};

/* Before the ranges, which may be in the file before the domain that they are of. */
static dyno_status read_domains(nsys_file *file) {
    static const table_reader domains = {RANGES,      DOMAIN_COLUMNS,        2, 2, 0, RANGE_TEXTS,
                                         take_domain, "t.\"eventType\" = 75"};
    static const char *const NEEDED[] = {"globalTid", "domainId", "eventType"};
    for (size_t i = 0; i < sizeof NEEDED / sizeof *NEEDED; i++)
        if (!sqlite_file_has_column(file->database, RANGES, NEEDED[i]))
            return DYNO_OK;
    return read_table(file, &domains);
}

/* ---- devices ---- */

/* What the tables of devices have in common: */
#define DEVICE_COLUMNS                                                                             \
    "start", "end", "correlationId", "globalPid", "deviceId", "streamId", "graphNodeId"
enum { FIRST_OWN_COLUMN = 7 };

static int to_int(int64_t value) { return value < 0 || value > INT32_MAX ? 0 : (int)value; }

static dyno_status hand_on(nsys_file *file, sqlite_query *row, launch_record *record) {
    record->begin_ns = sqlite_query_integer(row, 0);
    record->end_ns = sqlite_query_integer(row, 1);
    record->correlation = sqlite_query_is_null(row, 2) ? HOST_NONE : sqlite_query_integer(row, 2);
    record->device = to_int(sqlite_query_integer(row, 4));
    record->stream = to_int(sqlite_query_integer(row, 5));
    record->graph_node = (uint64_t)sqlite_query_integer(row, 6);
    if (record->begin_ns < 0 || record->end_ns < record->begin_ns)
        return dyno_fail(DYNO_CORRUPT, "'%s' is from %" PRId64 " to %" PRId64 " ns",
                         text_quote(record->recorded).text, record->begin_ns, record->end_ns);
    int64_t process = file->has_processes ? process_of(sqlite_query_integer(row, 3)) : 0;
    /* A graph has one call for all of its work: the id of a node tells its kernels apart. */
    return foreign_hand_on(file->reading, process, 0, record);
}

static dyno_status take_kernel(nsys_file *file, sqlite_query *row) {
    enum {
        GRID = FIRST_OWN_COLUMN,
        BLOCK = GRID + 3,
        REGISTERS = BLOCK + 3,
        STATIC,
        DYNAMIC,
        NAME
    };
    const char *name = sqlite_query_text(row, NAME);
    launch_record record = {.recorded = name && *name ? name : FOREIGN_KERNEL_WITHOUT_NAME,
                            .registers = to_int(sqlite_query_integer(row, REGISTERS))};
    for (int i = 0; i < 3; i++) {
        record.grid[i] = to_int(sqlite_query_integer(row, GRID + i));
        record.block[i] = to_int(sqlite_query_integer(row, BLOCK + i));
    }
    record.shared_bytes = (int64_t)to_int(sqlite_query_integer(row, STATIC)) +
                          to_int(sqlite_query_integer(row, DYNAMIC));
    return hand_on(file, row, &record);
}

static void set_bytes(launch_record *record, int64_t bytes) {
    record->has_cost = bytes > 0;
    record->bytes = bytes > 0 ? (double)bytes : 0;
}

/* Names as `nsys stats` has them. */
static dyno_status take_copy(nsys_file *file, sqlite_query *row) {
    static const char *const NAMES[] = {
        [1] = "[CUDA memcpy Host-to-Device]",  [2] = "[CUDA memcpy Device-to-Host]",
        [3] = "[CUDA memcpy Host-to-Array]",   [4] = "[CUDA memcpy Array-to-Host]",
        [5] = "[CUDA memcpy Array-to-Array]",  [6] = "[CUDA memcpy Array-to-Device]",
        [7] = "[CUDA memcpy Device-to-Array]", [8] = "[CUDA memcpy Device-to-Device]",
        [9] = "[CUDA memcpy Host-to-Host]",    [10] = "[CUDA memcpy Peer-to-Peer]"};
    enum { BYTES = FIRST_OWN_COLUMN, KIND, KIND_COUNT = sizeof NAMES / sizeof *NAMES };
    int64_t kind = sqlite_query_integer(row, KIND);
    launch_record record = {.recorded = "[CUDA memcpy]"};
    if (kind > 0 && kind < KIND_COUNT)
        record.recorded = NAMES[kind];
    set_bytes(&record, sqlite_query_integer(row, BYTES));
    return hand_on(file, row, &record);
}

static dyno_status take_fill(nsys_file *file, sqlite_query *row) {
    launch_record record = {.recorded = "[CUDA memset]"};
    set_bytes(&record, sqlite_query_integer(row, FIRST_OWN_COLUMN));
    return hand_on(file, row, &record);
}

/* Where graphs were recorded as a whole (--cuda-graph-trace=graph), their kernels are not known. */
static dyno_status take_graph(nsys_file *file, sqlite_query *row) {
    launch_record record = {.recorded = "[CUDA graph, recorded as a whole]"};
    RETURN_IF_FAILED(hand_on(file, row, &record));
    file->reading->trace->in_graphs += record.graph_node == 0;
    return DYNO_OK;
}

static const char *const KERNEL_COLUMNS[] = {DEVICE_COLUMNS,
                                             "gridX",
                                             "gridY",
                                             "gridZ",
                                             "blockX",
                                             "blockY",
                                             "blockZ",
                                             "registersPerThread",
                                             "staticSharedMemory",
                                             "dynamicSharedMemory"};
static const char *const KERNEL_TEXTS[] = {"demangledName", "shortName", "mangledName", NULL};
static const char *const COPY_COLUMNS[] = {DEVICE_COLUMNS, "bytes", "copyKind"};
static const char *const FILL_COLUMNS[] = {DEVICE_COLUMNS, "bytes"};
static const char *const GRAPH_COLUMNS[] = {DEVICE_COLUMNS};

enum { OF_WORK = START | END };

static const table_reader DEVICE_TABLES[] = {
    {KERNELS, KERNEL_COLUMNS, FIRST_OWN_COLUMN + 9, 2, OF_WORK, KERNEL_TEXTS, take_kernel, NULL},
    {COPIES, COPY_COLUMNS, FIRST_OWN_COLUMN + 2, 2, OF_WORK, NULL, take_copy, NULL},
    {FILLS, FILL_COLUMNS, FIRST_OWN_COLUMN + 1, 2, OF_WORK, NULL, take_fill, NULL},
    {GRAPHS, GRAPH_COLUMNS, FIRST_OWN_COLUMN, 2, OF_WORK, NULL, take_graph, NULL},
};

/* ---- all of it ---- */

enum {
    HOST_TABLE_COUNT = sizeof HOST_TABLES / sizeof *HOST_TABLES,
    DEVICE_TABLE_COUNT = sizeof DEVICE_TABLES / sizeof *DEVICE_TABLES
};

/* A view could run for ever and is not read; without its rows the sums would be of half the trace. */
static dyno_status check_for_views(const nsys_file *file) {
    static const struct {
        const char *table, *holds;
    } READ[] = {{KERNELS, "kernels"},    {COPIES, "copies"},       {FILLS, "memsets"},
                {GRAPHS, "graphs"},      {RUNTIME_CALLS, "calls"}, {DRIVER_CALLS, "calls"},
                {RANGES, "NVTX ranges"}, {STRINGS, "names"}};
    for (size_t i = 0; i < sizeof READ / sizeof *READ; i++)
        if (sqlite_file_has_view(file->database, READ[i].table))
            return dyno_fail(DYNO_UNSUPPORTED,
                             "'%s' has no table of %s: its %s is a view or a virtual table, which "
                             "is not read because it could run for ever; export it again with nsys "
                             "export --type sqlite, or put the rows into a table of that name",
                             file->reading->path, READ[i].holds, READ[i].table);
    return DYNO_OK;
}

#define RECORD_AND_EXPORT                                                                          \
    "record with nsys profile --trace=cuda,nvtx and export with nsys export --type sqlite"

/* How many rows there are to read, and whether there are tables for those of a device. */
static dyno_status look_at_tables(nsys_file *file) {
    bool has_work = false;
    RETURN_IF_FAILED(check_for_views(file));
    for (int i = 0; i < HOST_TABLE_COUNT; i++)
        file->rows_in_all += sqlite_file_most_rows(file->database, HOST_TABLES[i].table);
    for (int i = 0; i < DEVICE_TABLE_COUNT; i++) {
        const char *table = DEVICE_TABLES[i].table;
        file->rows_in_all += sqlite_file_most_rows(file->database, table);
        has_work = has_work || sqlite_file_has_table(file->database, table);
        file->has_processes =
            file->has_processes || sqlite_file_has_column(file->database, table, "globalPid");
    }
    if (has_work)
        return DYNO_OK;
    return dyno_fail(DYNO_UNSUPPORTED,
                     "'%s' has no table of kernels, copies or memsets of a GPU (" KERNELS
                     ", ...); " RECORD_AND_EXPORT,
                     file->reading->path);
}

static bool has_several_processes(const host_timeline *t) {
    for (int i = 1; i < t->thread_count; i++)
        if (t->threads[i].process != t->threads[0].process)
            return true;
    return false;
}

static dyno_status read_all(nsys_file *file) {
    host_timeline *t = file->reading->timeline;
    RETURN_IF_FAILED(look_at_tables(file));
    RETURN_IF_FAILED(read_domains(file));
    for (int i = 0; i < HOST_TABLE_COUNT; i++)
        RETURN_IF_FAILED(read_table(file, &HOST_TABLES[i]));
    /* Correlation ids are of a process. Whose a kernel is cannot be said here, so none is joined. */
    if (!file->has_processes && has_several_processes(t))
        t->call_count = 0;
    RETURN_IF_FAILED(foreign_seal_host(file->reading));
    for (int i = 0; i < DEVICE_TABLE_COUNT; i++)
        RETURN_IF_FAILED(read_table(file, &DEVICE_TABLES[i]));
    if (!file->reading->trace->records)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "'%s' has no kernels, copies or memsets of a GPU: the tables for them "
                         "(" KERNELS ", ...) have no rows; " RECORD_AND_EXPORT,
                         file->reading->path);
    return DYNO_OK;
}

dyno_status read_nsys(foreign_reading *reading) {
    nsys_file file = {.reading = reading};
    reading->trace->format = "Nsight Systems";
    RETURN_IF_FAILED(sqlite_file_open(reading->path, &file.database));
    dyno_status status = read_all(&file);
    sqlite_file_close(file.database);
    free(file.libraries);
    return status;
}
