#include "experiments/step_variant.h"

#include <stdlib.h>

#include "base/memory.h"

dyno_status step_variants_resolve(const flags *given, step_variant **out, int *count) {
    *out = NULL;
    int modes, precisions, recomputes, ways, made = 0;
    const char *const *mode = flags_text_list(given, "mode", &modes);
    const char *const *type = flags_text_list(given, "precision", &precisions);
    const char *const *recompute = flags_text_list(given, "recompute", &recomputes);
    const char *const *way = flags_text_list(given, "attention", &ways);
    size_t most = (size_t)modes * (size_t)precisions * (size_t)recomputes * (size_t)ways;
    step_variant *variants = memory_allocate(most, sizeof *variants);
    dyno_status status = DYNO_OK;
    for (int m = 0; m < modes; m++)
        for (int p = 0; p < precisions; p++)
            for (int r = 0; r < recomputes; r++)
                for (int w = 0; w < ways && status == DYNO_OK; w++) {
                    step_variant v;
                    status = step_mode_parse(mode[m], &v.mode);
                    if (status == DYNO_OK)
                        status = precision_parse(type[p], &v.precision);
                    if (status == DYNO_OK)
                        status = recompute_parse(recompute[r], &v.recompute);
                    if (status == DYNO_OK)
                        status = attention_way_parse(way[w], &v.attention);
                    if (status == DYNO_OK)
                        status = gradients_parse(flags_text(given, "gradients"), &v.gradients);
                    if (v.mode == STEP_EAGER)
                        v.attention = ATTENTION_NAIVE;
                    if (v.mode != STEP_EAGER || w == 0)
                        variants[made++] = v;
                }
    if (status != DYNO_OK) {
        free(variants);
        return status;
    }
    *out = variants;
    *count = made;
    return DYNO_OK;
}

dyno_status step_variant_resolve(const flags *given, step_variant *out) {
    step_variant *variants;
    int count;
    RETURN_IF_FAILED(step_variants_resolve(given, &variants, &count));
    *out = variants[0];
    free(variants);
    if (count != 1)
        return dyno_fail(DYNO_INVALID,
                         "--mode, --precision, --attention and --recompute name %d ways to run "
                         "the step; give one of each",
                         count);
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
    cell_set_text(cell, "mode", step_mode_name(variant->mode));
    cell_set_text(cell, "math", precision_name(variant->precision));
    cell_set_text(cell, "attention", attention_way_name(variant->attention));
    cell_set_text(cell, "recompute", recompute_format(&variant->recompute).text);
    bool are_low = variant->mode == STEP_COMPILED && variant->gradients == GRADIENTS_LOW &&
                   precision_low_type(variant->precision) != DTYPE_F32;
    cell_set_text(cell, "gradients", precision_name(are_low ? variant->precision : PRECISION_FP32));
}
