/* main.c - `dyno VERB ...`: finds the verb, runs it, and answers for what stdout swallowed. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/isa.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/wrap.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/terminal.h"

static const char *current_verb;

int cli_report_failure(dyno_status status) {
    if (!dyno_rank_reports()) {
        /* Another rank says it. */
    } else if (current_verb)
        fprintf(stderr, "dyno %s: %s\n", current_verb, dyno_error_message());
    else
        fprintf(stderr, "dyno: %s\n", dyno_error_message());
    return status == DYNO_OK            ? 0
           : status == DYNO_INVALID     ? 2
           : status == DYNO_INTERRUPTED ? interrupt_exit_code()
                                        : 1;
}

static void print_verb_help(const flags_verb *verb) {
    text help = {0};
    flags_append_help(verb, terminal_columns(STDOUT_FILENO), &help);
    cli_print(help.data);
}

int cli_run(const flags_verb *verb, int argc, char **argv, dyno_status (*run)(flags *given)) {
    flags *given;
    dyno_status status = flags_parse(verb, argc, argv, &given);
    if (status == DYNO_OK && flags_wants_help(given))
        print_verb_help(verb);
    else if (status == DYNO_OK)
        status = run(given);
    flags_destroy(given);
    return status == DYNO_OK ? 0 : cli_report_failure(status);
}

void cli_print(char *out) {
    if (out)
        fputs(out, stdout);
    dyno_text_free(out);
}

dyno_render_options cli_render_options(const char *format, bool is_wide) {
    const char *no_color = getenv("NO_COLOR");
    return (dyno_render_options){.size = sizeof(dyno_render_options),
                                 .format = format,
                                 .is_bold = isatty(STDOUT_FILENO) && !(no_color && *no_color),
                                 .columns = is_wide ? 0 : terminal_columns(STDOUT_FILENO)};
}

static void print_help(FILE *stream) {
    int columns = terminal_columns(fileno(stream));
    text help = {0};
    text_format(&help, "dyno %s: ", dyno_version());
    text_append_wrapped(&help, "builds, plans, trains and measures decoder-only Transformers",
                        (int)help.length, 2, columns);
    text_append(&help, "\nusage: dyno VERB [flags]\n\n");
    for (int i = 0; i < CLI_VERB_COUNT; i++) {
        enum { SUMMARY_COLUMN = 14 };
        if (CLI_VERBS[i].question) {
            text_append(&help, i ? "\n" : "");
            text_append_wrapped(&help, CLI_VERBS[i].question, 0, 0, columns);
        }
        text_format(&help, "  %-11s ", CLI_VERBS[i].name);
        text_append_wrapped(&help, CLI_VERBS[i].summary, SUMMARY_COLUMN, SUMMARY_COLUMN, columns);
    }
    text_append(&help, "\n");
    text_append_wrapped(
        &help, "`dyno VERB --help` explains a verb with examples. Start with `dyno doctor`.", 0, 0,
        columns);
    fputs(text_string(&help), stream);
    text_release(&help);
}

static int run_verb(const char *name, int argc, char **argv) {
    const char *names[CLI_VERB_COUNT];
    for (int i = 0; i < CLI_VERB_COUNT; i++) {
        names[i] = CLI_VERBS[i].name;
        if (strcmp(name, names[i]) == 0) {
            current_verb = names[i];
            return CLI_VERBS[i].run(argc, argv);
        }
    }
    const char *nearest = text_nearest(name, names, CLI_VERB_COUNT);
    return cli_report_failure(
        nearest ? dyno_fail(DYNO_INVALID, "unknown verb '%s'; did you mean '%s'?", name, nearest)
                : dyno_fail(DYNO_INVALID, "unknown verb '%s'; dyno --help lists them", name));
}

static int dispatch(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    const char *first = argv[1];
    if (strcmp(first, "--version") == 0) {
        printf("dyno %s\n", dyno_version());
        return 0;
    }
    bool asks_help = strcmp(first, "help") == 0;
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || (asks_help && argc == 2)) {
        print_help(stdout);
        return 0;
    }
    if (asks_help) {
        char *arguments[] = {argv[2], (char[]){"--help"}, NULL};
        return run_verb(argv[2], 2, arguments);
    }
    if (first[0] == '-')
        return cli_report_failure(dyno_fail(
            DYNO_INVALID, "'%s' is not a verb; flags come after it: dyno VERB [flags]", first));
    return run_verb(first, argc - 1, argv + 1);
}

/* There is no memory to go on with. */
static void give_up(const char *message) {
    file_remove_unfinished();
    fprintf(stderr, "dyno%s%s: %s\n", current_verb ? " " : "", current_verb ? current_verb : "",
            message);
    exit(1);
}

/* Apart from main and not inlined: main must not hold an instruction this CPU lacks. */
__attribute__((noinline)) static int run(int argc, char **argv) {
    /* A reader that went away is an error to report, not a death without a word. */
    signal(SIGPIPE, SIG_IGN);
    memory_on_failure(give_up);
    json_use_memory();
    int code = dispatch(argc, argv);
    bool failed_before = ferror(stdout) != 0;
    errno = 0;
    if (fflush(stdout) != 0 || failed_before) {
        fprintf(stderr, "dyno: writing to standard output: %s\n",
                errno ? strerror(errno) : "not everything was taken");
        return code ? code : 1;
    }
    return code;
}

int main(int argc, char **argv) {
    const char *missing = isa_missing_for_this_build();
    if (missing) {
        fputs("dyno: this build uses ", stderr);
        fputs(missing, stderr);
        fputs(", which this CPU does not have; build without DYNO_ARCH\n", stderr);
        return 1;
    }
    threads_unbind();
    return run(argc, argv);
}
