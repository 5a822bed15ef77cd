/* verb_show.c - `dyno show DIR`: what a run recorded, in any format. */
#include "cli/cli.h"
#include "experiments/shared_flags.h"

static const flag_spec FLAGS[] = {
    {"format", NULL, FLAG_CHOICE, "table", .help = "how to print; json is the record itself",
     .list_choices = dyno_formats},
    {"plot", NULL, FLAG_SWITCH, NULL,
     .help =
         "also draw the curve of the steps of each cell, and breakdowns as bars (format table)"},
    WIDE_FLAG,
};

static const flags_example EXAMPLES[] = {
    {"show results/small", "the tables of the run that was written to results/small"},
    {"show results/small --format csv", "the same for a spreadsheet, every digit of it"},
    {"show results/small --plot", "with each step drawn: what did the first ones pay for?"},
};

static const flags_verb VERB = {
    .name = "show",
    .positional = "DIR",
    .least_positionals = 1,
    .most_positionals = 1,
    .summary = "Prints what a measuring verb wrote to DIR/run.json (DIR may also name the file). "
               "The record holds every sample; means, rates and percentages are derived now, and "
               "from cells that did not finish nothing is.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
};

static dyno_status run(flags *given) {
    dyno_render_options how =
        cli_render_options(flags_text(given, "format"), flags_switch(given, "wide"));
    how.has_plots = flags_switch(given, "plot");
    dyno_results *shown;
    char *out;
    RETURN_IF_FAILED(dyno_results_read(flags_positional(given, 0), &shown));
    dyno_status status = dyno_results_render(shown, &how, &out);
    cli_print(out);
    dyno_results_destroy(shown);
    return status;
}

int cli_show(int argc, char **argv) { return cli_run(&VERB, argc, argv, run); }
