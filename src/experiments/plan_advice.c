#include "experiments/plan_advice.h"

#include <stdio.h>

#include "base/stop.h"
#include "base/text.h"
#include "base/units.h"
#include "distributed/world.h"
#include "experiments/step_estimate.h"

/* The change so far, as flags. */
static void append_flags(const step_options *before, bool is_attention_named,
                         const step_options *after, text *out) {
    if (after->pipeline.mode != before->pipeline.mode)
        text_format(out, "--mode %s ", step_mode_name(after->pipeline.mode));
    bool is_named = before->pipeline.mode == STEP_COMPILED || is_attention_named;
    if (after->pipeline.attention != before->pipeline.attention && is_named)
        text_format(out, "--attention %s ", attention_way_name(after->pipeline.attention));
    if (after->pipeline.precision != before->pipeline.precision)
        text_format(out, "--precision %s ", precision_name(after->pipeline.precision));
    if (after->pipeline.recompute.mode != before->pipeline.recompute.mode ||
        after->pipeline.recompute.every != before->pipeline.recompute.every)
        text_format(out, "--recompute %s ", recompute_format(&after->pipeline.recompute).text);
    if (after->batch != before->batch)
        text_format(out, "--batch %lld ", (long long)after->batch);
    if (after->context != before->context)
        text_format(out, "--context %lld ", (long long)after->context);
}

static void append_cost(const step_options *before, const step_options *after,
                        const step_needs *start, const step_needs *result, text *out) {
    double tokens =
        (double)(before->batch * before->context) / (double)(after->batch * after->context);
    text_format(out, "(%s, %.2fx the FLOPs a token)", units_bytes(result->bytes).text,
                result->flops * tokens / start->flops);
}

/* A change, what it needs, and whether that fits. */
typedef struct candidate {
    step_options options;
    step_needs needs;
    bool fits;
} candidate;

typedef struct advisor {
    step_estimator estimator;
    int64_t memory_bytes;
} advisor;

static dyno_status try_options(advisor *a, candidate *c) {
    RETURN_IF_FAILED(step_estimate(&a->estimator, &c->options, &c->needs));
    c->fits = c->needs.bytes <= a->memory_bytes;
    return DYNO_OK;
}

static dyno_status try_level(advisor *a, const step_options *options, recompute_mode mode,
                             int64_t every, candidate *out) {
    out->options = *options;
    out->options.pipeline.recompute = (recompute_options){.mode = mode, .every = (int)every};
    return try_options(a, out);
}

/* The fewest MLPs that do, by halves: the more run again, the less is needed. */
static dyno_status try_mlps(advisor *a, const step_options *options, candidate *best) {
    RETURN_IF_FAILED(try_level(a, options, RECOMPUTE_MLP, 1, best));
    int64_t fits = 1, too_few = options->config.layers;
    while (best->fits && fits + 1 < too_few) {
        int64_t every = fits + (too_few - fits) / 2;
        candidate trial;
        RETURN_IF_FAILED(try_level(a, options, RECOMPUTE_MLP, every, &trial));
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
 * the needs are those of the last one tried, and the options stay. */
static dyno_status try_recompute(advisor *a, candidate *c) {
    candidate best, trial;
    const step_options *options = &c->options;
    RETURN_IF_FAILED(try_mlps(a, options, &best));
    int64_t every = (options->config.layers + 1) / 2;
    RETURN_IF_FAILED(try_level(a, options, RECOMPUTE_EVERY, every, &trial));
    /* No other segments run as little again as these two. */
    bool are_mlps_cheaper = best.fits && best.needs.flops <= trial.needs.flops;
    while (!are_mlps_cheaper) {
        if (is_better(&trial, &best))
            best = trial;
        if (every == 1)
            break;
        every = (every + 1) / 2;
        RETURN_IF_FAILED(try_level(a, options, RECOMPUTE_EVERY, every, &trial));
    }
    c->needs = best.needs;
    c->fits = best.fits;
    if (best.fits)
        c->options = best.options;
    return DYNO_OK;
}

/* Levels that leave room for more. */
static bool runs_little_again(recompute_mode mode) {
    return mode == RECOMPUTE_NONE || mode == RECOMPUTE_MLP;
}

/* Changes c->options until they fit, or nothing is left to change. */
static dyno_status search(advisor *a, const step_options *options, candidate *c) {
    step_options *trial = &c->options;
    bool recomputes = options->pipeline.extent != STEP_FORWARD;
    if (!c->fits && options->pipeline.mode != STEP_COMPILED) {
        *trial = step_compiled(trial);
        RETURN_IF_FAILED(try_options(a, c));
    }
    if (!c->fits && trial->pipeline.attention == ATTENTION_NAIVE && step_can_flash(trial)) {
        trial->pipeline.attention = ATTENTION_FLASH;
        RETURN_IF_FAILED(try_options(a, c));
    }
    if (!c->fits && recomputes && runs_little_again(options->pipeline.recompute.mode))
        RETURN_IF_FAILED(try_recompute(a, c));
    if (!c->fits && precision_low_type(trial->pipeline.precision) == DTYPE_F32) {
        trial->pipeline.precision = PRECISION_BF16;
        RETURN_IF_FAILED(try_options(a, c));
        if (!c->fits && recomputes)
            RETURN_IF_FAILED(try_recompute(a, c));
        if (!c->fits && recomputes)
            trial->pipeline.recompute = (recompute_options){.mode = RECOMPUTE_FULL};
    }
    while (!c->fits && (trial->batch > 1 || trial->context > 1)) {
        if (trial->batch > 1)
            trial->batch /= 2;
        else
            trial->context /= 2;
        RETURN_IF_FAILED(try_options(a, c));
    }
    return DYNO_OK;
}

/* The search by estimates, and again by better ones when what it found does not fit in truth. */
static dyno_status search_and_check(advisor *a, const step_options *options, step_needs *start,
                                    candidate *c) {
    for (;;) {
        *c = (candidate){.options = *options};
        c->options.pipeline.dump_after = NULL;
        RETURN_IF_FAILED(try_options(a, c));
        *start = c->needs;
        RETURN_IF_FAILED(search(a, options, c));
        if (!a->estimator.scale)
            return DYNO_OK;
        bool should_fit = c->fits;
        RETURN_IF_FAILED(step_needs_exactly(&c->options, &c->needs));
        c->fits = c->needs.bytes <= a->memory_bytes;
        if (c->fits || !should_fit)
            return DYNO_OK;
        step_estimator_refine(&a->estimator, options->config.layers);
    }
}

dyno_status plan_advice_find_ranks(const step_options *options, int64_t memory_bytes,
                                   int64_t *ranks, step_needs *needs) {
    step_options trial = *options;
    trial.pipeline.dump_after = NULL;
    parallel_options *how = &trial.pipeline.parallel;
    how->mode = PARALLEL_FSDP;
    how->ranks = options->pipeline.parallel.ranks > 1 ? options->pipeline.parallel.ranks : 2;
    for (; how->ranks <= WORLD_MOST_RANKS; how->ranks *= 2) {
        RETURN_IF_FAILED(stop_check("planning advice"));
        RETURN_IF_FAILED(step_needs_exactly(&trial, needs));
        *ranks = how->ranks;
        if (needs->bytes <= memory_bytes)
            return DYNO_OK;
    }
    *ranks = 0;
    return DYNO_OK;
}

/* No change of the step by itself will do: more chips may, with the step as it is or, where no number of them is
 * enough for that, with all that the search changed but the batch and the context. */
static dyno_status describe_ranks(const step_options *options, bool is_attention_named,
                                  const candidate *smallest, int64_t memory_bytes, text *out) {
    int64_t ranks, now = options->pipeline.parallel.ranks;
    step_options sharded = *options;
    step_needs needs;
    text_append(out, "nothing ");
    if (now > 1 && options->pipeline.parallel.mode != PARALLEL_FSDP)
        text_format(out, "with --parallel %s ", parallel_format(&options->pipeline.parallel).text);
    if (now > 1)
        text_format(out, "on %lld chips", (long long)now);
    else
        text_append(out, "on one chip");
    text_format(out, ": the smallest step needs %s", units_bytes(smallest->needs.bytes).text);
    RETURN_IF_FAILED(plan_advice_find_ranks(&sharded, memory_bytes, &ranks, &needs));
    if (ranks == 0) {
        sharded = smallest->options;
        sharded.batch = options->batch;
        sharded.context = options->context;
        RETURN_IF_FAILED(plan_advice_find_ranks(&sharded, memory_bytes, &ranks, &needs));
    }
    if (ranks == 0) {
        text_format(out, "; nor on %d with --parallel fsdp", WORLD_MOST_RANKS);
        return DYNO_OK;
    }
    text_append(out, "; ");
    append_flags(options, is_attention_named, &sharded, out);
    text_format(out, "--ranks %lld --parallel fsdp (%s on each)", (long long)ranks,
                units_bytes(needs.bytes).text);
    return DYNO_OK;
}

static dyno_status find(const step_options *options, bool is_attention_named, int64_t memory_bytes,
                        text *out) {
    advisor a = {.estimator = step_estimator_begin(options->config.layers),
                 .memory_bytes = memory_bytes};
    step_needs start;
    candidate found;
    dyno_status status = search_and_check(&a, options, &start, &found);
    step_estimator_release(&a.estimator);
    RETURN_IF_FAILED(status);
    if (!found.fits)
        return describe_ranks(options, is_attention_named, &found, memory_bytes, out);
    append_flags(options, is_attention_named, &found.options, out);
    append_cost(options, &found.options, &start, &found.needs, out);
    return DYNO_OK;
}

dyno_status plan_advice_find(const step_options *options, bool is_attention_named,
                             int64_t memory_bytes, plan_advice *out) {
    text said = {0};
    dyno_status status = find(options, is_attention_named, memory_bytes, &said);
    snprintf(out->text, sizeof out->text, "%s", text_string(&said));
    text_release(&said);
    return status;
}
