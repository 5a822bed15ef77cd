/* verb_step.c - `dyno step`: training steps of a Hugging Face model, with everything they compute
 * written down, so that any framework can check ours. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/step_job.h"
#include "experiments/shared_flags.h"

static const flag_spec FLAGS[] = {
    {"load", "DIR", FLAG_TEXT, NULL, .help = "a Hugging Face Llama directory; required"},
    {"tokens", "FILE", FLAG_TEXT, NULL,
     .help =
         "raw little-endian token ids; required. Step k reads ranks*accumulate*batch*context of "
         "them behind those of step k-1, and as targets those one further; rank r takes the r-th "
         "equal slice, micro-batch a the a-th part of that"},
    {"token-bytes", NULL, FLAG_INTEGER, "2", .help = "2 for uint16, 4 for uint32", .minimum = 2,
     .maximum = 4},
    BATCH_FLAG,
    ACCUMULATE_FLAG,
    RANKS_FLAG,
    PARALLEL_FLAG(FLAG_TEXT),
    REDUCE_FLAG,
    TIMEOUT_FLAG,
    SEQUENCE_FLAG,
    {"steps", NULL, FLAG_INTEGER, "1", .help = "training steps", .minimum = 1, .maximum = 1000000},
    OPTIMIZER_FLAGS,
    {"dump", "LIST", FLAG_CHOICE_LIST, "loss",
     .help = "what to write: logits and gradients (before clipping) of the first step, the loss of "
             "each, weights after the last",
     .choices = "logits|loss|gradients|weights"},
    {"out", "FILE", FLAG_TEXT, NULL, .help = "the safetensors file for what --dump lists"},
    {"save", "DIR", FLAG_TEXT, NULL,
     .help = "also writes the trained model as a Hugging Face directory, with the config.json, "
             "generation_config.json and tokenizer files of the one that was loaded"},
    {"on-nan", NULL, FLAG_CHOICE, "stop",
     .help =
         "what a step does whose loss or gradients are NaN or infinite: stop ends the run, names "
         "the first tensor that is so and writes nothing; skip does not apply the step and "
         "goes on; ignore applies it",
     .choices = "stop|skip|ignore"},
    {"force", NULL, FLAG_SWITCH, NULL,
     .help = "replaces a file or model that --out and --save find there; with it --save may name "
             "the directory of --load. --out never replaces what the run reads"},
    THREADS_FLAG,
    STEP_FLAGS,
    DEVICE_FLAG("auto"),
    TARGET_FLAG,
    {"memory", "SIZE", FLAG_BYTES, NULL,
     .help = "what the step may use; default: what the device has free"},
};

static const flags_example EXAMPLES[] = {
    {"step --load llama --tokens text.bin --batch 2 --context 64 --dump logits,loss --out "
     "a.safetensors",
     "one step; logits and loss to compare with another framework"},
    {"step --load llama --tokens text.bin --steps 100 --clip 1 --save trained",
     "trains and keeps the model"},
    {"step --load llama --tokens text.bin --steps 5 --dump loss,gradients,weights --out "
     "b.safetensors",
     "five AdamW steps: losses, the first gradients, the last weights"},
    {"step --load llama --tokens text.bin --batch 2 --accumulate 4 --ranks 2 --steps 10 --save "
     "trained",
     "two processes, each of which computes 4 x 2 of the 16 sequences of a step"},
};

const flags_verb cli_step_table = {
    .name = "step",
    .summary = "Runs training steps of a Hugging Face Llama directory and writes what they "
               "computed: `logits` [B,T,V] and `g.<name>` of the first step, `loss.<k>` of each, "
               "`w.<name>` after the last. AdamW is torch.optim.AdamW. Files appear whole or "
               "not at all. Ctrl-C, SIGTERM and SIGHUP end the run after the step it is in; what "
               "was done is written, with a note in the metadata.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
};

static dyno_status require(const flags *given, const char *name) {
    if (flags_text(given, name))
        return DYNO_OK;
    return dyno_fail(DYNO_INVALID, "--%s is required; see dyno step --help", name);
}

static dump_choice parse_dump(const flags *given) {
    return (dump_choice){.logits = flags_list_has(given, "dump", "logits"),
                         .loss = flags_list_has(given, "dump", "loss"),
                         .gradients = flags_list_has(given, "dump", "gradients"),
                         .weights = flags_list_has(given, "dump", "weights")};
}

/* Said before anything is loaded or allocated. */
static dyno_status check_token_count(const step_job *job) {
    int64_t rows, needed;
    int64_t sequences = job->sequences * job->ranks;
    if (!checked_multiply(sequences, job->context, &rows) ||
        !checked_multiply(rows, job->steps, &needed) || !checked_add(needed, 1, &needed))
        return dyno_fail(DYNO_INVALID, "%lld sequences x context %lld x steps %lld overflows",
                         (long long)sequences, (long long)job->context, (long long)job->steps);
    if (needed > dyno_tokens_count(job->source))
        return dyno_fail(
            DYNO_INVALID,
            "'%s' holds %lld tokens; %lld steps of %lld sequences x context %lld need %lld "
            "(one more for the last target); use fewer steps, or --token-bytes if the "
            "ids are wider",
            flags_text(job->given, "tokens"), (long long)dyno_tokens_count(job->source),
            (long long)job->steps, (long long)sequences, (long long)job->context,
            (long long)needed);
    return DYNO_OK;
}

static dyno_status open_inputs(step_job *job) {
    const flags *given = job->given;
    RETURN_IF_FAILED(require(given, "load"));
    RETURN_IF_FAILED(require(given, "tokens"));
    if (!flags_text(given, "save") || flags_is_set(given, "dump"))
        RETURN_IF_FAILED(require(given, "out"));
    int64_t token_bytes = flags_integer(given, "token-bytes");
    if (token_bytes == 3)
        return dyno_fail(DYNO_INVALID, "--token-bytes is 3; it must be 2 or 4");
    job->batch = flags_integer(given, "batch");
    job->sequences = job->batch * flags_integer(given, "accumulate");
    RETURN_IF_FAILED(dyno_rank(&job->rank, &job->ranks));
    job->context = flags_integer(given, "context");
    job->steps = flags_integer(given, "steps");
    if (flags_text(given, "out"))
        job->dump = parse_dump(given);
    RETURN_IF_FAILED(step_check_outputs(job));
    RETURN_IF_FAILED(dyno_tokens_open(flags_text(given, "tokens"), (int)token_bytes, &job->source));
    RETURN_IF_FAILED(check_token_count(job));
    job->losses = memory_allocate((size_t)job->steps, sizeof *job->losses);
    return DYNO_OK;
}

/* The one word of a flag whose table takes lists, for verbs that run a grid; NULL where it is not
 * given. */
static dyno_status read_word(const flags *given, const char *name, const char **out) {
    int count;
    *out = NULL;
    if (!flags_is_set(given, name))
        return DYNO_OK;
    *out = flags_text_list(given, name, &count)[0];
    if (count != 1)
        return dyno_fail(DYNO_INVALID, "--%s names %d ways to run the step; give one of them", name,
                         count);
    return DYNO_OK;
}

static dyno_status load_model(step_job *job) {
    const flags *given = job->given;
    dyno_adamw adamw = {.size = sizeof adamw,
                        .beta1 = flags_real(given, "beta1"),
                        .beta2 = flags_real(given, "beta2"),
                        .eps = flags_real(given, "eps"),
                        .weight_decay = flags_real(given, "weight-decay")};
    dyno_trainer_options options = {.size = sizeof options,
                                    .batch = job->batch,
                                    .accumulate = flags_integer(given, "accumulate"),
                                    .parallel = flags_text(given, "parallel"),
                                    .reduce = flags_text(given, "reduce"),
                                    .timeout_s = flags_real(given, "timeout"),
                                    .context = job->context,
                                    .device = flags_text(given, "device"),
                                    .target = flags_text(given, "target"),
                                    .memory_bytes = flags_bytes(given, "memory"),
                                    .adamw = &adamw,
                                    .clip_norm = flags_real(given, "clip"),
                                    .on_nan = flags_text(given, "on-nan"),
                                    .keeps_logits = job->dump.logits,
                                    .keeps_gradients = job->dump.gradients};
    if (flags_is_set(given, "gradients"))
        options.gradients = flags_text(given, "gradients");
    RETURN_IF_FAILED(read_word(given, "mode", &options.mode));
    RETURN_IF_FAILED(read_word(given, "precision", &options.precision));
    RETURN_IF_FAILED(read_word(given, "attention", &options.attention));
    RETURN_IF_FAILED(read_word(given, "recompute", &options.recompute));
    return dyno_trainer_load(flags_text(given, "load"), &options, &job->trainer);
}

static int64_t vocabulary(const step_job *job) {
    return dyno_model_vocabulary(dyno_trainer_model(job->trainer));
}

static dyno_status read_step(const step_job *job, int64_t k, int32_t *ids) {
    int64_t rows = job->sequences * job->context;
    int64_t slice = k * job->ranks + job->rank;
    return dyno_tokens_read(job->source, slice * rows, rows + 1, vocabulary(job), ids);
}

/* Step k, whose ids were given. Those of the next are read and given while it runs. */
static dyno_status run_step(step_job *job, int64_t k, int32_t *ids) {
    RETURN_IF_FAILED(dyno_trainer_start(job->trainer, flags_real(job->given, "lr")));
    if (k + 1 < job->steps) {
        RETURN_IF_FAILED(read_step(job, k + 1, ids));
        RETURN_IF_FAILED(dyno_trainer_give(job->trainer, ids, ids + 1));
    }
    RETURN_IF_FAILED(dyno_trainer_finish(job->trainer, &job->losses[k]));
    return k == 0 ? step_keep_first(job) : DYNO_OK;
}

/* At once, so that somebody who follows a log sees it, and a process that is killed has said it. */
static void print_loss(const step_job *job, int64_t k, progress *line) {
    if (job->rank > 0)
        return; /* rank 0 speaks for all */
    if (isatty(STDOUT_FILENO))
        progress_clear(line);
    printf("step %lld  loss %.6f\n", (long long)k, (double)job->losses[k]);
    fflush(stdout);
}

/* The first one is told at once, their number at the end. */
static void note_skipped(step_job *job, int64_t k, progress *line) {
    if (!dyno_trainer_skipped(job->trainer) || job->skipped++ || job->rank > 0)
        return;
    progress_clear(line);
    fprintf(stderr, "dyno step: step %lld was skipped: its loss or gradients are not finite\n",
            (long long)k);
}

/* Ranks stop in the same step: one of them gets the signal. */
static dyno_status ask_to_stop(const step_job *job, bool *stops) {
    *stops = interrupt_requested();
    return job->ranks > 1 ? dyno_ranks_agree(*stops, stops) : DYNO_OK;
}

/* Until the last step, or that in which somebody asked to stop. */
static dyno_status run_steps(step_job *job) {
    int64_t rows = job->sequences * job->context;
    int32_t *ids = memory_try_allocate((size_t)(rows + 1) * sizeof *ids);
    if (!ids)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "no memory for %lld token ids", (long long)rows);
    progress *line = job->rank == 0 ? progress_create((double)job->steps) : NULL;
    bool is_asked_to_stop = false;
    dyno_status status = read_step(job, 0, ids);
    if (status == DYNO_OK)
        status = dyno_trainer_give(job->trainer, ids, ids + 1);
    while (status == DYNO_OK && job->done < job->steps) {
        status = ask_to_stop(job, &is_asked_to_stop);
        if (status != DYNO_OK || is_asked_to_stop)
            break;
        status = run_step(job, job->done, ids);
        if (status != DYNO_OK)
            break;
        note_skipped(job, job->done, line);
        print_loss(job, job->done++, line);
        if (line)
            progress_update(line, (double)job->done, "training");
    }
    progress_destroy(line);
    free(ids);
    return status;
}

static dyno_status tell_interruption(const step_job *job) {
    const char *out = flags_text(job->given, "out"), *save = flags_text(job->given, "save");
    if (job->done == job->steps)
        return DYNO_OK;
    return dyno_fail(DYNO_INTERRUPTED, "interrupted after %lld of %lld steps; %s%s%s%s",
                     (long long)job->done, (long long)job->steps,
                     job->done ? "what they computed is in " : "nothing was written",
                     job->done && out ? out : "", job->done && out && save ? " and " : "",
                     job->done && save ? save : "");
}

static dyno_status run_job(step_job *job) {
    RETURN_IF_FAILED(open_inputs(job));
    RETURN_IF_FAILED(load_model(job));
    const char *left_out = dyno_trainer_left_out(job->trainer);
    if (flags_text(job->given, "save") && left_out[0] && job->rank == 0)
        fprintf(stderr, "dyno step: --save will not carry over %s\n", left_out);
    RETURN_IF_FAILED(step_open_output(job));
    interrupt_ask(); /* from here on there is something to keep */
    dyno_status status = run_steps(job);
    if (status == DYNO_OK && job->done)
        status = step_write_results(job);
    if (status == DYNO_NOT_FINITE)
        return dyno_fail(status,
                         "%s; nothing was written. Use a smaller --lr, --clip, or --on-nan skip",
                         dyno_error_message());
    RETURN_IF_FAILED(status);
    if (job->skipped && job->rank == 0)
        fprintf(stderr, "dyno step: %lld of %lld steps were skipped\n", (long long)job->skipped,
                (long long)job->done);
    return tell_interruption(job);
}

static dyno_status run(flags *given) {
    interrupt_install_at_once();
    RETURN_IF_FAILED(dyno_set_threads((int)flags_integer(given, "threads")));
    step_job job = {.given = given};
    dyno_status status = run_job(&job);
    dyno_tensor_file_abandon(job.file);
    dyno_trainer_destroy(job.trainer);
    dyno_tokens_close(job.source);
    free(job.losses);
    return status;
}

static int exit_code_of_ranks;

/* Starts the ranks that are asked for, unless this is one of them. */
static dyno_status run_or_start(flags *given) {
    int rank, count, argument_count;
    RETURN_IF_FAILED(dyno_rank(&rank, &count));
    int64_t wanted = flags_integer(given, "ranks");
    if (count > 1 && flags_is_set(given, "ranks") && wanted != count)
        return dyno_fail(DYNO_INVALID, "--ranks is %lld and %d ranks were started; leave it out",
                         (long long)wanted, count);
    char **arguments = (char **)flags_arguments(given, &argument_count);
    bool is_done = cli_start_ranks((int)wanted, flags_real(given, "timeout"), argument_count,
                                   arguments, &exit_code_of_ranks);
    return is_done ? DYNO_OK : run(given);
}

int cli_step(int argc, char **argv) {
    int code = cli_run(&cli_step_table, argc, argv, run_or_start);
    return code ? code : exit_code_of_ranks;
}
