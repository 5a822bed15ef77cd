/* verb_init.c - `dyno init`: a freshly drawn model as a Hugging Face directory. */
#include "base/file.h"
#include "base/printable.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "experiments/shared_flags.h"

static const flag_spec FLAGS[] = {
    MODEL_FLAGS,
    {"seed", NULL, FLAG_INTEGER, "0", .help = "of the weights", .minimum = 0, .maximum = INT64_MAX},
    THREADS_FLAG,
    {"out", "DIR", FLAG_TEXT, NULL, .help = "the directory to write; required"},
    {"force", NULL, FLAG_SWITCH, NULL, .help = "replaces a model that is in the directory"},
};

static const flags_example EXAMPLES[] = {
    {"init --model small --out models/small", "config.json and model.safetensors, in fp32"},
    {"init --d-model 64 --d-ff 160 --layers 2 --heads 4 --kv-heads 2 --vocab 97 --out models/tiny",
     "a tiny model with grouped heads"},
};

const flags_verb cli_init_table = {
    .name = "init",
    .summary = "Draws a model's weights (truncated normal, std sqrt(2/(in+out)) cut at three std; "
               "embeddings std 1; norms 1) and writes them as a Hugging Face Llama directory, "
               "which dyno step and transformers load. The same seed gives the same weights "
               "everywhere. A model that is there is not replaced without --force; the files "
               "appear together when all are complete.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
};

/* 0 stands for a size left open, so one that was asked for is refused here. */
static dyno_status read_size(const flags *given, const char *flag, const char *field,
                             int64_t *size) {
    *size = flags_integer(given, flag);
    if (flags_is_set(given, flag) && *size == 0)
        return dyno_fail(DYNO_INVALID, "%s is 0, it must be 1 or more", field);
    return DYNO_OK;
}

static dyno_status create_model(const flags *given, dyno_model **out) {
    dyno_model_options o = {.size = sizeof o, .config = flags_text(given, "config")};
    int count;
    const char *const *names = flags_text_list(given, "model", &count);
    if (o.config && flags_is_set(given, "model"))
        return dyno_fail(DYNO_INVALID, "--model and --config both name a model; give one of them");
    if (!o.config)
        o.preset = names[0];
    RETURN_IF_FAILED(read_size(given, "d-model", "d_model", &o.d_model));
    RETURN_IF_FAILED(read_size(given, "d-ff", "d_ff", &o.d_ff));
    RETURN_IF_FAILED(read_size(given, "layers", "layers", &o.layers));
    RETURN_IF_FAILED(read_size(given, "heads", "heads", &o.heads));
    RETURN_IF_FAILED(read_size(given, "kv-heads", "kv_heads", &o.kv_heads));
    RETURN_IF_FAILED(read_size(given, "head-dim", "head_dim", &o.head_dim));
    RETURN_IF_FAILED(read_size(given, "vocab", "vocab", &o.vocab));
    if (count != 1)
        return dyno_fail(DYNO_INVALID, "--model names %d models; init writes one", count);
    return dyno_model_create(&o, out);
}

/* The model's name may come from a file's. */
static void print_written(const dyno_model *model, const char *directory) {
    text line = {0};
    text_append_printable(&line, dyno_model_name(model), "");
    text_format(&line, ": %s parameters written to ",
                units_count((double)dyno_model_elements(model)).text);
    text_append_printable(&line, directory, "");
    text_append(&line, "\n");
    cli_print(line.data);
}

/* Even with --force: sizes would be read from a file that is then replaced. */
static dyno_status check_out(const char *directory, const char *config) {
    if (!directory)
        return dyno_fail(DYNO_INVALID, "--out is required; see dyno init --help");
    text written = {0};
    text_format(&written, "%s/config.json", directory);
    bool is_input = config && file_is_same(written.data, config);
    text_release(&written);
    if (is_input)
        return dyno_fail(DYNO_INVALID,
                         "--out '%s' would replace '%s', which --config reads; give another "
                         "directory",
                         directory, config);
    return DYNO_OK;
}

static dyno_status run(flags *given) {
    const char *directory = flags_text(given, "out");
    dyno_save_options how = {.size = sizeof how, .replaces = flags_switch(given, "force")};
    dyno_model *model;
    interrupt_install_at_once(); /* half a model is of no use: its temporary files are removed */
    RETURN_IF_FAILED(dyno_set_threads((int)flags_integer(given, "threads")));
    RETURN_IF_FAILED(create_model(given, &model));
    dyno_status status = check_out(directory, flags_text(given, "config"));
    if (status == DYNO_OK)
        status = dyno_model_save_as(model, (uint64_t)flags_integer(given, "seed"), directory, &how);
    if (status == DYNO_OK)
        print_written(model, directory);
    dyno_model_destroy(model);
    return status;
}

int cli_init(int argc, char **argv) { return cli_run(&cli_init_table, argc, argv, run); }
