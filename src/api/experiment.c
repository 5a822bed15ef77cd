/* experiment.c - experiments and their records.
 *
 * To an experiment's own settings come those that all have: where the record is kept and how it is
 * printed. They are settings so that a command line and a program say them alike. */
#include "experiments/experiment.h"

#include <stdlib.h>
#include <string.h>

#include "api/options.h"
#include "base/memory.h"
#include "distributed/world.h"
#include "experiments/ranks.h"
#include "experiments/shared_flags.h"
#include "measure/record.h"
#include "measure/results_json.h"
#include "report/run_set.h"

struct dyno_results {
    experiment_output output;
    table_format format; /* that the settings ask for */
    bool is_wide;        /* likewise */
};

const char *dyno_experiment_name(int index) {
    const experiment *e = experiment_at(index);
    return e ? e->settings->name : NULL;
}

static dyno_status find(const char *name, const experiment **out) {
    *out = experiment_find(name);
    if (*out)
        return DYNO_OK;
    text names = {0};
    for (int i = 0; experiment_at(i); i++)
        text_format(&names, "%s%s", i ? ", " : "", experiment_at(i)->settings->name);
    dyno_status status = dyno_fail(DYNO_INVALID, "there is no experiment '%s'; there are %s",
                                   text_quote(name).text, text_string(&names));
    text_release(&names);
    return status;
}

/* The experiment's table with what all have; the caller frees its flags. */
static flags_verb complete_table(const experiment *e) {
    flags_verb verb = *e->settings;
    flag_spec *table = memory_allocate((size_t)verb.flag_count + 4, sizeof *table);
    memcpy(table, verb.flags, (size_t)verb.flag_count * sizeof *table);
    if (e->out_help) {
        table[verb.flag_count++] = (flag_spec){"out", "DIR", FLAG_TEXT, NULL, .help = e->out_help};
        table[verb.flag_count++] = (flag_spec){
            "force", NULL, FLAG_SWITCH, NULL,
            .help = "replaces the record in the directory of --out also by less: by an interrupted "
                    "run, or by one of another verb; without it a complete record is kept"};
    }
    table[verb.flag_count++] = (flag_spec){"format",
                                           NULL,
                                           FLAG_CHOICE,
                                           "table",
                                           .help = "how to print",
                                           .choices = TABLE_FORMAT_CHOICES};
    table[verb.flag_count++] = (flag_spec)WIDE_FLAG;
    verb.flags = table;
    return verb;
}

dyno_status dyno_experiment_help(const char *name, char **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(name);
    return dyno_experiment_help_wrapped(name, 0, out);
}

dyno_status dyno_experiment_help_wrapped(const char *name, int columns, char **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(name);
    const experiment *e;
    RETURN_IF_FAILED(find(name, &e));
    if (columns < 0)
        return dyno_fail(DYNO_INVALID, "%s: columns is %d, it must be 0 for a file, or a width",
                         __func__, columns);
    flags_verb verb = complete_table(e);
    text help = {0};
    flags_append_help(&verb, columns, &help);
    free((flag_spec *)verb.flags);
    *out = options_take_text(&help);
    return status_conclude(DYNO_OK);
}

/* What of its table `append` makes. */
static dyno_status describe(const char *name, void (*append)(const flags_verb *verb, text *out),
                            char **out) {
    const experiment *e;
    RETURN_IF_FAILED(find(name, &e));
    flags_verb verb = complete_table(e);
    text made = {0};
    append(&verb, &made);
    free((flag_spec *)verb.flags);
    *out = options_take_text(&made);
    return status_conclude(DYNO_OK);
}

static void append_man(const flags_verb *verb, text *out) {
    flags_append_man(verb, dyno_version(), out);
}

dyno_status dyno_experiment_man(const char *name, char **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(name);
    return describe(name, append_man, out);
}

dyno_status dyno_experiment_flags(const char *name, char **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(name);
    return describe(name, flags_append_list, out);
}

static dyno_status check_list(const char *what, const char *const *list, int count) {
    if (count < 0 || (count && !list))
        return dyno_fail(DYNO_INVALID, "dyno_experiment_options: there are %d %s at %p", count,
                         what, (const void *)list);
    for (int i = 0; i < count; i++)
        if (!list[i])
            return dyno_fail(DYNO_INVALID, "dyno_experiment_options: %s[%d] is NULL", what, i);
    return DYNO_OK;
}

static dyno_status parse_arguments(const flags_verb *verb, const dyno_experiment_options *o,
                                   flags **given) {
    char **argv = memory_allocate((size_t)o->argument_count + 1, sizeof *argv);
    argv[0] = (char *)verb->name;
    for (int i = 0; i < o->argument_count; i++)
        argv[1 + i] = (char *)o->arguments[i];
    dyno_status status = flags_parse(verb, o->argument_count + 1, argv, given);
    if (status == DYNO_OK && flags_wants_help(*given)) {
        status =
            dyno_fail(DYNO_INVALID, "--help is no setting; dyno_experiment_help gives the help");
        flags_destroy(*given);
        *given = NULL;
    }
    free(argv);
    return status;
}

static dyno_status parse(const flags_verb *verb, const dyno_experiment_options *o, flags **given) {
    RETURN_IF_FAILED(check_list("settings", o->settings, o->setting_count));
    RETURN_IF_FAILED(check_list("arguments", o->arguments, o->argument_count));
    if (o->setting_count && o->argument_count)
        return dyno_fail(DYNO_INVALID, "dyno_experiment_options: give settings or arguments, not "
                                       "both");
    if (o->argument_count)
        return parse_arguments(verb, o, given);
    return flags_parse_settings(verb, o->setting_count, o->settings, given);
}

static dyno_status run(const experiment *e, flags *given, const dyno_experiment_options *o,
                       dyno_results **out) {
    experiment_context told = {.caller = o->caller,
                               .on_progress = o->on_progress,
                               .on_note = o->on_note,
                               .should_stop = o->should_stop};
    world_place place;
    RETURN_IF_FAILED(world_find_place(&place));
    if (e->out_help) {
        told.directory = place.rank == 0 ? flags_text(given, "out") : NULL; /* one rank writes */
        told.replaces_anything = flags_switch(given, "force");
    }
    experiment_output output;
    table_format format;
    RETURN_IF_FAILED(table_format_parse(flags_text(given, "format"), &format));
    dyno_status status = experiment_run(e, given, &told, &output);
    status = world_conclude(world_current(), status);
    if (output.run) {
        *out = memory_allocate(1, sizeof **out);
        **out = (dyno_results){
            .output = output, .format = format, .is_wide = flags_switch(given, "wide")};
    }
    return status;
}

/* Finds the experiment and parses the settings with its whole table; both are released together. */
typedef struct parsed_settings {
    dyno_experiment_options options;
    const experiment *experiment;
    flags_verb verb;
    flags *given;
} parsed_settings;

static void release_settings(parsed_settings *p) {
    flags_destroy(p->given);
    free((flag_spec *)p->verb.flags);
}

/* `function` is the public one, for messages. */
static dyno_status parse_settings(const char *function, const dyno_experiment_options *options,
                                  parsed_settings *out) {
    *out = (parsed_settings){0};
    RETURN_IF_FAILED(
        options_take("dyno_experiment_options", options, &out->options, sizeof out->options));
    const char *name = out->options.name;
    RETURN_IF_FAILED(status_check_pointers(function, "name", (const void *const[]){name}, 1));
    RETURN_IF_FAILED(find(name, &out->experiment));
    out->verb = complete_table(out->experiment);
    return parse(&out->verb, &out->options, &out->given);
}

dyno_status dyno_experiment_run(const dyno_experiment_options *options, dyno_results **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(options);
    parsed_settings settings;
    dyno_status status = parse_settings(__func__, options, &settings);
    if (status == DYNO_OK)
        status = run(settings.experiment, settings.given, &settings.options, out);
    release_settings(&settings);
    return status_conclude(status);
}

dyno_status dyno_experiment_ranks(const dyno_experiment_options *options, int *ranks,
                                  double *timeout_s) {
    RETURN_IF_NULL(ranks, timeout_s);
    *ranks = 0;
    *timeout_s = 0;
    RETURN_IF_NULL(options);
    parsed_settings settings;
    dyno_status status = parse_settings(__func__, options, &settings);
    if (status == DYNO_OK) {
        bool are_planned = settings.experiment->plans_ranks;
        *ranks = are_planned ? 1 : ranks_wanted(&settings.verb, settings.given);
        *timeout_s = ranks_timeout_s(&settings.verb, settings.given);
    }
    release_settings(&settings);
    return status_conclude(status);
}

/* A record, or the parts of one. */
static dyno_status read_run(const char *path, results **out) {
    run_set parts;
    dyno_status status = results_read(path, out);
    if (status != DYNO_NOT_FOUND)
        return status;
    char *message = memory_copy_string(dyno_error_message());
    status = run_set_read(path, &parts);
    if (status == DYNO_OK)
        status = run_set_merge(&parts, path, out);
    else if (status == DYNO_NOT_FOUND)
        status = dyno_fail(DYNO_NOT_FOUND, "%s", message);
    run_set_release(&parts);
    free(message);
    return status;
}

dyno_status dyno_results_read(const char *path, dyno_results **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(path);
    results *read;
    RETURN_IF_FAILED(read_run(path, &read));
    *out = memory_allocate(1, sizeof **out);
    (*out)->output.run = read;
    return status_conclude(DYNO_OK);
}

void dyno_results_destroy(dyno_results *r) {
    if (!r)
        return;
    experiment_output_release(&r->output);
    free(r);
}

bool dyno_results_is_complete(const dyno_results *r) { return r && r->output.run->is_complete; }

dyno_status dyno_results_json(const dyno_results *r, char **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(r);
    text json = {0};
    results_append_json(r->output.run, &json);
    *out = options_take_text(&json);
    return status_conclude(DYNO_OK);
}

dyno_status dyno_results_render(const dyno_results *r, const dyno_render_options *options,
                                char **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(r);
    view_options how;
    text shown = {0};
    RETURN_IF_FAILED(options_take_render(options, r->format, &how));
    how.columns = r->is_wide ? 0 : how.columns;
    if (r->output.is_listing)
        text_append(&shown, text_string(&r->output.listing));
    else
        view_render(r->output.run, how, &shown);
    *out = options_take_text(&shown);
    return status_conclude(DYNO_OK);
}

dyno_status dyno_results_write(const dyno_results *r, const char *directory) {
    RETURN_IF_NULL(r, directory);
    return status_conclude(record_write(r->output.run, directory));
}
