#include "experiments/scale_step.h"

#include <math.h>

#include "plan/memory_account.h"

/* Bytes of the residual stream of one micro-batch: what tp sums. */
static double residual_bytes(const step_options *o) {
    double element = (double)dtype_bytes(precision_low_type(o->pipeline.precision));
    return (double)(o->batch * o->context * o->config.d_model) * element;
}

/* All-reduces of a block's forward, and of its backward. */
enum { TENSOR_SUMS = 2 };

/* Of one micro-batch's forward, and of its backward. */
static double tensor_ns(const scale_question *asked) {
    const step_options *o = asked->options;
    return (double)(TENSOR_SUMS * o->config.layers) *
           network_collective_ns(asked->network, COLLECTIVE_ALL_REDUCE, residual_bytes(o),
                                 asked->division.group);
}

static double tensor_bytes_sent(const scale_question *asked) {
    const step_options *o = asked->options;
    double sums = 2 * (double)(TENSOR_SUMS * o->config.layers * o->pipeline.micro_batches);
    return asked->division.group == 1
               ? 0
               : sums * residual_bytes(o) *
                     collective_bus_factor(COLLECTIVE_ALL_REDUCE, (int)asked->division.group);
}

/* Each launch takes a part, and those of forward and backward also their share of the sums, in which nothing
 * is computed. */
static void divide_launches(const plan *p, const scale_question *asked, double *launch_ns) {
    double parts = (double)asked->division.group, phase_ns[PHASE_COUNT] = {0};
    if (asked->division.group == 1)
        return;
    for (int i = 0; i < p->launch_count; i++)
        phase_ns[p->launches[i].phase] += launch_ns[i];
    for (int i = 0; i < p->launch_count; i++) {
        phase of = p->launches[i].phase;
        bool has_sums = of == PHASE_FORWARD || of == PHASE_BACKWARD;
        double sums =
            has_sums && phase_ns[of] > 0 ? tensor_ns(asked) * launch_ns[i] / phase_ns[of] : 0;
        launch_ns[i] = launch_ns[i] / parts + sums;
    }
}

/* Weights, gradients, state and values are divided; the residual stream at the two norms of each block is whole
 * on every rank of a group. */
static int64_t memory_of(const plan *p, const scale_question *asked) {
    double all = (double)memory_account_plan(p).reserved_bytes;
    double parts = (double)asked->division.group;
    double whole = 2 * (double)asked->options->config.layers * residual_bytes(asked->options);
    return (int64_t)ceil(fmin(all, all / parts + (1 - 1 / parts) * whole));
}

void scale_step_replay(const plan *p, const scale_question *asked, double *launch_ns,
                       scale_step *out) {
    const step_options *o = asked->options;
    double group = (double)asked->division.group, sums_ns = 2 * tensor_ns(asked);
    network outer = network_between_groups(asked->network, asked->division.group);
    plan_cost cost = plan_total_cost(p, PHASE_COUNT);
    simulate_options replay = {.launch_ns = launch_ns,
                               .issue = asked->host ? SIMULATE_HOST : SIMULATE_STREAMS};
    if (asked->host) {
        scale_share_memory(p, asked->host, launch_ns);
        replay.cores =
            (simulated_cores){asked->host->cores, asked->host->ranks, asked->host->threads};
    }
    divide_launches(p, asked, launch_ns);
    for (int i = 0; i < p->launch_count; i++) {
        collective_op which;
        if (network_launch_is_collective(&p->launches[i], &which))
            launch_ns[i] = network_launch_ns(&outer, p, i, 1 / group);
    }
    simulated_step step;
    simulate_step(p, &replay, &step);
    sums_ns *= (double)o->pipeline.micro_batches;
    *out = (scale_step){.memory_bytes = memory_of(p, asked),
                        .tokens = asked->division.groups * o->batch * o->pipeline.micro_batches *
                                  o->context,
                        .flops = cost.flops / group,
                        .bytes_sent = cost.bytes_sent / group + tensor_bytes_sent(asked),
                        .compute_ns = step.compute_ns - sums_ns,
                        .collectives_ns = step.communication_ns + sums_ns,
                        .exposed_ns = step.exposed_ns + sums_ns,
                        .step_ns = step.step_ns};
    simulated_step_release(&step);
}

/* ---- limits ---- */

/* Bytes of the larger operand of one kind of collective, up to the first launch of the backward or all. */
static double bytes_of(const plan *p, collective_op wanted, bool only_forward) {
    double bytes = 0;
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        collective_op which;
        if (only_forward && l->phase == PHASE_BACKWARD)
            break;
        if (network_launch_is_collective(l, &which) && which == wanted)
            bytes += l->bytes_sent / collective_bus_factor(which, 2);
    }
    return bytes;
}

static dyno_status plan_on_two(const step_options *options, parallel_mode mode, plan **out) {
    step_options two = *options;
    two.pipeline.parallel.mode = mode;
    two.pipeline.parallel.ranks = 2;
    return step_plan_create(&two, out);
}

dyno_status scale_limits_model(const step_options *options, double step_tokens,
                               double flops_a_second, limits_model *out) {
    plan *p;
    double tokens = (double)(options->batch * options->context);
    step_options one = *options;
    one.pipeline.parallel.ranks = one.pipeline.micro_batches = 1;
    *out = (limits_model){.layers = options->config.layers,
                          .heads = options->config.heads,
                          .flops_a_second = flops_a_second,
                          .residual_bytes = residual_bytes(options) / tokens * step_tokens};
    RETURN_IF_FAILED(step_plan_create(&one, &p));
    out->forward_flops = plan_total_cost(p, PHASE_FORWARD).flops / tokens * step_tokens;
    out->backward_flops = plan_total_cost(p, PHASE_BACKWARD).flops / tokens * step_tokens;
    plan_destroy(p);
    RETURN_IF_FAILED(plan_on_two(&one, PARALLEL_DDP_FLAT, &p));
    out->gradient_bytes = bytes_of(p, COLLECTIVE_ALL_REDUCE, false);
    plan_destroy(p);
    RETURN_IF_FAILED(plan_on_two(&one, PARALLEL_FSDP, &p));
    out->weight_bytes = bytes_of(p, COLLECTIVE_ALL_GATHER, true);
    plan_destroy(p);
    return DYNO_OK;
}
