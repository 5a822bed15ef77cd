#include "experiments/experiment.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "base/stop.h"
#include "distributed/world.h"
#include "measure/record.h"

static const experiment *const EXPERIMENTS[] = {&experiment_doctor,    &experiment_plan,
                                                &experiment_memory,    &experiment_bench,
                                                &experiment_attention, &experiment_allreduce,
                                                &experiment_scale,     &experiment_precision,
                                                &experiment_profile,   NULL};
enum { EXPERIMENT_COUNT = sizeof EXPERIMENTS / sizeof *EXPERIMENTS - 1 };

const experiment *experiment_at(int index) {
    return EXPERIMENTS[index >= 0 && index < EXPERIMENT_COUNT ? index : EXPERIMENT_COUNT];
}

const experiment *experiment_find(const char *name) {
    int i = 0;
    while (EXPERIMENTS[i] && strcmp(EXPERIMENTS[i]->settings->name, name) != 0)
        i++;
    return EXPERIMENTS[i];
}

void experiment_output_release(experiment_output *out) {
    results_destroy(out->run);
    text_release(&out->listing);
    *out = (experiment_output){0};
}

/* What was found out before a failure is worth keeping, unless the settings were wrong. */
static bool has_something(const results *run, dyno_status status) {
    return status == DYNO_OK || status == DYNO_INTERRUPTED ||
           (status != DYNO_INVALID && results_finished_cells(run) > 0);
}

/* For other ranks, if there are any: what this one is doing. */
static void set_phase(const char *phase) {
    if (world_current())
        world_set_phase(world_current(), phase);
}

static dyno_status end_record(const experiment_context *context, dyno_status status) {
    record *r = context->record;
    set_phase("writing results");
    dyno_status written = record_end(r);
    if (written != DYNO_OK)
        return written;
    if (record_is_beside(r))
        experiment_note(context,
                        "'%s/run.json' has more and is kept as it was; the record of this run is "
                        "'%s'",
                        context->directory, record_path(r));
    return status;
}

dyno_status experiment_run(const experiment *e, flags *given, const experiment_context *context,
                           experiment_output *out) {
    int argc;
    const char *const *argv = flags_arguments(given, &argc);
    *out = (experiment_output){.run = results_create(e->settings->name, argc, argv)};
    experiment_context with = *context;
    if (context->directory)
        with.record = record_create(context->directory, out->run, context->replaces_anything);
    stop_question question = {.should_stop = context->should_stop, .context = context->caller};
    stop_question *before = stop_ask(&question);
    dyno_status status = e->run(given, &with, out);
    stop_ask(before);
    out->run->is_complete = status == DYNO_OK;
    if (!has_something(out->run, status)) {
        if (with.record)
            record_abandon(with.record);
        experiment_output_release(out);
    } else if (with.record) {
        status = end_record(&with, status);
    }
    record_destroy(with.record);
    return status;
}

dyno_status experiment_start(const experiment_context *context) {
    if (context->record)
        RETURN_IF_FAILED(record_begin(context->record));
    return context->on_start ? context->on_start(context->caller) : DYNO_OK;
}

static void keep(const experiment_context *context) {
    bool was_failing = record_is_failing(context->record);
    set_phase("writing results");
    if (record_keep(context->record) != DYNO_OK && !was_failing)
        experiment_note(context, "%s; the run goes on and tries again after each cell",
                        dyno_error_message());
}

void experiment_keep_cell(const experiment_context *context) {
    if (context->record)
        keep(context);
}

void experiment_progress(const experiment_context *context, double done, double total,
                         const char *label) {
    if (context->on_progress)
        context->on_progress(context->caller, done, total, label);
    if (context->record && record_was_put_off(context->record))
        keep(context); /* the cells of before, now that a longer one is under way */
}

void experiment_note(const experiment_context *context, const char *format, ...) {
    char note[512];
    va_list values;
    va_start(values, format);
    vsnprintf(note, sizeof note, format, values);
    va_end(values);
    if (!context->on_note)
        return;
    text shown = {0}; /* a note may name a file */
    text_append_printable(&shown, note, "");
    context->on_note(context->caller, text_string(&shown));
    text_release(&shown);
}

bool experiment_should_stop(const experiment_context *context) {
    return context->should_stop && context->should_stop(context->caller);
}
