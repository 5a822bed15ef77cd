/* trainer.c - a trainer with the device it runs on. Kernels trust token ids and sizes; this is where
 * somebody else's come in. */
#include "train/trainer.h"

#include <stdlib.h>

#include "api/model.h"
#include "api/options.h"
#include "base/memory.h"
#include "experiments/ranks.h"
#include "experiments/step_variant.h"
#include "train/split_weights.h"

struct dyno_trainer {
    dyno_model *model;
    int64_t rows; /* accumulate x batch x context */
    device *d;
    trainer *inner;
    nonfinite_policy on_nonfinite;
    world *world; /* the job's, which stays open; NULL: it trains by itself */
    communicator *ranks;
    bool is_running;           /* between start and finish */
    hf_companions *companions; /* of the directory it was loaded from; NULL: drawn */
};

/* ---- from options to a trainer ---- */

static dyno_status take_adamw(const dyno_adamw *given, adamw_options *out) {
    dyno_adamw a = {.beta1 = out->beta1,
                    .beta2 = out->beta2,
                    .eps = out->eps,
                    .weight_decay = out->weight_decay};
    RETURN_IF_FAILED(options_take("dyno_adamw", given, &a, sizeof a));
    RETURN_IF_FAILED(options_check_real("beta1", a.beta1));
    RETURN_IF_FAILED(options_check_real("beta2", a.beta2));
    RETURN_IF_FAILED(options_check_real("eps", a.eps));
    RETURN_IF_FAILED(options_check_real("weight-decay", a.weight_decay));
    out->beta1 = a.beta1;
    out->beta2 = a.beta2;
    out->eps = a.eps;
    out->weight_decay = a.weight_decay;
    return DYNO_OK;
}

static dyno_status set_options(const dyno_trainer_options *o, step_options *out) {
    step_variant asked, variant;
    out->batch = o->batch ? o->batch : 4;
    out->context = o->context ? o->context : 128;
    out->keep_logits = o->keeps_logits;
    RETURN_IF_FAILED(options_check_integer("batch", out->batch));
    RETURN_IF_FAILED(options_check_integer("context", out->context));
    out->pipeline = (pipeline_options){.extent = STEP_FULL,
                                       .keep_gradients = o->keeps_gradients,
                                       .optimizer = step_default_optimizer()};
    out->pipeline.micro_batches = o->accumulate ? o->accumulate : 1;
    RETURN_IF_FAILED(options_check_integer("accumulate", out->pipeline.micro_batches));
    if (out->keep_logits && out->pipeline.micro_batches > 1)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "logits of %lld micro-batches: a step holds those of one at a time; keep "
                         "them with accumulate 1, or only the loss",
                         (long long)out->pipeline.micro_batches);
    if (o->adamw)
        RETURN_IF_FAILED(take_adamw(o->adamw, &out->pipeline.optimizer.adamw));
    RETURN_IF_FAILED(options_check_real("clip", o->clip_norm));
    out->pipeline.optimizer.clip_norm = o->clip_norm;
    RETURN_IF_FAILED(nonfinite_policy_parse(o->on_nan ? o->on_nan : "stop",
                                            &out->pipeline.optimizer.on_nonfinite));
    RETURN_IF_FAILED(step_variant_parse(o->mode, o->precision, o->attention, o->recompute,
                                        o->gradients, &asked));
    RETURN_IF_FAILED(step_variant_settle(&asked, &out->config, &variant));
    step_variant_apply(&variant, &out->pipeline);
    return DYNO_OK;
}

/* What ranks must have alike is compared before they wait for each other inside of a step. */
static dyno_status compare_ranks(const dyno_trainer_options *o, const step_options *options,
                                 const dyno_trainer *t) {
    const pipeline_options *p = &options->pipeline;
    text settings = {0};
    text_format(
        &settings,
        "batch %lld, accumulate %lld, context %lld, %s, %s, recompute %s, %s, AdamW %a %a %a "
        "%a, clip %a, %s",
        (long long)options->batch, (long long)p->micro_batches, (long long)options->context,
        step_mode_name(p->mode), precision_name(p->precision), recompute_format(&p->recompute).text,
        parallel_format(&p->parallel).text, p->optimizer.adamw.beta1, p->optimizer.adamw.beta2,
        p->optimizer.adamw.eps, p->optimizer.adamw.weight_decay, p->optimizer.clip_norm,
        nonfinite_policy_name(p->optimizer.on_nonfinite));
    text model = {0};
    text_format(&model, "%s, %lld parameters", dyno_model_name(t->model),
                (long long)dyno_model_elements(t->model));
    const world_fact facts[] = {{"the version of dyno", dyno_version()},
                                {"the model", text_string(&model)},
                                {"the options", text_string(&settings)},
                                {"the device", o->device ? o->device : "auto"}};
    dyno_status status = world_compare(t->world, facts, sizeof facts / sizeof *facts);
    text_release(&settings);
    text_release(&model);
    return status;
}

static dyno_status join_ranks(const dyno_trainer_options *o, step_options *options,
                              dyno_trainer *t) {
    RETURN_IF_FAILED(parallel_parse(o->parallel, &options->pipeline.parallel));
    if (o->reduce)
        RETURN_IF_FAILED(parallel_parse_reduce(o->reduce, &options->pipeline.parallel));
    RETURN_IF_FAILED(world_open(&(world_options){.timeout_s = o->timeout_s}, &t->world));
    options->pipeline.parallel.ranks = world_count(t->world);
    options->pipeline.parallel.rank = world_rank(t->world);
    if (world_count(t->world) > 1 && options->keep_logits)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "logits of %d ranks: each has only its own; keep them "
                         "with one rank, or only the loss",
                         world_count(t->world));
    if (parallel_is_sharded(&options->pipeline.parallel) && options->pipeline.keep_gradients)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "gradients with %s: no rank has all of them; keep them with a ddp mode",
                         parallel_format(&options->pipeline.parallel).text);
    return compare_ranks(o, options, t);
}

static dyno_status open_trainer(const dyno_trainer_options *o, dyno_trainer *t) {
    step_options options = {.config = t->model->config};
    RETURN_IF_FAILED(set_options(o, &options));
    if (o->parallel)
        RETURN_IF_FAILED(join_ranks(o, &options, t));
    t->on_nonfinite = options.pipeline.optimizer.on_nonfinite;
    if (o->memory_bytes < 0)
        return dyno_fail(DYNO_INVALID, "memory_bytes is %lld, it must be 0 or more",
                         (long long)o->memory_bytes);
    RETURN_IF_FAILED(device_open_as(o->device ? o->device : "auto", o->target, &t->d));
    options.pipeline.target = &t->d->target;
    t->rows = options.batch * options.context * options.pipeline.micro_batches;
    int64_t memory = o->memory_bytes ? o->memory_bytes : t->d->functions->available_bytes(t->d);
    bool has_ranks = t->world && world_count(t->world) > 1;
    if (!has_ranks)
        return trainer_create(t->d, &options, memory, &t->inner);
    RETURN_IF_FAILED(ranks_create_communicator(t->world, t->d, &t->ranks));
    dyno_status status = trainer_create_on(t->ranks, t->d, &options, memory, &t->inner);
    RETURN_IF_FAILED(world_agree(t->world, status));
    world_set_phase(t->world, "loading the model");
    return DYNO_OK;
}

static dyno_status load_weights(dyno_trainer *t, const hf_directory *source) {
    storage *s = trainer_storage(t->inner);
    if (t->on_nonfinite == NONFINITE_IGNORE)
        return weights_load(s, source);
    dyno_status status = weights_load_finite(s, source);
    return status == DYNO_NOT_FINITE
               ? dyno_fail_within(status, "loading the model (--on-nan ignore loads it as it is)")
               : status;
}

/* Weights are read from `source`, or drawn where it is NULL. */
static dyno_status create(const model_config *config, const hf_directory *source, uint64_t seed,
                          const dyno_trainer_options *options, dyno_trainer **out) {
    dyno_trainer_options known = {0};
    RETURN_IF_FAILED(options_take("dyno_trainer_options", options, &known, sizeof known));
    dyno_trainer *t = memory_allocate(1, sizeof *t);
    t->model = api_model_create(config);
    dyno_status status = open_trainer(&known, t);
    if (status == DYNO_OK)
        status = source ? load_weights(t, source)
                        : weights_init(trainer_storage(t->inner), config, seed);
    status = world_conclude(t->world, status);
    if (status == DYNO_OK)
        *out = t;
    else
        dyno_trainer_destroy(t);
    return status;
}

dyno_status dyno_trainer_create(const dyno_model *model, uint64_t seed,
                                const dyno_trainer_options *options, dyno_trainer **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(model, options);
    return status_conclude(create(&model->config, NULL, seed, options, out));
}

dyno_status dyno_trainer_load(const char *directory, const dyno_trainer_options *options,
                              dyno_trainer **out) {
    RETURN_IF_NULL(out);
    *out = NULL;
    RETURN_IF_NULL(directory, options);
    hf_directory *source;
    RETURN_IF_FAILED(hf_directory_open(directory, &source));
    dyno_status status = create(hf_directory_config(source), source, 0, options, out);
    if (status == DYNO_OK)
        (*out)->companions = hf_directory_take_companions(source);
    hf_directory_close(source);
    return status_conclude(status);
}

void dyno_trainer_destroy(dyno_trainer *t) {
    if (!t)
        return;
    trainer_destroy(t->inner);
    communicator_destroy(t->ranks);
    device_close(t->d);
    hf_companions_destroy(t->companions);
    dyno_model_destroy(t->model);
    free(t);
}

const dyno_model *dyno_trainer_model(const dyno_trainer *t) { return t ? t->model : NULL; }

/* ---- steps ---- */

static dyno_status check_ids(const dyno_trainer *t, const char *what, const int32_t *ids) {
    int64_t vocab = t->model->config.vocab;
    for (int64_t i = 0; i < t->rows; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return dyno_fail(DYNO_INVALID, "%s[%lld] is %d, outside the vocabulary of %lld", what,
                             (long long)i, ids[i], (long long)vocab);
    return DYNO_OK;
}

static dyno_status check_running(const dyno_trainer *t, bool wanted) {
    if (t->is_running == wanted)
        return DYNO_OK;
    return dyno_fail(DYNO_INVALID, wanted ? "no step was started; call dyno_trainer_start first"
                                          : "a step is under way; call dyno_trainer_finish first");
}

dyno_status dyno_trainer_give(dyno_trainer *t, const int32_t *tokens, const int32_t *targets) {
    RETURN_IF_NULL(t, tokens, targets);
    RETURN_IF_FAILED(check_ids(t, "tokens", tokens));
    RETURN_IF_FAILED(check_ids(t, "targets", targets));
    return status_conclude(trainer_give(t->inner, tokens, targets));
}

dyno_status dyno_trainer_start(dyno_trainer *t, double learning_rate) {
    RETURN_IF_NULL(t);
    RETURN_IF_FAILED(check_running(t, false));
    RETURN_IF_FAILED(options_check_real("lr", learning_rate));
    if (t->world)
        world_set_phase(t->world, "a step");
    dyno_status status = trainer_start(t->inner, learning_rate);
    t->is_running = status == DYNO_OK;
    return status_conclude(world_conclude(t->world, status));
}

dyno_status dyno_trainer_finish(dyno_trainer *t, float *loss) {
    RETURN_IF_NULL(t, loss);
    RETURN_IF_FAILED(check_running(t, true));
    t->is_running = false;
    return status_conclude(world_conclude(t->world, trainer_finish(t->inner, loss)));
}

dyno_status dyno_trainer_step(dyno_trainer *t, const int32_t *tokens, const int32_t *targets,
                              double learning_rate, float *loss) {
    RETURN_IF_NULL(t, tokens, targets, loss);
    RETURN_IF_FAILED(check_running(t, false));
    RETURN_IF_FAILED(dyno_trainer_give(t, tokens, targets));
    RETURN_IF_FAILED(dyno_trainer_start(t, learning_rate));
    return dyno_trainer_finish(t, loss);
}

dyno_status dyno_trainer_evaluate(dyno_trainer *t, const int32_t *tokens, const int32_t *targets,
                                  float *loss, float *logits) {
    RETURN_IF_NULL(t, tokens, targets, loss);
    RETURN_IF_FAILED(check_running(t, false));
    RETURN_IF_FAILED(check_ids(t, "tokens", tokens));
    RETURN_IF_FAILED(check_ids(t, "targets", targets));
    return status_conclude(
        world_conclude(t->world, trainer_evaluate(t->inner, tokens, targets, loss, logits)));
}

bool dyno_trainer_skipped(const dyno_trainer *t) { return t && trainer_skipped(t->inner); }

dyno_status dyno_trainer_check(const dyno_trainer *t) {
    RETURN_IF_NULL(t);
    RETURN_IF_FAILED(check_running(t, false));
    return status_conclude(trainer_check_weights(t->inner));
}

/* ---- numbers by name ---- */

/* Fails unless there is something of that name and size. *parameter has a name when it is one. */
static dyno_status find(const dyno_trainer *t, const char *name, int64_t count,
                        model_parameter *parameter) {
    *parameter = (model_parameter){0};
    RETURN_IF_FAILED(check_running(t, false));
    tensor made = trainer_find(t->inner, name);
    const dyno_tensor *of_model = api_model_find(t->model, name);
    if (of_model)
        *parameter = model_parameter_at(&t->model->config, (int)(of_model - t->model->parameters));
    else if (!made.data || made.type != DTYPE_F32)
        return dyno_fail(DYNO_NOT_FOUND,
                         "the trainer has no '%s': it is neither a parameter nor an output of the "
                         "last step that is kept; see keeps_logits and keeps_gradients",
                         text_quote(name).text);
    int64_t elements = shape_elements(of_model ? &parameter->shape : &made.shape);
    if (count != elements)
        return dyno_fail(DYNO_INVALID, "'%s' has %lld elements, %lld are asked for", name,
                         (long long)elements, (long long)count);
    return DYNO_OK;
}

dyno_status dyno_trainer_read(const dyno_trainer *t, const char *name, float *to, int64_t count) {
    model_parameter parameter;
    RETURN_IF_NULL(t, name, to);
    RETURN_IF_FAILED(find(t, name, count, &parameter));
    return status_conclude(parameter.name[0]
                               ? weight_read(trainer_storage(t->inner), &parameter, to)
                               : trainer_read(t->inner, name, to, count * (int64_t)sizeof *to));
}

dyno_status dyno_trainer_write(dyno_trainer *t, const char *name, const float *from,
                               int64_t count) {
    model_parameter parameter;
    RETURN_IF_NULL(t, name, from);
    RETURN_IF_FAILED(find(t, name, count, &parameter));
    if (!parameter.name[0])
        return dyno_fail(DYNO_INVALID, "'%s' is an output; only parameters can be written", name);
    return status_conclude(weight_write(trainer_storage(t->inner), &parameter, from));
}

dyno_status dyno_trainer_save_as(const dyno_trainer *t, const char *directory,
                                 const dyno_save_options *options) {
    RETURN_IF_NULL(t, directory, options);
    dyno_save_options known = {0};
    RETURN_IF_FAILED(options_take("dyno_save_options", options, &known, sizeof known));
    RETURN_IF_FAILED(check_running(t, false));
    if (t->on_nonfinite != NONFINITE_IGNORE)
        RETURN_IF_FAILED(trainer_check_weights(t->inner));
    hf_write_options how = {
        .companions = t->companions, .is_new = !known.replaces, .note = known.note};
    storage *s = trainer_storage(t->inner);
    if (t->world)
        world_set_phase(t->world, "saving the model");
    bool is_writer = !t->ranks || communicator_rank(t->ranks) == 0;
    dyno_status status = is_writer ? weights_save_as(s, &t->model->config, directory, &how)
                                   : weights_offer(s, &t->model->config);
    return status_conclude(world_conclude(t->world, status));
}

dyno_status dyno_trainer_save(const dyno_trainer *t, const char *directory) {
    RETURN_IF_NULL(t, directory);
    return dyno_trainer_save_as(
        t, directory, &(dyno_save_options){.size = sizeof(dyno_save_options), .replaces = true});
}

const char *dyno_trainer_left_out(const dyno_trainer *t) {
    return t && t->companions ? t->companions->left_out : "";
}
