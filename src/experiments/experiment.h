/* experiment.h - what dyno can be asked to find out: settings in, a record out.
 *
 * Settings are parsed with the experiment's table (base/flags.h), to which src/api adds what all
 * have in common. An experiment prints nothing, writes no file of its own and takes no signals; what
 * it has to say while it runs, and whether it shall go on, are the caller's functions. */
#ifndef EXPERIMENTS_EXPERIMENT_H
#define EXPERIMENTS_EXPERIMENT_H

#include "base/flags.h"
#include "base/text.h"
#include "measure/results.h"

/* Each function may be NULL, and gets `caller`. */
typedef struct experiment_context {
    void *caller;
    /* The settings are good and the work begins. If this fails, the experiment does. */
    dyno_status (*on_start)(void *caller);
    /* Work is in any unit in which its parts are comparable, so that the time left means
     * something; `label` says what is being done. */
    void (*on_progress)(void *caller, double done, double total, const char *label);
    /* A sentence for whoever waits, without a full stop. */
    void (*on_note)(void *caller, const char *note);
    /* Asked between steps. Once it has said yes, the experiment ends with what it has so far. */
    bool (*should_stop)(void *caller);
    const char *directory; /* made before the work begins; NULL: none */
} experiment_context;

typedef struct experiment_output {
    results *run;
    text listing;    /* the graph or the source that `plan` was told to print, ... */
    bool is_listing; /* ... which is then what there is to see, though it may be empty */
} experiment_output;
/* Also of an output that is all zero. */
void experiment_output_release(experiment_output *out);

typedef struct experiment {
    const flags_verb *settings;
    const char *out_help; /* of --out, the directory for run.json; NULL: it is not for keeping */
    /* The run is there and has its arguments. `given` may be completed (flags_set). */
    dyno_status (*run)(flags *given, const experiment_context *context, experiment_output *out);
} experiment;

extern const experiment experiment_bench, experiment_attention, experiment_plan,
    experiment_precision, experiment_doctor;

/* NULL behind the last, and when there is none of that name. */
const experiment *experiment_at(int index);
const experiment *experiment_find(const char *name);

/* `given` was parsed with the experiment's table, or one that contains it. On DYNO_OK, and on
 * DYNO_INTERRUPTED, whose record is not complete, the caller releases `out`; else it is all zero. */
NODISCARD dyno_status experiment_run(const experiment *e, flags *given,
                                     const experiment_context *context, experiment_output *out);

/* The functions of the context, where there are any. */
NODISCARD dyno_status experiment_start(const experiment_context *context);
void experiment_progress(const experiment_context *context, double done, double total,
                         const char *label);
void experiment_note(const experiment_context *context, const char *format, ...) PRINTF_LIKE(2, 3);
bool experiment_should_stop(const experiment_context *context);

#endif
