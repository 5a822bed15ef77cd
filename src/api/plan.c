/* plan.c - a step as the plan that would run it. */
#include <stdlib.h>
#include <string.h>

#include "api/model.h"
#include "api/options.h"
#include "base/memory.h"
#include "experiments/plan_advice.h"
#include "experiments/step_variant.h"
#include "model/model_flops.h"
#include "plan/memory_account.h"
#include "plan/plan_text.h"
#include "runtime/autotune.h"
#include "runtime/device.h"

struct dyno_plan {
    target target;
    autotune *tuned;      /* what was tuned for this CPU; NULL: the plan is for another chip */
    step_options options; /* with the two above */
    bool is_attention_named;
    plan *inner;
};

static dyno_status find_target(const dyno_plan_options *o, target *out) {
    const target *found;
    if (!o->target)
        return device_find_target(o->device ? o->device : "auto", out);
    if (o->device)
        return dyno_fail(DYNO_INVALID, "dyno_plan_options: target names a chip and device one that "
                                       "is here; give one of them");
    RETURN_IF_FAILED(target_find(o->target, &found));
    *out = *found;
    return DYNO_OK;
}

static dyno_status set_options(const dyno_plan_options *o, dyno_plan *p) {
    step_options *options = &p->options;
    step_variant asked, variant;
    options->batch = o->batch ? o->batch : 4;
    options->context = o->context ? o->context : 128;
    RETURN_IF_FAILED(options_check_integer("batch", options->batch));
    RETURN_IF_FAILED(options_check_integer("context", options->context));
    options->pipeline = (pipeline_options){
        .extent = STEP_FULL, .target = &p->target, .optimizer = step_default_optimizer()};
    options->pipeline.micro_batches = o->accumulate ? o->accumulate : 1;
    RETURN_IF_FAILED(options_check_integer("accumulate", options->pipeline.micro_batches));
    options->pipeline.parallel.ranks = o->ranks ? o->ranks : 1;
    RETURN_IF_FAILED(options_check_integer("ranks", options->pipeline.parallel.ranks));
    RETURN_IF_FAILED(
        parallel_parse(o->parallel ? o->parallel : PARALLEL_USUAL, &options->pipeline.parallel));
    if (o->extent)
        RETURN_IF_FAILED(step_extent_parse(o->extent, &options->pipeline.extent));
    RETURN_IF_FAILED(step_variant_parse(o->mode, o->precision, o->attention, o->recompute,
                                        o->gradients, &asked));
    RETURN_IF_FAILED(step_variant_settle(&asked, &options->config, &variant));
    step_variant_apply(&variant, &options->pipeline);
    p->is_attention_named = asked.has_attention;
    return find_target(o, &p->target);
}

static dyno_status make_plan(const dyno_plan_options *o, dyno_plan *p) {
    RETURN_IF_FAILED(set_options(o, p));
    if (strcmp(p->target.name, target_this_cpu()->name) == 0) {
        p->tuned = autotune_create(&p->target);
        p->options.pipeline.kernels.tuning = autotune_kernels(p->tuned);
    }
    return step_plan_create(&p->options, &p->inner);
}

dyno_status dyno_plan_create(const dyno_model *model, const dyno_plan_options *options,
                             dyno_plan **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(model, options);
    dyno_plan_options known = {0};
    RETURN_IF_FAILED(options_take("dyno_plan_options", options, &known, sizeof known));
    dyno_plan *made = memory_allocate(1, sizeof *made);
    made->options.config = model->config;
    dyno_status status = make_plan(&known, made);
    if (status == DYNO_OK)
        *out = made;
    else
        dyno_plan_destroy(made);
    return status_conclude(status);
}

void dyno_plan_destroy(dyno_plan *p) {
    if (!p)
        return;
    plan_destroy(p->inner);
    autotune_destroy(p->tuned);
    free(p);
}

dyno_status dyno_plan_cost(const dyno_plan *p, dyno_cost *out) {
    RETURN_IF_NULL(p, out);
    memory_account account = memory_account_plan(p->inner);
    plan_cost cost = plan_total_cost(p->inner, PHASE_COUNT);
    const step_options *o = &p->options;
    model_flops own = model_flops_of_step(&o->config, o->batch, o->context);
    bool has_backward = o->pipeline.extent != STEP_FORWARD;
    dyno_cost known = {.launches = cost.launches,
                       .flops = cost.flops,
                       .bytes_read = cost.bytes_read,
                       .bytes_written = cost.bytes_written,
                       .peak_bytes = account.peak_bytes,
                       .reserved_bytes = account.reserved_bytes,
                       .model_flops = own.forward + (has_backward ? own.backward : 0)};
    return status_conclude(options_give("dyno_cost", &known, sizeof known, out));
}

dyno_status dyno_plan_fits(const dyno_plan *p, int64_t memory_bytes, bool *fits, char **advice) {
    RETURN_IF_NULL(fits);
    if (advice)
        *advice = NULL;
    RETURN_IF_NULL(p);
    if (memory_bytes < 1)
        return dyno_fail(DYNO_INVALID, "memory_bytes is %lld, it must be 1 or more",
                         (long long)memory_bytes);
    plan_advice found = {""};
    *fits = memory_account_plan(p->inner).reserved_bytes <= memory_bytes;
    if (!*fits && advice)
        RETURN_IF_FAILED(
            plan_advice_find(&p->options, p->is_attention_named, memory_bytes, &found));
    if (advice)
        *advice = memory_copy_string(found.text);
    return status_conclude(DYNO_OK);
}

dyno_status dyno_plan_text(const dyno_plan *p, char **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(p);
    text printed = {0};
    plan_print(p->inner, &printed);
    *out = options_take_text(&printed);
    return status_conclude(DYNO_OK);
}

dyno_status dyno_plan_source(const dyno_plan *p, char **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(p);
    *out = memory_copy_string(p->inner->source ? p->inner->source : "");
    return status_conclude(DYNO_OK);
}
