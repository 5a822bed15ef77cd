#include "experiments/step_variant.h"

#include <stdlib.h>

#include "base/memory.h"
#include "measure/keys.h"

dyno_status step_variant_parse(const char *mode, const char *math, const char *attention,
                               const char *recompute, const char *gradients, step_variant *out) {
    *out = (step_variant){0}; /* the first of each is its default */
    if (mode)
        RETURN_IF_FAILED(step_mode_parse(mode, &out->mode));
    if (math)
        RETURN_IF_FAILED(precision_parse(math, &out->precision));
    if (recompute)
        RETURN_IF_FAILED(recompute_parse(recompute, &out->recompute));
    if (attention)
        RETURN_IF_FAILED(attention_way_parse(attention, &out->attention));
    if (out->mode == STEP_EAGER)
        out->attention = ATTENTION_NAIVE;
    return gradients ? gradients_parse(gradients, &out->gradients) : DYNO_OK;
}

/* Eager mode has one way to compute attention, whatever is listed. */
dyno_status step_variants_resolve(const flags *given, step_variant **out, int *count) {
    *out = NULL;
    int modes, precisions, recomputes, ways, made = 0;
    const char *const *mode = flags_text_list(given, "mode", &modes);
    const char *const *type = flags_text_list(given, "precision", &precisions);
    const char *const *recompute = flags_text_list(given, "recompute", &recomputes);
    const char *const *way = flags_text_list(given, "attention", &ways);
    const char *gradients = flags_text(given, "gradients");
    int64_t most = (int64_t)modes * precisions * recomputes * ways;
    step_variant *variants = memory_allocate((size_t)most, sizeof *variants);
    dyno_status status = DYNO_OK;
    for (int64_t i = 0; i < most && status == DYNO_OK; i++) {
        int64_t w = i % ways, r = i / ways % recomputes, p = i / ways / recomputes % precisions;
        int64_t m = i / ways / recomputes / precisions;
        status =
            step_variant_parse(mode[m], type[p], way[w], recompute[r], gradients, &variants[made]);
        made += variants[made].mode != STEP_EAGER || w == 0;
    }
    if (status != DYNO_OK) {
        free(variants);
        return status;
    }
    *out = variants;
    *count = made;
    return DYNO_OK;
}

void step_variant_apply(const step_variant *variant, pipeline_options *options) {
    options->mode = variant->mode;
    options->precision = variant->precision;
    options->attention = variant->attention;
    options->recompute = variant->recompute;
    options->gradients = variant->gradients;
}

void step_variant_describe(const step_variant *variant, results_cell *cell) {
    cell_set_text(cell, PARAM_MODE, step_mode_name(variant->mode));
    cell_set_text(cell, PARAM_MATH, precision_name(variant->precision));
    cell_set_text(cell, PARAM_ATTENTION, attention_way_name(variant->attention));
    cell_set_text(cell, PARAM_RECOMPUTE, recompute_format(&variant->recompute).text);
    bool are_low = variant->mode == STEP_COMPILED && variant->gradients == GRADIENTS_LOW &&
                   precision_low_type(variant->precision) != DTYPE_F32;
    cell_set_text(cell, PARAM_GRADIENTS,
                  precision_name(are_low ? variant->precision : PRECISION_FP32));
}
