#include "report/renderer.h"

#include <string.h>

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

void document_render(const report_document *document, table_format format, render_options options,
                     text *out) {
    RENDERERS[format].render(document, options, out);
}
