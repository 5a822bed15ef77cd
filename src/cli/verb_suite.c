/* verb_suite.c - `dyno suite NAME --out DIR`: a study, part by part.
 *
 * Each part is a process of its own: one that crashes is FAILED and the next begins, memory and the GPU
 * start clean, and kill -9 loses the part that was running. What is finished is in DIR/suite.json and is
 * not run again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/units.h"
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "experiments/shared_flags.h"

static const flag_spec FLAGS[] = {
    {"out", "DIR", FLAG_TEXT, NULL,
     .help = "the study: a directory for each experiment, and suite.json; a study that is there is "
             "continued"},
    {"budget", "TIME", FLAG_TEXT, NULL,
     .help = "ends after so long, the most telling parts first: 20min, 2h; not given: all of it"},
    DEVICE_FLAG("auto"),
    {"dry-run", NULL, FLAG_SWITCH, NULL, .help = "prints the parts and runs none"},
    {"format", NULL, FLAG_CHOICE, "table", .help = "how to print", .list_choices = dyno_formats},
    WIDE_FLAG,
};

static const flags_example EXAMPLES[] = {
    {"suite systems --budget 20min --out runs/study", "the whole study, as far as 20 minutes go"},
    {"suite systems --dry-run --out runs/study", "what would be run, in which order"},
};

const flags_verb cli_suite_table = {
    .name = "suite",
    .positional = "NAME|FILE",
    .least_positionals = 1,
    .most_positionals = 1,
    .positional_at = dyno_suite_name,
    .summary =
        "Runs a study: the experiments of a suite (`dyno list suites`, or a file of your own), "
        "part by part, each into a directory below --out. Parts are ordered so that a budget "
        "gives rows to every table first. Ctrl-C, a crash or the end of the budget lose "
        "nothing: the same command goes on where it ended. What is skipped says why. `dyno "
        "report DIR` makes one page of it.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
};

typedef struct study {
    dyno_suite *parts;
    const char *directory;
    int64_t started_ns;
    double budget; /* in seconds; 0: none */
    int to_run, ran, failed;
    double *stopped_after; /* of each part: the seconds it was given; 0: it was not stopped */
    progress *line;
    char label[256];
} study;

static double elapsed(const study *s) { return (double)(clock_now_ns() - s->started_ns) / 1e9; }

/* More than 0 where there is no budget. */
static double seconds_left(const study *s) { return s->budget > 0 ? s->budget - elapsed(s) : 1; }

static void show_progress(void *caller) {
    study *s = caller;
    progress_update(s->line, s->ran, s->label);
}

static bool is_status(const dyno_suite_part *part, const char *status) {
    return strcmp(part->status, status) == 0;
}

static dyno_suite_part part_at(const study *s, int index) {
    dyno_suite_part part = {.size = sizeof part};
    dyno_status status = dyno_suite_part_at(s->parts, index, &part);
    (void)status; /* the index is one of them */
    return part;
}

/* What a part may take: several times its share of what is left, so that one that takes for ever leaves
 * time for all others. */
static double share_of(const study *s, int index) {
    enum { SHARES = 5, LEAST_SECONDS = 20 };
    int pending = 0;
    for (int i = index; i < dyno_suite_part_count(s->parts); i++) {
        dyno_suite_part other = part_at(s, i);
        pending += is_status(&other, "PENDING");
    }
    double left = seconds_left(s), share = SHARES * left / (pending ? pending : 1);
    share = share < LEAST_SECONDS ? LEAST_SECONDS : share;
    return s->budget > 0 ? (share < left ? share : left) : 0;
}

static char *path_of(const study *s, const char *directory, const char *name) {
    text path = {0};
    text_format(&path, "%s/%s%s%s", s->directory, directory, *name ? "/" : "", name);
    return path.data;
}

/* An experiment that keeps no record of its own takes seconds: it is run here. */
static dyno_status run_here(const dyno_suite_part *part, const char *directory) {
    dyno_experiment_options options = {.size = sizeof options,
                                       .name = part->verb,
                                       .arguments = part->arguments,
                                       .argument_count = part->argument_count};
    dyno_results *found;
    dyno_status status = dyno_experiment_run(&options, &found);
    if (status == DYNO_OK)
        status = dyno_results_write(found, directory);
    dyno_results_destroy(found);
    return status;
}

static dyno_status run_child(study *s, const dyno_suite_part *part, const char *directory,
                             double limit, child_end *end) {
    char *log = path_of(s, part->directory, "log.txt");
    const char **argv = memory_allocate((size_t)part->argument_count + 5, sizeof *argv);
    int count = 0;
    argv[count++] = "/proc/self/exe";
    argv[count++] = part->verb;
    for (int i = 0; i < part->argument_count; i++)
        argv[count++] = part->arguments[i];
    argv[count++] = "--out";
    argv[count++] = directory;
    child_options options = {.argv = (char *const *)argv,
                             .log = log,
                             .seconds = limit,
                             .on_wait = show_progress,
                             .caller = s};
    dyno_status status = child_run(&options, end);
    free(argv);
    free(log);
    return status;
}

static dyno_status settle(study *s, int index, const char *status, const char *reason,
                          double seconds) {
    progress_clear(s->line);
    dyno_suite_part part = part_at(s, index);
    if (strcmp(status, "OK") != 0)
        fprintf(stderr, "dyno suite: %s: %s: %s\n", part.directory, status, reason);
    return dyno_suite_settle(s->parts, index, status, reason, seconds);
}

static void append_stop(const study *s, const child_end *end, text *reason) {
    const double worth_running = 1; /* seconds */
    bool goes_on = seconds_left(s) > worth_running;
    text_format(reason,
                goes_on ? "stopped after %s, so that others get their part of the budget; what it "
                          "had finished is kept, and the same command goes on"
                        : "the budget was used up after %s of it; what it had finished is kept, "
                          "and the same command goes on",
                units_duration(end->seconds).text);
}

/* Exit code 2 is a part that is not possible as it is asked for on this machine. */
static dyno_status settle_child(study *s, int index, const child_end *end) {
    text reason = {0};
    text_append(&reason, "");
    char *log = path_of(s, part_at(s, index).directory, "log.txt");
    if (end->was_stopped)
        append_stop(s, end, &reason);
    else if (end->signal)
        text_format(&reason, "died of signal %d", end->signal);
    else if (end->exit_code != 0)
        text_format(&reason, "exit code %d", end->exit_code);
    if (!end->was_stopped && (end->signal || end->exit_code != 0))
        child_append_tail(&reason, log);
    const char *status = !reason.length        ? "OK"
                         : end->was_stopped    ? "PENDING"
                         : end->exit_code == 2 ? "SKIP"
                                               : "FAILED";
    s->failed += strcmp(status, "FAILED") == 0;
    dyno_status settled = settle(s, index, status, text_string(&reason), end->seconds);
    text_release(&reason);
    free(log);
    return settled;
}

static dyno_status run_part(study *s, int index, double limit) {
    dyno_suite_part part = part_at(s, index);
    char *directory = path_of(s, part.directory, "");
    child_end end = {.exit_code = 0};
    snprintf(s->label, sizeof s->label, "part %d of %d: %s", s->ran + 1, s->to_run, part.directory);
    show_progress(s);
    dyno_status status = file_make_output_directory(directory);
    if (status == DYNO_OK) /* the record knows of the part, whatever ends the study */
        status = dyno_suite_settle(s->parts, index, "PENDING",
                                   "begun and not finished; the same command goes on", 0);
    if (status == DYNO_OK && part.takes_out) {
        status = run_child(s, &part, directory, limit, &end);
        s->stopped_after[index] = status == DYNO_OK && end.was_stopped ? end.seconds : 0;
        if (status == DYNO_OK)
            status = settle_child(s, index, &end);
    } else if (status == DYNO_OK) {
        int64_t begin = clock_now_ns();
        dyno_status ran = run_here(&part, directory);
        char *message = memory_copy_string(dyno_error_message());
        s->failed += ran != DYNO_OK;
        status = settle(s, index, ran == DYNO_OK ? "OK" : "FAILED", message,
                        (double)(clock_now_ns() - begin) / 1e9);
        free(message);
    }
    free(directory);
    s->ran++;
    return status;
}

static dyno_status run_parts(study *s) {
    int count = dyno_suite_part_count(s->parts);
    dyno_status status = DYNO_OK;
    for (int i = 0; i < count && status == DYNO_OK; i++) {
        dyno_suite_part part = part_at(s, i);
        if (!is_status(&part, "PENDING"))
            continue;
        if (interrupt_requested())
            status = dyno_fail(DYNO_INTERRUPTED, "interrupted");
        else if (seconds_left(s) <= 0)
            status = dyno_suite_settle(s->parts, i, "PENDING",
                                       "the budget was used up; the same command goes on", 0);
        else
            status = run_part(s, i, share_of(s, i));
    }
    return status;
}

/* Time that others left over goes to parts that were stopped, where it is well more than they had. */
static dyno_status run_stopped_parts(study *s) {
    const double least_gain = 1.5;
    dyno_status status = DYNO_OK;
    for (int i = 0; i < dyno_suite_part_count(s->parts) && status == DYNO_OK; i++)
        if (s->stopped_after[i] > 0 && seconds_left(s) > least_gain * s->stopped_after[i]) {
            s->to_run++;
            status = run_part(s, i, seconds_left(s));
        }
    return status;
}

static dyno_status show(const flags *given, const study *s) {
    dyno_render_options how =
        cli_render_options(flags_text(given, "format"), flags_switch(given, "wide"));
    char *out;
    RETURN_IF_FAILED(dyno_suite_render(s->parts, &how, &out));
    cli_print(out);
    return DYNO_OK;
}

static dyno_status run_study(const flags *given, study *s) {
    int count = dyno_suite_part_count(s->parts);
    for (int i = 0; i < count; i++) {
        dyno_suite_part part = part_at(s, i);
        s->to_run += is_status(&part, "PENDING");
    }
    if (flags_switch(given, "dry-run"))
        return show(given, s);
    RETURN_IF_FAILED(file_make_output_directory(s->directory));
    s->line = progress_create(s->to_run);
    s->stopped_after = memory_allocate((size_t)count, sizeof *s->stopped_after);
    dyno_status status = run_parts(s);
    if (status == DYNO_OK)
        status = run_stopped_parts(s);
    free(s->stopped_after);
    progress_destroy(s->line);
    char *message = memory_copy_string(dyno_error_message());
    dyno_status shown = show(given, s);
    if (status == DYNO_INTERRUPTED)
        status = dyno_fail(status, "interrupted after %d of %d parts; the same command goes on",
                           s->ran - 1, s->to_run);
    else if (status != DYNO_OK)
        status = dyno_fail(status, "%s", message);
    else if (shown == DYNO_OK && s->failed)
        status = dyno_fail(DYNO_IO, "%d part%s failed; their logs are in '%s'", s->failed,
                           s->failed == 1 ? "" : "s", s->directory);
    free(message);
    return status == DYNO_OK ? shown : status;
}

static dyno_status run(flags *given) {
    study s = {.directory = flags_text(given, "out"), .started_ns = clock_now_ns()};
    if (!s.directory)
        return dyno_fail(DYNO_INVALID, "--out DIR says where the study is kept");
    if (flags_is_set(given, "budget")) {
        dyno_status parsed = units_parse_duration(flags_text(given, "budget"), &s.budget);
        if (parsed != DYNO_OK)
            return dyno_fail_within(parsed, "--budget");
        if (s.budget <= 0)
            return dyno_fail(DYNO_INVALID,
                             "--budget is 0, it must be more; --dry-run runs nothing");
    }
    if (!flags_switch(given, "dry-run"))
        interrupt_install();
    RETURN_IF_FAILED(dyno_suite_open(flags_positional(given, 0), flags_text(given, "device"),
                                     s.directory, &s.parts));
    dyno_status status = run_study(given, &s);
    dyno_suite_close(s.parts);
    return status;
}

int cli_suite(int argc, char **argv) { return cli_run(&cli_suite_table, argc, argv, run); }
