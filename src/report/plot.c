#include "report/plot.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/printable.h"
#include "report/table.h"

static double drawable(double value) { return isfinite(value) && value > 0 ? value : 0; }

static void append_label(text *out, const char *label, int width) {
    text shown = {0};
    table_append_printable(&shown, label);
    text_format(out, "  %s%*s  ", text_string(&shown), width - printable_width(text_string(&shown)),
                "");
    text_release(&shown);
}

static int label_width(const char *label) {
    text shown = {0};
    table_append_printable(&shown, label);
    int width = printable_width(text_string(&shown));
    text_release(&shown);
    return width;
}

void plot_bars(text *out, const plot_bar *bars, int count, int width, const char *unit) {
    double longest = 0;
    int widest = 0;
    for (int i = 0; i < count; i++) {
        longest = fmax(longest, drawable(bars[i].value));
        widest = label_width(bars[i].label) > widest ? label_width(bars[i].label) : widest;
    }
    for (int i = 0; i < count; i++) {
        int length = longest > 0 ? (int)lround(drawable(bars[i].value) / longest * width) : 0;
        append_label(out, bars[i].label, widest);
        for (int k = 0; k < width; k++)
            text_append(out, k < length ? "#" : " ");
        if (isfinite(bars[i].value))
            text_format(out, " %10.3f %s\n", bars[i].value, unit);
        else
            text_append(out, "\n");
    }
}

/* Where the scale starts: at 0, unless that would compress the curve into the top third. */
static double scale_start(double least, double most) {
    return least > 0 && least > most * 2 / 3 ? least : fmin(least, 0);
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
                text_format(out, "%12.3f |", row ? most : start);
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
        text_format(out, "\n              %s; 1 to %lld", unit, (long long)count);
        if (marked > 0)
            text_append(out, ", w is warm-up");
        if (count > columns)
            text_append(out, ", each column the largest of several");
        text_append(out, "\n");
    }
    free(tops);
}
