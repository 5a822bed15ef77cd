/* verb_step.c - `dyno step`: training steps of a Hugging Face model, with everything they compute
 * written down, so that any framework can check ours. */
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/memory.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "experiments/shared_flags.h"

static const flag_spec FLAGS[] = {
    {"load", "DIR", FLAG_TEXT, NULL, .help = "a Hugging Face Llama directory; required"},
    {"tokens", "FILE", FLAG_TEXT, NULL,
     .help = "raw little-endian token ids; required. Step k reads batch*context of them from "
             "k*batch*context on, and as targets those one further"},
    {"token-bytes", NULL, FLAG_INTEGER, "2", .help = "2 for uint16, 4 for uint32", .minimum = 2,
     .maximum = 4},
    BATCH_FLAG,
    SEQUENCE_FLAG,
    {"steps", NULL, FLAG_INTEGER, "1", .help = "training steps", .minimum = 1, .maximum = 1000000},
    OPTIMIZER_FLAGS,
    {"dump", "LIST", FLAG_CHOICE_LIST, "loss",
     .help = "what to write: logits and gradients (before clipping) of the first step, the loss of "
             "each, weights after the last",
     .choices = "logits|loss|gradients|weights"},
    {"out", "FILE", FLAG_TEXT, NULL, .help = "the safetensors file for what --dump lists"},
    {"save", "DIR", FLAG_TEXT, NULL,
     .help = "also writes the trained model as a Hugging Face directory"},
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
};

static const flags_verb VERB = {
    .name = "step",
    .summary = "Runs training steps of a Hugging Face Llama directory and writes what they "
               "computed: `logits` [B,T,V] and `g.<name>` of the first step, `loss.<k>` of each, "
               "`w.<name>` after the last. AdamW is torch.optim.AdamW. The file appears whole or "
               "not at all.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
};

typedef struct dump_choice {
    bool logits, loss, gradients, weights;
} dump_choice;

/* Everything that is open while the verb runs. */
typedef struct step_job {
    const flags *given;
    dyno_tokens *source;
    dyno_trainer *trainer;
    dyno_tensor_file *file;
    dump_choice dump;
    int64_t batch, context, steps;
} step_job;

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
    if (!checked_multiply(job->batch, job->context, &rows) ||
        !checked_multiply(rows, job->steps, &needed) || !checked_add(needed, 1, &needed))
        return dyno_fail(DYNO_INVALID, "batch %lld x context %lld x steps %lld overflows",
                         (long long)job->batch, (long long)job->context, (long long)job->steps);
    if (needed > dyno_tokens_count(job->source))
        return dyno_fail(
            DYNO_INVALID,
            "'%s' holds %lld tokens; %lld steps of batch %lld x context %lld need %lld "
            "(one more for the last target); use fewer steps, or --token-bytes if the "
            "ids are wider",
            flags_text(job->given, "tokens"), (long long)dyno_tokens_count(job->source),
            (long long)job->steps, (long long)job->batch, (long long)job->context,
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
    job->context = flags_integer(given, "context");
    job->steps = flags_integer(given, "steps");
    if (flags_text(given, "out"))
        job->dump = parse_dump(given);
    RETURN_IF_FAILED(dyno_tokens_open(flags_text(given, "tokens"), (int)token_bytes, &job->source));
    return check_token_count(job);
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
                                    .context = job->context,
                                    .device = flags_text(given, "device"),
                                    .target = flags_text(given, "target"),
                                    .memory_bytes = flags_bytes(given, "memory"),
                                    .adamw = &adamw,
                                    .clip_norm = flags_real(given, "clip"),
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

/* Everything in the order in which it will be known; the caller frees *out. */
static dyno_status list_outputs(const step_job *job, arena *names, dyno_tensor **out, int *count) {
    const dyno_model *model = dyno_trainer_model(job->trainer);
    int parameters = dyno_model_parameter_count(model), made = 0;
    dyno_tensor *list =
        memory_allocate(1 + (size_t)job->steps + 2 * (size_t)parameters, sizeof *list);
    *out = list;
    if (job->dump.logits)
        list[made++] =
            (dyno_tensor){"logits", 3, {job->batch, job->context, dyno_model_vocabulary(model)}};
    for (int i = 0; job->dump.gradients && i < parameters; i++, made++) {
        RETURN_IF_FAILED(dyno_model_parameter(model, i, &list[made]));
        list[made].name = arena_format(names, "g.%s", list[made].name);
    }
    for (int64_t k = 0; job->dump.loss && k < job->steps; k++)
        list[made++].name = arena_format(names, "loss.%lld", (long long)k);
    for (int i = 0; job->dump.weights && i < parameters; i++, made++) {
        RETURN_IF_FAILED(dyno_model_parameter(model, i, &list[made]));
        list[made].name = arena_format(names, "w.%s", list[made].name);
    }
    *count = made;
    return DYNO_OK;
}

static dyno_status open_output(step_job *job) {
    arena *names = arena_create();
    dyno_tensor *list;
    int count;
    dyno_status status = list_outputs(job, names, &list, &count);
    if (status == DYNO_OK)
        status = dyno_tensor_file_create(flags_text(job->given, "out"), list, count, &job->file);
    arena_destroy(names);
    free(list);
    return status;
}

static dyno_status append_tensor(step_job *job, const char *name, int64_t count) {
    float *copy = malloc((size_t)count * sizeof *copy);
    if (!copy)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "the host has no %s for a copy of '%s'",
                         units_bytes(count * (int64_t)sizeof *copy).text, name);
    dyno_status status = dyno_trainer_read(job->trainer, name, copy, count);
    if (status == DYNO_OK)
        status = dyno_tensor_file_append(job->file, copy, count);
    free(copy);
    return status;
}

/* Of every parameter, what is called `prefix` and its name. */
static dyno_status append_parameters(step_job *job, const char *prefix) {
    const dyno_model *model = dyno_trainer_model(job->trainer);
    for (int i = 0; i < dyno_model_parameter_count(model); i++) {
        dyno_tensor p;
        char name[128];
        int64_t count = 1;
        RETURN_IF_FAILED(dyno_model_parameter(model, i, &p));
        for (int j = 0; j < p.rank; j++)
            count *= p.shape[j];
        snprintf(name, sizeof name, "%s%s", prefix, p.name);
        RETURN_IF_FAILED(append_tensor(job, name, count));
    }
    return DYNO_OK;
}

static int64_t vocabulary(const step_job *job) {
    return dyno_model_vocabulary(dyno_trainer_model(job->trainer));
}

static dyno_status read_step(const step_job *job, int64_t k, int32_t *ids) {
    int64_t rows = job->batch * job->context;
    return dyno_tokens_read(job->source, k * rows, rows + 1, vocabulary(job), ids);
}

/* Step k, whose ids were given. Those of the next are read and given while it runs. */
static dyno_status run_step(step_job *job, int64_t k, int32_t *ids, float *loss) {
    RETURN_IF_FAILED(dyno_trainer_start(job->trainer, flags_real(job->given, "lr")));
    if (k + 1 < job->steps) {
        RETURN_IF_FAILED(read_step(job, k + 1, ids));
        RETURN_IF_FAILED(dyno_trainer_give(job->trainer, ids, ids + 1));
    }
    RETURN_IF_FAILED(dyno_trainer_finish(job->trainer, loss));
    if (k == 0 && job->dump.logits)
        RETURN_IF_FAILED(append_tensor(job, "logits", job->batch * job->context * vocabulary(job)));
    return k == 0 && job->dump.gradients ? append_parameters(job, "g.") : DYNO_OK;
}

static dyno_status run_steps(step_job *job, float *losses) {
    int64_t rows = job->batch * job->context;
    int32_t *ids = malloc((size_t)(rows + 1) * sizeof *ids);
    if (!ids)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "no memory for %lld token ids", (long long)rows);
    progress *line = progress_create((double)job->steps);
    dyno_status status = read_step(job, 0, ids);
    if (status == DYNO_OK)
        status = dyno_trainer_give(job->trainer, ids, ids + 1);
    for (int64_t k = 0; k < job->steps && status == DYNO_OK; k++) {
        if (interrupt_requested()) {
            status = dyno_fail(DYNO_INTERRUPTED,
                               "interrupted after %lld of %lld steps; nothing "
                               "was written",
                               (long long)k, (long long)job->steps);
            break;
        }
        status = run_step(job, k, ids, &losses[k]);
        progress_update(line, (double)(k + 1), "training");
    }
    progress_destroy(line);
    free(ids);
    return status;
}

static dyno_status run_job(step_job *job) {
    RETURN_IF_FAILED(open_inputs(job));
    RETURN_IF_FAILED(load_model(job));
    if (flags_text(job->given, "out"))
        RETURN_IF_FAILED(open_output(job));
    float *losses = memory_allocate((size_t)job->steps, sizeof *losses);
    dyno_status status = run_steps(job, losses);
    if (status == DYNO_OK && job->dump.loss)
        status = dyno_tensor_file_append(job->file, losses, job->steps);
    if (status == DYNO_OK && job->dump.weights)
        status = append_parameters(job, "");
    const char *directory = flags_text(job->given, "save");
    if (status == DYNO_OK && directory)
        status = dyno_trainer_save(job->trainer, directory);
    if (status == DYNO_OK && job->file) {
        dyno_tensor_file *file = job->file;
        job->file = NULL;
        status = dyno_tensor_file_commit(file);
    }
    if (status == DYNO_OK)
        for (int64_t k = 0; k < job->steps; k++)
            printf("step %lld  loss %.6f\n", (long long)k, (double)losses[k]);
    free(losses);
    return status;
}

static dyno_status run(flags *given) {
    RETURN_IF_FAILED(dyno_set_threads((int)flags_integer(given, "threads")));
    interrupt_install();
    step_job job = {.given = given};
    dyno_status status = run_job(&job);
    dyno_tensor_file_abandon(job.file);
    dyno_trainer_destroy(job.trainer);
    dyno_tokens_close(job.source);
    return status;
}

int cli_step(int argc, char **argv) { return cli_run(&VERB, argc, argv, run); }
