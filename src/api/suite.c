/* suite.c - studies: what is to be run, and the record of what became of it. */
#include "report/suite.h"

#include <stdlib.h>
#include <string.h>

#include "api/options.h"
#include "base/file.h"
#include "base/memory.h"
#include "experiments/experiment.h"
#include "model/config.h"
#include "runtime/device.h"

struct dyno_suite {
    suite *inner;
    char *directory;
};

dyno_status dyno_device_kind(const char *device_name, const char **out) {
    device *d;
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(device_name);
    RETURN_IF_FAILED(device_open_as(device_name, NULL, &d));
    *out = d->target.kind == TARGET_CPU ? "cpu" : "cuda";
    device_close(d);
    return status_conclude(DYNO_OK);
}

static bool has_flag(const experiment *e, const char *name) {
    for (int i = 0; i < e->settings->flag_count; i++)
        if (strcmp(e->settings->flags[i].name, name) == 0)
            return true;
    return false;
}

static bool has_argument(const suite_part *part, const char *flag) {
    size_t length = strlen(flag);
    for (int i = 0; i < part->argument_count; i++) {
        const char *argument = part->arguments[i];
        if (strncmp(argument, flag, length) == 0 &&
            (argument[length] == '\0' || argument[length] == '='))
            return true;
    }
    return false;
}

/* A part says on which device it runs: on another it is another part. */
static void complete_part(suite *s, int index, const char *device_name) {
    const suite_part *part = &s->parts[index];
    if (has_flag(experiment_find(part->verb), "device") && !has_argument(part, "--target")) {
        suite_add_argument(s, index, "--device");
        suite_add_argument(s, index, device_name);
    }
}

static dyno_status check_verb(const suite_part *part) {
    enum { MOST = 64 };
    const char *names[MOST];
    int count = 0;
    if (experiment_find(part->verb))
        return DYNO_OK;
    while (count < MOST && experiment_at(count)) {
        names[count] = experiment_at(count)->settings->name;
        count++;
    }
    const char *nearest = text_nearest(part->verb, names, count);
    return dyno_fail(DYNO_INVALID, "there is no verb '%s' that measures; %s%s%s",
                     text_quote(part->verb).text, nearest ? "did you mean '" : "see dyno --help",
                     nearest ? nearest : "", nearest ? "'?" : "");
}

/* Its flags as its run will parse them, with --out. */
static dyno_status check_flags(const suite_part *part) {
    if (has_argument(part, "--device"))
        return dyno_fail(DYNO_INVALID, "--device is what dyno suite gives each part; leave it out");
    int count = part->argument_count, ranks;
    double timeout_s;
    const char **arguments = memory_allocate((size_t)count + 2, sizeof *arguments);
    if (count)
        memcpy(arguments, part->arguments, (size_t)count * sizeof *arguments);
    if (experiment_find(part->verb)->out_help) {
        arguments[count++] = "--out";
        arguments[count++] = part->directory;
    }
    dyno_status status =
        dyno_experiment_ranks(&(dyno_experiment_options){.size = sizeof(dyno_experiment_options),
                                                         .name = part->verb,
                                                         .arguments = arguments,
                                                         .argument_count = count},
                              &ranks, &timeout_s);
    free(arguments);
    return status;
}

/* Presets that there are not would be parts that this machine seems to be unable to run. */
static dyno_status check_models(const suite_part *part) {
    dyno_status status = DYNO_OK;
    for (int i = 0; i + 1 < part->argument_count && status == DYNO_OK; i++) {
        if (strcmp(part->arguments[i], "--model") != 0)
            continue;
        char *names = memory_copy_string(part->arguments[i + 1]), *rest = names;
        model_config config;
        for (char *name; status == DYNO_OK && (name = strsep(&rest, ",")) != NULL;)
            status = model_config_from_preset(name, &config);
        free(names);
    }
    return status;
}

/* A verb, a flag or a model that there is not is a mistake in the suite's file, whichever machine it is run on; it is
 * found before the first part is run. */
static dyno_status check_parts(const char *name, const suite *s) {
    for (int i = 0; i < s->count; i++) {
        const suite_part *part = &s->parts[i];
        dyno_status status = check_verb(part);
        if (status == DYNO_OK)
            status = check_flags(part);
        if (status == DYNO_OK)
            status = check_models(part);
        if (status != DYNO_OK)
            return dyno_fail_within(status, "suite '%s', experiment '%s' (dyno %s)",
                                    text_quote(name).text, text_quote(part->experiment).text,
                                    text_quote(part->verb).text);
    }
    return DYNO_OK;
}

/* With the flags for either kind of device; *out is for `kind`. */
static dyno_status read_checked(const char *name, const char *kind, suite **out) {
    static const char *const KINDS[] = {"cpu", "cuda"};
    *out = NULL;
    for (int i = 0; i < 2; i++) {
        suite *read;
        RETURN_IF_FAILED(suite_read(name, KINDS[i], &read));
        dyno_status status = check_parts(name, read);
        if (status == DYNO_OK && strcmp(KINDS[i], kind) == 0)
            *out = read;
        else
            suite_destroy(read);
        if (status != DYNO_OK) {
            suite_destroy(*out);
            *out = NULL;
            return status;
        }
    }
    return DYNO_OK;
}

dyno_status dyno_suite_open(const char *name, const char *device_name, const char *directory,
                            dyno_suite **out) {
    const char *kind;
    suite *inner;
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(name, device_name, directory);
    RETURN_IF_FAILED(dyno_device_kind(device_name, &kind));
    RETURN_IF_FAILED(read_checked(name, kind, &inner));
    for (int i = 0; i < inner->count; i++)
        complete_part(inner, i, strcmp(device_name, "auto") == 0 ? kind : device_name);
    dyno_status status = suite_resume(inner, directory);
    if (status == DYNO_OK) {
        *out = memory_allocate(1, sizeof **out);
        **out = (dyno_suite){inner, memory_copy_string(directory)};
    } else {
        suite_destroy(inner);
    }
    return status_conclude(status);
}

void dyno_suite_close(dyno_suite *s) {
    if (!s)
        return;
    suite_destroy(s->inner);
    free(s->directory);
    free(s);
}

int dyno_suite_part_count(const dyno_suite *s) { return s ? s->inner->count : 0; }

static dyno_status check_index(const dyno_suite *s, int index) {
    if (index >= 0 && index < s->inner->count)
        return DYNO_OK;
    return dyno_fail(DYNO_INVALID, "the suite has %d parts, there is no part %d", s->inner->count,
                     index);
}

dyno_status dyno_suite_part_at(const dyno_suite *s, int index, dyno_suite_part *out) {
    RETURN_IF_NULL(s, out);
    RETURN_IF_FAILED(check_index(s, index));
    const suite_part *part = &s->inner->parts[index];
    const experiment *e = experiment_find(part->verb);
    dyno_suite_part known = {.size = sizeof known,
                             .experiment = part->experiment,
                             .verb = part->verb,
                             .arguments = part->arguments,
                             .argument_count = part->argument_count,
                             .directory = part->directory,
                             .status = suite_status_name(part->status),
                             .takes_out = e && e->out_help,
                             .priority = part->priority};
    return status_conclude(options_give("dyno_suite_part", &known, sizeof known, out));
}

dyno_status dyno_suite_settle(dyno_suite *s, int index, const char *status, const char *reason,
                              double seconds) {
    RETURN_IF_NULL(s, status, reason);
    RETURN_IF_FAILED(check_index(s, index));
    for (int i = SUITE_PENDING; i <= SUITE_FAILED; i++)
        if (strcmp(status, suite_status_name((suite_status)i)) == 0) {
            suite_settle(s->inner, index, (suite_status)i, reason, seconds);
            RETURN_IF_FAILED(file_make_output_directory(s->directory));
            return status_conclude(suite_write(s->inner, s->directory));
        }
    return dyno_fail(DYNO_INVALID, "a part of a suite is PENDING, OK, SKIP or FAILED, not '%s'",
                     text_quote(status).text);
}

dyno_status dyno_suite_render(const dyno_suite *s, const dyno_render_options *options, char **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(s);
    view_options how;
    text shown = {0};
    RETURN_IF_FAILED(options_take_render(options, TABLE_TERMINAL, &how));
    report_document *document = suite_create_document(s->inner);
    document_render(document, how.format, (render_options){how.is_bold, false, how.columns},
                    &shown);
    document_destroy(document);
    *out = options_take_text(&shown);
    return status_conclude(DYNO_OK);
}
