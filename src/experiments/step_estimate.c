/* step_estimate.c - planes through the needs of short models.
 *
 * The peak of memory is the largest of several sums, each of which grows linearly with the number of
 * blocks, of segments, or of blocks in a segment. Beyond the short models another sum may become the
 * largest: estimates are then too low and never too high, and what "does not fit" by an estimate
 * does not fit. */
#include "experiments/step_estimate.h"

#include <stdlib.h>

#include "base/memory.h"
#include "ops/attention/attention.h"
#include "plan/least_time.h"
#include "plan/memory_account.h"

/* Blocks of the shortest models; of the models that are planned in full anyway. */
enum { SHORT = 12, LONGER = 20, IN_FULL = 64 };
/* Segments, and blocks of a segment, of the short models for long segments. */
enum { FEW_SEGMENTS = 3, MORE_SEGMENTS = 4, SMALL_SEGMENT = 4, LARGER_SEGMENT = 6 };

step_estimator step_estimator_begin(int64_t layers) {
    return (step_estimator){.scale = layers > IN_FULL ? 1 : 0};
}

void step_estimator_release(step_estimator *e) {
    free(e->known);
    *e = (step_estimator){0};
}

void step_estimator_refine(step_estimator *e, int64_t layers) {
    e->scale *= 4;
    if (e->scale * 2 * LONGER > layers)
        e->scale = 0;
}

dyno_status step_needs_exactly(const step_options *options, step_needs *out) {
    step_options counted = *options;
    counted.pipeline.is_unverified = true;
    plan *p;
    RETURN_IF_FAILED(step_plan_create(&counted, &p));
    out->bytes = memory_account_plan(p).reserved_bytes;
    plan_cost cost = plan_total_cost(p, PHASE_COUNT);
    out->flops = cost.flops;
    out->bytes_sent = cost.bytes_sent;
    out->seconds = least_time_of_plan(p, PHASE_COUNT);
    plan_destroy(p);
    return DYNO_OK;
}

bool step_can_flash(const step_options *options) {
    return options->config.head_dim <= ATTENTION_MAX_HEAD_DIM;
}

step_options step_compiled(const step_options *options) {
    step_options compiled = *options;
    if (compiled.pipeline.mode == STEP_EAGER)
        compiled.pipeline.attention = step_can_flash(options) ? ATTENTION_FLASH : ATTENTION_NAIVE;
    compiled.pipeline.mode = STEP_COMPILED;
    return compiled;
}

static bool same_step(const step_options *a, const step_options *b) {
    const pipeline_options *x = &a->pipeline, *y = &b->pipeline;
    return a->config.layers == b->config.layers && a->batch == b->batch &&
           a->context == b->context && x->mode == y->mode && x->precision == y->precision &&
           x->attention == y->attention && x->recompute.mode == y->recompute.mode &&
           x->recompute.every == y->recompute.every;
}

/* The same step of a model of so many blocks, recomputed so. */
static dyno_status plan_short(step_estimator *e, const step_options *options, int64_t layers,
                              recompute_mode mode, int64_t every, step_needs *out) {
    step_options shorter = *options;
    shorter.config.layers = layers;
    shorter.pipeline.recompute = (recompute_options){.mode = mode, .every = (int)every};
    for (int i = 0; i < e->known_count; i++)
        if (same_step(&e->known[i].options, &shorter)) {
            *out = e->known[i].needs;
            return DYNO_OK;
        }
    RETURN_IF_FAILED(step_needs_exactly(&shorter, out));
    MEMORY_GROW(e->known, e->known_count, e->known_capacity);
    e->known[e->known_count++] = (estimated_step){shorter, *out};
    return DYNO_OK;
}

/* a + (b - a) * steps, where b is one step behind a. */
static step_needs extrapolate(const step_needs *a, const step_needs *b, double steps) {
    return (step_needs){.bytes = a->bytes + (int64_t)((double)(b->bytes - a->bytes) * steps),
                        .flops = a->flops + (b->flops - a->flops) * steps,
                        .seconds = a->seconds + (b->seconds - a->seconds) * steps};
}

/* From two models with the same remainder of blocks behind the last whole `period`. */
static dyno_status along_layers(step_estimator *e, const step_options *options, int64_t period,
                                step_needs *out) {
    const recompute_options *how = &options->pipeline.recompute;
    int64_t layers = options->config.layers, rest = layers % period;
    int64_t first = rest + (SHORT * e->scale + period - 1) / period * period;
    int64_t second = first + ((LONGER - SHORT) * e->scale + period - 1) / period * period;
    step_needs a, b;
    RETURN_IF_FAILED(plan_short(e, options, first, how->mode, how->every, &a));
    RETURN_IF_FAILED(plan_short(e, options, second, how->mode, how->every, &b));
    *out = extrapolate(&a, &b, (double)(layers - first) / (double)(second - first));
    return DYNO_OK;
}

/* Blocks whose MLP is recomputed: every so many, never the last. */
static double recomputed_mlps(int64_t layers, int64_t every) {
    return (double)((layers - 1 + every - 1) / every);
}

/* Few MLPs are recomputed: what each saves is known from recomputing all. */
static dyno_status from_no_mlps(step_estimator *e, const step_options *options, step_needs *out) {
    step_options none = *options;
    none.pipeline.recompute = (recompute_options){.mode = RECOMPUTE_NONE};
    int64_t layers = LONGER * e->scale;
    step_needs without, with, all;
    RETURN_IF_FAILED(along_layers(e, &none, 1, out));
    RETURN_IF_FAILED(plan_short(e, options, layers, RECOMPUTE_NONE, 0, &without));
    RETURN_IF_FAILED(plan_short(e, options, layers, RECOMPUTE_MLP, 1, &with));
    double share = recomputed_mlps(options->config.layers, options->pipeline.recompute.every) /
                   recomputed_mlps(layers, 1);
    all = extrapolate(&without, &with, share);
    out->bytes += all.bytes - without.bytes;
    out->flops += all.flops - without.flops;
    out->seconds += all.seconds - without.seconds;
    return DYNO_OK;
}

/* One number of four short models, f(n, k) of n segments of k blocks, at n segments of k blocks and
 * so many blocks in all, the last segment perhaps being shorter. */
static double on_plane(const double f[2][2], double segments, double blocks, double layers) {
    enum { MORE = MORE_SEGMENTS - FEW_SEGMENTS, LARGER = LARGER_SEGMENT - SMALL_SEGMENT };
    double of_layer = (f[1][1] - f[1][0] - f[0][1] + f[0][0]) / (MORE * LARGER);
    double of_segment = (f[1][0] - f[0][0]) / MORE - of_layer * SMALL_SEGMENT;
    double of_block = (f[0][1] - f[0][0]) / LARGER - of_layer * FEW_SEGMENTS;
    return f[0][0] + of_segment * (segments - FEW_SEGMENTS) + of_block * (blocks - SMALL_SEGMENT) +
           of_layer * (layers - FEW_SEGMENTS * SMALL_SEGMENT);
}

static dyno_status from_short_segments(step_estimator *e, const step_options *options,
                                       step_needs *out) {
    static const int segments[] = {FEW_SEGMENTS, MORE_SEGMENTS};
    static const int blocks[] = {SMALL_SEGMENT, LARGER_SEGMENT};
    int64_t layers = options->config.layers, every = options->pipeline.recompute.every;
    double bytes[2][2], flops[2][2], seconds[2][2], scale = (double)e->scale;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            step_needs needs;
            int64_t size = blocks[j] * e->scale;
            RETURN_IF_FAILED(
                plan_short(e, options, segments[i] * size, RECOMPUTE_EVERY, size, &needs));
            bytes[i][j] = (double)needs.bytes;
            flops[i][j] = needs.flops;
            seconds[i][j] = needs.seconds;
        }
    double count = (double)((layers + every - 1) / every);
    *out = (step_needs){
        .bytes = (int64_t)on_plane(bytes, count, (double)every / scale, (double)layers / scale),
        .flops = on_plane(flops, count, (double)every / scale, (double)layers / scale),
        .seconds = on_plane(seconds, count, (double)every / scale, (double)layers / scale)};
    return DYNO_OK;
}

dyno_status step_estimate(step_estimator *e, const step_options *options, step_needs *out) {
    const recompute_options *how = &options->pipeline.recompute;
    if (!e->scale || how->mode == RECOMPUTE_NESTED)
        return step_needs_exactly(options, out);
    bool is_periodic = how->mode == RECOMPUTE_MLP || how->mode == RECOMPUTE_EVERY;
    if (!is_periodic || how->every * 2 <= SHORT * e->scale)
        return along_layers(e, options, is_periodic ? how->every : 1, out);
    return how->mode == RECOMPUTE_MLP ? from_no_mlps(e, options, out)
                                      : from_short_segments(e, options, out);
}
