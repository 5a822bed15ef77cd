/* figure_tex.c - a figure as pgfplots. Bytes are written in MiB: TeX computes with few digits. */
#include <math.h>
#include <string.h>

#include "report/figure.h"
#include "report/markup.h"

static double shown(const figure_axis *axis, double value) {
    return axis->unit == FIGURE_BINARY_BYTES ? value / 0x1p20 : value;
}

static void append_label(const char *key, const figure_axis *axis, text *out) {
    text_format(out, ",%s={", key);
    tex_append_text(out, axis->label ? axis->label : "");
    text_append(out, axis->unit == FIGURE_BINARY_BYTES ? " (MiB)}" : "}");
}

static bool is_drawn(const figure_point *p) { return p->y > 0 && isfinite(p->y); }

/* "loglogaxis" and its kin. */
static const char *environment_of(const figure *f) {
    if (figure_is_bars(f))
        return "axis";
    return f->x.is_logarithmic   ? f->y.is_logarithmic ? "loglogaxis" : "semilogxaxis"
           : f->y.is_logarithmic ? "semilogyaxis"
                                 : "axis";
}

static void append_bar_options(const figure *f, text *out) {
    int bars = f->category_count * (f->form == FIGURE_STACKS ? 1 : f->count);
    text_format(out, ",%s,xmin=0,y dir=reverse,bar width=4pt,height=%dcm,ytick={",
                f->form == FIGURE_STACKS ? "xbar stacked" : "xbar", 4 + bars / 3);
    for (int i = 0; i < f->category_count; i++)
        text_format(out, "%s%d", i ? "," : "", i);
    text_append(out, "},yticklabels={");
    for (int i = 0; i < f->category_count; i++) {
        text_append(out, i ? ",{" : "{");
        tex_append_text(out, f->categories[i]);
        text_append(out, "}");
    }
    text_append(out, "},yticklabel style={font=\\tiny}");
    append_label("xlabel", &f->y, out);
}

static void append_axis_options(const figure *f, text *out) {
    text_append(out, ",height=7cm");
    append_label("xlabel", &f->x, out);
    append_label("ylabel", &f->y, out);
    if (f->x.is_logarithmic && f->x.unit == FIGURE_NUMBERS)
        text_append(out, ",log basis x=2");
    /* Also where nothing ran. */
    figure_range x = figure_x_range(f);
    double room = 0.05 * (x.high - x.low), factor = 1.2;
    if (x.high > x.low && f->x.is_logarithmic)
        text_format(out, ",xmin=%.9g,xmax=%.9g", shown(&f->x, x.low) / factor,
                    shown(&f->x, x.high) * factor);
    else if (x.high > x.low)
        text_format(out, ",xmin=%.9g,xmax=%.9g", shown(&f->x, x.low - room),
                    shown(&f->x, x.high + room));
}

/* Beside a dot stands its label, which every one of the plot must have. */
static void append_point(const figure *f, const figure_point *p, text *out) {
    double y = shown(&f->y, p->y);
    if (f->form == FIGURE_STACKS) {
        text_format(out, "(%.9g,%d)\n", y, (int)p->x);
        return;
    }
    if (figure_is_bars(f)) {
        text_format(out, "(%.9g,%d) += (%.9g,0) -= (%.9g,0)\n", y, (int)p->x,
                    shown(&f->y, p->high) - y, y - shown(&f->y, p->low));
        return;
    }
    text_format(out, "(%.9g,%.9g) += (0,%.9g) -= (0,%.9g)", shown(&f->x, p->x), y,
                shown(&f->y, p->high) - y, y - shown(&f->y, p->low));
    if (f->form == FIGURE_DOTS) {
        text_append(out, " [{");
        tex_append_text(out, p->label);
        text_append(out, "}]");
    }
    text_append(out, "\n");
}

static const char *command_of(const figure *f) {
    if (f->form == FIGURE_STACKS)
        return "\\addplot";
    if (figure_is_bars(f))
        return "\\addplot+[error bars/.cd,x dir=both,x explicit]";
    return f->form == FIGURE_DOTS ? "\\addplot+[only marks,nodes near coords,point meta=explicit "
                                    "symbolic,error bars/.cd,y dir=both,y explicit]"
                                  : "\\addplot+[error bars/.cd,y dir=both,y explicit]";
}

static void append_line(const figure *f, const figure_line *line, text *out) {
    text_format(out, "%s coordinates {\n", command_of(f));
    int next = 0;
    for (int j = 0; j < line->count; j++) {
        /* Parts of a stack are added up by their order: each needs one for every category. */
        for (; f->form == FIGURE_STACKS && next < (int)line->points[j].x; next++)
            text_format(out, "(0,%d)\n", next);
        if (is_drawn(&line->points[j]))
            append_point(f, &line->points[j], out);
        else if (f->form == FIGURE_STACKS)
            text_format(out, "(0,%d)\n", next);
        next++;
    }
    for (; f->form == FIGURE_STACKS && next < f->category_count; next++)
        text_format(out, "(0,%d)\n", next);
    text_append(out, "};\n");
    if (line->name[0]) {
        text_append(out, "\\addlegendentry{");
        tex_append_text(out, line->name);
        text_append(out, "}\n");
    }
}

/* White marks over those of a line; rings around dots, which may be at the same place. */
static void append_hollow(const figure *f, text *out) {
    text points = {0};
    for (int i = 0; i < f->count; i++)
        for (int j = 0; j < f->lines[i].count; j++)
            if (f->lines[i].points[j].is_hollow && is_drawn(&f->lines[i].points[j]))
                append_point(f, &f->lines[i].points[j], &points);
    if (points.length)
        text_format(out, "\\addplot[only marks,%s,forget plot] coordinates {\n%s};\n",
                    f->form == FIGURE_DOTS ? "mark=o,mark size=4pt"
                                           : "mark=*,mark options={draw=black,fill=white}",
                    text_string(&points));
    text_release(&points);
}

/* What did not run has its status in place of a mark, in the colour that pgfplots gives the line: above the lines, a
 * row for each, or where its bar would begin. */
static void append_missing(const figure *f, text *out) {
    static const char *const colours[] = {"blue", "red", "brown!60!black", "black"};
    const double top = 0.95, row = 0.06;
    for (int i = 0; i < f->count; i++)
        for (int j = 0; j < f->lines[i].count; j++) {
            const figure_point *p = &f->lines[i].points[j];
            if (is_drawn(p) || strcmp(p->status, "OK") == 0)
                continue;
            text_format(out, "\\node[font=\\tiny,text=%s", colours[i % 4]);
            if (figure_is_bars(f))
                text_format(out, ",anchor=west] at (axis cs:0,%d) {", (int)p->x);
            else
                text_format(out, "] at ({axis cs:%.9g,%.9g}|-{rel axis cs:0,%.2f}) {",
                            shown(&f->x, p->x), shown(&f->y, figure_y_range(f).high),
                            top - i * row);
            tex_append_text(out, p->status);
            text_append(out, "};\n");
        }
}

static void append_limit(const figure *f, text *out) {
    figure_range x = figure_x_range(f);
    if (!(f->limit > 0) || !(f->limit <= figure_y_range(f).high) || figure_is_bars(f))
        return;
    text_format(out, "\\addplot[dashed,no marks] coordinates {(%.9g,%.9g) (%.9g,%.9g)};\n",
                shown(&f->x, x.low), shown(&f->y, f->limit), shown(&f->x, x.high),
                shown(&f->y, f->limit));
    text_append(out, "\\addlegendentry{");
    tex_append_text(out, f->limit_name);
    text_append(out, "}\n");
}

void figure_append_tex(const figure *f, text *out) {
    text_format(out,
                "\\begin{figure}[H]\\centering\n\\begin{tikzpicture}\n"
                "\\begin{%s}[width=0.%d\\linewidth,legend pos=outer north east,"
                "legend style={font=\\tiny},grid=major",
                environment_of(f), figure_is_bars(f) ? 6 : 7);
    if (figure_is_bars(f))
        append_bar_options(f, out);
    else
        append_axis_options(f, out);
    text_append(out, "]\n");
    for (int i = 0; i < f->count; i++)
        append_line(f, &f->lines[i], out);
    append_hollow(f, out);
    append_missing(f, out);
    append_limit(f, out);
    text_format(out, "\\end{%s}\n\\end{tikzpicture}\n\\caption{", environment_of(f));
    tex_append_text(out, f->title);
    if (f->hollow[0]) {
        text_append(out, "; ");
        tex_append_text(out, f->hollow);
    }
    text_append(out, "}\n\\end{figure}\n\n");
}
