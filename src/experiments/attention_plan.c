#include "experiments/attention_plan.h"

#include <string.h>

#include "base/rng.h"
#include "base/threads.h"
#include "base/units.h"
#include "ops/attention/attention.h"
#include "ops/op_list.h"
#include "train/step_plan.h"

static dyno_status make_plan(const attention_plan_options *options, bool is_flash, plan **out) {
    *out = NULL;
    if (options->extent == STEP_FULL)
        return dyno_fail(DYNO_INVALID, "attention alone has no weights to optimize: its passes are "
                                       "forward and forward+backward");
    attention_options alone = {.shape = options->shape,
                               .is_causal = options->is_causal,
                               .has_gradient = options->extent == STEP_BACKWARD,
                               .is_flash = is_flash,
                               .low = precision_low_type(options->precision)};
    pipeline_options pipeline = {
        .extent = options->extent,
        .mode = options->mode,
        .attention = ATTENTION_NAIVE,
        .precision = options->precision,
        .target = options->target,
        .is_unfused = must_be_unfused(options->mode, options->target),
        .kernels = {.wishes = {{&op_attention, options->forward},
                               {&op_attention_gradient, options->backward}},
                    .tuning = options->tuning}};
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

typedef struct filling {
    tensor to; /* dense */
    rng_stream random;
} filling;

static void fill_range(void *context, int64_t begin, int64_t end) {
    const filling *f = context;
    for (int64_t i = begin; i < end; i++)
        dtype_store(f->to.type, f->to.data, i, rng_truncated_normal(f->random, (uint64_t)i));
}

/* Drawing takes longer than most that is measured with the numbers: beyond a prime number of them,
 * which no row begins at twice in a row, they are repeated. */
static void fill(filling *f) {
    enum { DRAWN = 1048583 };
    int64_t count = shape_elements(&f->to.shape), size = dtype_bytes(f->to.type);
    char *data = f->to.data;
    threads_for(count < DRAWN ? count : DRAWN, 1 << 14, fill_range, f);
    for (int64_t at = DRAWN; at < count; at += DRAWN) {
        int64_t part = count - at < DRAWN ? count - at : DRAWN;
        memcpy(data + at * size, data, (size_t)(part * size));
    }
}

dyno_status attention_fill(executor *e, uint64_t seed) {
    static const char *const names[] = {"Q", "K", "V", "dO"};
    for (int i = 0; i < 4; i++) {
        tensor t = executor_find(e, names[i]);
        if (!t.data)
            continue;
        filling f = {.to = t, .random = rng_stream_init(seed, rng_hash_name(names[i]))};
        f.to.data = executor_place(e, names[i]);
        if (!f.to.data)
            return dyno_fail(DYNO_OUT_OF_MEMORY, "the host has no %s to draw %s in",
                             units_bytes(tensor_bytes(&t)).text, names[i]);
        fill(&f);
        executor_put(e, names[i], f.to.data);
    }
    return DYNO_OK;
}
