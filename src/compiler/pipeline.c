/* pipeline.c - one line per pass. Reading the table is reading the architecture.
 *
 * Passes rewrite the graph until `lower` makes a plan of it, then the plan; the verifier of the one
 * or the other runs after each. */
#include "compiler/pipeline.h"

#include <string.h>

#include "base/choice.h"
#include "base/stop.h"
#include "compiler/codegen/fused_kernel.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/autodiff.h"
#include "compiler/passes/common_subexpressions.h"
#include "compiler/passes/dead_code.h"
#include "compiler/passes/fold_casts.h"
#include "compiler/passes/fold_rope.h"
#include "compiler/passes/fold_rope_gradient.h"
#include "compiler/passes/fuse.h"
#include "compiler/passes/gather_sums.h"
#include "compiler/passes/low_copies.h"
#include "compiler/passes/mark_saved.h"
#include "compiler/passes/merge_products.h"
#include "compiler/passes/rematerialize.h"
#include "compiler/passes/repeat_sums.h"
#include "compiler/passes/schedule_groups.h"
#include "compiler/passes/shard.h"
#include "compiler/passes/split_sums.h"
#include "compiler/passes/swap_attention.h"
#include "compiler/passes/swap_loss_head.h"
#include "graph/graph_text.h"
#include "graph/verify.h"
#include "plan/memory_plan.h"
#include "plan/plan_text.h"
#include "plan/plan_verify.h"

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

CHOICE_FUNCTIONS(gradients_type, gradients, "type of gradients", GRADIENTS_CHOICES, "low", "fp32")
CHOICE_FUNCTIONS(step_mode, step_mode, "mode", STEP_MODE_CHOICES, "eager", "compiled")
CHOICE_FUNCTIONS(attention_way, attention_way, "attention", ATTENTION_WAY_CHOICES, "flash", "naive")

/* ---- the passes, with the options that each uses ---- */

/* What is being compiled: a graph, and from `lower` on a plan. */
typedef struct compilation {
    graph *g;
    plan *p;
    const pipeline_options *options;
} compilation;

static dyno_status run_build(compilation *c) {
    return graph_status(c->g); /* the model's forward; the verifier sees it here first */
}

static dyno_status run_merge_products(compilation *c) {
    return merge_products(c->g, c->options->attention == ATTENTION_FLASH);
}

static dyno_status run_precision(compilation *c) {
    RETURN_IF_FAILED(precision_check(c->options->precision, c->options->target));
    return precision_apply(c->g, c->options->precision);
}

static dyno_status run_attention(compilation *c) {
    return c->options->attention == ATTENTION_FLASH ? swap_attention(c->g) : DYNO_OK;
}

static dyno_status run_rope(compilation *c) { return fold_rope(c->g, c->options->target); }

static step_part part_of(const pipeline_options *options) {
    return (step_part){options->micro_batches, options->parallel.ranks,
                       parallel_is_sharded(&options->parallel)};
}

static dyno_status run_autodiff(compilation *c) {
    bool keeps_gradients = c->options->keep_gradients || c->options->extent == STEP_BACKWARD;
    step_part part = part_of(c->options);
    RETURN_IF_FAILED(
        autodiff_append_backward_of_share(c->g, keeps_gradients, step_part_share(&part)));
    return mark_saved_activations(c->g);
}

static dyno_status run_fold_casts(compilation *c) {
    return fold_casts(c->g, c->options->gradients == GRADIENTS_F32);
}

static dyno_status run_low_copies(compilation *c) { return low_copies_bind(c->g); }

static dyno_status run_split_weights(compilation *c) {
    low_copies_split(c->g);
    return DYNO_OK;
}

static dyno_status run_rope_gradient(compilation *c) {
    return fold_rope_gradient(c->g, c->options->target);
}

static dyno_status run_loss_head(compilation *c) {
    return c->options->is_head_whole ? DYNO_OK : swap_loss_head(c->g, c->options->target);
}

static dyno_status run_tf32(compilation *c) {
    precision_allow_tf32(c->g, c->options->precision);
    return DYNO_OK;
}

static dyno_status run_rematerialize(compilation *c) {
    /* A recomputed block starts from its own input. */
    enum { BLOCKS = 2 };
    const recompute_options *recompute = &c->options->recompute;
    bool is_mlp = recompute->mode == RECOMPUTE_MLP;
    rematerialize_options how = {
        .is_everywhere = c->options->mode == STEP_COMPILED,
        .blocks = is_mlp || recompute->mode == RECOMPUTE_NONE ? BLOCKS : 1,
        .mlp_every = is_mlp ? recompute->every : 0,
    };
    return how.is_everywhere || is_mlp ? rematerialize_apply(c->g, &how) : DYNO_OK;
}

static dyno_status run_recompute(compilation *c) {
    return recompute_apply(c->g, &c->options->recompute);
}

static bool is_one_part(const pipeline_options *options) {
    return options->micro_batches == 1 && options->parallel.ranks == 1;
}

static dyno_status run_accumulate(compilation *c) {
    step_part part = part_of(c->options);
    return is_one_part(c->options) ? DYNO_OK : accumulate_gradients(c->g, &part);
}

static dyno_status run_parallel(compilation *c) {
    const parallel_options *how = &c->options->parallel;
    if (how->ranks == 1)
        return DYNO_OK;
    return parallel_is_sharded(how) ? shard_parameters(c->g, how) : parallel_insert(c->g, how);
}

static dyno_status run_gather(compilation *c) {
    return shard_gather_updates(c->g, &c->options->parallel);
}

static dyno_status run_optimizer(compilation *c) {
    optimizer_options how = c->options->optimizer;
    how.is_of_sums = !is_one_part(c->options);
    if (parallel_is_sharded(&c->options->parallel))
        how.ranks = c->options->parallel.ranks;
    how.by_block = how.by_block || c->options->mode == STEP_COMPILED;
    return optimizer_append_adamw(c->g, &how);
}

static dyno_status run_common_subexpressions(compilation *c) {
    return common_subexpressions_merge(c->g);
}

static dyno_status run_dead_code(compilation *c) { return dead_code_drop(c->g); }

static bool is_fused(const pipeline_options *options) {
    return options->mode == STEP_COMPILED && !options->is_unfused;
}

static dyno_status run_split_sums(compilation *c) { return split_sums(c->g, c->options->target); }

static dyno_status run_gather_sums(compilation *c) {
    gather_sums(c->g);
    return graph_status(c->g);
}

static dyno_status run_fuse(compilation *c) {
    if (is_fused(c->options))
        return fuse_groups(c->g, c->options->target);
    return renderer_of(c->options->target)->takes_each_node ? fuse_each(c->g) : DYNO_OK;
}

static dyno_status run_repeat_sums(compilation *c) {
    repeat_sums(c->g);
    return graph_status(c->g);
}

static dyno_status run_schedule(compilation *c) { return schedule_groups(c->g); }

static dyno_status run_lower(compilation *c) {
    lower_options how = {.is_placed = c->options->mode == STEP_COMPILED,
                         .kernels = &c->options->kernels};
    return lower_graph_with(c->g, c->options->target, &how, &c->p);
}

static dyno_status run_streams(compilation *c) {
    if (target_is_cuda(c->options->target))
        lower_streams(c->p);
    return DYNO_OK;
}

static dyno_status run_overlap(compilation *c) {
    lower_overlap(c->p);
    return DYNO_OK;
}

static dyno_status run_memory(compilation *c) {
    memory_plan_apply(c->p);
    return DYNO_OK;
}

/* ---- the list ---- */

/* The steps that a pass is for; of a combination all must hold. */
enum {
    EVERY = 0,
    COMPILED = 1,
    FUSED = 2,
    BACKWARD = 4, /* steps that have one */
    UPDATE = 8    /* steps that end with the optimizer */
};

static const struct {
    const char *name;
    int steps;
    dyno_status (*run)(compilation *c);
} passes[] = {
    /* on the graph */
    {"build", EVERY, run_build},                      /* the model's forward, as it came */
    {"merge-products", COMPILED, run_merge_products}, /* one product for q, k and v */
    {"precision", EVERY, run_precision},              /* casts by a policy per op */
    {"attention", COMPILED, run_attention},           /* one op, the scores never exist together */
    {"rope", COMPILED, run_rope},                     /* attention rotates, where its kernels can */
    {"autodiff", BACKWARD, run_autodiff},             /* gradients of every parameter */
    {"fold-casts", COMPILED, run_fold_casts},         /* casts that need no launch */
    {"low-copies", COMPILED, run_low_copies},         /* of weights, kept across steps */
    {"split-weights", COMPILED, run_split_weights},   /* bf16: the low copy is half of the weight */
    {"rope-gradient", COMPILED, run_rope_gradient},   /* at least attention's gradient rotates */
    {"loss-head", COMPILED, run_loss_head},           /* in chunks of tokens */
    {"tf32", EVERY, run_tf32},                        /* behind it come only copies of products */
    {"rematerialize", BACKWARD, run_rematerialize},   /* element-wise work again; MLPs, if asked */
    {"recompute", BACKWARD, run_recompute},           /* activation checkpointing */
    {"accumulate", EVERY, run_accumulate},            /* gradients summed over micro-batches */
    {"parallel", EVERY, run_parallel},                /* collectives over ranks */
    {"optimizer", UPDATE, run_optimizer},             /* clipping and AdamW */
    {"gather-updates", UPDATE, run_gather},           /* zero1: what each rank updated, to all */
    {"common-subexpressions", COMPILED, run_common_subexpressions},
    {"dead-code", COMPILED, run_dead_code},
    {"split-sums", FUSED, run_split_sums},   /* column sums in two, the first fused with others */
    {"gather-sums", FUSED, run_gather_sums}, /* the second halves, several in one launch */
    {"fuse", EVERY, run_fuse},               /* groups of nodes that become one kernel each */
    {"repeat-sums", FUSED, run_repeat_sums}, /* sums added twice rather than written and read */
    {"schedule", FUSED, run_schedule},       /* an order in which groups are whole */
    /* from the graph to a plan */
    {"lower", EVERY, run_lower}, /* launches, their kernels and variants, and buffers */
    /* on the plan */
    {"streams", EVERY, run_streams},  /* GPU: updates beside the backward */
    {"overlap", EVERY, run_overlap},  /* collectives beside computation */
    {"memory", COMPILED, run_memory}, /* an offset in one arena for each buffer */
};
enum { PASS_COUNT = sizeof passes / sizeof *passes };

const char *pipeline_pass_name(int index) { return index < PASS_COUNT ? passes[index].name : NULL; }

static int steps_of(const pipeline_options *options) {
    return (options->mode == STEP_COMPILED ? COMPILED : 0) | (is_fused(options) ? FUSED : 0) |
           (options->extent != STEP_FORWARD ? BACKWARD : 0) |
           (options->extent == STEP_FULL ? UPDATE : 0);
}

static dyno_status run_pass(compilation *c, int index) {
    if ((passes[index].steps & ~steps_of(c->options)) == 0) {
        RETURN_IF_FAILED(passes[index].run(c));
        dyno_status status = DYNO_OK;
        if (!c->options->is_unverified)
            status = c->p ? plan_verify(c->p) : graph_verify(c->g);
        if (status != DYNO_OK)
            return dyno_fail_within(status, "after the pass '%s'", passes[index].name);
    }
    if (c->options->dump_after && strcmp(c->options->dump_after, passes[index].name) == 0) {
        if (c->p)
            plan_print(c->p, c->options->dump);
        else
            graph_print(c->g, c->options->dump);
    }
    return DYNO_OK;
}

dyno_status pipeline_compile(graph *g, const pipeline_options *options, plan **out) {
    pipeline_options with = *options;
    if (!with.target)
        with.target = target_this_cpu();
    with.micro_batches = with.micro_batches ? with.micro_batches : 1;
    with.parallel.ranks = with.parallel.ranks ? with.parallel.ranks : 1;
    compilation c = {.g = g, .options = &with};
    dyno_status status = DYNO_OK;
    for (int i = 0; i < PASS_COUNT && status == DYNO_OK; i++) {
        status = stop_check("planning");
        if (status == DYNO_OK)
            status = run_pass(&c, i);
    }
    *out = status == DYNO_OK ? c.p : NULL;
    if (status != DYNO_OK)
        plan_destroy(c.p);
    return status;
}
