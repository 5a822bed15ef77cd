/* verb_experiment.c - the verbs that run an experiment: flags in, one call, one view.
 *
 * An experiment knows nothing of files, terminals and signals. What the command line adds is here:
 * --out and --format, the progress line, Ctrl-C, and the notes on stderr. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "experiments/experiment.h"
#include "measure/keys.h"
#include "report/view.h"

typedef struct experiment_verb {
    const char *name;
    const char *out_help; /* of --out; NULL: the record is not for keeping */
} experiment_verb;

static const experiment_verb EXPERIMENT_VERBS[] = {
    {RUN_BENCH, "keeps every sample in DIR/run.json"},
    {RUN_ATTENTION, "keeps every sample in DIR/run.json"},
    {RUN_PLAN, "keeps it all in DIR/run.json"},
    {RUN_PRECISION, NULL},
    {RUN_DOCTOR, NULL},
};

typedef struct experiment_job {
    const experiment *experiment;
    const experiment_verb *own;
    const char *directory; /* of --out; NULL: none */
    table_format format;
    progress *line;
} experiment_job;

/* The experiment's table with the command line's own flags; the caller frees *table. */
static flags_verb add_own_flags(const experiment *e, const experiment_verb *own,
                                flag_spec **table) {
    flags_verb verb = *e->settings;
    *table = memory_allocate((size_t)verb.flag_count + 2, sizeof **table);
    memcpy(*table, verb.flags, (size_t)verb.flag_count * sizeof **table);
    if (own->out_help)
        (*table)[verb.flag_count++] =
            (flag_spec){"out", "DIR", FLAG_TEXT, NULL, .help = own->out_help};
    (*table)[verb.flag_count++] = (flag_spec){"format",
                                              NULL,
                                              FLAG_CHOICE,
                                              "table",
                                              .help = "how to print",
                                              .choices = TABLE_FORMAT_CHOICES};
    verb.flags = *table;
    return verb;
}

static dyno_status start(void *caller) {
    const experiment_job *job = caller;
    if (job->directory)
        RETURN_IF_FAILED(file_make_output_directory(job->directory));
    if (job->experiment->is_long)
        interrupt_install();
    return DYNO_OK;
}

static void show_progress(void *caller, double done, double total, const char *label) {
    experiment_job *job = caller;
    if (!job->experiment->is_long)
        return;
    if (!job->line)
        job->line = progress_create(total);
    progress_update(job->line, done, label);
}

static void print_note(void *caller, const char *note) {
    const experiment_job *job = caller;
    if (job->line)
        progress_clear(job->line);
    fprintf(stderr, "dyno %s: %s\n", job->own->name, note);
}

static bool should_stop(void *caller) {
    (void)caller;
    return interrupt_requested();
}

/* Shows and keeps whatever there is, also after an interruption. */
static dyno_status publish(const experiment_job *job, const experiment_output *output) {
    text out = {0};
    view_options options = {.format = job->format, .is_bold = table_wants_bold()};
    if (!output->is_listing)
        view_render(output->run, options, &out);
    cli_print(output->is_listing ? &output->listing : &out);
    text_release(&out);
    return job->directory ? results_write(output->run, job->directory) : DYNO_OK;
}

static dyno_status run(flags *given, void *context) {
    experiment_job *job = context;
    experiment_context told = {job, start, show_progress, print_note, should_stop};
    experiment_output output;
    job->directory = job->own->out_help ? flags_text(given, "out") : NULL;
    RETURN_IF_FAILED(table_format_parse(flags_text(given, "format"), &job->format));
    dyno_status status = experiment_run(job->experiment, given, &told, &output);
    progress_destroy(job->line);
    if (status == DYNO_OK || status == DYNO_INTERRUPTED) {
        dyno_status published = publish(job, &output);
        status = published == DYNO_OK ? status : published;
    }
    experiment_output_release(&output);
    return status;
}

int cli_experiment(int argc, char **argv) {
    const experiment_verb *own = EXPERIMENT_VERBS;
    while (strcmp(own->name, argv[0]) != 0)
        own++;
    experiment_job job = {.experiment = experiment_find(own->name), .own = own};
    flag_spec *table;
    flags_verb verb = add_own_flags(job.experiment, own, &table);
    int exit_code = cli_run(&verb, argc, argv, run, &job);
    free(table);
    return exit_code;
}
