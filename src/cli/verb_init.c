/* verb_init.c - `dyno init`: a freshly drawn model as a Hugging Face directory. */
#include <stdio.h>
#include <stdlib.h>

#include "base/threads.h"
#include "base/units.h"
#include "cli/cli.h"
#include "experiments/model_options.h"
#include "formats/hf_directory.h"

static const flag_spec FLAGS[] = {
    MODEL_FLAGS,
    {"seed", NULL, FLAG_INTEGER, "0", .help = "of the weights", .minimum = 0, .maximum = INT64_MAX},
    {"threads", NULL, FLAG_INTEGER, "0", .help = "threads; 0 takes every core there is",
     .minimum = 0, .maximum = 4096},
    {"out", "DIR", FLAG_TEXT, NULL, .help = "the directory to write; required"},
};

static const flags_example EXAMPLES[] = {
    {"init --model small --out models/small", "config.json and model.safetensors, in fp32"},
    {"init --d-model 64 --d-ff 160 --layers 2 --heads 4 --kv-heads 2 --vocab 97 --out models/tiny",
     "a tiny model with grouped heads"},
};

static const flags_verb VERB = {
    .name = "init",
    .summary = "Draws a model's weights (truncated normal, std sqrt(2/(in+out)) cut at three std; "
               "embeddings std 1; norms 1) and writes them as a Hugging Face Llama directory, "
               "which dyno step and transformers load. The same seed gives the same weights "
               "everywhere.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
};

typedef struct draw {
    uint64_t seed;
    float *data; /* room for the largest parameter */
} draw;

static dyno_status draw_parameter(void *context, int index, const model_parameter *parameter,
                                  const float **data) {
    (void)index;
    const draw *d = context;
    model_parameter_init(parameter, d->seed, d->data);
    *data = d->data;
    return DYNO_OK;
}

static dyno_status write_model(const flags *given, const model_config *config) {
    int64_t most = 0;
    for (int i = 0; i < model_parameter_count(config); i++) {
        model_parameter p = model_parameter_at(config, i);
        int64_t elements = shape_elements(&p.shape);
        most = elements > most ? elements : most;
    }
    draw d = {.seed = (uint64_t)flags_integer(given, "seed"),
              .data = malloc((size_t)most * sizeof(float))};
    if (!d.data)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "no memory for the largest parameter, %s",
                         units_bytes(most * (int64_t)sizeof(float)).text);
    dyno_status status = hf_directory_write(flags_text(given, "out"), config, draw_parameter, &d);
    free(d.data);
    if (status == DYNO_OK)
        printf("%s: %s parameters written to %s\n", config->name,
               units_count((double)model_parameter_elements(config)).text,
               flags_text(given, "out"));
    return status;
}

static dyno_status run(flags *given, void *context) {
    (void)context;
    threads_set_count((int)flags_integer(given, "threads"));
    model_config *models = NULL;
    int count;
    dyno_status status = model_options_resolve(given, &models, &count);
    if (status == DYNO_OK && count != 1)
        status = dyno_fail(DYNO_INVALID, "--model names %d models; init writes one", count);
    if (status == DYNO_OK && !flags_text(given, "out"))
        status = dyno_fail(DYNO_INVALID, "--out is required; see dyno init --help");
    if (status == DYNO_OK)
        status = write_model(given, &models[0]);
    free(models);
    return status;
}

int cli_init(int argc, char **argv) { return cli_run(&VERB, argc, argv, run, NULL); }
