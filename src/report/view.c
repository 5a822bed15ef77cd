#include "report/view.h"

#include <string.h>

#include "measure/keys.h"

const registered_view REGISTERED_VIEWS[] = {
    {RUN_BENCH, view_bench, true},         {RUN_ATTENTION, view_attention, true},
    {RUN_ALLREDUCE, view_allreduce, true}, {RUN_PLAN, view_plan, true},
    {RUN_SCALE, view_scale, true},         {RUN_PROFILE, view_profile, true},
    {RUN_MEMORY, view_memory, true},       {RUN_PRECISION, view_precision, false},
    {RUN_DOCTOR, view_doctor, false},      {NULL, view_general, true},
};

report_document *view_create_document(const results *run, bool is_full) {
    const registered_view *view = REGISTERED_VIEWS;
    while (view->verb && strcmp(view->verb, run->verb) != 0)
        view++;
    report_document *document = document_create(view->is_kept ? run : NULL);
    view->append(run, is_full, document);
    return document;
}

void view_render(const results *run, view_options options, text *out) {
    report_document *document = view_create_document(run, table_format_is_full(options.format));
    document_render(document, options.format,
                    (render_options){options.is_bold, options.has_plots, options.columns}, out);
    document_destroy(document);
}
