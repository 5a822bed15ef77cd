#include "experiments/step_variant.h"

#include <stdlib.h>

#include "base/memory.h"
#include "measure/keys.h"
#include "ops/attention/attention.h"

dyno_status step_variant_parse(const char *mode, const char *math, const char *attention,
                               const char *recompute, const char *gradients, step_variant *out) {
    *out = (step_variant){0}; /* the first of each is its default */
    RETURN_IF_FAILED(parallel_parse(PARALLEL_USUAL, &out->parallel));
    if (mode)
        RETURN_IF_FAILED(step_mode_parse(mode, &out->mode));
    if (math)
        RETURN_IF_FAILED(precision_parse(math, &out->precision));
    if (recompute)
        RETURN_IF_FAILED(recompute_parse(recompute, &out->recompute));
    if (attention)
        RETURN_IF_FAILED(attention_way_parse(attention, &out->attention));
    out->has_attention = attention != NULL;
    out->has_gradients = gradients != NULL;
    return gradients ? gradients_parse(gradients, &out->gradients) : DYNO_OK;
}

dyno_status step_variants_resolve(const flags *given, step_variant **out, int *count) {
    *out = NULL;
    int modes, precisions, recomputes, ways;
    const char *const *mode = flags_text_list(given, "mode", &modes);
    const char *const *type = flags_text_list(given, "precision", &precisions);
    const char *const *recompute = flags_text_list(given, "recompute", &recomputes);
    const char *const *way = flags_text_list(given, "attention", &ways);
    const char *gradients =
        flags_is_set(given, "gradients") ? flags_text(given, "gradients") : NULL;
    bool has_ways = flags_is_set(given, "attention");
    if (!has_ways)
        ways = 1;
    int parallels;
    const char *const *parallel = flags_text_list(given, "parallel", &parallels);
    int64_t all = (int64_t)modes * precisions * recomputes * ways * parallels;
    step_variant *variants = memory_allocate((size_t)all, sizeof *variants);
    dyno_status status = DYNO_OK;
    for (int64_t i = 0; i < all && status == DYNO_OK; i++) {
        int64_t rest = i / parallels, w = rest % ways, r = rest / ways % recomputes;
        int64_t p = rest / ways / recomputes % precisions;
        int64_t m = rest / ways / recomputes / precisions;
        status = step_variant_parse(mode[m], type[p], has_ways ? way[w] : NULL, recompute[r],
                                    gradients, &variants[i]);
        if (status == DYNO_OK)
            status = parallel_parse(parallel[i % parallels], &variants[i].parallel);
    }
    if (status != DYNO_OK) {
        free(variants);
        return status;
    }
    *out = variants;
    *count = (int)all;
    return DYNO_OK;
}

static bool is_low(precision p) { return precision_low_type(p) != DTYPE_F32; }

dyno_status step_variant_settle(const step_variant *asked, const model_config *config,
                                step_variant *out) {
    *out = *asked;
    bool is_eager = asked->mode == STEP_EAGER, is_wide = config->head_dim > ATTENTION_MAX_HEAD_DIM;
    if (!asked->has_attention)
        out->attention = is_eager || is_wide ? ATTENTION_NAIVE : ATTENTION_FLASH;
    if (out->attention == ATTENTION_FLASH && is_eager)
        return dyno_fail(
            DYNO_INVALID,
            "attention flash in mode eager: an eager step has the model's own small "
            "ops, which are naive attention; use --mode compiled or --attention naive");
    if (out->attention == ATTENTION_FLASH && is_wide)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "attention flash: the head size is %lld, the kernels stop at %d; use more "
                         "heads or --attention naive",
                         (long long)config->head_dim, ATTENTION_MAX_HEAD_DIM);
    if (asked->has_gradients && asked->gradients == GRADIENTS_LOW && is_eager &&
        is_low(asked->precision))
        return dyno_fail(DYNO_INVALID,
                         "gradients low in mode eager: an eager step in %s has gradients in fp32; "
                         "use --mode compiled or --gradients fp32",
                         precision_name(asked->precision));
    return DYNO_OK;
}

dyno_status step_variant_check_label(const step_variant *variant, const model_config *config,
                                     step_extent extent) {
    if (variant->recompute.mode == RECOMPUTE_NONE)
        return DYNO_OK;
    RETURN_IF_FAILED(recompute_check(&variant->recompute, config->layers));
    recompute_text level = recompute_format(&variant->recompute);
    if (extent == STEP_FORWARD)
        return dyno_fail(
            DYNO_INVALID,
            "recompute %s of a forward alone: only a backward computes anything again; "
            "use --pass forward+backward or step, or --recompute none",
            level.text);
    if (config->layers == 1)
        return dyno_fail(
            DYNO_INVALID,
            "recompute %s of a model with 1 block: the last block is never recomputed, "
            "because its backward follows at once; use --recompute none",
            level.text);
    return DYNO_OK;
}

void step_variant_apply(const step_variant *variant, pipeline_options *options) {
    options->mode = variant->mode;
    options->precision = variant->precision;
    options->attention = variant->attention;
    options->recompute = variant->recompute;
    options->gradients = variant->gradients;
    options->parallel.mode = variant->parallel.mode;
    options->parallel.bucket_bytes = variant->parallel.bucket_bytes;
}

void step_variant_describe(const step_variant *variant, results_cell *cell) {
    cell_set_text(cell, PARAM_MODE, step_mode_name(variant->mode));
    cell_set_text(cell, PARAM_MATH, precision_name(variant->precision));
    cell_set_text(cell, PARAM_ATTENTION, attention_way_name(variant->attention));
    cell_set_text(cell, PARAM_RECOMPUTE, recompute_format(&variant->recompute).text);
    bool are_low = variant->mode == STEP_COMPILED && variant->gradients == GRADIENTS_LOW &&
                   is_low(variant->precision);
    cell_set_text(cell, PARAM_GRADIENTS,
                  precision_name(are_low ? variant->precision : PRECISION_FP32));
}
