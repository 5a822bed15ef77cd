/* step_job.h - what `dyno step` has open while it runs, and the files it writes. */
#ifndef CLI_STEP_JOB_H
#define CLI_STEP_JOB_H

#include "base/flags.h"
#include "base/status.h"

typedef struct dump_choice {
    bool logits, loss, gradients, weights;
} dump_choice;

typedef struct step_job {
    const flags *given;
    dyno_tokens *source;
    dyno_trainer *trainer;
    dyno_tensor_file *file; /* of --out */
    dump_choice dump;
    int64_t batch, context, steps;
    int64_t sequences;     /* of a step, of this rank */
    int rank, ranks;       /* rank 0 prints and writes */
    int64_t done, skipped; /* steps */
    float *losses;         /* of those */
} step_job;

/* Fails where --out or --save would replace what is read, or without --force anything. Before the
 * model is loaded. */
NODISCARD dyno_status step_check_outputs(const step_job *job);

/* Begins the file of --out with the steps that were asked for. */
NODISCARD dyno_status step_open_output(step_job *job);
/* What --dump wants of the first step, when that is done. */
NODISCARD dyno_status step_keep_first(step_job *job);
/* Losses, weights and the saved model after the last step that was done; where that is not the last
 * one that was asked for, both are marked. */
NODISCARD dyno_status step_write_results(step_job *job);

#endif
