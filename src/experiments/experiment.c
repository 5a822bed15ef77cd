#include "experiments/experiment.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/printable.h"

static const experiment *const EXPERIMENTS[] = {&experiment_doctor,    &experiment_plan,
                                                &experiment_bench,     &experiment_attention,
                                                &experiment_precision, NULL};
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

dyno_status experiment_run(const experiment *e, flags *given, const experiment_context *context,
                           experiment_output *out) {
    int argc;
    const char *const *argv = flags_arguments(given, &argc);
    *out = (experiment_output){.run = results_create(e->settings->name, argc, argv)};
    dyno_status status = e->run(given, context, out);
    out->run->is_complete = status == DYNO_OK;
    if (status != DYNO_OK && status != DYNO_INTERRUPTED)
        experiment_output_release(out);
    return status;
}

dyno_status experiment_start(const experiment_context *context) {
    if (context->directory)
        RETURN_IF_FAILED(file_make_output_directory(context->directory));
    return context->on_start ? context->on_start(context->caller) : DYNO_OK;
}

void experiment_progress(const experiment_context *context, double done, double total,
                         const char *label) {
    if (context->on_progress)
        context->on_progress(context->caller, done, total, label);
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
