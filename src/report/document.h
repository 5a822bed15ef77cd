/* document.h - what a report says, before a renderer decides how it looks (renderer.h).
 *
 * A document is a list of blocks: tables, plots as the data behind them, and notes, which are about
 * the block above. Views build documents from runs (view.h). The structures are open for reading. */
#ifndef REPORT_DOCUMENT_H
#define REPORT_DOCUMENT_H

#include "base/arena.h"
#include "measure/results.h"
#include "report/plot.h"
#include "report/renderer.h"
#include "report/table.h"

typedef enum block_kind {
    BLOCK_TABLE,
    BLOCK_CURVE,
    BLOCK_BARS,
    BLOCK_AREAS,
    BLOCK_NOTE
} block_kind;

typedef struct document_curve {
    const char *title, *unit;
    double *values;
    int64_t count, warmup; /* so many of the first ones are warm-up */
} document_curve;

/* Bars of the table above. */
typedef struct document_bars {
    const char *unit;
    plot_bar *bars;
    int64_t count;
} document_bars;

/* What several things add up to over time. */
typedef struct document_areas {
    const char *title, *unit;
    plot_area *areas;
    int area_count;
    int64_t count;
    char *marks; /* one for each value */
} document_areas;

typedef struct document_block {
    block_kind kind;
    union {
        report_table *table;
        document_curve curve;
        document_bars bars;
        document_areas areas;
        const char *note;
    };
} document_block;

struct report_document {
    const results *run; /* that the document shows; NULL: none */
    document_block *blocks;
    int64_t count, capacity;
    arena *memory;
};

/* Borrows the run. */
report_document *document_create(const results *run);
void document_destroy(report_document *document);

/* Takes the table. */
void document_add_table(report_document *document, report_table *table);
/* Texts are copied. The caller fills the values and the bars, whose labels are borrowed. */
double *document_add_curve(report_document *document, const char *title, const char *unit,
                           int64_t count, int64_t warmup);
plot_bar *document_add_bars(report_document *document, const char *unit, int64_t count);
/* The caller fills areas (labels are borrowed, values are there) and marks. Terminals draw it always:
 * it is for what a report is about. */
document_areas *document_add_areas(report_document *document, const char *title, const char *unit,
                                   int area_count, int64_t count);
void document_add_note(report_document *document, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
