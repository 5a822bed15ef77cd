#define _POSIX_C_SOURCE 200809L
#include "report/renderer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FORMAT_ROW(constant, name, render, is_full) {name, render, is_full},
static const struct {
    const char *name;
    render_function *render;
    bool is_full;
} RENDERERS[TABLE_FORMAT_COUNT] = {REPORT_FORMATS(FORMAT_ROW, FORMAT_ROW)};

dyno_status table_format_parse(const char *name, table_format *out) {
    for (int i = 0; i < TABLE_FORMAT_COUNT; i++)
        if (strcmp(name, RENDERERS[i].name) == 0) {
            *out = (table_format)i;
            return DYNO_OK;
        }
    return dyno_fail(DYNO_INVALID, "unknown format '%s'; known are %s", name, TABLE_FORMAT_CHOICES);
}

bool table_format_is_full(table_format format) { return RENDERERS[format].is_full; }

bool table_wants_bold(void) {
    const char *no_color = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && !(no_color && *no_color);
}

void document_render(const report_document *document, table_format format, render_options options,
                     text *out) {
    RENDERERS[format].render(document, options, out);
}
