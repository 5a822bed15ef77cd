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
    /* Asked between steps, and wherever something takes long (base/stop.h). Once it has said yes, the
     * experiment ends with what it has so far. */
    bool (*should_stop)(void *caller);
    const char *directory;  /* of the record, kept as the run goes on; NULL: none is kept */
    bool replaces_anything; /* a record that is there, also by less (measure/record.h) */
    struct record *record;  /* set by experiment_run */
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
    bool plans_ranks;     /* --ranks is what it plans for: none are started */
    const char *out_help; /* of --out, the directory for run.json; NULL: it is not for keeping */
    /* The run is there and has its arguments. `given` may be completed (flags_set). */
    dyno_status (*run)(flags *given, const experiment_context *context, experiment_output *out);
} experiment;

extern const experiment experiment_bench, experiment_profile, experiment_attention,
    experiment_allreduce, experiment_scale, experiment_plan, experiment_memory,
    experiment_precision, experiment_doctor;

/* NULL behind the last, and when there is none of that name. */
const experiment *experiment_at(int index);
const experiment *experiment_find(const char *name);

/* `given` was parsed with the experiment's table, or one that contains it. Where the context has a
 * directory, the record is there afterwards. out->run is NULL when there is nothing to show; it is
 * there on DYNO_OK, when the run was stopped (DYNO_INTERRUPTED) or failed after cells were finished,
 * and when it could not be written. The caller releases `out`. */
NODISCARD dyno_status experiment_run(const experiment *e, flags *given,
                                     const experiment_context *context, experiment_output *out);

/* The functions of the context, where there are any. */
NODISCARD dyno_status experiment_start(const experiment_context *context);
void experiment_progress(const experiment_context *context, double done, double total,
                         const char *label);
void experiment_note(const experiment_context *context, const char *format, ...) PRINTF_LIKE(2, 3);
bool experiment_should_stop(const experiment_context *context);

/* A cell came to its end: the record on the disk gets it. A disk that is full meanwhile is told once
 * and does not end the run. */
void experiment_keep_cell(const experiment_context *context);

#endif
