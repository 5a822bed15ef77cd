/* verb_list.c - `dyno list`: models, ops, kernels, targets and suites. */
#include "cli/cli.h"
#include "experiments/shared_flags.h"

static const flag_spec FLAGS[] = {
    {"format", NULL, FLAG_CHOICE, "table", .help = "how to print", .list_choices = dyno_formats},
    WIDE_FLAG,
};

static const flags_example EXAMPLES[] = {
    {"list", "presets, then ops, kernels, targets and suites"},
    {"list presets", "the models by name, with their sizes"},
    {"list suites", "the studies that `dyno suite` can run"},
    {"list kernels --format csv", "every kernel, the op it computes and its place in line"},
};

const flags_verb cli_list_table = {
    .name = "list",
    .positional = "WHAT",
    .most_positionals = 1,
    .positional_suggestions = "presets|ops|kernels|targets|suites",
    .summary =
        "Shows what dyno knows, all of it or one kind. WHAT is presets (models by name), ops "
        "(the operations graphs are made of, with the scalar expression of element-wise "
        "ones), kernels (that compute them, fastest first: the first that does not decline "
        "the operands is taken), targets (chips that can be planned for) or suites (of "
        "experiments).",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
};

static dyno_status run(flags *given) {
    dyno_render_options how =
        cli_render_options(flags_text(given, "format"), flags_switch(given, "wide"));
    char *out;
    RETURN_IF_FAILED(
        dyno_list(flags_positional_count(given) ? flags_positional(given, 0) : NULL, &how, &out));
    cli_print(out);
    return DYNO_OK;
}

int cli_list(int argc, char **argv) { return cli_run(&cli_list_table, argc, argv, run); }
