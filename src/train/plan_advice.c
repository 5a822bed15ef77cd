#include "train/plan_advice.h"

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

/* The cheapest recompute level that fits, if any does: the largest segments first. */
static dyno_status try_recompute(step_options *options, int64_t memory_bytes, outcome *result,
                                 bool *fits) {
    step_options trial = *options;
    for (int64_t every = options->config.layers / 2; every >= 1 && !*fits; every /= 2) {
        trial.pipeline.recompute =
            (recompute_options){.mode = RECOMPUTE_EVERY, .every = (int)every};
        RETURN_IF_FAILED(try_options(&trial, result));
        *fits = result->bytes <= memory_bytes;
    }
    if (*fits)
        *options = trial;
    return DYNO_OK;
}

dyno_status plan_advice_find(const step_options *options, int64_t memory_bytes, plan_advice *out) {
    step_options trial = *options;
    trial.pipeline.dump_after = NULL;
    outcome start, result;
    RETURN_IF_FAILED(try_options(&trial, &start));
    bool fits = start.bytes <= memory_bytes;
    bool recomputes = options->pipeline.pass != STEP_FORWARD;
    result = start;
    trial.pipeline.mode = STEP_COMPILED;
    if (!fits && options->pipeline.mode != STEP_COMPILED) {
        RETURN_IF_FAILED(try_options(&trial, &result));
        fits = result.bytes <= memory_bytes;
    }
    if (!fits && recomputes && options->pipeline.recompute.mode == RECOMPUTE_NONE)
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
