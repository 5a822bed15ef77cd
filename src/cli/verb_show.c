/* verb_show.c - `dyno show DIR`: what a run recorded, in any format; --watch follows one that goes on. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/interrupt.h"
#include "experiments/shared_flags.h"

static const flag_spec FLAGS[] = {
    {"format", NULL, FLAG_CHOICE, "table", .help = "how to print; json is the record itself",
     .list_choices = dyno_formats},
    {"plot", NULL, FLAG_SWITCH, NULL,
     .help =
         "also draw the curve of the steps of each cell, and breakdowns as bars (format table)"},
    {"watch", NULL, FLAG_SWITCH, NULL,
     .help =
         "prints it again whenever the run has finished a cell, until it is complete or Ctrl-C"},
    WIDE_FLAG,
};

static const flags_example EXAMPLES[] = {
    {"show results/small", "the tables of the run that was written to results/small"},
    {"show results/small --format csv", "the same for a spreadsheet, every digit of it"},
    {"show results/small --watch", "again after every cell, until the run is complete"},
    {"show results/small --plot", "with each step drawn: what did the first ones pay for?"},
};

static const flags_rule RULES[] = {
    {"plot", "format=md|csv|json",
     "draws in a terminal, with --format table only; leave out --plot, or --format"},
};

const flags_verb cli_show_table = {
    .name = "show",
    .positional = "DIR",
    .least_positionals = 1,
    .most_positionals = 1,
    .positional_path = "FILE", /* a directory, or the record in it */
    .summary = "Prints what a measuring verb wrote to DIR/run.json (DIR may also name the file). "
               "The record holds every sample; means, rates and percentages are derived now, and "
               "from cells that did not finish nothing is.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
    FLAGS_RULES(RULES),
};

static dyno_status print(const flags *given, bool *is_complete) {
    dyno_render_options how =
        cli_render_options(flags_text(given, "format"), flags_switch(given, "wide"));
    how.has_plots = flags_switch(given, "plot");
    dyno_results *shown;
    char *out;
    RETURN_IF_FAILED(dyno_results_read(flags_positional(given, 0), &shown));
    dyno_status status = dyno_results_render(shown, &how, &out);
    *is_complete = dyno_results_is_complete(shown);
    cli_print(out);
    dyno_results_destroy(shown);
    return status;
}

/* When the record was written; -1: there is none yet. */
static int64_t written_at(const char *path) {
    struct stat found;
    text file = {0};
    text_format(&file, "%s/run.json", path);
    bool is_there = stat(text_string(&file), &found) == 0 || stat(path, &found) == 0;
    text_release(&file);
    return is_there ? (int64_t)found.st_mtim.tv_sec * 1000000000 + found.st_mtim.tv_nsec : -1;
}

/* The record is replaced in one step, so that it can be read at any time. */
static dyno_status watch(const flags *given) {
    const struct timespec pause = {.tv_nsec = 200000000};
    bool is_complete = false, is_screen = isatty(STDOUT_FILENO);
    int64_t seen = -1;
    interrupt_install();
    while (!is_complete && !interrupt_requested()) {
        int64_t written = written_at(flags_positional(given, 0));
        if (written < 0 || written != seen) {
            fputs(is_screen ? "\033[H\033[J" : seen >= 0 ? "\n" : "", stdout);
            RETURN_IF_FAILED(print(given, &is_complete));
            fflush(stdout);
            seen = written;
        }
        nanosleep(&pause, NULL);
    }
    return is_complete ? DYNO_OK : dyno_fail(DYNO_INTERRUPTED, "interrupted; the run goes on");
}

static dyno_status run(flags *given) {
    bool is_complete;
    return flags_switch(given, "watch") ? watch(given) : print(given, &is_complete);
}

int cli_show(int argc, char **argv) { return cli_run(&cli_show_table, argc, argv, run); }
