/* cli.h - what the verbs of `dyno` share. They are made of dyno.h, as any program.
 *
 * A verb is a function: it parses its flags, calls the library, prints to stdout, and returns
 * the exit code: 0 done, 1 failed, 2 misused, 128 and the signal's number (130) interrupted. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/flags.h"
#include "base/status.h"
#include "base/text.h"

typedef struct cli_verb {
    const char *name, *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the verb's name */
    const flags_verb *table;           /* NULL: that of the experiment of this name */
    const char *question; /* that this verb and those behind it answer; NULL: as before */
} cli_verb;

enum { CLI_VERB_COUNT = 18 };
extern const cli_verb CLI_VERBS[CLI_VERB_COUNT]; /* verbs.c */
const char *cli_verb_name(int index);            /* NULL behind the last */

extern const flags_verb cli_list_table, cli_init_table, cli_step_table, cli_show_table,
    cli_compare_table, cli_suite_table, cli_report_table, cli_completion_table, cli_man_table;

int cli_experiment(int argc, char **argv); /* of every experiment: argv[0] says which */
/* Of those that can take minutes: they have a progress line, and Ctrl-C keeps what there is. */
int cli_long_experiment(int argc, char **argv);
/* Of those that make plan after plan and run none, or few. */
int cli_planning_experiment(int argc, char **argv);
int cli_list(int argc, char **argv);
int cli_init(int argc, char **argv);
int cli_step(int argc, char **argv);
int cli_show(int argc, char **argv);
int cli_compare(int argc, char **argv);
int cli_suite(int argc, char **argv);
int cli_report(int argc, char **argv);
int cli_completion(int argc, char **argv);
int cli_man(int argc, char **argv);

/* Prints "dyno VERB: message" to stderr, the message being this thread's last failure, and
 * returns the exit code that belongs to `status`. */
int cli_report_failure(dyno_status status);

/* Parses the flags and runs the verb, or prints its help where that was asked for; reports what
 * failed and returns the exit code. */
int cli_run(const flags_verb *verb, int argc, char **argv, dyno_status (*run)(flags *given));

/* Writes to stdout and frees the text; NULL is allowed. Failures are found by main when the verb has
 * returned. */
void cli_print(char *out);

/* Bold where stdout is a terminal and the user has not set NO_COLOR; as wide as the terminal, unless
 * `is_wide`. */
dyno_render_options cli_render_options(const char *format, bool is_wide);

#endif
