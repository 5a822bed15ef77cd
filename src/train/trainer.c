#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "plan/memory_account.h"
#include "runtime/autotune.h"
#include "train/find_nonfinite.h"

struct trainer {
    plan *p;
    memory_pool *pool;
    storage *shared;
    executor *e;
    device *d;
    communicator *ranks; /* NULL: there is one */
    step_options options;
    plan *forward; /* of evaluation; NULL until there is any */
    executor *evaluation;
    int64_t steps_done, step_number; /* the latter of the step under way */
    loss_scale scale;                /* used where the plan has the input "loss_scale" */
    int64_t started;                 /* steps, void ones too */
    bool was_skipped;                /* the last one */
    /* NONFINITE_STOP keeps data to run a step again: what was given last, and what the step under
     * way had; tokens, then targets. */
    int32_t *given, *running;
};

/* Tokens that this rank reads in a step. */
static int64_t rows(const trainer *t) {
    int64_t micro_batches = t->options.pipeline.micro_batches;
    return t->options.batch * t->options.context * (micro_batches ? micro_batches : 1);
}

static nonfinite_policy policy(const trainer *t) {
    return t->options.pipeline.optimizer.on_nonfinite;
}

static dyno_status make_plan(const trainer *t, const step_options *options, plan **out) {
    autotune *kept = autotune_create(&t->d->target);
    step_options tuned = *options;
    tuned.pipeline.kernels.tuning = autotune_kernels(kept);
    dyno_status status = step_plan_create(&tuned, out);
    autotune_destroy(kept);
    return status;
}

static dyno_status take_memory(trainer *t, int64_t memory_limit) {
    memory_account account = memory_account_plan(t->p);
    if (account.reserved_bytes > memory_limit)
        return dyno_fail(
            DYNO_OUT_OF_MEMORY,
            "'%s' needs %s for this step, there are %s; use a smaller batch or context", t->p->name,
            units_bytes(account.reserved_bytes).text, units_bytes(memory_limit).text);
    RETURN_IF_FAILED(memory_pool_create(t->d, memory_limit, &t->pool));
    t->shared = storage_create(t->pool);
    storage_set_communicator(t->shared, t->ranks);
    RETURN_IF_FAILED(executor_create(t->p, t->pool, t->shared, &t->e));
    executor_set_communicator(t->e, t->ranks);
    return DYNO_OK;
}

dyno_status trainer_create(device *d, const step_options *options, int64_t memory_limit,
                           trainer **out) {
    return trainer_create_on(NULL, d, options, memory_limit, out);
}

dyno_status trainer_create_on(communicator *c, device *d, const step_options *options,
                              int64_t memory_limit, trainer **out) {
    *out = NULL;
    trainer *t = memory_allocate(1, sizeof *t);
    *t = (trainer){.d = d, .ranks = c, .options = *options, .scale = loss_scale_create()};
    dyno_status status = make_plan(t, options, &t->p);
    if (status == DYNO_OK)
        status = take_memory(t, memory_limit);
    if (status == DYNO_OK && policy(t) == NONFINITE_STOP) {
        t->given = memory_allocate((size_t)rows(t) * 2, sizeof *t->given);
        t->running = memory_allocate((size_t)rows(t) * 2, sizeof *t->running);
    }
    if (status != DYNO_OK) {
        trainer_destroy(t);
        return status;
    }
    *out = t;
    return DYNO_OK;
}

void trainer_destroy(trainer *t) {
    if (!t)
        return;
    executor_destroy(t->evaluation);
    executor_destroy(t->e);
    storage_destroy(t->shared);
    memory_pool_destroy(t->pool);
    plan_destroy(t->forward);
    plan_destroy(t->p);
    free(t->given);
    free(t->running);
    free(t);
}

storage *trainer_storage(trainer *t) { return t->shared; }

static bool has_name(const trainer *t, const char *name) {
    return plan_find_name(t->p, name) != NULL;
}

const loss_scale *trainer_loss_scale(const trainer *t) {
    return has_name(t, "loss_scale") ? &t->scale : NULL;
}

const plan *trainer_plan(const trainer *t) { return t->p; }

/* Nothing where the plan has no such input: a forward has no learning rate. */
static dyno_status set_input(executor *e, const char *name, const void *data) {
    tensor input = executor_find(e, name);
    return input.data ? executor_write(e, name, data, tensor_bytes(&input)) : DYNO_OK;
}

static dyno_status set_data(trainer *t, const int32_t *tokens, const int32_t *targets) {
    RETURN_IF_FAILED(set_input(t->e, "tokens", tokens));
    return set_input(t->e, "targets", targets);
}

dyno_status trainer_give(trainer *t, const int32_t *tokens, const int32_t *targets) {
    if (t->given) {
        memcpy(t->given, tokens, (size_t)rows(t) * sizeof *tokens);
        memcpy(t->given + rows(t), targets, (size_t)rows(t) * sizeof *targets);
    }
    return set_data(t, tokens, targets);
}

dyno_status trainer_start(trainer *t, double learning_rate) {
    t->step_number = t->steps_done + 1;
    float scale = has_name(t, "gradient_scale") ? t->scale.factor : 1;
    RETURN_IF_FAILED(set_input(t->e, "learning_rate", &learning_rate));
    RETURN_IF_FAILED(set_input(t->e, "step", &t->step_number));
    RETURN_IF_FAILED(set_input(t->e, "loss_scale", &scale));
    if (t->given)
        memcpy(t->running, t->given, (size_t)rows(t) * 2 * sizeof *t->running);
    t->started++;
    return executor_start(t->e, NULL);
}

/* ---- what is not finite ---- */

/* The message of the step that was finished last. */
static dyno_status fail_step(trainer *t, float loss) {
    text message = {0}, where = {0};
    text_format(&message, "step %lld: the %s", (long long)t->started - 1,
                isnan(loss)       ? "loss is NaN"
                : !isfinite(loss) ? "loss is infinite"
                                  : "gradients are not finite");
    dyno_status status =
        find_nonfinite_weight(t->shared, &t->options.config, message.data, t->started - 2);
    /* Ranks would leave the step at different launches, and wait for each other. */
    if (status == DYNO_OK && t->ranks)
        status = dyno_fail(DYNO_NOT_FINITE,
                           "%s on some rank; one rank that accumulates as many "
                           "micro-batches shows in which tensor first",
                           message.data);
    if (status == DYNO_OK)
        status = set_data(t, t->running, t->running + rows(t));
    if (status == DYNO_OK)
        status = find_nonfinite_launch(t->e, t->p, &where);
    if (status == DYNO_OK)
        status = set_data(t, t->given, t->given + rows(t));
    if (status == DYNO_OK)
        status = dyno_fail(DYNO_NOT_FINITE, "%s; it shows first in %s", message.data,
                           where.length ? where.data : "none of its values when it is run again");
    text_release(&message);
    text_release(&where);
    return status;
}

dyno_status trainer_check_weights(const trainer *t) {
    char when[64];
    snprintf(when, sizeof when, "after %lld steps", (long long)t->started);
    return find_nonfinite_weight(t->shared, &t->options.config, when, t->started - 1);
}

bool trainer_skipped(const trainer *t) { return t->was_skipped; }

/* Whether the step that is finished was not applied. Without a norm that follows from the loss. */
static dyno_status find_whether_void(const trainer *t, float loss, bool *is_void) {
    *is_void = policy(t) != NONFINITE_IGNORE && !isfinite(loss);
    if (!has_name(t, "gradient_scale") ||
        !optimizer_takes_norm(&t->options.pipeline.optimizer, has_name(t, "loss_scale")))
        return DYNO_OK;
    float factor;
    RETURN_IF_FAILED(executor_read(t->e, "gradient_scale", &factor, sizeof factor));
    *is_void = isnan(factor);
    return DYNO_OK;
}

dyno_status trainer_finish(trainer *t, float *loss) {
    bool is_void;
    RETURN_IF_FAILED(executor_finish(t->e, NULL));
    RETURN_IF_FAILED(executor_read(t->e, "loss", loss, sizeof *loss));
    RETURN_IF_FAILED(find_whether_void(t, *loss, &is_void));
    bool is_scaled = has_name(t, "gradient_scale") && has_name(t, "loss_scale");
    /* The scale that is too high for finite gradients goes down; at 1 it is not the scale. */
    bool is_overflow = is_scaled && isfinite(*loss) && t->scale.factor > 1;
    if (is_scaled)
        loss_scale_adapt(&t->scale, is_void);
    if (!is_void)
        t->steps_done = t->step_number;
    bool is_bad = policy(t) != NONFINITE_IGNORE && is_void && !is_overflow;
    t->was_skipped = is_bad && policy(t) == NONFINITE_SKIP;
    return is_bad && policy(t) == NONFINITE_STOP ? fail_step(t, *loss) : DYNO_OK;
}

dyno_status trainer_step(trainer *t, const int32_t *tokens, const int32_t *targets,
                         double learning_rate, float *loss) {
    RETURN_IF_FAILED(trainer_give(t, tokens, targets));
    RETURN_IF_FAILED(trainer_start(t, learning_rate));
    return trainer_finish(t, loss);
}

/* The step's plan and this one keep the weights alike, because the same passes decide about that. */
static dyno_status prepare_evaluation(trainer *t, bool has_logits) {
    if (t->forward && (!has_logits || plan_find_name(t->forward, "logits")))
        return DYNO_OK;
    executor_destroy(t->evaluation);
    plan_destroy(t->forward);
    t->evaluation = NULL;
    t->forward = NULL;
    step_options options = t->options;
    options.pipeline.extent = STEP_FORWARD;
    options.keep_logits = has_logits;
    if (has_logits && options.pipeline.micro_batches > 1)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "logits of %lld micro-batches: only those of one fit a plan; use one "
                         "micro-batch",
                         (long long)options.pipeline.micro_batches);
    plan *forward;
    RETURN_IF_FAILED(make_plan(t, &options, &forward));
    dyno_status status = executor_create(forward, t->pool, t->shared, &t->evaluation);
    if (status == DYNO_OK) {
        t->forward = forward;
        executor_set_communicator(t->evaluation, t->ranks);
    } else {
        plan_destroy(forward);
    }
    return status;
}

dyno_status trainer_evaluate(trainer *t, const int32_t *tokens, const int32_t *targets, float *loss,
                             float *logits) {
    RETURN_IF_FAILED(prepare_evaluation(t, logits != NULL));
    RETURN_IF_FAILED(set_input(t->evaluation, "tokens", tokens));
    RETURN_IF_FAILED(set_input(t->evaluation, "targets", targets));
    RETURN_IF_FAILED(executor_run(t->evaluation, NULL, NULL));
    tensor made = executor_find(t->evaluation, "logits");
    if (logits)
        RETURN_IF_FAILED(executor_read(t->evaluation, "logits", logits, tensor_bytes(&made)));
    return executor_read(t->evaluation, "loss", loss, sizeof *loss);
}

tensor trainer_find(const trainer *t, const char *name) { return executor_find(t->e, name); }

dyno_status trainer_read(const trainer *t, const char *name, void *to, int64_t bytes) {
    return executor_read(t->e, name, to, bytes);
}
