/* figure_recipes.h - which figures a run has: for each verb, what must vary, what the axes are and what is read
 * from a cell. A figure for another experiment is a row in figure_recipes.c. */
#ifndef REPORT_FIGURE_RECIPES_H
#define REPORT_FIGURE_RECIPES_H

#include "report/figure.h"

/* Reads quantity `which` of a cell into the point: y, low, high and said; of dots x and label, too. The status is
 * the cell's; y stays NAN where there is no number. False: such a cell has no such quantity, and gets no point. */
typedef bool figure_read(figure *f, const results_cell *cell, int which, figure_point *point);

typedef struct figure_quantity {
    const char *name; /* of its line, or of its part of a bar; "": it is the only one */
    figure_read *read;
    int which;
} figure_quantity;

enum { FIGURE_QUANTITIES = 5, FIGURE_FACETS = 3 };

typedef struct figure_recipe {
    const char *verb;
    const char *part;          /* only cells with this parameter "part"; NULL: all */
    const char *varies;        /* only runs in which this parameter does; NULL: any */
    const char *const *unless; /* no run in which one of these varies; NULL: any */
    figure_form form;
    const char *title;
    figure_axis x, y;
    const char *along;  /* lines: the parameter that x is; NULL: every step by its index */
    const char *hollow; /* what hollow points are; NULL: there are none */
    const char *limit_name;
    double (*limit)(const results *run); /* NULL: none */
    figure_quantity quantities[FIGURE_QUANTITIES];
    int most_lines; /* with more, split by the facets, one after the other */
    const char *facets[FIGURE_FACETS];
} figure_recipe;

/* Ends with a verb that is NULL. */
extern const figure_recipe FIGURE_RECIPES[];

#endif
