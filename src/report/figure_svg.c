/* figure_svg.c - a figure as inline SVG: its frame, its legend, and what a point says when it is pointed at. */
#include "report/figure_svg.h"

#include <math.h>

#include "report/markup.h"

void figure_svg_begin(const figure *f, int height, text *out) {
    text_format(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", SVG_WIDTH, height);
    html_append_text(out, f->title);
    text_append(out, f->form == FIGURE_LINES && !f->x.is_logarithmic
                         ? "; the record in this page has the same numbers\">"
                         : "; the table has the same numbers\">");
}

void figure_svg_append_said(const figure_line *line, const figure_point *point, const char *where,
                            text *out) {
    text_append(out, "<title>");
    html_append_text(out, line->name);
    html_append_text(out, line->name[0] && where[0] ? ", " : "");
    html_append_text(out, where);
    text_append(out, ": ");
    html_append_text(out, point->said[0] ? point->said : point->status);
    text_append(out, "</title>");
}

static bool has_hollow(const figure *f) {
    for (int i = 0; i < f->count; i++)
        for (int j = 0; j < f->lines[i].count; j++)
            if (f->lines[i].points[j].is_hollow)
                return true;
    return false;
}

/* What is drawn beside lines and bars, and what is not. */
static void append_notes(const figure *f, text *out) {
    if (f->hollow[0] && has_hollow(f)) {
        text_append(out, "<li>");
        html_append_text(out, f->hollow);
        text_append(out, "</li>");
    }
    if (f->limit > 0) {
        text_append(out, "<li>");
        text_append(out, f->limit <= figure_y_range(f).high ? "dashed: " : "far above: ");
        html_append_text(out, f->limit_name);
        text_append(out, ", ");
        figure_append_number(out, f->y.unit, f->limit);
        text_append(out, "</li>");
    }
    if (f->left_out)
        text_format(out, "<li>%d points are left out; the table has them</li>", f->left_out);
}

static void append_legend(const figure *f, text *out) {
    text_append(out, "<ul class=\"legend\">");
    for (int i = 0; i < f->count; i++) {
        if (!f->lines[i].name[0])
            continue;
        text_format(out, "<li class=\"c%d\"><span aria-hidden=\"true\"></span>", i % SVG_COLOURS);
        html_append_text(out, f->lines[i].name);
        text_append(out, "</li>");
    }
    append_notes(f, out);
    text_append(out, "</ul>");
}

void figure_append_svg(const figure *f, text *out) {
    text_append(out, "<figure><figcaption>");
    html_append_text(out, f->title);
    text_append(out, "</figcaption><div class=\"plot\">");
    if (figure_is_bars(f))
        figure_svg_append_bars(f, out);
    else
        figure_svg_append_lines(f, out);
    text_append(out, "</svg></div>");
    append_legend(f, out);
    text_append(out, "</figure>\n");
}
