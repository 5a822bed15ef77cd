/* figure_svg_bars.c - bars from left to right, a row for each category (of stacks) or for each of its bars: names
 * of settings are long, and there is room for them on the left only. */
#include <math.h>
#include <stdlib.h>

#include "base/printable.h"
#include "report/figure_svg.h"
#include "report/figure_ticks.h"
#include "report/markup.h"

enum { RIGHT = 76, TOP = 8, BOTTOM = 44, BAR = 16, GAP = 10 };
enum { MOST_COLUMNS = 38, COLUMN = 6 }; /* of a name, beside the bars; in units of the drawing */

typedef struct layout {
    const figure *f;
    figure_range range;
    int rows; /* of a category */
    int left; /* where bars begin */
} layout;

static double along(const layout *l, double value) {
    return l->left + value / l->range.high * (SVG_WIDTH - l->left - RIGHT);
}

static double top_of(const layout *l, int category, int row) {
    return TOP + category * (l->rows * BAR + GAP) + row * BAR + GAP / 2;
}

static int height_of(const layout *l) {
    return TOP + l->f->category_count * (l->rows * BAR + GAP) + BOTTOM;
}

/* ---- axis ---- */

static void append_axis(const layout *l, text *out) {
    double ticks[FIGURE_MOST_TICKS];
    int count = figure_ticks(&l->f->y, l->range, ticks), bottom = height_of(l) - BOTTOM;
    for (int i = 0; i < count; i++) {
        double x = along(l, ticks[i]);
        text_format(out,
                    "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>"
                    "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                    x, x, TOP, bottom, x, bottom + 16);
        figure_append_number(out, l->f->y.unit, ticks[i]);
        text_append(out, "</text>");
    }
    text_format(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
                (l->left + SVG_WIDTH - RIGHT) / 2, bottom + 34);
    html_append_text(out, l->f->y.label);
    text_append(out, "</text>");
}

static void append_limit(const layout *l, text *out) {
    double x = along(l, l->f->limit);
    if (l->f->limit > 0 && l->f->limit <= l->range.high)
        text_format(out, "<line class=\"limit\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>", x,
                    x, TOP, height_of(l) - BOTTOM);
}

/* Cut where there is no room; the whole is what it says when it is pointed at. */
static void append_category(const layout *l, int category, text *out) {
    const char *name = l->f->categories[category], *at = name;
    text shown = {0};
    int columns = 0;
    text_append(&shown, "");
    while (*at && columns < MOST_COLUMNS) {
        printable_piece piece = printable_take(&at, "");
        columns += printable_width(piece.text);
        text_append_bytes(&shown, piece.text, (size_t)piece.length);
    }
    text_append(&shown, *at ? ".." : "");
    text_format(out, "<text class=\"label\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", l->left - 8,
                top_of(l, category, 0) + l->rows * BAR / 2.0 + 4);
    html_append_text(out, text_string(&shown));
    text_append(out, "<title>");
    html_append_text(out, name);
    text_append(out, "</title></text>");
    text_release(&shown);
}

/* ---- bars ---- */

static bool is_drawn(const figure_point *p) { return p->y > 0 && isfinite(p->y); }

static void append_value(const layout *l, double value, double at, double y, text *out) {
    text_format(out, "<text x=\"%.1f\" y=\"%.1f\">", at + 6, y);
    if (l->f->y.unit == FIGURE_NUMBERS)
        text_format(out, value < 1000 ? "%.3g" : "%.0f", value);
    else
        figure_append_number(out, l->f->y.unit, value);
    text_append(out, "</text>");
}

static void append_bar(const layout *l, const figure_line *line, const figure_point *p, double from,
                       double y, text *out) {
    double begin = along(l, from), end = along(l, from + p->y);
    text_format(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\">", begin, y + 1,
                fmax(end - begin, 0.5), BAR - 2);
    figure_svg_append_said(line, p, l->f->categories[(int)p->x], out);
    text_append(out, "</rect>");
    if (p->high > p->low)
        text_format(out,
                    "<line class=\"whisker\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>",
                    along(l, p->low), along(l, p->high), y + BAR / 2.0, y + BAR / 2.0);
}

static void append_status(const layout *l, const figure_line *line, const figure_point *p,
                          double at, double y, text *out) {
    text_format(out, "<text class=\"missing\" x=\"%.1f\" y=\"%.1f\">", at + 6, y + BAR - 4);
    html_append_text(out, p->status);
    figure_svg_append_said(line, p, l->f->categories[(int)p->x], out);
    text_append(out, "</text>");
}

/* The bar of this line in a category; NULL: none. */
static const figure_point *find_point(const figure_line *line, int category) {
    for (int i = 0; i < line->count; i++)
        if ((int)line->points[i].x == category)
            return &line->points[i];
    return NULL;
}

static bool is_ok(const figure_point *p) { return p->status[0] == 'O' && p->status[1] == 'K'; }

static void append_group(const layout *l, int category, text *out) {
    for (int i = 0; i < l->f->count; i++) {
        const figure_line *line = &l->f->lines[i];
        const figure_point *p = find_point(line, category);
        double y = top_of(l, category, i);
        if (!p)
            continue;
        text_format(out, "<g class=\"c%d\">", i % SVG_COLOURS);
        if (is_drawn(p)) {
            append_bar(l, line, p, 0, y, out);
            append_value(l, p->y, along(l, fmax(p->y, p->high)), y + BAR - 4, out);
        }
        if (!is_ok(p))
            append_status(l, line, p, along(l, is_drawn(p) ? p->y : 0) + (is_drawn(p) ? 60 : 0), y,
                          out);
        text_append(out, "</g>");
    }
}

/* Its status is said once. */
static void append_stack(const layout *l, int category, text *out) {
    double from = 0, y = top_of(l, category, 0);
    bool is_said = false;
    for (int i = 0; i < l->f->count; i++) {
        const figure_line *line = &l->f->lines[i];
        const figure_point *p = find_point(line, category);
        if (!p || (!is_drawn(p) && (is_said || is_ok(p))))
            continue;
        text_format(out, "<g class=\"c%d\">", i % SVG_COLOURS);
        if (is_drawn(p)) {
            append_bar(l, line, p, from, y, out);
            from += p->y;
        }
        if (!is_ok(p) && !is_said) {
            double end = along(l, figure_stack_height(l->f, category));
            append_status(l, line, p, end > l->left ? end + 60 : end, y, out);
            is_said = true;
        }
        text_append(out, "</g>");
    }
    if (from > 0)
        append_value(l, from, along(l, from), y + BAR - 4, out);
}

/* Room for the longest name. */
static int left_of(const figure *f) {
    int columns = 0;
    for (int c = 0; c < f->category_count; c++) {
        int width = printable_width(f->categories[c]);
        columns = width > columns ? width : columns;
    }
    return 16 + COLUMN * (columns < MOST_COLUMNS ? columns : MOST_COLUMNS);
}

void figure_svg_append_bars(const figure *f, text *out) {
    layout l = {f, figure_y_range(f), f->form == FIGURE_STACKS ? 1 : f->count, left_of(f)};
    figure_svg_begin(f, height_of(&l), out);
    append_axis(&l, out);
    for (int c = 0; c < f->category_count; c++) {
        append_category(&l, c, out);
        if (f->form == FIGURE_STACKS)
            append_stack(&l, c, out);
        else
            append_group(&l, c, out);
    }
    append_limit(&l, out);
}
