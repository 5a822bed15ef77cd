/* verb_step.c - `dyno step`: training steps of a Hugging Face model, with everything they compute
 * written down, so that any framework can check ours. */
#include <stdio.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "experiments/model_options.h"
#include "experiments/step_variant.h"
#include "experiments/sweep.h"
#include "formats/hf_directory.h"
#include "formats/safetensors.h"
#include "train/split_weights.h"
#include "train/tokens.h"
#include "train/trainer.h"

static const flag_spec FLAGS[] = {
    {"load", "DIR", FLAG_TEXT, NULL, .help = "a Hugging Face Llama directory; required"},
    {"tokens", "FILE", FLAG_TEXT, NULL,
     .help = "raw little-endian token ids; required. Step k reads batch*context of them from "
             "k*batch*context on, and as targets those one further"},
    {"token-bytes", NULL, FLAG_INTEGER, "2", .help = "2 for uint16, 4 for uint32", .minimum = 2,
     .maximum = 4},
    BATCH_FLAG,
    {"context", NULL, FLAG_INTEGER, "128", .help = "tokens in a sequence", .minimum = 1,
     .maximum = 1 << 24},
    {"steps", NULL, FLAG_INTEGER, "1", .help = "training steps", .minimum = 1, .maximum = 1000000},
    {"lr", NULL, FLAG_REAL, "1e-3", .help = "learning rate", .real_minimum = 0,
     .real_maximum = 1e6},
    {"beta1", NULL, FLAG_REAL, "0.9", .help = "AdamW's decay of the first moment",
     .real_minimum = 0, .real_maximum = 0.9999},
    {"beta2", NULL, FLAG_REAL, "0.95", .help = "AdamW's decay of the second moment",
     .real_minimum = 0, .real_maximum = 0.9999},
    {"eps", NULL, FLAG_REAL, "1e-8", .help = "AdamW's epsilon", .real_minimum = 0,
     .real_maximum = 1},
    {"weight-decay", NULL, FLAG_REAL, "0.1", .help = "AdamW's weight decay, on every parameter",
     .real_minimum = 0, .real_maximum = 1e6},
    {"clip", NULL, FLAG_REAL, "0", .help = "limit of the gradients' global norm; 0: no limit",
     .real_minimum = 0, .real_maximum = 1e30},
    {"dump", "LIST", FLAG_CHOICE_LIST, "loss",
     .help = "what to write: logits and gradients (before clipping) of the first step, the loss of "
             "each, weights after the last",
     .choices = "logits|loss|gradients|weights"},
    {"out", "FILE", FLAG_TEXT, NULL, .help = "the safetensors file for what --dump lists"},
    {"save", "DIR", FLAG_TEXT, NULL,
     .help = "also writes the trained model as a Hugging Face directory"},
    {"threads", NULL, FLAG_INTEGER, "0", .help = "threads; 0 takes every core there is",
     .minimum = 0, .maximum = 4096},
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
    hf_directory *directory;
    tokens *source;
    device *device;
    trainer *model;
    safetensors_writer *writer;
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
    if (needed > tokens_count(job->source))
        return dyno_fail(
            DYNO_INVALID,
            "'%s' holds %lld tokens; %lld steps of batch %lld x context %lld need %lld "
            "(one more for the last target); use fewer steps, or --token-bytes if the "
            "ids are wider",
            flags_text(job->given, "tokens"), (long long)tokens_count(job->source),
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
    RETURN_IF_FAILED(tokens_open(flags_text(given, "tokens"), (int)token_bytes, &job->source));
    RETURN_IF_FAILED(check_token_count(job));
    return hf_directory_open(flags_text(given, "load"), &job->directory);
}

static dyno_status load_model(step_job *job) {
    const flags *given = job->given;
    step_variant variant;
    RETURN_IF_FAILED(step_variant_resolve(given, &variant));
    RETURN_IF_FAILED(
        device_open_as(flags_text(given, "device"), flags_text(given, "target"), &job->device));
    step_options options = {
        .config = *hf_directory_config(job->directory),
        .batch = job->batch,
        .context = job->context,
        .keep_logits = job->dump.logits,
        .pipeline = {.extent = STEP_FULL,
                     .target = &job->device->target,
                     .keep_gradients = job->dump.gradients,
                     .optimizer = {.adamw = {.beta1 = flags_real(given, "beta1"),
                                             .beta2 = flags_real(given, "beta2"),
                                             .eps = flags_real(given, "eps"),
                                             .weight_decay = flags_real(given, "weight-decay")},
                                   .clip_norm = flags_real(given, "clip")}}};
    step_variant_apply(&variant, &options.pipeline);
    int64_t limit = flags_is_set(given, "memory")
                        ? flags_bytes(given, "memory")
                        : job->device->functions->available_bytes(job->device);
    RETURN_IF_FAILED(trainer_create(job->device, &options, limit, &job->model));
    return weights_load(trainer_storage(job->model), job->directory);
}

/* Of the model's i-th parameter. */
static const plan_name *gradient_at(const step_job *job, int i) {
    const plan *p = trainer_plan(job->model);
    return &p->names[p->parameters[i].gradient];
}

/* Declares everything in the order in which it will be known. */
static dyno_status open_output(step_job *job) {
    const model_config *config = hf_directory_config(job->directory);
    int parameters = model_parameter_count(config), count = 0;
    size_t most = 1 + (size_t)job->steps + 2 * (size_t)parameters;
    safetensors_tensor *list = memory_allocate(most, sizeof *list);
    arena *names = arena_create();
    shape scalar = SHAPE_SCALAR;
    if (job->dump.logits)
        list[count++] = (safetensors_tensor){"logits", DTYPE_F32,
                                             SHAPE(job->batch, job->context, config->vocab)};
    for (int i = 0; job->dump.gradients && i < parameters; i++) {
        const plan_name *gradient = gradient_at(job, i);
        list[count++] =
            (safetensors_tensor){gradient->name, DTYPE_F32, gradient->operand.layout.shape};
    }
    for (int64_t k = 0; job->dump.loss && k < job->steps; k++)
        list[count++] =
            (safetensors_tensor){arena_format(names, "loss.%lld", (long long)k), DTYPE_F32, scalar};
    for (int i = 0; job->dump.weights && i < parameters; i++) {
        model_parameter p = model_parameter_at(config, i);
        list[count++] =
            (safetensors_tensor){arena_format(names, "w.%s", p.name), DTYPE_F32, p.shape};
    }
    dyno_status status =
        safetensors_writer_create(flags_text(job->given, "out"), list, count, NULL, &job->writer);
    arena_destroy(names);
    free(list);
    return status;
}

static dyno_status append_tensor(step_job *job, const char *name) {
    tensor t = trainer_find(job->model, name);
    int64_t bytes = tensor_bytes(&t);
    if (device_is_host(job->device))
        return safetensors_writer_append(job->writer, t.data, (size_t)bytes);
    void *copy = malloc((size_t)bytes);
    if (!copy)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "the host has no %s for a copy of '%s'",
                         units_bytes(bytes).text, name);
    dyno_status status = trainer_read(job->model, name, copy, bytes);
    if (status == DYNO_OK)
        status = safetensors_writer_append(job->writer, copy, (size_t)bytes);
    free(copy);
    return status;
}

static dyno_status append_gradients(step_job *job) {
    for (int i = 0; i < trainer_plan(job->model)->parameter_count; i++)
        RETURN_IF_FAILED(append_tensor(job, gradient_at(job, i)->name));
    return DYNO_OK;
}

static dyno_status append_weights(step_job *job) {
    const model_config *config = hf_directory_config(job->directory);
    dyno_status status = DYNO_OK;
    for (int i = 0; i < model_parameter_count(config) && status == DYNO_OK; i++) {
        model_parameter p = model_parameter_at(config, i);
        size_t count = (size_t)shape_elements(&p.shape);
        float *values = memory_allocate(count, sizeof *values);
        status = weight_read(trainer_storage(job->model), &p, values);
        if (status == DYNO_OK)
            status = safetensors_writer_append(job->writer, values, count * sizeof *values);
        free(values);
    }
    return status;
}

static dyno_status read_step(const step_job *job, int64_t k, int32_t *ids) {
    int64_t rows = job->batch * job->context;
    return tokens_read(job->source, k * rows, rows + 1, hf_directory_config(job->directory)->vocab,
                       ids);
}

/* Step k, whose ids were given. Those of the next are read and given while it runs. */
static dyno_status run_step(step_job *job, int64_t k, int32_t *ids, float *loss) {
    RETURN_IF_FAILED(trainer_start(job->model, flags_real(job->given, "lr")));
    if (k + 1 < job->steps) {
        RETURN_IF_FAILED(read_step(job, k + 1, ids));
        RETURN_IF_FAILED(trainer_give(job->model, ids, ids + 1));
    }
    RETURN_IF_FAILED(trainer_finish(job->model, loss));
    if (k == 0 && job->dump.logits)
        RETURN_IF_FAILED(append_tensor(job, "logits"));
    return k == 0 && job->dump.gradients ? append_gradients(job) : DYNO_OK;
}

static dyno_status run_steps(step_job *job, float *losses) {
    int64_t rows = job->batch * job->context;
    int32_t *ids = malloc((size_t)(rows + 1) * sizeof *ids);
    if (!ids)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "no memory for %lld token ids", (long long)rows);
    progress *line = progress_create((double)job->steps);
    dyno_status status = read_step(job, 0, ids);
    if (status == DYNO_OK)
        status = trainer_give(job->model, ids, ids + 1);
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
        status =
            safetensors_writer_append(job->writer, losses, (size_t)job->steps * sizeof *losses);
    if (status == DYNO_OK && job->dump.weights)
        status = append_weights(job);
    const char *directory = flags_text(job->given, "save");
    if (status == DYNO_OK && directory)
        status = weights_save(trainer_storage(job->model), hf_directory_config(job->directory),
                              directory);
    if (status == DYNO_OK && job->writer) {
        safetensors_writer *writer = job->writer;
        job->writer = NULL;
        status = safetensors_writer_commit(writer);
    }
    if (status == DYNO_OK)
        for (int64_t k = 0; k < job->steps; k++)
            printf("step %lld  loss %.6f\n", (long long)k, (double)losses[k]);
    free(losses);
    return status;
}

static dyno_status run(flags *given, void *context) {
    (void)context;
    threads_set_count((int)flags_integer(given, "threads"));
    interrupt_install();
    step_job job = {.given = given};
    dyno_status status = run_job(&job);
    safetensors_writer_abandon(job.writer);
    trainer_destroy(job.model);
    device_close(job.device);
    hf_directory_close(job.directory);
    tokens_close(job.source);
    return status;
}

int cli_step(int argc, char **argv) { return cli_run(&VERB, argc, argv, run, NULL); }
