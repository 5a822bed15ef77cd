#include "experiments/plan_advice.h"

#include <stdio.h>

#include "base/units.h"
#include "plan/memory_account.h"

typedef struct outcome {
    int64_t bytes;
    double flops;
} outcome;

static dyno_status try_options(const step_options *options, outcome *out) {
    plan *p;
    RETURN_IF_FAILED(step_plan_create(options, &p));
    out->bytes = memory_account_plan(p).reserved_bytes;
    out->flops = plan_total_cost(p, PHASE_COUNT).flops;
    plan_destroy(p);
    return DYNO_OK;
}

/* The change so far, as flags. */
static void describe(const step_options *before, const step_options *after, const outcome *start,
                     const outcome *result, plan_advice *out) {
    size_t used = 0, room = sizeof out->text;
    out->text[0] = '\0';
#define APPEND(...)                                                                                \
    do {                                                                                           \
        if (used < room)                                                                           \
            used += (size_t)snprintf(out->text + used, room - used, __VA_ARGS__);                  \
    } while (0)
    if (after->pipeline.mode != before->pipeline.mode)
        APPEND("--mode %s ", step_mode_name(after->pipeline.mode));
    if (after->pipeline.precision != before->pipeline.precision)
        APPEND("--precision %s ", precision_name(after->pipeline.precision));
    if (after->pipeline.recompute.mode != before->pipeline.recompute.mode ||
        after->pipeline.recompute.every != before->pipeline.recompute.every)
        APPEND("--recompute %s ", recompute_format(&after->pipeline.recompute).text);
    if (after->batch != before->batch)
        APPEND("--batch %lld ", (long long)after->batch);
    if (after->context != before->context)
        APPEND("--context %lld ", (long long)after->context);
    double tokens =
        (double)(before->batch * before->context) / (double)(after->batch * after->context);
    APPEND("(%s, %.2fx the FLOPs a token)", units_bytes(result->bytes).text,
           result->flops * tokens / start->flops);
#undef APPEND
}

/* A change, what it needs, and whether that fits. */
typedef struct candidate {
    step_options options;
    outcome needs;
    bool fits;
} candidate;

static dyno_status try_level(const step_options *options, recompute_mode mode, int64_t every,
                             int64_t memory_bytes, candidate *out) {
    out->options = *options;
    out->options.pipeline.recompute = (recompute_options){.mode = mode, .every = (int)every};
    RETURN_IF_FAILED(try_options(&out->options, &out->needs));
    out->fits = out->needs.bytes <= memory_bytes;
    return DYNO_OK;
}

/* The fewest MLPs that do, by halves: the more run again, the less is needed. */
static dyno_status try_mlps(const step_options *options, int64_t memory_bytes, candidate *best) {
    RETURN_IF_FAILED(try_level(options, RECOMPUTE_MLP, 1, memory_bytes, best));
    int64_t fits = 1, too_few = options->config.layers;
    while (best->fits && fits + 1 < too_few) {
        int64_t every = fits + (too_few - fits) / 2;
        candidate trial;
        RETURN_IF_FAILED(try_level(options, RECOMPUTE_MLP, every, memory_bytes, &trial));
        if (trial.fits) {
            fits = every;
            *best = trial;
        } else {
            too_few = every;
        }
    }
    return DYNO_OK;
}

static bool is_better(const candidate *a, const candidate *b) {
    return a->fits ? !b->fits || a->needs.flops < b->needs.flops : !b->fits;
}

/* The recompute level of the fewest FLOPs that fits, if any does: MLPs or segments. Without one
 * *result is what the last one tried needs. */
static dyno_status try_recompute(step_options *options, int64_t memory_bytes, outcome *result,
                                 bool *fits) {
    candidate best, trial;
    RETURN_IF_FAILED(try_mlps(options, memory_bytes, &best));
    int64_t every = (options->config.layers + 1) / 2;
    RETURN_IF_FAILED(try_level(options, RECOMPUTE_EVERY, every, memory_bytes, &trial));
    /* No other segments run as little again as these two. */
    bool are_mlps_cheaper = best.fits && best.needs.flops <= trial.needs.flops;
    while (!are_mlps_cheaper) {
        if (is_better(&trial, &best))
            best = trial;
        if (every == 1)
            break;
        every = (every + 1) / 2;
        RETURN_IF_FAILED(try_level(options, RECOMPUTE_EVERY, every, memory_bytes, &trial));
    }
    *result = best.needs;
    *fits = best.fits;
    if (best.fits)
        *options = best.options;
    return DYNO_OK;
}

/* Levels that leave room for more. */
static bool runs_little_again(recompute_mode mode) {
    return mode == RECOMPUTE_NONE || mode == RECOMPUTE_MLP;
}

dyno_status plan_advice_find(const step_options *options, int64_t memory_bytes, plan_advice *out) {
    step_options trial = *options;
    trial.pipeline.dump_after = NULL;
    outcome start, result;
    RETURN_IF_FAILED(try_options(&trial, &start));
    bool fits = start.bytes <= memory_bytes;
    bool recomputes = options->pipeline.extent != STEP_FORWARD;
    result = start;
    trial.pipeline.mode = STEP_COMPILED;
    if (!fits && options->pipeline.mode != STEP_COMPILED) {
        RETURN_IF_FAILED(try_options(&trial, &result));
        fits = result.bytes <= memory_bytes;
    }
    if (!fits && recomputes && runs_little_again(options->pipeline.recompute.mode))
        RETURN_IF_FAILED(try_recompute(&trial, memory_bytes, &result, &fits));
    if (!fits && precision_low_type(trial.pipeline.precision) == DTYPE_F32) {
        trial.pipeline.precision = PRECISION_BF16;
        RETURN_IF_FAILED(try_options(&trial, &result));
        fits = result.bytes <= memory_bytes;
        if (!fits && recomputes)
            RETURN_IF_FAILED(try_recompute(&trial, memory_bytes, &result, &fits));
        if (!fits && recomputes)
            trial.pipeline.recompute = (recompute_options){.mode = RECOMPUTE_FULL};
    }
    while (!fits && (trial.batch > 1 || trial.context > 1)) {
        if (trial.batch > 1)
            trial.batch /= 2;
        else
            trial.context /= 2;
        RETURN_IF_FAILED(try_options(&trial, &result));
        fits = result.bytes <= memory_bytes;
    }
    if (fits)
        describe(options, &trial, &start, &result, out);
    else
        snprintf(out->text, sizeof out->text,
                 "nothing here: weights and their state alone need more (%s at the least)",
                 units_bytes(result.bytes).text);
    return DYNO_OK;
}
