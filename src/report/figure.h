/* figure.h - a plot of a run as data, before it becomes SVG or pgfplots: lines of points or groups of bars, with
 * every sample behind a point, and cells that did not fit.
 *
 * Which figures a run has is a table (figure_recipes.c). Renderers know forms and axes, not verbs. */
#ifndef REPORT_FIGURE_H
#define REPORT_FIGURE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/text.h"
#include "measure/results.h"

typedef enum figure_form {
    FIGURE_LINES,
    FIGURE_DOTS,  /* without a line from one to the next, each with its label */
    FIGURE_BARS,  /* of a category one beside the other */
    FIGURE_STACKS /* of a category one after the other */
} figure_form;

/* How numbers of an axis are written. */
typedef enum figure_unit {
    FIGURE_NUMBERS,
    FIGURE_BINARY_BYTES, /* "16 GiB", with ticks at powers of two */
    FIGURE_DECIMAL_BYTES /* "10 MB" */
} figure_unit;

typedef struct figure_axis {
    const char *label;
    figure_unit unit;
    bool is_logarithmic; /* else bars begin at 0 */
} figure_axis;

typedef struct figure_point {
    double x;            /* of bars: the index of the category */
    double y, low, high; /* median, least and largest sample; NAN: there is none */
    const char *status;  /* "OK", "OOM", ... */
    const char *said;    /* "median 10.4 ms; samples 10.2, 10.4, 10.9"; "" */
    const char *label;   /* beside a dot; "" */
    bool is_hollow;      /* see `hollow` of the figure */
} figure_point;

typedef struct figure_line {
    const char *name;
    figure_point *points; /* by x */
    int count, capacity;
} figure_line;

typedef struct figure {
    const char *title;
    figure_form form;
    figure_axis x, y;
    const char *hollow; /* what hollow points are; "": there are none */
    const char *limit_name;
    double limit; /* on the y axis: a dashed line; NAN: none */
    figure_line *lines;
    int count, capacity;
    const char **categories; /* of bars */
    int category_count, category_capacity;
    int left_out; /* points of lines or categories beyond those that a figure may have */
    arena *memory;
} figure;

/* All figures of a run, in the order in which they are to be looked at. */
typedef struct figure_list {
    figure **figures;
    int count, capacity;
    int tried;   /* figures, also those that were not worth drawing */
    bool is_cut; /* there would be more */
} figure_list;
#define FIGURES_ARE_CUT "This run has more plots than are drawn here; its table has all of it."

figure_list figure_list_create(const results *run);
void figure_list_release(figure_list *list);
void figure_destroy(figure *f);

/* Whether an axis may have to hold it: numbers beyond would overflow where ranges are widened. */
static inline bool figure_can_draw(double value) { return value > 1e-300 && value < 1e300; }

static inline bool figure_is_bars(const figure *f) {
    return f->form == FIGURE_BARS || f->form == FIGURE_STACKS;
}

typedef struct figure_range {
    double low, high;
} figure_range;
/* Of what is drawn; never empty. */
figure_range figure_x_range(const figure *f);
figure_range figure_y_range(const figure *f);
/* Of stacks: the sum of a category. */
double figure_stack_height(const figure *f, int category);

/* "65536", "10 MB", "16 GiB" */
void figure_append_number(text *out, figure_unit unit, double value);

void figure_append_svg(const figure *f, text *out);
void figure_append_tex(const figure *f, text *out);

#endif
