/* figure.h - a plot of a run as data, before it becomes SVG or pgfplots: lines of points with error bars,
 * every sample behind a point, and cells that did not fit. */
#ifndef REPORT_FIGURE_H
#define REPORT_FIGURE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/text.h"
#include "measure/results.h"

typedef struct figure_point {
    double x, y, low, high; /* median, least and largest sample; NAN: the cell was not OK */
    const char *status;     /* "OK", "OOM", ... */
    const char *samples;    /* "10.2, 10.4, 10.9" */
} figure_point;

typedef struct figure_line {
    const char *name;
    figure_point *points; /* by x */
    int count, capacity;
} figure_line;

typedef struct figure {
    const char *title, *x_label, *y_label;
    bool is_logarithmic; /* both axes */
    figure_line *lines;
    int count, capacity;
    arena *memory;
} figure;

/* Times over the axis of the sweep (context, sequence); NULL where no line has two points. */
figure *figure_create(const results *run);
void figure_destroy(figure *f);

typedef struct figure_range {
    double low, high;
} figure_range;
figure_range figure_x_range(const figure *f);
figure_range figure_y_range(const figure *f);

void figure_append_svg(const figure *f, text *out);
void figure_append_tex(const figure *f, text *out);

#endif
