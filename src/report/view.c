#include "report/view.h"

#include <string.h>

#include "measure/keys.h"

const registered_view REGISTERED_VIEWS[] = {
    {RUN_BENCH, view_bench},
    {RUN_ATTENTION, view_attention},
    {RUN_PLAN, view_plan},
    {NULL, view_general},
};

report_document *view_create_document(const results *run, bool is_full) {
    report_document *document = document_create(run);
    const registered_view *view = REGISTERED_VIEWS;
    while (view->verb && strcmp(view->verb, run->verb) != 0)
        view++;
    view->append(run, is_full, document);
    return document;
}

void view_render(const results *run, view_options options, text *out) {
    report_document *document = view_create_document(run, table_format_is_full(options.format));
    document_render(document, options.format, (render_options){options.is_bold, options.has_plots},
                    out);
    document_destroy(document);
}
