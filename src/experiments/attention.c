/* attention.c - `dyno attention`: attention alone, timed over lengths, head sizes and ways to
 * compute it.
 *
 * A row of the table is a point of the grid. It has a cell for each extent, because one can
 * fit where the other does not: the forward from runs of the forward alone, and forward+backward,
 * whose runs give the backward and the whole. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experiments/attention_sweep.h"
#include "experiments/grid_size.h"

/* Grids worth having under a name: flags, of which those that the user gives count instead. */
enum { MOST_PRESET_FLAGS = 12 };
typedef struct preset {
    const char *name;
    struct {
        const char *flag, *value;
    } flags[MOST_PRESET_FLAGS];
} preset;

static const preset PRESETS[] = {
    {"naive-table",
     {{"impl", "naive"},
      {"mode", "eager,compiled"},
      {"precision", "fp32"},
      {"causal", "no"},
      {"batch", "8"},
      {"heads", "1"},
      {"seq", "256,1024,4096,8192,16384"},
      {"head-dim", "16,32,64,128"},
      {"reps", "100"}}},
    {"flash-table",
     {{"impl", "naive,flash"},
      {"mode", "compiled"},
      {"precision", "bf16,fp32"},
      {"causal", "yes"},
      {"batch", "1"},
      {"heads", "1"},
      {"seq", "128:65536:*2"},
      {"head-dim", "16,32,64,128"}}},
    {"leaderboard",
     {{"impl", "flash"},
      {"mode", "compiled"},
      {"precision", "bf16"},
      {"causal", "yes"},
      {"batch", "1"},
      {"heads", "16"},
      {"seq", "16384"},
      {"head-dim", "64"}}},
};
enum { PRESET_COUNT = sizeof PRESETS / sizeof *PRESETS };
#define PRESET_CHOICES "naive-table|flash-table|leaderboard"

static const flag_spec FLAGS[] = {
    {"impl", "LIST", FLAG_CHOICE_LIST, "naive",
     .help = "naive: the model's own ops, the scores exist in memory; flash: one op each way, they "
             "never exist together",
     .choices = ATTENTION_IMPL_CHOICES},
    {"mode", "LIST", FLAG_CHOICE_LIST, "eager,compiled",
     .help = "eager: a launch for each op; compiled: fused kernels, memory planned beforehand",
     .choices = STEP_MODE_CHOICES},
    {"precision", "LIST", FLAG_CHOICE_LIST, "fp32",
     .help = "bf16, fp16: Q, K, V, O and their gradients are of that type; softmax stays fp32",
     .choices = PRECISION_CHOICES},
    {"causal", "LIST", FLAG_CHOICE_LIST, "no",
     .help = "yes: a query sees only keys up to its own position", .choices = "no|yes"},
    {"batch", NULL, FLAG_INTEGER, "8", .help = "sequences", .minimum = 1, .maximum = 1 << 20},
    {"heads", NULL, FLAG_INTEGER, "1", .help = "heads", .minimum = 1, .maximum = 1 << 16},
    {"seq", "LIST", FLAG_INTEGER_LIST, "256,1024,2048", .help = "sequence lengths in tokens",
     .minimum = 1, .maximum = 1 << 24},
    {"head-dim", "LIST", FLAG_INTEGER_LIST, "64", .help = "head sizes; flash has those up to 256",
     .minimum = 1, .maximum = 1 << 16},
    {"preset", NULL, FLAG_CHOICE, NULL,
     .help = "naive-table: batch 8, sequence 256 to 16384, head sizes 16 to 128, 100 repetitions; "
             "flash-table: batch 1, causal, sequence 128 to 65536, naive and flash, bf16 and fp32; "
             "leaderboard: 16 heads of 64, sequence 16384, causal, bf16. Flags beside it change it",
     .choices = PRESET_CHOICES},
    {"pass", "LIST", FLAG_CHOICE_LIST, "forward,backward,both",
     .help = "what to measure; backward and both come from the same runs",
     .choices = "forward|backward|both"},
    {"tiles", "LIST", FLAG_TEXT_LIST, "auto",
     .help = "of flash: queries x keys taken at a time, as 64x128; 128x128/64x64 for forward and "
             "backward; auto: what --tune found best, else the kernel's own; all: a row for each "
             "there is; a kernel's name may stand before one, as attention_mma:64x64, or alone",
     .suggestions = "auto|all|64x64|64x128|128x128"},
    {"tune", NULL, FLAG_SWITCH, NULL,
     .help = "times all tiles of flash attention and keeps the best for auto, everywhere"},
    {"reps", "N", FLAG_INTEGER, NULL,
     .help = "timed repetitions; default: as many as fit --seconds, 3 to 100", .minimum = 1,
     .maximum = 1000000},
    {"seconds", "S", FLAG_REAL, "2", .help = "time for a pass of a row, when --reps is not given",
     .real_minimum = 0.001, .real_maximum = 1e6},
    {"seconds-per-cell", "S", FLAG_REAL, "0",
     .help = "skips a pass of a row that would take longer, and says how long; 0: none",
     .real_minimum = 0, .real_maximum = 1e9},
    {"warmup", NULL, FLAG_INTEGER, "1", .help = "untimed repetitions before the timed ones",
     .minimum = 0, .maximum = 1000000},
    {"seed", NULL, FLAG_INTEGER, "0", .help = "of Q, K, V and dO", .minimum = 0,
     .maximum = INT64_MAX},
    SWEEP_FLAGS,
};

static const flags_example EXAMPLES[] = {
    {"attention", "naive attention, eager and compiled, at three lengths"},
    {"attention --impl naive,flash --mode compiled --seq 256:4096:*2",
     "one against the other: time, and memory before the backward"},
    {"attention --seq 256:4096:*2 --head-dim 16,64 --causal no,yes --out runs/attention",
     "a grid, kept for `dyno show runs/attention`"},
    {"attention --preset naive-table --seconds 2 --seconds-per-cell 60",
     "the table of the classic write-up; rows that do not fit or take too long say why"},
    {"attention --preset leaderboard --device cuda", "forward, backward and both, in ms"},
    {"attention --tune --precision bf16 --seq 1024,4096 --head-dim 64 --causal yes",
     "every tile, the best marked and kept for training and later runs"},
    {"attention --seq 4096 --pass forward --reps 20 --format csv", "forwards only, every digit"},
};

static const flags_rule RULES[] = {
    {"seconds", "reps",
     "decides how many repetitions there are, and so does --reps; give one of them"},
    {"tiles", "tune",
     "does not go with --tune, which times all tiles there are; leave one of them out"},
};

static const flags_verb VERB = {
    .name = "attention",
    .summary =
        "Times attention alone: O = softmax(Q K^T / sqrt(head size)) V and the gradients of Q, K "
        "and V from that of O, over the grid of --impl x --mode x --precision x --tiles x --causal "
        "x --seq x --head-dim. Forward, backward and end-to-end are each measured, never added up; "
        "on a GPU by its own clock, from the first launch's begin to the last one's end. A row "
        "that would not fit is not run: it says OOM and which values make it. Under the table: how "
        "time grows with the length. Ctrl-C ends with what was measured so far, marked incomplete.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
    FLAGS_RULES(RULES),
};

static const preset *find_preset(const char *name) {
    for (int i = 0; name && i < PRESET_COUNT; i++)
        if (strcmp(PRESETS[i].name, name) == 0)
            return &PRESETS[i];
    return NULL;
}

/* Whether the user has said otherwise. --seconds is another way to say how often. */
static bool is_overridden(const flags *given, const char *flag) {
    return flags_is_set(given, flag) ||
           (strcmp(flag, "reps") == 0 && flags_is_set(given, "seconds"));
}

static dyno_status set_open_flags(flags *given, const preset *p) {
    for (int i = 0; i < MOST_PRESET_FLAGS && p->flags[i].flag; i++)
        if (!is_overridden(given, p->flags[i].flag))
            RETURN_IF_FAILED(flags_set(given, p->flags[i].flag, p->flags[i].value));
    return DYNO_OK;
}

/* Sets the flags that --tune, or else a preset, stands for. */
static dyno_status expand(flags *given) {
    static const preset tune = {.flags = {{"impl", "flash"}, {"mode", "compiled"}}};
    const preset *chosen = find_preset(flags_text(given, "preset"));
    if (flags_switch(given, "tune"))
        RETURN_IF_FAILED(set_open_flags(given, &tune));
    return chosen ? set_open_flags(given, chosen) : DYNO_OK;
}

/* The ways to compute one thing, one after the other: each row's neighbours are what it is to be
 * held against. */
static dyno_status add_rows(attention_sweep *s, attention_point at, int *groups) {
    static const char *const all[] = {"all"};
    int impl_count, mode_count, precision_count, tile_count;
    const char *const *impls = flags_text_list(s->given, "impl", &impl_count);
    const char *const *modes = flags_text_list(s->given, "mode", &mode_count);
    const char *const *precisions = flags_text_list(s->given, "precision", &precision_count);
    const char *const *tiles = flags_text_list(s->given, "tiles", &tile_count);
    if (flags_switch(s->given, "tune")) {
        tiles = all;
        tile_count = 1;
    }
    bool has_forward = flags_list_has(s->given, "pass", "forward");
    bool has_backward =
        flags_list_has(s->given, "pass", "backward") || flags_list_has(s->given, "pass", "both");
    for (int i = 0; i < impl_count; i++)
        for (int way = 0; way < mode_count * precision_count; way++) {
            RETURN_IF_FAILED(
                precision_parse(precisions[way % precision_count], &at.options.precision));
            RETURN_IF_FAILED(step_mode_parse(modes[way / precision_count], &at.options.mode));
            at.impl = attention_impl_find(impls[i]);
            at.group = (*groups)++;
            for (int t = 0; t < (at.impl->has_tiles ? tile_count : 1); t++)
                RETURN_IF_FAILED(attention_sweep_add_tiles(
                    s, at, at.impl->has_tiles ? tiles[t] : "auto", has_forward, has_backward));
        }
    return DYNO_OK;
}

static dyno_status add_points(attention_sweep *s) {
    int seq_count, head_dim_count, causal_count, groups = 0;
    const int64_t *seqs = flags_list(s->given, "seq", &seq_count);
    const int64_t *head_dims = flags_list(s->given, "head-dim", &head_dim_count);
    const char *const *causal = flags_text_list(s->given, "causal", &causal_count);
    int64_t batch = flags_integer(s->given, "batch"), heads = flags_integer(s->given, "heads");
    for (int c = 0; c < causal_count; c++)
        for (int d = 0; d < head_dim_count; d++)
            for (int t = 0; t < seq_count; t++) {
                attention_shape sizes = {batch, seqs[t], heads, heads, head_dims[d]};
                attention_point at = {
                    .options = {.shape = sizes, .is_causal = strcmp(causal[c], "yes") == 0}};
                RETURN_IF_FAILED(add_rows(s, at, &groups));
            }
    return DYNO_OK;
}

static dyno_status check_tiles(const flags *given) {
    int count;
    const char *const *tiles = flags_text_list(given, "tiles", &count);
    for (int i = 0; i < count; i++)
        RETURN_IF_FAILED(attention_tiles_check(tiles[i]));
    bool is_tuned = flags_switch(given, "tune"), has_tiles = flags_is_set(given, "tiles");
    if ((is_tuned || has_tiles) && !flags_list_has(given, "impl", "flash"))
        return dyno_fail(DYNO_INVALID, "--%s is of flash attention; add it: --impl flash",
                         is_tuned ? "tune" : "tiles");
    return DYNO_OK;
}

static dyno_status run(flags *given, const experiment_context *context, experiment_output *out) {
    static const char *const lists[] = {"impl",   "mode", "precision", "tiles",
                                        "causal", "seq",  "head-dim",  NULL};
    attention_sweep s = {.given = given};
    RETURN_IF_FAILED(expand(given));
    RETURN_IF_FAILED(check_tiles(given));
    RETURN_IF_FAILED(grid_check_size(given, lists));
    RETURN_IF_FAILED(sweep_prepare(&s.sweep, given, context, out->run));
    dyno_status status = add_points(&s);
    if (status == DYNO_OK)
        status = grid_check_cells(s.count); /* with both passes, and every tile there is */
    if (status == DYNO_OK)
        status = sweep_start(&s.sweep);
    if (status == DYNO_OK)
        status = attention_sweep_run(&s);
    if (status == DYNO_OK && flags_switch(given, "tune"))
        status = attention_sweep_keep_best(&s);
    status = sweep_finish(&s.sweep, status);
    free(s.points);
    return status;
}

const experiment experiment_attention = {
    .settings = &VERB,
    .out_help = "keeps every sample in DIR/run.json, written after every cell",
    .run = run};
