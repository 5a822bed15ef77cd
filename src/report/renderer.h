/* renderer.h - the formats that a report can be printed in.
 *
 * A format is one file, render_NAME.c, and one line of REPORT_FORMATS: its constant, the name that
 * users give it, the function that renders a document, and whether its tables are full. Full tables
 * have every column, for files; the others have those that people compare. */
#ifndef REPORT_RENDERER_H
#define REPORT_RENDERER_H

#include <stdbool.h>

#include "base/text.h"

/* CSV is that of RFC 4180, headers included, without titles and notes. JSON is the run itself where
 * a document shows one, and else an array with an object for each row. */
#define REPORT_FORMATS(FIRST, NEXT)                                                                \
    FIRST(TERMINAL, "table", render_terminal, false)                                               \
    NEXT(MARKDOWN, "md", render_markdown, false)                                                   \
    NEXT(CSV, "csv", render_csv, true)                                                             \
    NEXT(JSON, "json", render_json, false)

#define FORMAT_CONSTANT(constant, name, render, is_full) TABLE_##constant,
typedef enum table_format {
    REPORT_FORMATS(FORMAT_CONSTANT, FORMAT_CONSTANT) TABLE_FORMAT_COUNT
} table_format;

/* "table|md|csv|json" */
#define FORMAT_FIRST_CHOICE(constant, name, render, is_full) name
#define FORMAT_NEXT_CHOICE(constant, name, render, is_full) "|" name
#define TABLE_FORMAT_CHOICES REPORT_FORMATS(FORMAT_FIRST_CHOICE, FORMAT_NEXT_CHOICE)

NODISCARD dyno_status table_format_parse(const char *name, table_format *out);
bool table_format_is_full(table_format format);

typedef struct render_options {
    bool is_bold;   /* headers are, by escape codes of terminals */
    bool has_plots; /* a terminal draws curves and bars, too */
    int columns;    /* of the terminal: what fits is shown (table_layout.h); 0: everything */
} render_options;

typedef struct report_document report_document;
typedef void render_function(const report_document *document, render_options options, text *out);
#define FORMAT_FUNCTION(constant, name, render, is_full) render_function render;
REPORT_FORMATS(FORMAT_FUNCTION, FORMAT_FUNCTION)

/* Appends a text so that nothing in it has a meaning in Markdown or HTML. */
void render_markdown_text(text *out, const char *string);

/* Appends the document to `out`. */
void document_render(const report_document *document, table_format format, render_options options,
                     text *out);

#endif
