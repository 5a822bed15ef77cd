/* plot.h - small pictures in text, for a terminal. */
#ifndef REPORT_PLOT_H
#define REPORT_PLOT_H

#include <stdint.h>

#include "base/text.h"

typedef struct plot_bar {
    const char *label;
    double value; /* bars start at 0; negative ones and those that are not finite are empty */
} plot_bar;

/* One line a bar, the longest `width` characters:
 *     matmul   ################ 12.3
 *     softmax  ####              3.1
 * Lines stay within `columns`, by shorter bars and then by labels that are cut; 0: no limit. */
void plot_bars(text *out, const plot_bar *bars, int count, int width, int columns,
               const char *unit);

/* The values in order, `width` x `height` characters, the scale from 0 or from the least value
 * when that shows more. More values than columns: each column shows its largest, so that a
 * spike cannot vanish. The first `marked` values are drawn as 'w' (warm-up), the others '*'. */
enum { PLOT_LINE_MARGIN = 14 }; /* columns beside the picture, for the scale */
void plot_line(text *out, const double *values, int64_t count, int64_t marked, int width,
               int height, const char *unit);

typedef struct plot_area {
    const char *label;
    char letter; /* that it is drawn with */
    double *values;
} plot_area;

/* Areas on top of each other, the first at the bottom, `width` x `height` characters, from 0 to the
 * largest sum. More values than columns: each column is the moment of its largest sum, so that every
 * column is something that was, and a spike cannot vanish. `marks`, one character for each value, are
 * drawn below the axis (NULL: none), and below them where the largest sum is. */
void plot_areas(text *out, const plot_area *areas, int area_count, int64_t count, const char *marks,
                int width, int height, const char *unit);

#endif
