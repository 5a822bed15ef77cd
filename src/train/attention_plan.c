#include "train/attention_plan.h"

#include "base/rng.h"
#include "base/units.h"
#include "ops/attention/attention.h"

static dyno_status make_plan(const attention_plan_options *options, bool is_flash, plan **out) {
    *out = NULL;
    if (options->pass == STEP_FULL)
        return dyno_fail(DYNO_INVALID, "attention alone has no weights to optimize: its passes are "
                                       "forward and forward+backward");
    attention_options alone = {.shape = options->shape,
                               .is_causal = options->is_causal,
                               .has_loss = options->pass == STEP_BACKWARD,
                               .is_flash = is_flash};
    pipeline_options pipeline = {.pass = options->pass,
                                 .mode = options->mode,
                                 .attention = ATTENTION_NAIVE,
                                 .precision = options->precision,
                                 .target = options->target};
    graph *g;
    RETURN_IF_FAILED(attention_build(&alone, &g));
    dyno_status status = pipeline_compile(g, &pipeline, out);
    graph_destroy(g);
    return status;
}

dyno_status attention_plan_naive(const attention_plan_options *options, plan **out) {
    return make_plan(options, false, out);
}

dyno_status attention_plan_flash(const attention_plan_options *options, plan **out) {
    *out = NULL;
    if (options->shape.head_dim > ATTENTION_MAX_HEAD_DIM)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "flash attention: the head size is %lld, the kernels stop at %d; make it "
                         "smaller or use naive attention",
                         (long long)options->shape.head_dim, ATTENTION_MAX_HEAD_DIM);
    return make_plan(options, true, out);
}

dyno_status attention_fill(executor *e, uint64_t seed) {
    static const char *const names[] = {"Q", "K", "V", "dO"};
    for (int i = 0; i < 4; i++) {
        tensor t = executor_find(e, names[i]);
        if (!t.data)
            continue;
        rng_stream random = rng_stream_init(seed, rng_hash_name(names[i]));
        int64_t count = shape_elements(&t.shape);
        float *numbers = executor_place(e, names[i]);
        if (!numbers)
            return dyno_fail(DYNO_OUT_OF_MEMORY, "the host has no %s to draw %s in",
                             units_bytes(tensor_bytes(&t)).text, names[i]);
        for (int64_t j = 0; j < count; j++)
            numbers[j] = (float)rng_truncated_normal(random, (uint64_t)j);
        executor_put(e, names[i], numbers);
    }
    return DYNO_OK;
}
