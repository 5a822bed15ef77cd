/* scale.c - `dyno scale`: what steps of many ranks take, on paper. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/target_rates.h"
#include "base/threads.h"
#include "base/units.h"
#include "experiments/experiment.h"
#include "experiments/grid_size.h"
#include "experiments/model_options.h"
#include "experiments/refusals.h"
#include "experiments/scale_measure.h"
#include "experiments/scale_network.h"
#include "experiments/scale_step.h"
#include "experiments/step_variant.h"
#include "measure/environment.h"
#include "measure/keys.h"
#include "measure/machine.h"
#include "measure/step_trace.h"
#include "model/parameters.h"
#include "runtime/autotune.h"

static const flag_spec FLAGS[] = {
    MODEL_FLAGS,
    BATCH_FLAG,
    ACCUMULATE_FLAG,
    SEQUENCE_FLAG,
    {"ranks", "LIST", FLAG_INTEGER_LIST, "8..16384",
     .help = "numbers of ranks; 8..16384 doubles. None are started. With --measure 1,2,4",
     .minimum = 1, .maximum = 65536},
    {"parallel", "LIST", FLAG_TEXT_LIST, SCALE_WAYS_USUAL,
     .help = "ways of `dyno bench --parallel`, and on paper only, because dyno has no pass for it, "
             "tp (every block divided among all ranks) and fsdp+tp:Y (among groups of Y, by "
             "default a node, and fsdp between the groups)",
     .suggestions = "ddp-naive|ddp-flat|ddp-overlap|ddp-bucket:25|zero1|fsdp|tp|fsdp+tp|fsdp+tp:8"},
    REDUCE_FLAG,
    {"step-tokens", "N", FLAG_INTEGER, "4194304",
     .help = "tokens of a step for the limits: however many ranks share them", .minimum = 1,
     .maximum = (int64_t)1 << 50},
    SCALE_NETWORK_FLAGS,
    {"mode", NULL, FLAG_CHOICE, "compiled", .help = "of the step, as in `dyno plan`",
     .choices = STEP_MODE_CHOICES},
    {"precision", NULL, FLAG_CHOICE, "bf16", .help = "of matrix products",
     .choices = PRECISION_CHOICES},
    {"attention", NULL, FLAG_CHOICE, "flash",
     .help = "flash or naive. Not given: flash where there is such",
     .choices = ATTENTION_WAY_CHOICES},
    {"gradients", "TYPE", FLAG_CHOICE, "low",
     .help = "of weights, compiled in low precision: low, or fp32", .choices = GRADIENTS_CHOICES},
    {"recompute", "LEVEL", FLAG_TEXT, "none",
     .help = "what the backward runs again: none, mlp:K, every:K, full, nested",
     .suggestions = RECOMPUTE_SUGGESTIONS},
    {"target", "NAME", FLAG_TEXT, NULL,
     .help = "the chip of each rank (`dyno list targets`); cpu: ranks share this machine's cores. "
             "Default: h200, or cpu with --measure",
     .suggestions = "cpu", .suggestion_at = dyno_target_name},
    {"flops", "TFLOP/s", FLAG_REAL, NULL,
     .help = "rate of products; default: the data sheet's, of a CPU measured", .real_minimum = 1e-6,
     .real_maximum = 1e9},
    {"bandwidth", "RATE", FLAG_TEXT, NULL,
     .help = "of the chip's memory, as 4.8TB/s; default: the data sheet's, of a CPU measured"},
    {"profile", "DIR", FLAG_TEXT, NULL,
     .help = "times of launches from `dyno profile --pass step --out DIR` of the same step on one "
             "rank, instead of rates"},
    {"measure", NULL, FLAG_SWITCH, NULL,
     .help = "times the launches of each plan here, on the CPU, in one process whose collectives "
             "do nothing"},
    {"steps", NULL, FLAG_INTEGER, "5", .help = "traced steps of --measure", .minimum = 1,
     .maximum = STEP_TRACE_MOST},
    {"best", NULL, FLAG_SWITCH, NULL,
     .help = "of times that were measured several times (--measure, --from) the least instead of "
             "the median: for a machine that others use as well"},
    {"threads", NULL, FLAG_INTEGER, "0",
     .help = "threads of each rank on a CPU; 0 divides the cores among the ranks", .minimum = 0,
     .maximum = 4096},
};

static const flags_example EXAMPLES[] = {
    {"scale --model xl --target h200 --ranks 8..16384 --inside 450GB/s --across 50GB/s",
     "all ways on nodes of eight H200, and where each becomes bound by communication"},
    {"scale --model 10B --parallel fsdp,fsdp+tp:4,fsdp+tp:8 --context 4096 --batch 1",
     "how large the groups with tensor parallelism should be"},
    {"scale --model xl --context 512 --profile runs/h200 --ranks 8..512",
     "with the times that `dyno profile --out runs/h200` has measured on one GPU"},
    {"scale --measure --precision fp32 --ranks 1,2,4 --parallel ddp-flat,fsdp --from "
     "runs/allreduce",
     "what `dyno bench --ranks 4` would take on this machine"},
};

static const flags_verb VERB = {
    .name = RUN_SCALE,
    .summary =
        "Tells what a step takes on many ranks without any of them: the plan of one rank has every "
        "launch and every byte on the wire, and a simulator replays both against a network, with "
        "the overlap that the executor has. For each way and number of ranks: memory of a rank, "
        "bytes that it sends, time of all collectives (rings), of computing and of the step. Then "
        "the most ranks before data parallel, fsdp, tp and fsdp+tp are bound by communication, "
        "for a step of --step-tokens, with the formulas. tp and fsdp+tp are on paper only: dyno "
        "cannot run them.",
    FLAGS_TABLE(FLAGS),
    FLAGS_EXAMPLES(EXAMPLES),
};

typedef struct scale_job {
    const flags *given;
    const experiment_context *context;
    results *run;
    model_config *models;
    int model_count;
    scale_way *ways;
    int way_count;
    step_variant variant;
    parallel_options reduce;
    const target *target;
    network network;
    target_rates rates;
    double bandwidth;         /* of the chip's memory, as asked for; 0: as it is */
    autotune *tuned;          /* of the CPU that is here: plans have its kernels */
    scale_measure *measuring; /* NULL: launches take what rates or a profile say */
    refusals refused;
} scale_job;

static bool is_on_cpu(const scale_job *job) { return !target_is_cuda(job->target); }

/* ---- settings ---- */

static dyno_status resolve_ways(scale_job *job) {
    const char *const *names = flags_text_list(job->given, "parallel", &job->way_count);
    job->ways = memory_allocate((size_t)job->way_count, sizeof *job->ways);
    for (int i = 0; i < job->way_count; i++)
        RETURN_IF_FAILED(scale_way_parse(names[i], &job->ways[i]));
    return DYNO_OK;
}

static const char *given_text(const scale_job *job, const char *name) {
    return flags_is_set(job->given, name) ? flags_text(job->given, name) : NULL;
}

static dyno_status resolve_target(scale_job *job) {
    const char *name = flags_text(job->given, "target");
    bool measures = flags_switch(job->given, "measure");
    RETURN_IF_FAILED(target_find(name ? name : measures ? "cpu" : "h200", &job->target));
    if (measures && !target_is_this_cpu(job->target))
        return dyno_fail(DYNO_INVALID,
                         "--measure times launches on this machine's CPU, and --target is %s; use "
                         "--target cpu, or --profile with a profile of that chip",
                         job->target->name);
    if (measures && flags_text(job->given, "profile"))
        return dyno_fail(DYNO_INVALID, "--measure and --profile both give the times of launches; "
                                       "give one of them");
    if (measures && (flags_is_set(job->given, "flops") || flags_is_set(job->given, "bandwidth")))
        return dyno_fail(DYNO_INVALID,
                         "--flops and --bandwidth are instead of what --measure finds; leave one "
                         "of them out");
    return DYNO_OK;
}

static dyno_status resolve_bandwidth(scale_job *job) {
    const char *bandwidth = flags_text(job->given, "bandwidth");
    if (!bandwidth)
        return DYNO_OK;
    dyno_status status = units_parse_bandwidth(bandwidth, &job->bandwidth);
    return status == DYNO_OK ? status : dyno_fail_within(status, "--bandwidth");
}

static dyno_status resolve(scale_job *job) {
    static const char *const lists[] = {"model", "ranks", "parallel", NULL};
    RETURN_IF_FAILED(grid_check_size(job->given, lists));
    RETURN_IF_FAILED(model_options_resolve(job->given, &job->models, &job->model_count));
    RETURN_IF_FAILED(resolve_ways(job));
    RETURN_IF_FAILED(resolve_target(job));
    RETURN_IF_FAILED(resolve_bandwidth(job));
    RETURN_IF_FAILED(
        step_variant_parse(flags_text(job->given, "mode"), flags_text(job->given, "precision"),
                           given_text(job, "attention"), flags_text(job->given, "recompute"),
                           given_text(job, "gradients"), &job->variant));
    RETURN_IF_FAILED(parallel_parse_reduce(flags_text(job->given, "reduce"), &job->reduce));
    int count;
    const int64_t *ranks = flags_list(job->given, "ranks", &count);
    int64_t most = 1;
    for (int i = 0; i < count; i++)
        most = ranks[i] > most ? ranks[i] : most;
    enum { GPUS_OF_A_NODE = 8 };
    RETURN_IF_FAILED(
        scale_network_open(job->given, is_on_cpu(job) ? most : GPUS_OF_A_NODE, &job->network));
    job->run->planned_cells =
        (int64_t)job->model_count * (job->way_count * (int64_t)count + LIMIT_KIND_COUNT);
    return DYNO_OK;
}

/* ---- rates ---- */

/* Where the rate of products in the step's precision is. */
static double *product_rate(scale_job *job) {
    bool is_low = precision_low_type(job->variant.precision) != DTYPE_F32;
    return is_low                                     ? &job->rates.low
           : job->variant.precision == PRECISION_TF32 ? &job->rates.tf32
                                                      : &job->rates.fp32;
}

/* Threads of a rank where so many share this machine. */
static int threads_of(const scale_job *job, int64_t ranks) {
    int64_t given = flags_integer(job->given, "threads");
    int64_t part = threads_available() / ranks;
    return (int)(given ? given : part > 0 ? part : 1);
}

static int64_t ranks_on_host(const scale_job *job, int64_t ranks) {
    return ranks < job->network.per_node ? ranks : job->network.per_node;
}

/* Of a CPU with so many threads, measured, unless the flags say it. */
static dyno_status measure_rates(scale_job *job, int threads) {
    machine_peaks peaks;
    RETURN_IF_FAILED(machine_peaks_get(job->target, threads, &peaks));
    job->rates.fp32 = job->rates.tf32 = job->rates.low = peaks.gflops_f32 * 1e9;
    if (job->variant.precision == PRECISION_BF16)
        job->rates.low =
            fmax(job->rates.low, machine_measure_peak_bf16(job->target, threads).gflops * 1e9);
    job->rates.memory = peaks.bandwidth.copy * 1e9;
    return DYNO_OK;
}

static dyno_status settle_rates(scale_job *job, int64_t ranks) {
    job->rates = target_rates_of(job->target);
    if (target_is_this_cpu(job->target))
        RETURN_IF_FAILED(measure_rates(job, threads_of(job, ranks_on_host(job, ranks))));
    if (flags_is_set(job->given, "flops"))
        *product_rate(job) = flags_real(job->given, "flops") * 1e12;
    if (job->bandwidth > 0)
        job->rates.memory = job->bandwidth;
    return DYNO_OK;
}

static dyno_status settle_host(const scale_job *job, int64_t ranks, scale_host *out) {
    int64_t here = ranks_on_host(job, ranks);
    *out = (scale_host){
        .cores = threads_available(), .ranks = (int)here, .threads = threads_of(job, here)};
    machine_peaks alone, all;
    RETURN_IF_FAILED(machine_peaks_get(target_this_cpu(), out->threads, &alone));
    RETURN_IF_FAILED(machine_peaks_get(target_this_cpu(), out->cores, &all));
    out->alone_bytes_a_second = alone.bandwidth.copy * 1e9;
    out->all_bytes_a_second = fmax(alone.bandwidth.copy, all.bandwidth.copy) * 1e9;
    return DYNO_OK;
}

/* ---- a cell ---- */

static step_options options_of(const scale_job *job, const model_config *config,
                               const step_variant *variant, const scale_way *way, int64_t groups) {
    step_options options = {.config = *config,
                            .batch = flags_integer(job->given, "batch"),
                            .context = flags_integer(job->given, "context"),
                            .pipeline = {.extent = STEP_FULL,
                                         .micro_batches = flags_integer(job->given, "accumulate"),
                                         .target = job->target,
                                         .optimizer = step_default_optimizer()}};
    step_variant_apply(variant, &options.pipeline);
    if (way)
        options.pipeline.parallel = way->parallel;
    options.pipeline.parallel.ranks = groups;
    options.pipeline.parallel.reduce_type = job->reduce.reduce_type;
    if (job->tuned)
        options.pipeline.kernels.tuning = autotune_kernels(job->tuned);
    return options;
}

static results_cell *add_cell(const scale_job *job, const model_config *config, const char *part) {
    results_cell *cell = results_add_cell(job->run);
    cell_set_text(cell, PARAM_PART, part);
    model_options_describe(config, cell);
    cell_set_integer(cell, PARAM_CONTEXT, flags_integer(job->given, "context"));
    cell_set_integer(cell, PARAM_BATCH, flags_integer(job->given, "batch"));
    cell_set_integer(cell, PARAM_ACCUMULATE, flags_integer(job->given, "accumulate"));
    cell_set_text(cell, PARAM_TIMES,
                  job->measuring                      ? "measured"
                  : flags_text(job->given, "profile") ? "profile"
                                                      : "rates");
    cell_set_text(cell, PARAM_REDUCE, flags_text(job->given, "reduce"));
    cell_set_text(cell, PARAM_DEVICE, job->target->name);
    cell_set_metric(cell, METRIC_PARAMETERS, "", model_parameter_elements(config));
    return cell;
}

static results_cell *describe_step(const scale_job *job, const model_config *config,
                                   const scale_way *way, int64_t ranks) {
    results_cell *cell = add_cell(job, config, PART_STEP);
    cell_set_integer(cell, PARAM_RANKS, ranks);
    cell_set_text(cell, PARAM_PARALLEL, way->name);
    return cell;
}

static void record_step(const scale_job *job, const scale_step *step, results_cell *cell) {
    cell_set_metric(cell, METRIC_TOKENS, "", step->tokens);
    cell_set_metric(cell, METRIC_PREDICTED_RESERVED_BYTES, "B", step->memory_bytes);
    cell_set_metric_real(cell, METRIC_FLOPS, "FLOP", step->flops);
    cell_set_metric_real(cell, METRIC_BYTES_SENT, "B", step->bytes_sent);
    cell_set_metric_real(cell, METRIC_COMPUTE_NS, "ns", step->compute_ns);
    cell_set_metric_real(cell, METRIC_COLLECTIVES_NS, "ns", step->collectives_ns);
    cell_set_metric_real(cell, METRIC_EXPOSED_NS, "ns", step->exposed_ns);
    cell_set_metric_real(cell, METRIC_STEP_NS, "ns", step->step_ns);
    if (job->target->memory_bytes > 0 && !is_on_cpu(job))
        cell_set_metric(cell, METRIC_MEMORY_BYTES, "B", job->target->memory_bytes);
    cell_set_status(cell, RESULTS_OK, NULL);
}

/* Of one rank, by launch. */
static dyno_status find_times(scale_job *job, const plan *p, const step_options *options,
                              const scale_host *host, const scale_profile *profile,
                              double *launch_ns, results_cell *cell) {
    if (job->measuring)
        return scale_measure_plan(job->measuring, p, &options->config, host->threads, launch_ns);
    int unknown = scale_times_of_plan(p, &job->rates, profile, launch_ns);
    if (profile)
        cell_set_metric(cell, METRIC_LAUNCHES_UNSEEN, "", unknown);
    return DYNO_OK;
}

static dyno_status check_length(const plan *p) {
    enum { MOST_LAUNCHES = 4000000 };
    int64_t launches = (int64_t)p->repeated_launches * p->micro_batches + p->launch_count;
    return launches <= MOST_LAUNCHES
               ? DYNO_OK
               : dyno_fail(DYNO_INVALID,
                           "--accumulate: a step of about %lld launches, of which %d can be "
                           "replayed; use fewer micro-batches, which all take as long",
                           (long long)launches, MOST_LAUNCHES);
}

static dyno_status replay(scale_job *job, const step_options *options, scale_division division,
                          const scale_profile *profile, results_cell *cell) {
    plan *p;
    scale_host host;
    scale_step step;
    RETURN_IF_FAILED(step_plan_create(options, &p));
    double *launch_ns = memory_allocate((size_t)p->launch_count + 1, sizeof *launch_ns);
    dyno_status status = check_length(p);
    if (status == DYNO_OK && is_on_cpu(job))
        status = settle_host(job, division.group * division.groups, &host);
    if (status == DYNO_OK)
        status = find_times(job, p, options, &host, profile, launch_ns, cell);
    if (status == DYNO_OK) {
        scale_question asked = {.options = options,
                                .division = division,
                                .network = &job->network,
                                .host = is_on_cpu(job) ? &host : NULL};
        scale_step_replay(p, &asked, launch_ns, &step);
        record_step(job, &step, cell);
    }
    free(launch_ns);
    plan_destroy(p);
    return status;
}

/* What cannot be as asked is the cell's matter; fails where the run is to end. */
static dyno_status run_cell(scale_job *job, const model_config *config, const step_variant *variant,
                            const scale_profile *profile, const scale_way *way, int64_t ranks) {
    results_cell *cell = describe_step(job, config, way, ranks);
    step_variant_describe(variant, cell);
    scale_division division;
    dyno_status status = scale_way_divide(way, ranks, job->network.per_node, config, &division);
    if (status == DYNO_OK && is_on_cpu(job) && !job->measuring)
        status = settle_rates(job, ranks);
    if (status == DYNO_OK) {
        step_options options = options_of(job, config, variant, way, division.groups);
        status = replay(job, &options, division, profile, cell);
    }
    if (refusals_are_of(status)) {
        refusals_add(&job->refused, status);
        refusals_record(cell);
        return DYNO_OK;
    }
    if (status == DYNO_OUT_OF_MEMORY) {
        cell_set_status(cell, RESULTS_OOM, dyno_error_message());
        return DYNO_OK;
    }
    return status;
}

static dyno_status check_stop(const scale_job *job) {
    double done = (double)job->run->cell_count, all = (double)job->run->planned_cells;
    experiment_progress(job->context, done, all, job->measuring ? "measuring" : "replaying");
    if (!experiment_should_stop(job->context))
        return DYNO_OK;
    return dyno_fail(DYNO_INTERRUPTED, "interrupted after %lld of %lld cells", (long long)done,
                     (long long)all);
}

static dyno_status run_limits(scale_job *job, const model_config *config,
                              const step_variant *variant) {
    double tokens = (double)flags_integer(job->given, "step-tokens");
    step_options options = options_of(job, config, variant, NULL, 1);
    limits_model m;
    if (is_on_cpu(job))
        RETURN_IF_FAILED(settle_rates(job, 1));
    RETURN_IF_FAILED(scale_limits_model(&options, tokens, *product_rate(job), &m));
    for (limit_kind kind = 0; kind < LIMIT_KIND_COUNT; kind++) {
        limit found = limit_find(kind, &m, &job->network);
        results_cell *cell = add_cell(job, config, PART_LIMIT);
        step_variant_describe(variant, cell);
        cell_set_text(cell, PARAM_PARALLEL, limit_name(kind));
        cell_set_text(cell, PARAM_FORMULA, limit_formula(kind));
        cell_set_metric(cell, METRIC_STEP_TOKENS, "", (int64_t)tokens);
        cell_set_metric(cell, METRIC_LARGEST_RANKS, "", found.ranks);
        cell_set_metric(cell, METRIC_GROUP_RANKS, "", found.group);
        cell_set_metric_real(cell, METRIC_FORWARD_FLOPS, "FLOP", m.forward_flops);
        cell_set_metric_real(cell, METRIC_BACKWARD_FLOPS, "FLOP", m.backward_flops);
        cell_set_metric_real(cell, METRIC_WEIGHT_BYTES, "B", m.weight_bytes);
        cell_set_metric_real(cell, METRIC_GRADIENT_BYTES, "B", m.gradient_bytes);
        cell_set_metric_real(cell, METRIC_RESIDUAL_BYTES, "B", m.residual_bytes);
        cell_set_metric_real(cell, METRIC_PEAK_GFLOPS, "GFLOP/s", m.flops_a_second / 1e9);
        cell_set_status(cell, RESULTS_OK, NULL);
        experiment_keep_cell(job->context);
    }
    return DYNO_OK;
}

static dyno_status run_ways(scale_job *job, const model_config *config, const step_variant *variant,
                            const scale_profile *profile) {
    int count;
    const int64_t *ranks = flags_list(job->given, "ranks", &count);
    for (int w = 0; w < job->way_count; w++)
        for (int r = 0; r < count; r++) {
            RETURN_IF_FAILED(check_stop(job));
            RETURN_IF_FAILED(run_cell(job, config, variant, profile, &job->ways[w], ranks[r]));
            experiment_keep_cell(job->context);
        }
    return run_limits(job, config, variant);
}

static dyno_status run_model(scale_job *job, const model_config *config) {
    step_variant variant;
    scale_profile profile;
    RETURN_IF_FAILED(model_config_check(config));
    RETURN_IF_FAILED(step_variant_settle(&job->variant, config, &variant));
    RETURN_IF_FAILED(step_variant_check_label(&variant, config, STEP_FULL));
    const char *directory = flags_text(job->given, "profile");
    scale_wanted wanted = {.model = config->name,
                           .mode = step_mode_name(variant.mode),
                           .math = precision_name(variant.precision),
                           .batch = flags_integer(job->given, "batch"),
                           .context = flags_integer(job->given, "context")};
    if (directory)
        RETURN_IF_FAILED(scale_profile_read(directory, &wanted, &profile));
    dyno_status status = run_ways(job, config, &variant, directory ? &profile : NULL);
    if (directory)
        scale_profile_release(&profile);
    return status;
}

static void record_environment(scale_job *job) {
    results *run = job->run;
    if (is_on_cpu(job))
        environment_capture(run);
    results_set_environment_text(run, ENV_TARGET, job->target->name);
    results_set_environment_real(run, ENV_INSIDE_GBS, job->network.inside / 1e9);
    results_set_environment_real(run, ENV_ACROSS_GBS, job->network.across / 1e9);
    results_set_environment_integer(run, ENV_PER_NODE, job->network.per_node);
    results_set_environment_real(run, ENV_LATENCY_US, job->network.latency_ns / 1e3);
    if (is_on_cpu(job))
        return;
    results_set_environment_real(run, ENV_PEAK_GFLOPS, *product_rate(job) / 1e9);
    results_set_environment_real(run, ENV_COPY_GBS, job->rates.memory / 1e9);
}

static dyno_status run_job(scale_job *job) {
    RETURN_IF_FAILED(resolve(job));
    RETURN_IF_FAILED(experiment_start(job->context));
    if (!is_on_cpu(job))
        RETURN_IF_FAILED(settle_rates(job, 1));
    if (target_is_this_cpu(job->target))
        job->tuned = autotune_create(job->target);
    record_environment(job);
    if (flags_switch(job->given, "measure"))
        RETURN_IF_FAILED(scale_measure_create((int)flags_integer(job->given, "steps"),
                                              flags_switch(job->given, "best"), &job->measuring));
    for (int m = 0; m < job->model_count; m++)
        RETURN_IF_FAILED(run_model(job, &job->models[m]));
    return refusals_conclude(&job->refused,
                             job->run->planned_cells - job->model_count * LIMIT_KIND_COUNT);
}

static dyno_status run(flags *given, const experiment_context *context, experiment_output *out) {
    scale_job job = {.given = given, .context = context, .run = out->run};
    dyno_status status = DYNO_OK;
    if (flags_switch(given, "measure") && !flags_is_set(given, "ranks"))
        status = flags_set(given, "ranks", "1,2,4");
    if (status == DYNO_OK)
        status = run_job(&job);
    scale_measure_destroy(job.measuring);
    autotune_destroy(job.tuned);
    network_release(&job.network);
    free(job.models);
    free(job.ways);
    return status;
}

const experiment experiment_scale = {.settings = &VERB,
                                     .plans_ranks = true,
                                     .out_help =
                                         "keeps it all in DIR/run.json, written after every cell",
                                     .run = run};
