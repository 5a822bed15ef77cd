/* view_general.c - a run of any verb: parameters, status, metrics and the median of each series. */
#include <math.h>
#include <string.h>

#include "measure/statistics.h"
#include "report/view.h"
#include "report/view_parts.h"

report_table *view_create_general_table(const results *run) {
    view_list parameters = {0}, metrics = {0}, series = {0};
    view_collect_parameters(run, &parameters);
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        for (int j = 0; j < cell->metric_count; j++)
            view_list_add(&metrics, cell->metrics[j].name, cell->metrics[j].unit);
        for (int j = 0; j < cell->series_count; j++)
            view_list_add(&series, cell->series[j]->name, cell->series[j]->unit);
    }
    text label = {0};
    view_append_origin(run, &label);
    report_table *table = table_create(text_string(&label));
    for (int i = 0; i < parameters.count; i++)
        view_add_parameter_column(run, parameters.names[i], parameters.names[i], table);
    table_add_setting(table, "status", "status", TABLE_LEFT);
    for (int i = 0; i < series.count; i++) {
        bool is_time = !isnan(view_ms_per_unit(series.units[i]));
        label.length = 0;
        text_format(&label, "%s median %s", series.names[i], is_time ? "ms" : series.units[i]);
        table_add_column(table, series.names[i], text_string(&label), TABLE_RIGHT);
    }
    for (int i = 0; i < metrics.count; i++) {
        label.length = 0;
        text_format(&label, "%s %s", metrics.names[i], metrics.units[i]);
        table_add_column(table, metrics.names[i], text_string(&label), TABLE_RIGHT);
    }
    table_add_column(table, "note", "note", TABLE_LEFT);
    static const char *const importance[] = {"status", "note", TABLE_OTHERS, NULL};
    table_set_importance(table, importance);
    for (int64_t i = 0; i < run->cell_count; i++) {
        const results_cell *cell = run->cells[i];
        table_add_row(table);
        for (int j = 0; j < parameters.count; j++)
            view_add_value(table, cell_find_parameter(cell, parameters.names[j]));
        table_add_text(table, results_status_name(cell->status));
        for (int j = 0; j < series.count; j++) {
            const results_series *found = cell_find_series(cell, series.names[j]);
            double factor = view_ms_per_unit(series.units[j]);
            bool is_same = found && strcmp(found->unit, series.units[j]) == 0;
            double median = is_same && cell->status == RESULTS_OK
                                ? statistics_of_series(found).median
                                : (double)NAN;
            table_add_real(table, isnan(factor) ? median : median * factor, 4);
        }
        for (int j = 0; j < metrics.count; j++) {
            const results_metric *found = cell_find_metric(cell, metrics.names[j]);
            bool is_same = found && strcmp(found->unit, metrics.units[j]) == 0;
            view_add_value(table, is_same ? &found->value : NULL);
        }
        label.length = 0;
        text_append(&label, "");
        view_append_note(&label, cell);
        table_add_text(table, text_string(&label));
    }
    text_release(&label);
    return table;
}

void view_general(const results *run, bool is_full, report_document *out) {
    /* Everything, for people too: it is not known what matters. */
    document_add_table(out, view_create_general_table(run));
    view_add_interruption(run, out);
    view_add_cells(run, is_full, out);
}
