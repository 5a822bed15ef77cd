/* api.c - the public interface of dyno.h over the modules below it. */
#include <stdlib.h>

#include "base/memory.h"
#include "base/threads.h"
#include "dyno.h"
#include "formats/config_json.h"
#include "model/parameters.h"
#include "plan/memory_account.h"
#include "train/trainer.h"

struct dyno_model {
    model_config config;
};

struct dyno_trainer {
    model_config config;
    int64_t rows; /* batch x context */
    device *d;
    trainer *inner;
};

void dyno_set_threads(int count) { threads_set_count(count > 0 ? count : 0); }

static dyno_status keep_model(dyno_status status, const model_config *config, dyno_model **out) {
    *out = NULL;
    if (status != DYNO_OK)
        return status;
    *out = memory_allocate(1, sizeof **out);
    (*out)->config = *config;
    return DYNO_OK;
}

dyno_status dyno_model_from_preset(const char *name, dyno_model **out) {
    model_config config;
    return keep_model(model_config_from_preset(name, &config), &config, out);
}

dyno_status dyno_model_from_config(const char *path, dyno_model **out) {
    model_config config;
    return keep_model(model_config_read(path, &config), &config, out);
}

void dyno_model_destroy(dyno_model *model) { free(model); }

int64_t dyno_model_parameters(const dyno_model *model) {
    return model_parameter_elements(&model->config);
}

int64_t dyno_model_vocabulary(const dyno_model *model) { return model->config.vocab; }

dyno_status dyno_model_plan(const dyno_model *model, dyno_pass pass, int64_t batch, int64_t context,
                            dyno_cost *out) {
    static const step_extent extents[] = {[DYNO_FORWARD] = STEP_FORWARD,
                                          [DYNO_FORWARD_BACKWARD] = STEP_BACKWARD,
                                          [DYNO_STEP] = STEP_FULL};
    if ((int)pass < 0 || pass > DYNO_STEP)
        return dyno_fail(DYNO_INVALID, "there is no pass %d", (int)pass);
    step_options options = {.config = model->config,
                            .batch = batch,
                            .context = context,
                            .pipeline = {.extent = extents[pass],
                                         .target = BACKEND_CPU,
                                         .optimizer = step_default_optimizer()}};
    plan *p;
    RETURN_IF_FAILED(step_plan_create(&options, &p));
    memory_account account = memory_account_plan(p);
    plan_cost cost = plan_total_cost(p, PHASE_COUNT);
    *out = (dyno_cost){.launches = cost.launches,
                       .flops = cost.flops,
                       .peak_bytes = account.peak_bytes,
                       .reserved_bytes = account.reserved_bytes};
    plan_destroy(p);
    return DYNO_OK;
}

dyno_training dyno_training_default(void) {
    optimizer_options o = step_default_optimizer();
    return (dyno_training){.batch = 4,
                           .context = 128,
                           .beta1 = o.adamw.beta1,
                           .beta2 = o.adamw.beta2,
                           .eps = o.adamw.eps,
                           .weight_decay = o.adamw.weight_decay,
                           .clip_norm = o.clip_norm};
}

static dyno_status make_trainer(const model_config *config, const dyno_training *training,
                                dyno_trainer **out) {
    *out = NULL;
    device *d;
    RETURN_IF_FAILED(device_open(training->device ? training->device : "cpu", &d));
    step_options options = {
        .config = *config,
        .batch = training->batch,
        .context = training->context,
        .pipeline = {.extent = STEP_FULL,
                     .mode = d->backend == BACKEND_CPU ? STEP_EAGER : STEP_COMPILED,
                     .target = d->backend,
                     .optimizer = {.adamw = {.beta1 = training->beta1,
                                             .beta2 = training->beta2,
                                             .eps = training->eps,
                                             .weight_decay = training->weight_decay},
                                   .clip_norm = training->clip_norm}}};
    trainer *inner;
    dyno_status status = trainer_create(d, &options, d->functions->available_bytes(d), &inner);
    if (status != DYNO_OK) {
        device_close(d);
        return status;
    }
    *out = memory_allocate(1, sizeof **out);
    **out = (dyno_trainer){
        .config = *config, .rows = training->batch * training->context, .d = d, .inner = inner};
    return DYNO_OK;
}

dyno_status dyno_trainer_create(const dyno_model *model, uint64_t seed,
                                const dyno_training *options, dyno_trainer **out) {
    RETURN_IF_FAILED(make_trainer(&model->config, options, out));
    dyno_status status = weights_init(trainer_storage((*out)->inner), &model->config, seed);
    if (status != DYNO_OK) {
        dyno_trainer_destroy(*out);
        *out = NULL;
    }
    return status;
}

dyno_status dyno_trainer_load(const char *directory, const dyno_training *options,
                              dyno_trainer **out) {
    *out = NULL;
    hf_directory *source;
    RETURN_IF_FAILED(hf_directory_open(directory, &source));
    dyno_status status = make_trainer(hf_directory_config(source), options, out);
    if (status == DYNO_OK)
        status = weights_load(trainer_storage((*out)->inner), source);
    if (status != DYNO_OK) {
        dyno_trainer_destroy(*out);
        *out = NULL;
    }
    hf_directory_close(source);
    return status;
}

void dyno_trainer_destroy(dyno_trainer *t) {
    if (!t)
        return;
    trainer_destroy(t->inner);
    device_close(t->d);
    free(t);
}

/* Kernels trust ids; this is where somebody else's come in. */
static dyno_status check_ids(const dyno_trainer *t, const char *what, const int32_t *ids) {
    for (int64_t i = 0; i < t->rows; i++)
        if (ids[i] < 0 || ids[i] >= t->config.vocab)
            return dyno_fail(DYNO_INVALID, "%s[%lld] is %d, outside the vocabulary of %lld", what,
                             (long long)i, ids[i], (long long)t->config.vocab);
    return DYNO_OK;
}

dyno_status dyno_trainer_step(dyno_trainer *t, const int32_t *tokens, const int32_t *targets,
                              double learning_rate, float *loss) {
    RETURN_IF_FAILED(check_ids(t, "tokens", tokens));
    RETURN_IF_FAILED(check_ids(t, "targets", targets));
    return trainer_step(t->inner, tokens, targets, learning_rate, loss);
}

dyno_status dyno_trainer_save(const dyno_trainer *t, const char *directory) {
    return weights_save(trainer_storage(t->inner), &t->config, directory);
}
