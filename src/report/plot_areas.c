#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/wrap.h"
#include "report/plot.h"

/* A number of a file may be anything; what is no height has none. */
static double height_of(const plot_area *area, int64_t at) {
    double value = area->values[at];
    return isfinite(value) && value > 0 ? value : 0;
}

static double sum_at(const plot_area *areas, int area_count, int64_t at) {
    double sum = 0;
    for (int i = 0; i < area_count; i++)
        sum += height_of(&areas[i], at);
    return sum;
}

/* The area that covers a level at a moment; a blank above all. */
static char letter_at(const plot_area *areas, int area_count, int64_t at, double level) {
    double top = 0;
    for (int i = 0; i < area_count; i++) {
        top += height_of(&areas[i], at);
        if (level < top)
            return areas[i].letter;
    }
    return ' ';
}

/* Of each column its largest moment, the first of equals. */
static int64_t *choose_moments(const plot_area *areas, int area_count, int64_t count, int columns,
                               int *highest) {
    int64_t *moments = memory_allocate((size_t)columns, sizeof *moments);
    double most = -1;
    for (int j = 0; j < columns; j++) {
        double largest = -1;
        for (int64_t i = count * j / columns; i < count * (j + 1) / columns; i++) {
            double sum = sum_at(areas, area_count, i);
            if (sum > largest) {
                largest = sum;
                moments[j] = i;
            }
        }
        if (largest > most) {
            most = largest;
            *highest = j;
        }
    }
    return moments;
}

static void append_legend(text *out, const plot_area *areas, int area_count, int64_t count,
                          int width, const char *unit) {
    text line = {0};
    bool is_first = true;
    for (int i = area_count - 1; i >= 0; i--) {
        double largest = 0;
        for (int64_t at = 0; at < count; at++)
            largest = fmax(largest, height_of(&areas[i], at));
        if (largest <= 0)
            continue;
        text_format(&line, "%s%c %s (%.1f at most)", is_first ? "" : ", ", areas[i].letter,
                    areas[i].label, largest);
        is_first = false;
    }
    text_format(&line, "; %s", unit);
    text_format(out, "%*s", PLOT_LINE_MARGIN, "");
    text_append_wrapped(out, text_string(&line), PLOT_LINE_MARGIN, PLOT_LINE_MARGIN,
                        PLOT_LINE_MARGIN + width);
    text_release(&line);
}

void plot_areas(text *out, const plot_area *areas, int area_count, int64_t count, const char *marks,
                int width, int height, const char *unit) {
    if (count <= 0 || width <= 0 || height <= 0)
        return;
    int columns = count < width ? (int)count : width, highest = 0;
    int64_t *moments = choose_moments(areas, area_count, count, columns, &highest);
    double most = sum_at(areas, area_count, moments[highest]);
    for (int row = height - 1; row >= 0; row--) {
        bool has_scale = row == height - 1 || row == height / 2 || row == 0;
        double edge = row == 0 ? 0 : most * (row + 1) / height;
        if (has_scale)
            text_format(out, "%*.1f |", PLOT_LINE_MARGIN - 2, edge);
        else
            text_format(out, "%*s|", PLOT_LINE_MARGIN - 1, "");
        for (int j = 0; j < columns; j++) {
            char letter = letter_at(areas, area_count, moments[j], most * (row + 0.5) / height);
            text_append_bytes(out, &letter, 1);
        }
        text_append(out, "\n");
    }
    text_format(out, "%*s+", PLOT_LINE_MARGIN - 1, "");
    for (int j = 0; j < columns; j++)
        text_append(out, "-");
    text_append(out, "\n");
    if (marks) {
        text_format(out, "%*s", PLOT_LINE_MARGIN, "");
        for (int j = 0; j < columns; j++)
            text_append_bytes(out, &marks[moments[j]], 1);
        text_append(out, "\n");
    }
    text_format(out, "%*s^ the peak\n", PLOT_LINE_MARGIN + highest, "");
    append_legend(out, areas, area_count, count, width, unit);
    free(moments);
}
