#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "plan/memory_account.h"

struct trainer {
    plan *p;
    memory_pool *pool;
    storage *shared;
    executor *e;
    int64_t steps_done;
    loss_scale scale; /* used where the plan has the input "loss_scale" */
};

static dyno_status take_memory(trainer *t, int64_t memory_limit) {
    memory_account account = memory_account_plan(t->p);
    if (account.reserved_bytes > memory_limit)
        return dyno_fail(
            DYNO_OUT_OF_MEMORY,
            "'%s' needs %s for this step, there are %s; use a smaller batch or context", t->p->name,
            units_bytes(account.reserved_bytes).text, units_bytes(memory_limit).text);
    RETURN_IF_FAILED(memory_pool_create(memory_limit, &t->pool));
    t->shared = storage_create(t->pool);
    return executor_create(t->p, t->pool, t->shared, &t->e);
}

dyno_status trainer_create(const step_options *options, int64_t memory_limit, trainer **out) {
    *out = NULL;
    trainer *t = memory_allocate(1, sizeof *t);
    t->scale = loss_scale_create();
    dyno_status status = step_plan_create(options, &t->p);
    if (status == DYNO_OK)
        status = take_memory(t, memory_limit);
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
    executor_destroy(t->e);
    storage_destroy(t->shared);
    memory_pool_destroy(t->pool);
    plan_destroy(t->p);
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

static void set_input(trainer *t, const char *name, const void *data) {
    tensor input = executor_find(t->e, name);
    if (input.data) /* a forward has no learning rate */
        memcpy(input.data, data, (size_t)tensor_bytes(&input));
}

dyno_status trainer_step(trainer *t, const int32_t *tokens, const int32_t *targets,
                         double learning_rate, float *loss) {
    int64_t number = t->steps_done + 1;
    set_input(t, "tokens", tokens);
    set_input(t, "targets", targets);
    set_input(t, "learning_rate", &learning_rate);
    set_input(t, "step", &number);
    bool has_optimizer = has_name(t, "gradient_scale");
    float scale = has_optimizer ? t->scale.factor : 1;
    set_input(t, "loss_scale", &scale);
    RETURN_IF_FAILED(executor_run(t->e, NULL, NULL));
    bool overflowed =
        has_optimizer && isnan(*(const float *)executor_find(t->e, "gradient_scale").data);
    if (has_optimizer)
        loss_scale_adapt(&t->scale, overflowed);
    if (!overflowed)
        t->steps_done = number;
    *loss = *(const float *)executor_find(t->e, "loss").data;
    return DYNO_OK;
}

tensor trainer_find(const trainer *t, const char *name) { return executor_find(t->e, name); }
