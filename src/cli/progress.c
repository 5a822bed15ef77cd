#define _POSIX_C_SOURCE 200809L
#include "cli/progress.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/units.h"
#include "cli/terminal.h"

static const int64_t REDRAW_NS = 100 * 1000 * 1000;
enum { WIDEST = 78 };

struct progress {
    double total;
    int64_t started_ns, drawn_ns;
    int columns; /* of the terminal; 0: stderr is none, and nothing is shown */
    bool is_drawn;
};

progress *progress_create(double total_work) {
    progress *line = memory_allocate(1, sizeof *line);
    line->total = total_work;
    line->started_ns = clock_now_ns();
    line->drawn_ns = line->started_ns - REDRAW_NS;
    line->columns = terminal_columns(STDERR_FILENO);
    return line;
}

void progress_format(text *out, double done, double total, double elapsed_seconds,
                     const char *label, int width) {
    size_t from = out->length;
    double part = total > 0 ? done / total : 0;
    part = !(part > 0) ? 0 : part < 1 ? part : 1;
    text_format(out, "%3.0f %%  ", part * 100);
    if (part > 0)
        text_format(out, "%s left  ", units_duration(elapsed_seconds * (1 - part) / part).text);
    int left = width - printable_width(out->data + from);
    while (*label) {
        printable_piece piece = printable_take(&label, "");
        left -= printable_width(piece.text);
        if (left < 0)
            break;
        text_append_bytes(out, piece.text, (size_t)piece.length);
    }
}

void progress_update(progress *line, double done_work, const char *label) {
    int64_t now = clock_now_ns();
    if (!line->columns || now - line->drawn_ns < REDRAW_NS)
        return;
    line->drawn_ns = now;
    line->is_drawn = true;
    text shown = {0};
    int width = line->columns > WIDEST ? WIDEST : line->columns - 1;
    progress_format(&shown, done_work, line->total, (double)(now - line->started_ns) / 1e9, label,
                    width);
    fprintf(stderr, "\r\033[K%s", text_string(&shown));
    fflush(stderr);
    text_release(&shown);
}

void progress_clear(progress *line) {
    if (line->is_drawn)
        fputs("\r\033[K", stderr);
    line->is_drawn = false;
}

void progress_destroy(progress *line) {
    if (!line)
        return;
    progress_clear(line);
    free(line);
}
