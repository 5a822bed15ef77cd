/* shared_flags.h - flags of several verbs, to be put into their tables; the library holds what
 * programs give it to the same limits. */
#ifndef EXPERIMENTS_SHARED_FLAGS_H
#define EXPERIMENTS_SHARED_FLAGS_H

#include "base/flags.h"
#include "compiler/pipeline.h"

#define MODEL_FLAGS                                                                                \
    {"model",                                                                                      \
     "NAMES",                                                                                      \
     FLAG_TEXT_LIST,                                                                               \
     "small",                                                                                      \
     .help = "presets, see `dyno list presets`",                                                   \
     .suggestion_at = dyno_preset_name},                                                           \
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
        "batch", NULL, FLAG_INTEGER, "4", .help = "sequences that are computed at a time",         \
                                          .minimum = 1, .maximum = 1 << 20                         \
    }

#define ACCUMULATE_FLAG                                                                            \
    {                                                                                              \
        "accumulate", "K", FLAG_INTEGER, "1",                                                      \
            .help = "micro-batches in a step: so many times --batch sequences, one after another " \
                    "in the memory of one; gradients are summed in fp32, the optimizer runs once", \
            .minimum = 1, .maximum = 1 << 16                                                       \
    }

#define THREADS_FLAG                                                                               \
    {                                                                                              \
        "threads", NULL, FLAG_INTEGER, "0", .help = "threads; 0 takes every core there is",        \
                                            .minimum = 0, .maximum = 4096                          \
    }

/* Of verbs that run on several ranks. */
#define RANKS_FLAG                                                                                 \
    {                                                                                              \
        "ranks", "N", FLAG_INTEGER, "1",                                                           \
            .help = "processes that take steps together, started on this host; each computes "     \
                    "--accumulate times --batch sequences of a step. mpirun and srun start them, " \
                    "too, and need no flag",                                                       \
            .minimum = 1, .maximum = 1024                                                          \
    }
#define PARALLEL_FLAG(kind)                                                                        \
    {                                                                                              \
        "parallel", kind == FLAG_TEXT ? "MODE" : "LIST", kind, PARALLEL_USUAL,                     \
            .help = "how ranks work together: ddp-naive (an all-reduce for each parameter behind " \
                    "the backward), ddp-flat (one), ddp-overlap (each beside the backward), "      \
                    "ddp-bucket:MB (in buckets beside the backward); zero1 shards the "            \
                    "optimizer's state, fsdp weights and gradients as well",                       \
            .suggestions = "ddp-naive|ddp-flat|ddp-overlap|ddp-bucket:25|zero1|fsdp"               \
    }
#define TIMEOUT_FLAG                                                                               \
    {                                                                                              \
        "timeout", "S", FLAG_REAL, "30",                                                           \
            .help = "seconds after which a rank that does nothing is given up, and all ranks end", \
            .real_minimum = 0.1, .real_maximum = 1e6                                               \
    }

#define REDUCE_FLAG                                                                                \
    {                                                                                              \
        "reduce", "TYPE", FLAG_CHOICE, "fp32",                                                     \
            .help = "the type in which ranks send gradients; sums are taken in fp32",              \
            .choices = REDUCE_CHOICES                                                              \
    }

/* Of verbs that print tables. */
#define WIDE_FLAG                                                                                  \
    {                                                                                              \
        "wide", NULL, FLAG_SWITCH, NULL,                                                           \
            .help = "every column, also where the terminal is too narrow; files get them anyway"   \
    }

/* "cpu" or "auto" where the user leaves it open. */
#define DEVICE_FLAG(fallback)                                                                      \
    {                                                                                              \
        "device", "NAME", FLAG_TEXT, fallback,                                                     \
            .help = "cpu, cuda, cuda:N, or auto: $DYNO_DEVICE, else a GPU if there is one",        \
            .suggestions = "auto|cpu|cuda"                                                         \
    }

#define TARGET_FLAG                                                                                \
    {                                                                                              \
        "target", "NAME", FLAG_TEXT, NULL,                                                         \
            .help = "runs on the CPU with the instruction sets of this target only: avx2, avx512", \
            .suggestions = "avx2|avx512"                                                           \
    }

#define RECOMPUTE_SUGGESTIONS "none|mlp:1|every:1|full|nested"
#define PASS_SUGGESTIONS STEP_EXTENT_CHOICES "|backward"

#define STEP_FLAGS                                                                                 \
    {"mode",                                                                                       \
     "LIST",                                                                                       \
     FLAG_CHOICE_LIST,                                                                             \
     "eager",                                                                                      \
     .help = "eager: a launch for each op; compiled: fused kernels, memory planned beforehand",    \
     .choices = STEP_MODE_CHOICES},                                                                \
        {"precision",                                                                              \
         "LIST",                                                                                   \
         FLAG_CHOICE_LIST,                                                                         \
         "fp32",                                                                                   \
         .help = "of matrix products; norms, softmax, loss and weights stay fp32",                 \
         .choices = PRECISION_CHOICES},                                                            \
        {"attention",                                                                              \
         "LIST",                                                                                   \
         FLAG_CHOICE_LIST,                                                                         \
         "flash",                                                                                  \
         .help = "flash (compiled mode, head sizes up to 256): the scores never exist together; "  \
                 "naive (both modes): they do. Not given: flash where there is such",              \
         .choices = ATTENTION_WAY_CHOICES},                                                        \
        {"gradients",                                                                              \
         "TYPE",                                                                                   \
         FLAG_CHOICE,                                                                              \
         "low",                                                                                    \
         .help = "of weights, compiled in low precision: low, as the products give them, or fp32", \
         .choices = GRADIENTS_CHOICES},                                                            \
    {                                                                                              \
        "recompute", "LIST", FLAG_TEXT_LIST, "none",                                               \
            .help = "what the backward runs again to save memory: none, mlp:K (gate and up of "    \
                    "every K-th block), every:K (segments of K blocks), full, nested",             \
            .suggestions = RECOMPUTE_SUGGESTIONS                                                   \
    }

#define SEQUENCE_FLAG                                                                              \
    {                                                                                              \
        "context", NULL, FLAG_INTEGER, "128", .help = "tokens in a sequence", .minimum = 1,        \
                                              .maximum = 1 << 24                                   \
    }

/* AdamW's. */
#define OPTIMIZER_FLAGS                                                                            \
    {"lr",                                                                                         \
     NULL,                                                                                         \
     FLAG_REAL,                                                                                    \
     "1e-3",                                                                                       \
     .help = "learning rate",                                                                      \
     .real_minimum = 0,                                                                            \
     .real_maximum = 1e6},                                                                         \
        {"beta1",                                                                                  \
         NULL,                                                                                     \
         FLAG_REAL,                                                                                \
         "0.9",                                                                                    \
         .help = "AdamW's decay of the first moment",                                              \
         .real_minimum = 0,                                                                        \
         .real_maximum = 0.9999},                                                                  \
        {"beta2",                                                                                  \
         NULL,                                                                                     \
         FLAG_REAL,                                                                                \
         "0.95",                                                                                   \
         .help = "AdamW's decay of the second moment",                                             \
         .real_minimum = 0,                                                                        \
         .real_maximum = 0.9999},                                                                  \
        {"eps",                                                                                    \
         NULL,                                                                                     \
         FLAG_REAL,                                                                                \
         "1e-8",                                                                                   \
         .help = "AdamW's epsilon",                                                                \
         .real_minimum = 0,                                                                        \
         .real_maximum = 1},                                                                       \
        {"weight-decay",                                                                           \
         NULL,                                                                                     \
         FLAG_REAL,                                                                                \
         "0.1",                                                                                    \
         .help = "AdamW's weight decay, on every parameter",                                       \
         .real_minimum = 0,                                                                        \
         .real_maximum = 1e6},                                                                     \
    {                                                                                              \
        "clip", NULL, FLAG_REAL, "0", .help = "limit of the gradients' global norm; 0: no limit",  \
                                      .real_minimum = 0, .real_maximum = 1e30                      \
    }

#endif
