#include "experiments/memory_advice.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/stop.h"
#include "base/target_rates.h"
#include "experiments/plan_advice.h"
#include "measure/keys.h"

typedef struct change {
    char text[96], note[160];
    step_needs before, after;
} change;

typedef struct advisor {
    const step_options *options;
    bool is_attention_named;
    int64_t memory_bytes;
    step_needs now; /* of the step as it is */
    change *changes;
    int count, capacity;
} advisor;

static bool has_backward(const advisor *a) { return a->options->pipeline.extent != STEP_FORWARD; }

static change *add_change(advisor *a, const step_needs *before, const step_needs *after) {
    MEMORY_GROW(a->changes, a->count, a->capacity);
    a->changes[a->count] = (change){.before = *before, .after = *after};
    return &a->changes[a->count++];
}

static target_rates rates_of(const step_options *options) {
    const target *chip = options->pipeline.target;
    return target_rates_of(chip ? chip : target_this_cpu());
}

/* What goes to other ranks counts as if nothing hid it. */
static dyno_status needs_of(const step_options *options, step_needs *out) {
    RETURN_IF_FAILED(stop_check("planning advice"));
    RETURN_IF_FAILED(step_needs_exactly(options, out));
    out->seconds += out->bytes_sent / rates_of(options).link;
    return DYNO_OK;
}

/* ---- changes of mode, attention, precision ---- */

/* What two parts of compiled mode save in it. */
static dyno_status add_parts_of_compiled(advisor *a, const step_options *compiled,
                                         const step_needs *needs) {
    step_needs without;
    step_options naive = *compiled, whole = *compiled;
    naive.pipeline.attention = ATTENTION_NAIVE;
    whole.pipeline.is_head_whole = true;
    if (compiled->pipeline.attention == ATTENTION_FLASH) {
        RETURN_IF_FAILED(needs_of(&naive, &without));
        change *c = add_change(a, &without, needs);
        snprintf(c->text, sizeof c->text, "flash attention in --mode compiled");
        snprintf(c->note, sizeof c->note,
                 "against --mode compiled --attention naive: the scores never exist together");
    }
    RETURN_IF_FAILED(needs_of(&whole, &without));
    change *c = add_change(a, &without, needs);
    snprintf(c->text, sizeof c->text, "chunked loss head in --mode compiled");
    snprintf(c->note, sizeof c->note,
             "against a head of all tokens: the logits never exist together");
    return DYNO_OK;
}

static dyno_status add_compiled(advisor *a) {
    if (a->options->pipeline.mode == STEP_COMPILED)
        return DYNO_OK;
    step_options compiled = step_compiled(a->options);
    step_needs needs;
    RETURN_IF_FAILED(needs_of(&compiled, &needs));
    change *c = add_change(a, &a->now, &needs);
    bool is_flash = compiled.pipeline.attention == ATTENTION_FLASH;
    snprintf(c->text, sizeof c->text, "--mode compiled%s",
             is_flash && a->is_attention_named ? " --attention flash" : "");
    snprintf(c->note, sizeof c->note,
             "fused kernels, %s attention, the head in chunks, updates inside the backward",
             attention_way_name(compiled.pipeline.attention));
    return add_parts_of_compiled(a, &compiled, &needs);
}

static dyno_status add_flash(advisor *a) {
    step_options flash = *a->options;
    if (flash.pipeline.mode != STEP_COMPILED || flash.pipeline.attention == ATTENTION_FLASH ||
        !step_can_flash(&flash))
        return DYNO_OK;
    flash.pipeline.attention = ATTENTION_FLASH;
    step_needs needs;
    RETURN_IF_FAILED(needs_of(&flash, &needs));
    change *c = add_change(a, &a->now, &needs);
    snprintf(c->text, sizeof c->text, "--attention flash");
    snprintf(c->note, sizeof c->note, "the scores never exist together");
    return DYNO_OK;
}

static dyno_status add_bf16(advisor *a) {
    step_options low = *a->options;
    if (precision_low_type(low.pipeline.precision) != DTYPE_F32)
        return DYNO_OK;
    low.pipeline.precision = PRECISION_BF16;
    step_needs needs;
    RETURN_IF_FAILED(needs_of(&low, &needs));
    change *c = add_change(a, &a->now, &needs);
    snprintf(c->text, sizeof c->text, "--precision bf16");
    snprintf(c->note, sizeof c->note, "products have 8 bits of digits%s",
             low.pipeline.mode == STEP_EAGER ? "; eager keeps the casts beside what they cast"
                                             : "");
    return DYNO_OK;
}

/* ---- recompute ---- */

static dyno_status try_level(const advisor *a, recompute_mode mode, int64_t every,
                             step_options *trial, step_needs *needs) {
    *trial = *a->options;
    trial->pipeline.recompute = (recompute_options){.mode = mode, .every = (int)every};
    return needs_of(trial, needs);
}

static void add_level(advisor *a, const step_options *trial, const step_needs *needs,
                      const char *note) {
    change *c = add_change(a, &a->now, needs);
    snprintf(c->text, sizeof c->text, "--recompute %s",
             recompute_format(&trial->pipeline.recompute).text);
    snprintf(c->note, sizeof c->note, "%s", note);
}

static dyno_status add_recompute(advisor *a) {
    step_options trial;
    step_needs needs;
    if (!has_backward(a) || a->options->config.layers < 2 ||
        a->options->pipeline.recompute.mode != RECOMPUTE_NONE)
        return DYNO_OK;
    RETURN_IF_FAILED(try_level(a, RECOMPUTE_MLP, 1, &trial, &needs));
    add_level(a, &trial, &needs, "runs gate and up of every block again");
    int64_t half = (a->options->config.layers + 1) / 2;
    if (half > 1 && half < a->options->config.layers) {
        RETURN_IF_FAILED(try_level(a, RECOMPUTE_EVERY, half, &trial, &needs));
        add_level(a, &trial, &needs, "runs the first half of the blocks again");
    }
    RETURN_IF_FAILED(try_level(a, RECOMPUTE_FULL, 0, &trial, &needs));
    add_level(a, &trial, &needs, "saves what enters each block and runs every block again");
    return DYNO_OK;
}

/* ---- smaller batches ---- */

static int64_t smallest_divisor(int64_t of) {
    int64_t divisor = 2;
    while (of % divisor)
        divisor++;
    return divisor;
}

/* The same sequences in more micro-batches. */
static dyno_status add_accumulation(advisor *a) {
    step_options cut = *a->options;
    if (cut.batch < 2)
        return DYNO_OK;
    int64_t parts = smallest_divisor(cut.batch);
    int64_t before = cut.pipeline.micro_batches > 1 ? cut.pipeline.micro_batches : 1;
    cut.batch /= parts;
    cut.pipeline.micro_batches = before * parts;
    step_needs needs;
    RETURN_IF_FAILED(needs_of(&cut, &needs));
    change *c = add_change(a, &a->now, &needs);
    snprintf(c->text, sizeof c->text, "--batch %lld --accumulate %lld", (long long)cut.batch,
             (long long)cut.pipeline.micro_batches);
    snprintf(c->note, sizeof c->note,
             has_backward(a) ? "sums of all gradients in fp32 stay until the update"
                             : "the same tokens");
    return DYNO_OK;
}

/* ---- several chips ---- */

enum { USUAL_CHIPS = 8 };

/* As many as there are, or, of one, the usual number; more where a step with everything sharded does
 * not fit on each of them. */
static dyno_status choose_chips(const advisor *a, int64_t *out) {
    int64_t given = a->options->pipeline.parallel.ranks;
    step_needs needs;
    *out = given > 1 ? given : USUAL_CHIPS;
    if (!a->memory_bytes || a->now.bytes <= a->memory_bytes)
        return DYNO_OK;
    int64_t enough;
    RETURN_IF_FAILED(plan_advice_find_ranks(a->options, a->memory_bytes, &enough, &needs));
    *out = enough ? enough : *out;
    return DYNO_OK;
}

static dyno_status add_sharded(advisor *a, parallel_mode mode, const char *flag, int64_t chips) {
    const parallel_options *now = &a->options->pipeline.parallel;
    step_options trial = *a->options;
    step_needs needs;
    if (now->ranks == chips && now->mode == mode)
        return DYNO_OK;
    trial.pipeline.parallel.mode = mode;
    trial.pipeline.parallel.ranks = chips;
    RETURN_IF_FAILED(needs_of(&trial, &needs));
    change *c = add_change(a, &a->now, &needs);
    if (now->ranks == chips)
        snprintf(c->text, sizeof c->text, "--parallel %s", flag);
    else
        snprintf(c->text, sizeof c->text, "--ranks %lld --parallel %s", (long long)chips, flag);
    snprintf(c->note, sizeof c->note,
             "on each of %lld chips, with a batch of its own; sends %.2f GiB a step at %.0f GB/s, "
             "none of it hidden",
             (long long)chips, needs.bytes_sent / 0x1p30, rates_of(&trial).link / 1e9);
    return DYNO_OK;
}

/* A step that is sharded entirely already can only be on more chips. Without an optimizer there is no
 * state. */
static dyno_status add_sharding(advisor *a) {
    const parallel_options *now = &a->options->pipeline.parallel;
    bool is_whole = now->ranks <= 1 || now->mode != PARALLEL_FSDP;
    int64_t chips;
    RETURN_IF_FAILED(choose_chips(a, &chips));
    if (is_whole && a->options->pipeline.extent == STEP_FULL)
        RETURN_IF_FAILED(add_sharded(a, PARALLEL_ZERO1, "zero1", chips));
    return add_sharded(a, PARALLEL_FSDP, "fsdp", chips);
}

/* ---- all of them ---- */

static bool saves(const change *c) { return c->after.bytes < c->before.bytes; }
static double cost_of(const change *c) { return c->after.seconds - c->before.seconds; }

static int cheapest_first(const void *a, const void *b) {
    const change *x = a, *y = b;
    if (saves(x) != saves(y))
        return saves(y) - saves(x);
    double first = cost_of(x), second = cost_of(y);
    return (first > second) - (first < second);
}

static dyno_status find_changes(advisor *a) {
    RETURN_IF_FAILED(needs_of(a->options, &a->now));
    RETURN_IF_FAILED(add_compiled(a));
    RETURN_IF_FAILED(add_flash(a));
    RETURN_IF_FAILED(add_bf16(a));
    RETURN_IF_FAILED(add_recompute(a));
    RETURN_IF_FAILED(add_accumulation(a));
    return add_sharding(a);
}

static void record(const advisor *a, results_cell *cell) {
    static const char *const keys[] = {KEY_CHANGE, KEY_NOTE};
    static const results_column columns[] = {{COLUMN_BEFORE, "B"},
                                             {COLUMN_AFTER, "B"},
                                             {COLUMN_SECONDS_BEFORE, "s"},
                                             {COLUMN_SECONDS, "s"}};
    results_breakdown *table = cell_add_breakdown(cell, BREAKDOWN_ADVICE, keys, 2, columns, 4);
    for (int i = 0; i < a->count; i++) {
        const change *c = &a->changes[i];
        const char *texts[] = {c->text, c->note};
        results_value values[] = {results_integer(c->before.bytes), results_integer(c->after.bytes),
                                  results_real(c->before.seconds), results_real(c->after.seconds)};
        breakdown_add_row(table, texts, values);
    }
}

dyno_status memory_advice_record(const step_options *options, bool is_attention_named,
                                 int64_t memory_bytes, results_cell *cell) {
    advisor a = {
        .options = options, .is_attention_named = is_attention_named, .memory_bytes = memory_bytes};
    dyno_status status = find_changes(&a);
    if (status == DYNO_OK) {
        qsort(a.changes, (size_t)a.count, sizeof *a.changes, cheapest_first);
        record(&a, cell);
    }
    free(a.changes);
    return status;
}
