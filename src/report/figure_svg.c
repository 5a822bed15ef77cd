/* figure_svg.c - a figure as inline SVG: both axes logarithmic, error bars, and what a point says when it
 * is pointed at. Colours are classes of the page's style. */
#include <math.h>

#include "report/figure.h"
#include "report/markup.h"

enum { WIDTH = 720, HEIGHT = 380, LEFT = 64, RIGHT = 16, TOP = 16, BOTTOM = 44, COLOURS = 8 };

typedef struct scale {
    figure_range x, y;
} scale;

static double across(const scale *s, double x) {
    double span = log(s->x.high / s->x.low);
    double part = span > 0 ? log(x / s->x.low) / span : 0.5;
    return LEFT + 12 + part * (WIDTH - LEFT - RIGHT - 24);
}

static double down(const scale *s, double y) {
    double part = log(y / s->y.low) / log(s->y.high / s->y.low);
    return HEIGHT - BOTTOM - 8 - part * (HEIGHT - TOP - BOTTOM - 24);
}

static void append_grid_line(const scale *s, double value, bool is_x, text *out) {
    if (is_x)
        text_format(out,
                    "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>"
                    "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>",
                    across(s, value), across(s, value), TOP, HEIGHT - BOTTOM, across(s, value),
                    HEIGHT - BOTTOM + 16, value);
    else
        text_format(out,
                    "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                    "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>",
                    LEFT, WIDTH - RIGHT, down(s, value), down(s, value), LEFT - 6,
                    down(s, value) + 4, value);
}

static void append_axes(const figure *f, const scale *s, text *out) {
    enum { MOST_TICKS = 12 };
    double marks[] = {1, 2, 5};
    bool is_wide = s->y.high / s->y.low > 200;
    int ticks = 0;
    for (double decade = pow(10, floor(log10(s->y.low))); decade <= s->y.high; decade *= 10)
        for (int i = 0; i < (is_wide ? 1 : 3); i++) {
            double value = decade * marks[i];
            if (value >= s->y.low && value <= s->y.high && ticks++ < MOST_TICKS)
                append_grid_line(s, value, false, out);
        }
    if (ticks == 0) {
        append_grid_line(s, s->y.low, false, out);
        append_grid_line(s, s->y.high, false, out);
    }
    double last = 0; /* the sizes that were measured, as far as they do not run into each other */
    for (double x = s->x.low; x <= s->x.high * 1.0001;) {
        double next = INFINITY;
        for (int i = 0; i < f->count; i++)
            for (int j = 0; j < f->lines[i].count; j++)
                if (f->lines[i].points[j].x > x * 1.0001 && f->lines[i].points[j].x < next)
                    next = f->lines[i].points[j].x;
        if (last <= 0 || across(s, x) - last > 44) {
            append_grid_line(s, x, true, out);
            last = across(s, x);
        }
        x = next;
    }
    text_format(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + WIDTH) / 2,
                HEIGHT - 8);
    html_append_text(out, f->x_label);
    text_format(out,
                "</text><text transform=\"translate(14 %d) rotate(-90)\" text-anchor=\"middle\">",
                (HEIGHT - BOTTOM) / 2);
    html_append_text(out, f->y_label);
    text_append(out, "</text>");
}

static void append_title(const figure_line *line, const figure_point *point, const char *x_label,
                         text *out) {
    text_append(out, "<title>");
    html_append_text(out, line->name);
    text_append(out, ", ");
    html_append_text(out, x_label);
    text_format(out, " %g: ", point->x);
    if (point->y > 0)
        text_format(out, "median %.4g ms; samples ", point->y);
    html_append_text(out, point->y > 0 ? point->samples : point->status);
    text_append(out, "</title>");
}

static void append_line(const figure *f, const scale *s, const figure_line *line, int colour,
                        text *out) {
    text_format(out, "<g class=\"c%d\"><polyline class=\"line\" points=\"", colour);
    for (int i = 0; i < line->count; i++)
        if (line->points[i].y > 0)
            text_format(out, "%.1f,%.1f ", across(s, line->points[i].x),
                        down(s, line->points[i].y));
    text_append(out, "\"/>");
    for (int i = 0; i < line->count; i++) {
        const figure_point *p = &line->points[i];
        double x = across(s, p->x);
        if (p->y > 0 && p->low > 0)
            text_format(out,
                        "<line class=\"bar\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                        "<circle r=\"4\" cx=\"%.1f\" cy=\"%.1f\">",
                        x, x, down(s, p->low), down(s, p->high), x, down(s, p->y));
        else
            text_format(out, "<text class=\"missing\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                        x, TOP + 12 + 11 * colour);
        if (!(p->y > 0))
            html_append_text(out, p->status);
        append_title(line, p, f->x_label, out);
        text_append(out, p->y > 0 && p->low > 0 ? "</circle>" : "</text>");
    }
    text_append(out, "</g>");
}

void figure_append_svg(const figure *f, text *out) {
    scale s = {figure_x_range(f), figure_y_range(f)};
    text_append(out, "<figure><figcaption>");
    html_append_text(out, f->title);
    text_format(out, "</figcaption><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH,
                HEIGHT);
    html_append_text(out, f->title);
    text_append(out, "; the table has the same numbers\">");
    append_axes(f, &s, out);
    for (int i = 0; i < f->count; i++)
        append_line(f, &s, &f->lines[i], i % COLOURS, out);
    text_append(out, "</svg><ul class=\"legend\">");
    for (int i = 0; i < f->count; i++) {
        text_format(out, "<li class=\"c%d\"><span aria-hidden=\"true\"></span>", i % COLOURS);
        html_append_text(out, f->lines[i].name);
        text_append(out, "</li>");
    }
    text_append(out, "</ul></figure>\n");
}

void figure_append_tex(const figure *f, text *out) {
    text_append(out, "\\begin{figure}[ht]\\centering\n\\begin{tikzpicture}\n"
                     "\\begin{loglogaxis}[width=0.9\\linewidth,height=7cm,xlabel={");
    tex_append_text(out, f->x_label);
    text_append(out, "},ylabel={ms},log basis x=2,legend pos=outer north east,"
                     "legend style={font=\\tiny},grid=major]\n");
    for (int i = 0; i < f->count; i++) {
        const figure_line *line = &f->lines[i];
        text_append(out, "\\addplot+[error bars/.cd,y dir=both,y explicit] coordinates {\n");
        for (int j = 0; j < line->count; j++)
            if (line->points[j].y > 0)
                text_format(out, "(%.9g,%.9g) += (0,%.9g) -= (0,%.9g)\n", line->points[j].x,
                            line->points[j].y, line->points[j].high - line->points[j].y,
                            line->points[j].y - line->points[j].low);
        text_append(out, "};\n\\addlegendentry{");
        tex_append_text(out, line->name);
        text_append(out, "}\n");
    }
    text_append(out, "\\end{loglogaxis}\n\\end{tikzpicture}\n\\caption{");
    tex_append_text(out, f->title);
    text_append(out, "}\n\\end{figure}\n\n");
}
