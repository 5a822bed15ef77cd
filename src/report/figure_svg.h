/* figure_svg.h - what the drawings of lines and of bars share. */
#ifndef REPORT_FIGURE_SVG_H
#define REPORT_FIGURE_SVG_H

#include "report/figure.h"

/* Colours are classes of the page's style, c0 to c7. */
enum { SVG_WIDTH = 720, SVG_COLOURS = 8 };

void figure_svg_begin(const figure *f, int height, text *out);
/* What a point says when it is pointed at. `where` is "context 128" or the category. */
void figure_svg_append_said(const figure_line *line, const figure_point *point, const char *where,
                            text *out);

void figure_svg_append_lines(const figure *f, text *out);
void figure_svg_append_bars(const figure *f, text *out);

#endif
