/* verb_compare.c - `dyno compare A B`, and `--run 'CMD A' 'CMD B'`, which runs the two in turns. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/rounds.h"
#include "experiments/shared_flags.h"

static const flag_spec FLAGS[] = {
    {"run", NULL, FLAG_SWITCH, NULL,
     .help = "A and B are commands, which are run in turns, each with --out DIR added"},
    {"rounds", NULL, FLAG_INTEGER, "20",
     .help = "how often --run runs each of the two; rounds are what is resampled", .minimum = 2,
     .maximum = 1000},
    {"out", "DIR", FLAG_TEXT, NULL,
     .help = "keeps the rounds of --run in DIR/a and DIR/b, which can be compared again"},
    {"threshold", "SHARE", FLAG_TEXT, "2%",
     .help = "a difference of less than that does not matter"},
    {"confidence", "SHARE", FLAG_TEXT, "95%", .help = "of the intervals of all rows together"},
    {"between-runs", "SHARE", FLAG_TEXT, "2%",
     .help = "with fewer than 5 rounds: how much two runs of one program differ here"},
    {"format", NULL, FLAG_CHOICE, "table", .help = "how to print; md pastes into a pull request",
     .list_choices = dyno_formats},
    WIDE_FLAG,
};

static const flags_example EXAMPLES[] = {
    {"compare results/small runs/small", "two runs that were measured one after the other"},
    {"compare runs/grid runs/grid --format md", "the same as Markdown, for a pull request"},
    {"compare --run 'dyno bench --d-model 96 --layers 1 --context 32 --pass step' 'dyno bench "
     "--d-model 96 --layers 1 --context 32 --pass step --mode compiled' --rounds 2",
     "two commands in turns: the machine is the same for both"},
};

static const flags_rule RULES[] = {
    {"rounds|out", "!run", "goes with --run, which runs the two commands"},
};

const flags_verb cli_compare_table = {
    .name = "compare",
    .positional = "A B",
    .least_positionals = 2,
    .most_positionals = 2,
    .positional_path = "FILE", /* a directory, or the record in it */
    .summary =
        "Says cell by cell whether B is FASTER or SLOWER than A, the SAME, or whether it is "
        "UNDECIDED, from the ratio of their steps and its interval; memory and launches are "
        "compared too. A and B are records of one verb (DIR or DIR/run.json), or directories of "
        "several rounds. Exit code 1: something is slower, takes more memory or does not run any "
        "more, so that a CI job fails. Two runs of one program differ by some percent on a busy "
        "machine; --run measures both in turns and finds out.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
    FLAGS_RULES(RULES),
};

static dyno_status parse_share(const flags *given, const char *name, double *out) {
    dyno_status status = units_parse_share(flags_text(given, name), out);
    return status == DYNO_OK ? status : dyno_fail_within(status, "--%s", name);
}

/* In the library 0 stands for the default. */
static double as_option(double share) { return share > 0 ? share : -1; }

static dyno_status take_options(const flags *given, dyno_compare_options *out) {
    double threshold, between_runs;
    *out = (dyno_compare_options){.size = sizeof *out};
    RETURN_IF_FAILED(parse_share(given, "threshold", &threshold));
    RETURN_IF_FAILED(parse_share(given, "confidence", &out->confidence));
    RETURN_IF_FAILED(parse_share(given, "between-runs", &between_runs));
    out->threshold = as_option(threshold);
    out->between_runs = as_option(between_runs);
    if (out->confidence < 0.5)
        return dyno_fail(DYNO_INVALID,
                         "--confidence is %g %%, it must be from 50 %% to below 100 %%",
                         100 * out->confidence);
    return DYNO_OK;
}

static int64_t regressions;

static dyno_status show(const flags *given, const char *a, const char *b,
                        const dyno_compare_options *options) {
    dyno_render_options how =
        cli_render_options(flags_text(given, "format"), flags_switch(given, "wide"));
    dyno_comparison *found;
    char *out;
    RETURN_IF_FAILED(dyno_compare(a, b, options, &found));
    dyno_status status = dyno_comparison_render(found, &how, &out);
    regressions = dyno_comparison_regressions(found);
    dyno_comparison_destroy(found);
    cli_print(out);
    return status;
}

/* An interruption leaves the rounds that both have finished. */
static dyno_status run_rounds(const flags *given, const dyno_compare_options *options) {
    rounds made;
    rounds_options how = {.commands = {flags_positional(given, 0), flags_positional(given, 1)},
                          .count = (int)flags_integer(given, "rounds"),
                          .directory = flags_text(given, "out")};
    interrupt_install();
    dyno_status status = rounds_run(&how, &made);
    bool is_over = status == DYNO_OK || (status == DYNO_INTERRUPTED && made.finished > 0);
    if (is_over) {
        /* A pull request is about the commands, not about where their rounds were kept. */
        dyno_compare_options named = *options;
        memcpy(named.names, how.commands, sizeof named.names);
        dyno_status shown = show(given, made.paths[0], made.paths[1], &named);
        status =
            shown == DYNO_OK && status == DYNO_INTERRUPTED
                ? dyno_fail(status, "interrupted after %d of %d rounds", made.finished, how.count)
                : shown;
    }
    rounds_release(&made);
    return status;
}

static dyno_status run(flags *given) {
    dyno_compare_options options;
    RETURN_IF_FAILED(take_options(given, &options));
    if (flags_switch(given, "run"))
        return run_rounds(given, &options);
    return show(given, flags_positional(given, 0), flags_positional(given, 1), &options);
}

int cli_compare(int argc, char **argv) {
    int code = cli_run(&cli_compare_table, argc, argv, run);
    if (code == 0 && regressions > 0) {
        fprintf(stderr, "dyno compare: %lld row%s got worse; exit code 1\n", (long long)regressions,
                regressions == 1 ? "" : "s");
        return 1;
    }
    return code;
}
