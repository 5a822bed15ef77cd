/* view.h - a run as a document: what `dyno show` prints and every measuring verb ends with.
 *
 * A verb's view is a function and a row of REGISTERED_VIEWS. All statistics are derived here, from the samples.
 * From a cell that is not OK nothing is derived. docs/run-json.md says what a run holds; whatever is
 * missing leaves a gap. */
#ifndef REPORT_VIEW_H
#define REPORT_VIEW_H

#include "measure/results.h"
#include "report/document.h"

typedef struct view_options {
    table_format format;
    bool is_bold, has_plots; /* these and the next as in render_options */
    int columns;
} view_options;

/* Appends everything there is to see to `out`. */
void view_render(const results *run, view_options options, text *out);

/* The document of the verb's view; it borrows the run. */
report_document *view_create_document(const results *run, bool is_full);

/* Appends what there is to see of a run to the document. `is_full` decides what is worth a column:
 * files get every parameter, people those that vary. */
typedef void view_function(const results *run, bool is_full, report_document *out);
view_function view_bench, view_profile, view_attention, view_allreduce, view_plan, view_scale,
    view_memory, view_precision, view_doctor, view_general;

typedef struct registered_view {
    const char *verb; /* NULL: any other; the last row */
    view_function *append;
    bool is_kept; /* as run.json, which is then the JSON; of others it has the tables */
} registered_view;
extern const registered_view REGISTERED_VIEWS[];

/* One table; the caller destroys it. */
report_table *view_create_bench_table(const results *run, bool is_full);
report_table *view_create_attention_table(const results *run, bool is_full);
/* How attention's times grow with the length, a row for each curve; without rows when no curve has
 * two lengths. Full tables of attention have it in columns. */
report_table *view_create_growth_table(const results *run);
report_table *view_create_general_table(const results *run);
report_table *view_create_breakdown_table(const results_cell *cell,
                                          const results_breakdown *breakdown, bool is_full);

#endif
