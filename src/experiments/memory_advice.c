#include "experiments/memory_advice.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/stop.h"
#include "experiments/step_estimate.h"
#include "measure/keys.h"
#include "plan/least_time.h"
#include "plan/memory_account.h"
#include "plan/scope.h"

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

static dyno_status needs_of(const step_options *options, step_needs *out) {
    RETURN_IF_FAILED(stop_check("planning advice"));
    return step_needs_exactly(options, out);
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

/* Bytes of the step that chips can divide among each other. */
typedef struct shards {
    int64_t reserved, weights, gradients, state;
    int64_t largest_block; /* weights of the block that has most */
} shards;

static int64_t largest_block_of(const plan *p, int64_t blocks) {
    int64_t largest = 0, *bytes = memory_allocate((size_t)blocks, sizeof *bytes);
    for (int i = 0; i < p->buffer_count; i++) {
        const plan_buffer *b = &p->buffers[i];
        int number = b->role == ROLE_PARAMETER ? scope_block(b->name) : -1;
        if (number >= 0 && number < blocks)
            bytes[number] += b->bytes;
    }
    for (int64_t i = 0; i < blocks; i++)
        largest = bytes[i] > largest ? bytes[i] : largest;
    free(bytes);
    return largest;
}

static dyno_status find_shards(const advisor *a, shards *out) {
    step_options options = *a->options;
    options.pipeline.is_unverified = true;
    plan *p;
    RETURN_IF_FAILED(step_plan_create(&options, &p));
    memory_account account = memory_account_plan(p);
    *out = (shards){.reserved = account.reserved_bytes,
                    .weights = account.at_peak[ROLE_PARAMETER],
                    .gradients = account.at_peak[ROLE_GRADIENT],
                    .state = account.at_peak[ROLE_OPTIMIZER_STATE],
                    .largest_block = largest_block_of(p, options.config.layers)};
    plan_destroy(p);
    return DYNO_OK;
}

static int64_t without_share(int64_t bytes, int64_t chips) { return bytes - bytes / chips; }

static int64_t with_state_sharded(const shards *s, int64_t chips) {
    return s->reserved - without_share(s->state, chips);
}

static int64_t with_all_sharded(const shards *s, int64_t chips) {
    int64_t divided = s->weights + s->gradients + s->state;
    return s->reserved - without_share(divided, chips) + s->largest_block;
}

enum { USUAL_CHIPS = 8, MOST_CHIPS = 1024 };

static int64_t chips_to_fit(const shards *s, int64_t memory_bytes) {
    if (!memory_bytes || s->reserved <= memory_bytes)
        return USUAL_CHIPS;
    int64_t chips = 2;
    while (chips < MOST_CHIPS && with_all_sharded(s, chips) > memory_bytes)
        chips *= 2;
    return chips;
}

static void add_shards(advisor *a, const char *what, int64_t chips, int64_t bytes, double moved) {
    const target *chip = a->options->pipeline.target;
    target_rates rates = target_rates_of(chip ? chip : target_this_cpu());
    step_needs needs = a->now;
    needs.bytes = bytes;
    needs.seconds += moved * (double)(chips - 1) / (double)chips / rates.link;
    change *c = add_change(a, &a->now, &needs);
    snprintf(c->text, sizeof c->text, "%s over %lld chips", what, (long long)chips);
    snprintf(c->note, sizeof c->note,
             "by formula: %.2f GiB x %lld/%lld a step at %.0f GB/s, none of it overlapped",
             moved / 0x1p30, (long long)chips - 1, (long long)chips, rates.link / 1e9);
}

/* State: gradients are reduced and weights gathered, once each. All: weights are gathered in the forward
 * and again in the backward, gradients reduced. */
static dyno_status add_sharding(advisor *a) {
    shards s;
    RETURN_IF_FAILED(find_shards(a, &s));
    int64_t chips = chips_to_fit(&s, a->memory_bytes);
    double weights = (double)s.weights;
    if (s.state)
        add_shards(a, "optimizer state sharded", chips, with_state_sharded(&s, chips), 2 * weights);
    add_shards(a, has_backward(a) ? "weights, gradients and state sharded" : "weights sharded",
               chips, with_all_sharded(&s, chips), (has_backward(a) ? 3 : 1) * weights);
    return DYNO_OK;
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
