#include "report/plot.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/printable.h"
#include "base/wrap.h"
#include "report/table.h"

static double drawable(double value) { return isfinite(value) && value > 0 ? value : 0; }

/* Three decimals, fewer digits where the number has many before the point. */
static void append_number(text *out, int width, double value) {
    bool is_small = value > -1e5 && value < 1e6, is_large = fabs(value) >= 1e9;
    text_format(out, is_small ? "%*.3f" : is_large ? "%*.3g" : "%*.0f", width, value);
}

/* The label as it shows, in `width` columns; one that is longer ends in dots. */
static void append_label(text *out, const char *label, int width) {
    text shown = {0};
    table_append_printable(&shown, label);
    const char *at = text_string(&shown);
    int left = width - printable_width(at);
    if (left < 0) {
        static const char dots[] = "..";
        left = width - (int)strlen(dots);
        while (*at) {
            printable_piece piece = printable_take(&at, "");
            if (printable_width(piece.text) > left)
                break;
            left -= printable_width(piece.text);
            text_append_bytes(out, piece.text, (size_t)piece.length);
        }
        text_append(out, dots);
    } else {
        text_append(out, at);
    }
    text_format(out, "%*s", left, "");
    text_release(&shown);
}

static int label_width(const char *label) {
    text shown = {0};
    table_append_printable(&shown, label);
    int width = printable_width(text_string(&shown));
    text_release(&shown);
    return width;
}

void plot_bars(text *out, const plot_bar *bars, int count, int width, int columns,
               const char *unit) {
    enum { NUMBER = 10, SHORTEST_BAR = 10 };
    double longest = 0;
    int widest = 0;
    for (int i = 0; i < count; i++) {
        longest = fmax(longest, drawable(bars[i].value));
        widest = label_width(bars[i].label) > widest ? label_width(bars[i].label) : widest;
    }
    int room = columns - NUMBER - printable_width(unit) - 6; /* and blanks between */
    if (columns > 0 && widest + width > room) {
        width = room - widest > SHORTEST_BAR ? room - widest : SHORTEST_BAR;
        widest = widest + width > room ? room - width : widest;
    }
    for (int i = 0; i < count; i++) {
        int length = longest > 0 ? (int)lround(drawable(bars[i].value) / longest * width) : 0;
        text_append(out, "  ");
        append_label(out, bars[i].label, widest);
        text_append(out, "  ");
        for (int k = 0; k < width; k++)
            text_append(out, k < length ? "#" : " ");
        if (isfinite(bars[i].value)) {
            text_append(out, " ");
            append_number(out, NUMBER, bars[i].value);
            text_format(out, " %s", unit);
        }
        text_append(out, "\n");
    }
}

/* Where the scale starts: at 0, unless that would compress the curve into the top third. */
static double scale_start(double least, double most) {
    return least > 0 && least > most * 2 / 3 ? least : fmin(least, 0);
}

static void append_scale(text *out, double value) {
    append_number(out, PLOT_LINE_MARGIN - 2, value);
    text_append(out, " |");
}

void plot_line(text *out, const double *values, int64_t count, int64_t marked, int width,
               int height, const char *unit) {
    if (count <= 0 || width <= 0 || height <= 0)
        return;
    int columns = count < width ? (int)count : width;
    double *tops = memory_allocate((size_t)columns, sizeof *tops);
    double least = INFINITY, most = -INFINITY;
    for (int j = 0; j < columns; j++) {
        tops[j] = -INFINITY;
        for (int64_t i = count * j / columns; i < count * (j + 1) / columns; i++)
            if (isfinite(values[i]) && values[i] > tops[j])
                tops[j] = values[i];
        if (isfinite(tops[j])) {
            least = fmin(least, tops[j]);
            most = fmax(most, tops[j]);
        }
    }
    if (isfinite(most)) {
        double start = scale_start(least, most), range = most - start;
        for (int row = height - 1; row >= 0; row--) {
            if (row == height - 1 || row == 0)
                append_scale(out, row ? most : start);
            else
                text_append(out, "             |");
            for (int j = 0; j < columns; j++) {
                int at = range > 0 ? (int)lround((tops[j] - start) / range * (height - 1)) : 0;
                bool is_here = isfinite(tops[j]) && at == row;
                text_append(out, !is_here ? " " : count * j / columns < marked ? "w" : "*");
            }
            text_append(out, "\n");
        }
        text_append(out, "             +");
        for (int j = 0; j < columns; j++)
            text_append(out, "-");
        text caption = {0};
        text_format(&caption, "%s; 1 to %lld%s%s", unit, (long long)count,
                    marked > 0 ? ", w is warm-up" : "",
                    count > columns ? ", each column the largest of several" : "");
        text_format(out, "\n%*s", PLOT_LINE_MARGIN, "");
        text_append_wrapped(out, text_string(&caption), PLOT_LINE_MARGIN, PLOT_LINE_MARGIN,
                            PLOT_LINE_MARGIN + width);
        text_release(&caption);
    }
    free(tops);
}
