/* view.h - a run as tables: what `dyno show` prints and every measuring verb ends with.
 *
 * All statistics are derived here, from the samples. From a cell that is not OK nothing is
 * derived.
 *
 * What the view of verb "bench" expects in a cell; whatever is missing leaves a gap:
 *   parameters  model, context, batch, warmup, pass ("forward", "forward+backward", "step"),
 *               steps (fewer samples than that: shown as INCOMPLETE), and any others
 *   samples     "warmup"; "step": the whole pass; "forward", "backward", "optimizer" or
 *               "backward+optimizer": phases of the same steps, each an extra row. Unit ns, us,
 *               ms or s.
 *   metrics     flops, tokens (of one step of the pass); forward_flops, backward_flops,
 *               optimizer_flops; peak_bytes, predicted_bytes, rss_bytes; device_used_bytes of a
 *               GPU; setup_ns, first_step_ns; for OOM needed_bytes and available_bytes;
 *               peak_gflops, if not the environment's
 *   breakdowns  rows that add up: columns time (ns), count, flops, bytes, any others
 * and in the environment peak_gflops, the 100 % of "% peak", and peak_bf16_gflops with peak_bf16_by
 * for rows whose math is bf16. What view_note_contention looks at is optional in both verbs. Of
 * verb "attention": parameters  impl, mode, causal, batch, heads, seq, head_dim, pass ("forward",
 *               "forward+backward"), reps (fewer samples: INCOMPLETE), and any others. Cells that
 *               follow one another and differ only in pass and reps are one row
 *   samples     "step"; of forward+backward also "backward"
 *   metrics     flops, launches, peak_bytes, predicted_bytes, before_backward_bytes
 * Other verbs get a general view: parameters, status, metrics and the median of each series. */
#ifndef REPORT_VIEW_H
#define REPORT_VIEW_H

#include "measure/results.h"
#include "report/table.h"

typedef struct view_options {
    table_format format; /* JSON is the run itself, as in run.json */
    bool is_bold;        /* table_wants_bold() when printing to stdout */
    bool has_plots;      /* in a terminal, also draws the curve of steps and breakdowns as bars */
} view_options;

/* Appends everything there is to see to `out`. */
void view_render(const results *run, view_options options, text *out);

/* One table; the caller destroys it. `format` decides what is worth a column: CSV gets every
 * parameter, people those that vary. */
report_table *view_create_bench_table(const results *run, table_format format);
/* The tables of verb "plan"; the run has at least one cell. --map and --detail among its arguments
 * decide which. */
void view_render_plan(const results *run, view_options options, text *out);
report_table *view_create_attention_table(const results *run, table_format format);
/* How attention's times grow with the length, a row for each curve; without rows when no curve has
 * two lengths. CSV has it in columns of the table above instead. */
report_table *view_create_growth_table(const results *run);
report_table *view_create_general_table(const results *run);
report_table *view_create_breakdown_table(const results_cell *cell,
                                          const results_breakdown *breakdown);

/* Bars for the time column of a breakdown. */
void view_plot_breakdown(const results_breakdown *breakdown, text *out);

/* "model small, context 128, pass forward": names a cell in titles. */
void view_describe_cell(const results_cell *cell, text *out);

/* Milliseconds in one of `unit`; NAN when it is not a unit of time. */
double view_ms_per_unit(const char *unit);

#endif
