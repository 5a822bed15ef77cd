/* verb_man.c - `dyno man [VERB]`: manual pages, made of the tables of verbs and flags. */
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/man_overview.h"

static const flag_spec FLAGS[] = {
    {"out", "DIR", FLAG_TEXT, NULL,
     .help = "writes dyno.1 and a page for each verb to this directory, and prints none"},
};

static const flags_example EXAMPLES[] = {
    {"man bench", "as roff; `dyno man bench | man -l -` shows it"},
    {"man --out man1", "all pages; in a directory of this name man finds them"},
};

const flags_verb cli_man_table = {
    .name = "man",
    .positional = "VERB",
    .most_positionals = 1,
    .positional_at = cli_verb_name,
    .summary =
        "Prints a verb's manual page, made of the same table as its help, or without a verb that "
        "of dyno: verbs by question, exit codes, environment, files. `make install` installs "
        "them all.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
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

/* NULL: that of dyno. */
static dyno_status append_page(const cli_verb *verb, text *out) {
    char *page = NULL;
    if (!verb) {
        man_append_overview(out);
    } else if (verb->table) {
        flags_append_man(verb->table, dyno_version(), out);
    } else {
        RETURN_IF_FAILED(dyno_experiment_man(verb->name, &page));
        text_append(out, page);
        dyno_text_free(page);
    }
    return DYNO_OK;
}

static dyno_status write_page(const char *directory, const cli_verb *verb) {
    text path = {0}, page = {0};
    text_format(&path, "%s/dyno%s%s.1", directory, verb ? "-" : "", verb ? verb->name : "");
    dyno_status status = append_page(verb, &page);
    if (status == DYNO_OK)
        status = file_write_all(path.data, page.data, page.length);
    text_release(&path);
    text_release(&page);
    return status;
}

static dyno_status write_all(const char *directory) {
    RETURN_IF_FAILED(file_make_output_directory(directory));
    RETURN_IF_FAILED(write_page(directory, NULL));
    for (int i = 0; i < CLI_VERB_COUNT; i++)
        RETURN_IF_FAILED(write_page(directory, &CLI_VERBS[i]));
    return DYNO_OK;
}

static dyno_status run(flags *given) {
    const cli_verb *verb = NULL;
    const char *directory = flags_text(given, "out");
    text page = {0};
    if (flags_positional_count(given))
        RETURN_IF_FAILED(find_verb(flags_positional(given, 0), &verb));
    if (directory && verb)
        return dyno_fail(DYNO_INVALID,
                         "--out writes the pages of all verbs; leave out '%s', or --out",
                         verb->name);
    if (directory)
        return write_all(directory);
    RETURN_IF_FAILED(append_page(verb, &page));
    cli_print(page.data);
    return DYNO_OK;
}

int cli_man(int argc, char **argv) { return cli_run(&cli_man_table, argc, argv, run); }
