#include "support/pass_plan.h"

#include <stdio.h>
#include <stdlib.h>

#include "compiler/lower/lower.h"
#include "compiler/passes/autodiff.h"
#include "compiler/passes/mark_saved.h"
#include "compiler/passes/rematerialize.h"
#include "graph/verify.h"
#include "model/transformer.h"
#include "plan/memory_plan.h"
#include "train/step_plan.h"

static void expect(dyno_status status) {
    if (status == DYNO_OK)
        return;
    fprintf(stderr, "%s\n", dyno_error_message());
    abort();
}

static void append_backward(graph *g, const pass_options *options) {
    expect(autodiff_append_backward(g, options->keep_all || options->extent == STEP_BACKWARD));
    expect(mark_saved_activations(g));
    expect(graph_verify(g));
    if (options->rematerialize)
        expect(
            rematerialize_apply(g, &(rematerialize_options){.is_everywhere = true, .blocks = 2}));
    expect(graph_verify(g));
    expect(recompute_apply(g, &options->recompute));
    expect(graph_verify(g));
}

plan *pass_plan(const model_config *config, int64_t batch, int64_t context,
                const pass_options *options) {
    transformer_options sizes = {
        .batch = batch, .context = context, .keep_logits = options->keep_all};
    graph *g;
    expect(transformer_build(config, &sizes, &g));
    expect(precision_apply(g, options->precision));
    if (options->extent != STEP_FORWARD)
        append_backward(g, options);
    if (options->extent == STEP_FULL) {
        optimizer_options optimizer = step_default_optimizer();
        optimizer.clip_norm = 1;
        expect(optimizer_append_adamw(g, &optimizer));
    }
    expect(graph_verify(g));
    plan *p;
    expect(lower_graph(g, BACKEND_CPU, &p));
    graph_destroy(g);
    if (options->is_static)
        memory_plan_apply(p);
    return p;
}
