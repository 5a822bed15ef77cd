/* profile_from.c - records of another program's trace, summed as those of our own runs are.
 *
 * Sums are over the whole trace and not per step, so that they can be compared with what the other
 * profiler prints. */
#include "experiments/profile_from.h"

#include <math.h>
#include <string.h>

#include "measure/keys.h"
#include "measure/profile_record.h"
#include "profile/attention_parts.h"
#include "profile/foreign_trace.h"
#include "profile/host_phases.h"

typedef struct from_job {
    const experiment_context *context;
    const char *path;
    kernel_groups *groups;
    attention_parts *attention;
    host_phases *phases;
    foreign_trace trace;
} from_job;

/* ---- what the reader tells ---- */

static dyno_status take_record(void *caller, const launch_record *record) {
    from_job *job = caller;
    if (strcmp(job->trace.format, FOREIGN_FORMAT_OWN) == 0)
        attention_parts_add_own(job->attention, record);
    else
        attention_parts_add(job->attention, record);
    return kernel_groups_add(job->groups, record);
}

static dyno_status take_range(void *caller, const foreign_range *range) {
    from_job *job = caller;
    host_phases_add(job->phases, range->phase, range->process, range->begin_ns, range->end_ns);
    return DYNO_OK;
}

static void take_progress(void *caller, double done) {
    from_job *job = caller;
    experiment_progress(job->context, done, 1, job->path);
}

/* ---- the record ---- */

static void record_joins(const foreign_trace *trace, results_cell *cell) {
    const struct {
        const char *name;
        int64_t value;
    } metrics[] = {{METRIC_JOINED_BY_THREAD, trace->joined[JOINED_BY_THREAD]},
                   {METRIC_JOINED_BY_PROCESS, trace->joined[JOINED_BY_PROCESS]},
                   {METRIC_JOINED_BY_SEQUENCE, trace->joined[JOINED_BY_SEQUENCE]},
                   {METRIC_JOINED_BY_RECORD, trace->joined[JOINED_BY_RECORD]},
                   {METRIC_JOINED_TO_NOTHING, trace->joined[JOINED_TO_NOTHING]},
                   {METRIC_NOT_JOINED, trace->joined[JOINED_NOT]},
                   {METRIC_IN_GRAPHS, trace->in_graphs},
                   {METRIC_OUTSIDE_STEPS, trace->outside_steps},
                   {METRIC_MARKED_STEPS, trace->steps}};
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++)
        cell_set_metric(cell, metrics[i].name, "", metrics[i].value);
}

static void record_ranges(const from_job *job, results_cell *cell) {
    static const char *const KEYS[] = {KEY_PHASE};
    static const results_column COLUMNS[] = {{COLUMN_TIME, "ns"}, {COLUMN_COUNT, ""}};
    results_breakdown *to = cell_add_breakdown(cell, BREAKDOWN_RANGES, KEYS, 1, COLUMNS, 2);
    const host_phase *phases;
    int count = host_phases_list(job->phases, &phases);
    for (int i = 0; i < count; i++) {
        const results_value values[] = {results_integer(phases[i].ns),
                                        results_integer(phases[i].count)};
        breakdown_add_row(to, &phases[i].name, values);
    }
    host_phase steps = host_phases_steps(job->phases);
    if (steps.count)
        cell_set_metric(cell, METRIC_MARKED_STEPS_NS, "ns", steps.ns);
}

static void record_attention(const from_job *job, results_cell *cell) {
    static const char *const KEYS[] = {KEY_PART};
    static const results_column COLUMNS[] = {
        {COLUMN_TIME, "ns"}, {COLUMN_COUNT, ""}, {COLUMN_FLOPS, "FLOP"}};
    results_breakdown *to = cell_add_breakdown(cell, BREAKDOWN_ATTENTION, KEYS, 1, COLUMNS, 3);
    for (attention_part part = 0; part < ATTENTION_PART_COUNT; part++) {
        attention_sum sum = attention_parts_sum(job->attention, part);
        if (!sum.launches)
            continue;
        /* FLOPs that some launches lack are nobody's: a sum without them would be too small. */
        const results_value values[] = {results_real(sum.ns), results_integer(sum.launches),
                                        results_real(sum.without_flops ? (double)NAN : sum.flops)};
        breakdown_add_row(to, &(const char *){attention_part_name(part)}, values);
    }
    if (strcmp(job->trace.format, FOREIGN_FORMAT_OWN) != 0) {
        cell_set_metric(cell, METRIC_ATTENTIONS, "", attention_parts_count(job->attention));
        cell_set_metric(cell, METRIC_ATTENTION_PASSED_OVER, "",
                        attention_parts_passed_over(job->attention));
    }
}

static void record_all(const from_job *job, results_cell *cell) {
    cell_set_text(cell, PARAM_FORMAT, job->trace.format);
    cell_set_text(cell, PARAM_RECORDED, job->trace.is_of_host ? "host" : "device");
    profile_record_groups(job->groups, 1, cell);
    cell_set_metric(cell, METRIC_TRACED_STEPS, "", 1);
    record_joins(&job->trace, cell);
    record_ranges(job, cell);
    record_attention(job, cell);
    cell_set_status(cell, RESULTS_OK, NULL);
}

/* ---- the run ---- */

static dyno_status read_trace(const flags *given, from_job *job) {
    foreign_visitor visitor = {job, NULL, take_record, take_range, take_progress};
    RETURN_IF_FAILED(kernel_classes_create(flags_text(given, "classes"), &visitor.classes));
    dyno_status status = experiment_start(job->context);
    if (status == DYNO_OK)
        status = foreign_trace_read(job->path, &visitor, &job->trace);
    kernel_classes_destroy(visitor.classes);
    if (status == DYNO_OK && flags_is_set(given, "classes") &&
        strcmp(job->trace.format, FOREIGN_FORMAT_OWN) == 0)
        return dyno_fail(DYNO_INVALID,
                         "--classes: '%s' is a trace of dyno's own, whose launches say their "
                         "class; leave --classes out",
                         job->path);
    return status;
}

dyno_status profile_from_run(const flags *given, const experiment_context *context,
                             experiment_output *out) {
    int count;
    const char *by = flags_text(given, "by");
    const grouping *groupings = profile_groupings(by && strcmp(by, "launch") == 0, &count);
    from_job job = {.context = context,
                    .path = flags_text(given, "from"),
                    .groups = kernel_groups_create(groupings, count),
                    .attention = attention_parts_create(),
                    .phases = host_phases_create()};
    dyno_status status = read_trace(given, &job);
    out->run->planned_cells = 1;
    if (status == DYNO_OK || status == DYNO_INTERRUPTED) {
        results_cell *cell = results_add_cell(out->run);
        cell_set_text(cell, PARAM_TRACE, job.path);
        if (status == DYNO_OK)
            record_all(&job, cell);
        else /* half of a trace says nothing about the whole */
            cell_set_status(cell, RESULTS_INCOMPLETE, "interrupted");
        experiment_keep_cell(context);
    }
    host_phases_destroy(job.phases);
    attention_parts_destroy(job.attention);
    kernel_groups_destroy(job.groups);
    return status;
}
