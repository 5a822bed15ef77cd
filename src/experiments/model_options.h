/* model_options.h - the flags by which models are chosen. */
#ifndef EXPERIMENTS_MODEL_OPTIONS_H
#define EXPERIMENTS_MODEL_OPTIONS_H

#include "base/flags.h"
#include "model/config.h"

/* To be put into a flag table. */
#define MODEL_FLAGS                                                                                \
    {"model", "NAMES", FLAG_TEXT_LIST, "small", .help = "presets, see `dyno list presets`"},       \
        {"config", "FILE", FLAG_TEXT, NULL,                                                        \
         .help = "a Hugging Face Llama config.json instead of a preset"},                          \
        {"d-model", NULL, FLAG_INTEGER, NULL,                                                      \
         .help = "changes the preset's width; likewise the next six"},                             \
        {"d-ff", NULL, FLAG_INTEGER, NULL, .help = "width of the feed-forward layer"},             \
        {"layers", NULL, FLAG_INTEGER, NULL, .help = "number of blocks"},                          \
        {"heads", NULL, FLAG_INTEGER, NULL, .help = "query heads"},                                \
        {"kv-heads", NULL, FLAG_INTEGER, NULL, .help = "key/value heads (default: as many)"},      \
        {"head-dim", NULL, FLAG_INTEGER, NULL, .help = "head size (default: d-model / heads)"}, {  \
        "vocab", NULL, FLAG_INTEGER, NULL, .help = "vocabulary size"                               \
    }

#define BATCH_FLAG                                                                                 \
    {                                                                                              \
        "batch", NULL, FLAG_INTEGER, "4", .help = "sequences in a step", .minimum = 1,             \
                                          .maximum = 1 << 20                                       \
    }

/* The models asked for, checked; the caller frees *out. */
NODISCARD dyno_status model_options_resolve(const flags *given, model_config **out, int *count);

#endif
