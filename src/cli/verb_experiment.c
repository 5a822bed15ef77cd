/* verb_experiment.c - the verbs that run an experiment: arguments in, one call, one view.
 *
 * An experiment knows nothing of terminals and signals. What the command line adds is here: the
 * progress line, Ctrl-C, and the notes on stderr. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/terminal.h"

typedef struct experiment_job {
    const char *name;
    progress *line; /* NULL: nothing was told yet */
    double total;   /* that the line counts to */
} experiment_job;

static void show_progress(void *caller, double done, double total, const char *label) {
    experiment_job *job = caller;
    if (job->line && (job->total < total || job->total > total)) { /* planned; now it is measured */
        progress_destroy(job->line);
        job->line = NULL;
    }
    job->total = total;
    if (!job->line)
        job->line = progress_create(total);
    progress_update(job->line, done, label);
}

static void print_note(void *caller, const char *note) {
    const experiment_job *job = caller;
    if (job->line)
        progress_clear(job->line);
    fprintf(stderr, "dyno %s: %s\n", job->name, note);
}

static bool should_stop(void *caller) {
    (void)caller;
    return interrupt_requested();
}

static int print_help(const char *name) {
    char *help;
    dyno_status status = dyno_experiment_help_wrapped(name, terminal_columns(STDOUT_FILENO), &help);
    cli_print(help);
    return status == DYNO_OK ? 0 : cli_report_failure(status);
}

/* Shows what there is. A failure (an interruption, a full disk) is reported after it, and by the
 * message it came with. */
static dyno_status show(const dyno_results *found, dyno_status status) {
    dyno_render_options how = cli_render_options(NULL, false);
    char *message = memory_copy_string(dyno_error_message()), *out;
    dyno_status shown = dyno_results_render(found, &how, &out);
    cli_print(out);
    if (status != DYNO_OK)
        shown = dyno_fail(status, "%s", message);
    free(message);
    return shown;
}

/* Starts the ranks that the arguments ask for. What is wrong with the arguments is found by running it. */
static bool start_ranks(const dyno_experiment_options *options, int argc, char **argv, int *code) {
    int wanted;
    double timeout_s;
    return dyno_experiment_ranks(options, &wanted, &timeout_s) == DYNO_OK &&
           cli_start_ranks(wanted, timeout_s, argc, argv, code);
}

static int run(int argc, char **argv, bool is_long) {
    experiment_job job = {.name = argv[0]};
    dyno_experiment_options options = {.size = sizeof options,
                                       .name = argv[0],
                                       .arguments = (const char *const *)argv + 1,
                                       .argument_count = argc - 1,
                                       .caller = &job,
                                       .on_progress = is_long ? show_progress : NULL,
                                       .on_note = print_note,
                                       .should_stop = should_stop};
    dyno_results *found;
    int code;
    if (flags_ask_for_help(argc, argv))
        return print_help(argv[0]);
    if (start_ranks(&options, argc, argv, &code))
        return code;
    bool is_quiet = cli_rank_is_quiet();
    if (is_quiet) {
        options.on_progress = NULL;
        options.on_note = NULL;
        options.should_stop = NULL; /* rank 0 tells when to stop */
    } else if (is_long) {
        interrupt_install();
    }
    dyno_status status = dyno_experiment_run(&options, &found);
    progress_destroy(job.line);
    if (found && !is_quiet)
        status = show(found, status);
    dyno_results_destroy(found);
    return status == DYNO_OK ? 0 : cli_report_failure(status);
}

int cli_experiment(int argc, char **argv) { return run(argc, argv, false); }

int cli_long_experiment(int argc, char **argv) { return run(argc, argv, true); }

int cli_planning_experiment(int argc, char **argv) {
    memory_keep_freed();
    return run(argc, argv, true);
}
