/* pipeline.c - one line per pass. Reading pipeline_compile is reading the architecture. */
#include "compiler/pipeline.h"

#include <string.h>

#include "base/choice.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/autodiff.h"
#include "compiler/passes/common_subexpressions.h"
#include "compiler/passes/dead_code.h"
#include "compiler/passes/fold_casts.h"
#include "compiler/passes/fold_rope.h"
#include "compiler/passes/fold_rope_gradient.h"
#include "compiler/passes/fuse.h"
#include "compiler/passes/low_copies.h"
#include "compiler/passes/mark_saved.h"
#include "compiler/passes/merge_products.h"
#include "compiler/passes/rematerialize.h"
#include "compiler/passes/swap_attention.h"
#include "compiler/passes/swap_loss_head.h"
#include "graph/graph_text.h"
#include "graph/verify.h"
#include "plan/memory_plan.h"

static const char *const extent_names[STEP_EXTENT_COUNT] = {"forward", "forward+backward", "step"};

const char *step_extent_name(step_extent extent) { return extent_names[extent]; }

dyno_status step_extent_parse(const char *name, step_extent *extent) {
    int index = STEP_BACKWARD;
    if (strcmp(name, "backward") != 0)
        RETURN_IF_FAILED(choice_parse("pass", extent_names, STEP_EXTENT_COUNT, STEP_EXTENT_CHOICES,
                                      name, &index));
    *extent = (step_extent)index;
    return DYNO_OK;
}

static const char *const gradient_names[GRADIENTS_COUNT] = {"low", "fp32"};

const char *gradients_name(gradients_type type) { return gradient_names[type]; }

dyno_status gradients_parse(const char *name, gradients_type *type) {
    int index;
    RETURN_IF_FAILED(choice_parse("type of gradients", gradient_names, GRADIENTS_COUNT,
                                  GRADIENTS_CHOICES, name, &index));
    *type = (gradients_type)index;
    return DYNO_OK;
}

static const char *const mode_names[STEP_MODE_COUNT] = {"eager", "compiled"};

const char *step_mode_name(step_mode mode) { return mode_names[mode]; }

dyno_status step_mode_parse(const char *name, step_mode *mode) {
    int index;
    RETURN_IF_FAILED(
        choice_parse("mode", mode_names, STEP_MODE_COUNT, STEP_MODE_CHOICES, name, &index));
    *mode = (step_mode)index;
    return DYNO_OK;
}

static const char *const attention_names[ATTENTION_WAY_COUNT] = {"flash", "naive"};

const char *attention_way_name(attention_way way) { return attention_names[way]; }

dyno_status attention_way_parse(const char *name, attention_way *way) {
    int index;
    RETURN_IF_FAILED(choice_parse("attention", attention_names, ATTENTION_WAY_COUNT,
                                  ATTENTION_WAY_CHOICES, name, &index));
    *way = (attention_way)index;
    return DYNO_OK;
}

static dyno_status run_build(graph *g, const pipeline_options *options) {
    (void)options; /* the model has built the forward; this is where it is first looked at */
    return graph_status(g);
}

static dyno_status run_merge_products(graph *g, const pipeline_options *options) {
    if (options->mode != STEP_COMPILED)
        return DYNO_OK;
    return merge_products(g, options->attention == ATTENTION_FLASH);
}

static dyno_status run_precision(graph *g, const pipeline_options *options) {
    RETURN_IF_FAILED(precision_check(options->precision, options->target));
    return precision_apply(g, options->precision);
}

static dyno_status run_attention(graph *g, const pipeline_options *options) {
    bool is_swapped = options->mode == STEP_COMPILED && options->attention == ATTENTION_FLASH;
    return is_swapped ? swap_attention(g) : DYNO_OK;
}

static dyno_status run_rope(graph *g, const pipeline_options *options) {
    return options->mode == STEP_COMPILED ? fold_rope(g, options->target) : DYNO_OK;
}

static dyno_status run_autodiff(graph *g, const pipeline_options *options) {
    if (options->extent == STEP_FORWARD)
        return DYNO_OK;
    RETURN_IF_FAILED(
        autodiff_append_backward(g, options->keep_gradients || options->extent == STEP_BACKWARD));
    return mark_saved_activations(g);
}

static dyno_status run_casts(graph *g, const pipeline_options *options) {
    if (options->mode != STEP_COMPILED)
        return DYNO_OK;
    RETURN_IF_FAILED(fold_casts(g, options->gradients == GRADIENTS_F32));
    RETURN_IF_FAILED(low_copies_bind(g));
    if (!options->keep_whole_weights)
        low_copies_split(g);
    return DYNO_OK;
}

static dyno_status run_rope_gradient(graph *g, const pipeline_options *options) {
    return options->mode == STEP_COMPILED ? fold_rope_gradient(g, options->target) : DYNO_OK;
}

static dyno_status run_loss_head(graph *g, const pipeline_options *options) {
    if (options->mode == STEP_COMPILED)
        RETURN_IF_FAILED(swap_loss_head(g, options->target));
    precision_allow_tf32(g, options->precision); /* from here on only copies of products come */
    return DYNO_OK;
}

static dyno_status run_rematerialize(graph *g, const pipeline_options *options) {
    if (options->extent == STEP_FORWARD)
        return DYNO_OK;
    /* A block that runs again starts from its own input. */
    enum { BLOCKS = 2 };
    bool is_mlp = options->recompute.mode == RECOMPUTE_MLP;
    rematerialize_options how = {
        .is_everywhere = options->mode == STEP_COMPILED,
        .blocks = is_mlp || options->recompute.mode == RECOMPUTE_NONE ? BLOCKS : 1,
        .mlp_every = is_mlp ? options->recompute.every : 0,
    };
    return how.is_everywhere || is_mlp ? rematerialize_apply(g, &how) : DYNO_OK;
}

static dyno_status run_recompute(graph *g, const pipeline_options *options) {
    if (options->extent == STEP_FORWARD)
        return DYNO_OK;
    return recompute_apply(g, &options->recompute);
}

static dyno_status run_optimizer(graph *g, const pipeline_options *options) {
    if (options->extent != STEP_FULL)
        return DYNO_OK;
    optimizer_options how = options->optimizer;
    how.by_block = how.by_block || (options->mode == STEP_COMPILED && !how.one_launch);
    return optimizer_append_adamw(g, &how);
}

static dyno_status run_simplify(graph *g, const pipeline_options *options) {
    if (options->mode != STEP_COMPILED)
        return DYNO_OK;
    RETURN_IF_FAILED(common_subexpressions_merge(g));
    return dead_code_drop(g);
}

static dyno_status run_fuse(graph *g, const pipeline_options *options) {
    if (options->mode == STEP_COMPILED && !options->is_unfused)
        return fuse_groups(g, options->target);
    return options->target == BACKEND_CUDA ? fuse_each(g) : DYNO_OK;
}

dyno_status pipeline_compile(graph *g, const pipeline_options *options, plan **out) {
    static const struct {
        const char *name;
        dyno_status (*run)(graph *g, const pipeline_options *options);
    } passes[] = {
        {"build", run_build},                   /* the model's forward, as it came */
        {"merge-products", run_merge_products}, /* compiled: one product for q, k and v */
        {"precision", run_precision},           /* casts by a policy per op */
        {"attention", run_attention}, /* compiled: one op, the scores never exist together */
        {"rope", run_rope},           /* compiled: attention rotates, where its kernels can */
        {"autodiff", run_autodiff},   /* gradients of every parameter */
        {"casts", run_casts},         /* compiled: folded; weights' low copies kept across steps */
        {"rope-gradient", run_rope_gradient}, /* compiled: at least its gradient rotates */
        {"loss-head", run_loss_head}, /* compiled: in chunks, all logits never exist together */
        {"rematerialize",
         run_rematerialize},          /* compiled: element-wise work again; MLPs, if asked */
        {"recompute", run_recompute}, /* activation checkpointing */
        {"optimizer", run_optimizer}, /* clipping and AdamW */
        {"simplify", run_simplify},   /* compiled: common subexpressions, dead code */
        {"fuse", run_fuse},           /* groups of nodes that become one kernel each */
    };
    *out = NULL;
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        RETURN_IF_FAILED(passes[i].run(g, options));
        dyno_status status = graph_verify(g);
        if (status != DYNO_OK)
            return dyno_fail_within(status, "after the pass '%s'", passes[i].name);
        if (options->dump_after && strcmp(options->dump_after, passes[i].name) == 0)
            graph_print(g, options->dump);
    }
    bool is_eager = options->mode == STEP_EAGER;
    RETURN_IF_FAILED((is_eager ? lower_graph : lower_graph_placed)(g, options->target, out));
    dyno_status status = choose_tiles(*out, &options->tiles);
    if (status != DYNO_OK) {
        plan_destroy(*out);
        *out = NULL;
    } else if (!is_eager) {
        memory_plan_apply(*out);
    }
    return status;
}
