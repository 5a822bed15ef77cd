/* figure_svg_lines.c - lines and dots: axes, error bars, labels. A cell without a number stands at the top, at its
 * place on the x axis, with its status; one that has a number and did not run has its status instead of a dot. */
#include <math.h>
#include <string.h>

#include "report/figure_svg.h"
#include "report/figure_ticks.h"
#include "report/markup.h"

enum { HEIGHT = 380, LEFT = 76, RIGHT = 16, TOP = 16, BOTTOM = 44, STATUS_ROW = 12 };

/* Where words stand: the middle of each on both axes, and half its width. */
enum { MOST_WORDS = 128, WORD_HEIGHT = 12, LETTER_WIDTH = 7 };
typedef struct words {
    double x[MOST_WORDS], y[MOST_WORDS], half[MOST_WORDS];
    int count;
} words;

typedef struct scale {
    figure_range x, y;
    bool is_x_logarithmic, is_y_logarithmic;
    int status_rows; /* above all lines: one for each that has cells without a number */
    words *written;
} scale;

static double part_of(figure_range range, bool is_logarithmic, double value) {
    double span = is_logarithmic ? log(range.high / range.low) : range.high - range.low;
    double from = is_logarithmic ? log(value / range.low) : value - range.low;
    return span > 0 ? from / span : 0.5;
}

static double across(const scale *s, double x) {
    return LEFT + 12 + part_of(s->x, s->is_x_logarithmic, x) * (SVG_WIDTH - LEFT - RIGHT - 24);
}

static double down(const scale *s, double y) {
    double part = part_of(s->y, s->is_y_logarithmic, y);
    return HEIGHT - BOTTOM - 8 - part * (HEIGHT - TOP - BOTTOM - 24 - s->status_rows * STATUS_ROW);
}

/* ---- axes ---- */

static void append_x_tick(const figure *f, const scale *s, double value, text *out) {
    double x = across(s, value);
    text_format(out,
                "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>"
                "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                x, x, TOP, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 16);
    figure_append_number(out, f->x.unit, value);
    text_append(out, "</text>");
}

static void append_y_tick(const figure *f, const scale *s, double value, text *out) {
    double y = down(s, value);
    text_format(out,
                "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
                LEFT, SVG_WIDTH - RIGHT, y, y, LEFT - 6, y + 4);
    figure_append_number(out, f->y.unit, value);
    text_append(out, "</text>");
}

/* The next larger x that a point has; INFINITY: none. */
static double next_place(const figure *f, double x) {
    double next = INFINITY;
    for (int i = 0; i < f->count; i++)
        for (int j = 0; j < f->lines[i].count; j++)
            if (f->lines[i].points[j].x > x * 1.0001)
                next = fmin(next, f->lines[i].points[j].x);
    return next;
}

/* The sizes that were measured, as far as they do not run into each other. */
static void append_places(const figure *f, const scale *s, text *out) {
    enum { ROOM = 48 };
    double last = -INFINITY;
    for (double x = s->x.low; isfinite(x) && x <= s->x.high * 1.0001; x = next_place(f, x))
        if (across(s, x) - last > ROOM) {
            append_x_tick(f, s, x, out);
            last = across(s, x);
        }
}

static void append_axes(const figure *f, const scale *s, text *out) {
    double ticks[FIGURE_MOST_TICKS];
    int count = figure_ticks(&f->y, s->y, ticks);
    for (int i = 0; i < count; i++)
        append_y_tick(f, s, ticks[i], out);
    count = figure_ticks(&f->x, s->x, ticks);
    for (int i = 0; i < count && !f->x.is_logarithmic; i++)
        append_x_tick(f, s, ticks[i], out);
    if (f->x.is_logarithmic)
        append_places(f, s, out);
    text_format(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + SVG_WIDTH) / 2,
                HEIGHT - 8);
    html_append_text(out, f->x.label);
    text_format(out,
                "</text><text transform=\"translate(12 %d) rotate(-90)\" text-anchor=\"middle\">",
                (HEIGHT - BOTTOM) / 2);
    html_append_text(out, f->y.label);
    text_append(out, "</text>");
}

static void append_limit(const figure *f, const scale *s, text *out) {
    if (f->limit >= s->y.low && f->limit <= s->y.high)
        text_format(out, "<line class=\"limit\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>",
                    LEFT, SVG_WIDTH - RIGHT, down(s, f->limit), down(s, f->limit));
}

/* ---- points ---- */

static bool is_free(const words *written, double x, double y, double half) {
    for (int i = 0; i < written->count; i++)
        if (fabs(written->y[i] - y) < WORD_HEIGHT &&
            fabs(written->x[i] - x) < written->half[i] + half)
            return false;
    return true;
}

/* The place for words about x and y: there, or the next one above or below where others leave room. */
static double place_words(words *written, double x, double y, double half) {
    enum { TRIES = 16 };
    double found = y;
    for (int i = 1; i <= 2 * TRIES && !is_free(written, x, found, half); i++) {
        double next = y + (i % 2 ? -1 : 1) * (double)((i + 1) / 2 * WORD_HEIGHT);
        found = next > TOP && next < HEIGHT - BOTTOM ? next : found;
    }
    if (written->count < MOST_WORDS) {
        written->x[written->count] = x;
        written->y[written->count] = found;
        written->half[written->count++] = half;
    }
    return found;
}

static double half_width(const char *word) { return (double)strlen(word) * LETTER_WIDTH / 2.0; }

static bool is_drawn(const figure_point *p) { return p->y > 0 && isfinite(p->y); }

static void append_where(const figure *f, const figure_point *p, text *where) {
    text_append(where, p->label);
    text_append(where, p->label[0] ? ", " : "");
    text_format(where, "%s ", f->x.label);
    figure_append_number(where, f->x.unit, p->x);
}

/* A hollow dot is a ring, which is around another one at the same place. */
static void append_dot(const scale *s, const figure_point *p, text *out) {
    double x = across(s, p->x);
    if (p->high > p->low)
        text_format(out, "<line class=\"bar\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>", x,
                    x, down(s, p->low), down(s, p->high));
    text_format(out, "<circle%s r=\"%s\" cx=\"%.1f\" cy=\"%.1f\">",
                p->is_hollow ? " class=\"hollow\"" : "", p->is_hollow ? "6" : "4", x,
                down(s, p->y));
}

/* In the middle of its dot's place, or at the top, in its line's row. */
static void append_status(const scale *s, const figure_point *p, int row, text *out) {
    double x = across(s, p->x), y = TOP + STATUS_ROW * (row + 1);
    if (is_drawn(p))
        y = place_words(s->written, x, down(s, p->y) + 4, half_width(p->status));
    text_format(out, "<text class=\"missing\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", x, y);
    html_append_text(out, p->status);
}

/* On the side of the dot where there is room. */
static void append_label(const scale *s, const figure_point *p, text *out) {
    bool is_right = across(s, p->x) > SVG_WIDTH * 0.75;
    if (!p->label[0] || !is_drawn(p))
        return;
    double x = across(s, p->x) + (is_right ? -9 : 9), half = half_width(p->label);
    double y = place_words(s->written, x + (is_right ? -half : half), down(s, p->y) - 6, half);
    text_format(out, "<text class=\"label\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y,
                is_right ? "end" : "start");
    html_append_text(out, p->label);
    text_append(out, "</text>");
}

static void append_point(const figure *f, const scale *s, const figure_line *line,
                         const figure_point *p, int row, text *out) {
    bool is_dot = is_drawn(p) && p->status[0] == 'O' && p->status[1] == 'K';
    text where = {0};
    append_where(f, p, &where);
    if (is_dot)
        append_dot(s, p, out);
    else
        append_status(s, p, row, out);
    figure_svg_append_said(line, p, text_string(&where), out);
    text_append(out, is_dot ? "</circle>" : "</text>");
    append_label(s, p, out);
    text_release(&where);
}

/* Of the lines before this one, those that have cells without a number. */
static int status_rows_before(const figure *f, int line) {
    int rows = 0;
    for (int i = 0; i < line; i++) {
        bool has_any = false;
        for (int j = 0; j < f->lines[i].count; j++)
            has_any = has_any || !is_drawn(&f->lines[i].points[j]);
        rows += has_any;
    }
    return rows;
}

static void append_line(const figure *f, const scale *s, int index, text *out) {
    const figure_line *line = &f->lines[index];
    int row = status_rows_before(f, index);
    text_format(out, "<g class=\"c%d\">", index % SVG_COLOURS);
    if (f->form == FIGURE_LINES) {
        text_append(out, "<polyline class=\"line\" points=\"");
        for (int i = 0; i < line->count; i++)
            if (is_drawn(&line->points[i]))
                text_format(out, "%.1f,%.1f ", across(s, line->points[i].x),
                            down(s, line->points[i].y));
        text_append(out, "\"/>");
    }
    for (int i = 0; i < line->count; i++)
        append_point(f, s, line, &line->points[i], row, out);
    text_append(out, "</g>");
}

void figure_svg_append_lines(const figure *f, text *out) {
    words written = {.count = 0};
    scale s = {figure_x_range(f),
               figure_y_range(f),
               f->x.is_logarithmic,
               f->y.is_logarithmic,
               status_rows_before(f, f->count),
               &written};
    figure_svg_begin(f, HEIGHT, out);
    append_axes(f, &s, out);
    append_limit(f, &s, out);
    for (int i = 0; i < f->count; i++)
        append_line(f, &s, i, out);
}
