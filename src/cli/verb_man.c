/* verb_man.c - `dyno man VERB`: a manual page, made of the table of flags. */
#include <string.h>

#include "cli/cli.h"

static const flags_example MAN_EXAMPLES[] = {
    {"man bench", "as roff; `dyno man bench | man -l -` shows it"},
};

const flags_verb cli_man_table = {
    .name = "man",
    .positional = "VERB",
    .least_positionals = 1,
    .most_positionals = 1,
    .positional_at = cli_verb_name,
    .summary =
        "Prints a verb's manual page, made of the same table as its help. To install one: dyno "
        "man bench > /usr/local/share/man/man1/dyno-bench.1",
    .flags = NULL,
    FLAGS_EXAMPLES(MAN_EXAMPLES),
};

static dyno_status find_verb(const char *name, const cli_verb **out) {
    const char *names[CLI_VERB_COUNT];
    for (int i = 0; i < CLI_VERB_COUNT; i++) {
        names[i] = CLI_VERBS[i].name;
        if (strcmp(name, names[i]) == 0) {
            *out = &CLI_VERBS[i];
            return DYNO_OK;
        }
    }
    const char *nearest = text_nearest(name, names, CLI_VERB_COUNT);
    return dyno_fail(DYNO_INVALID,
                     nearest ? "there is no verb '%s'; did you mean '%s'?"
                             : "there is no verb '%s'; dyno --help lists them",
                     text_quote(name).text, nearest);
}

static dyno_status run_man(flags *given) {
    const cli_verb *verb = NULL;
    char *page = NULL;
    text own = {0};
    RETURN_IF_FAILED(find_verb(flags_positional(given, 0), &verb));
    if (verb->table) {
        flags_append_man(verb->table, dyno_version(), &own);
        cli_print(own.data);
        return DYNO_OK;
    }
    RETURN_IF_FAILED(dyno_experiment_man(verb->name, &page));
    cli_print(page);
    return DYNO_OK;
}

int cli_man(int argc, char **argv) { return cli_run(&cli_man_table, argc, argv, run_man); }
