#include "measure/breakdown.h"

#include "measure/keys.h"
#include "measure/profile_record.h"
#include "measure/step_trace.h"

double breakdown_cast_ns(const launch_log *log, const plan *p, int64_t steps) {
    double ns = 0;
    for (int64_t i = 0; i < log->count; i++) {
        const launch_record *r = &log->records[i];
        if (r->launch != LAUNCH_UNKNOWN && plan_launch_is_cast(&p->launches[r->launch]))
            ns += r->share_ns;
    }
    return ns / (double)steps;
}

/* The mean traced step by the host's clock. */
static int64_t host_step_ns(const launch_log *log) {
    int64_t ns = 0;
    for (int i = 0; i < log->step_count; i++)
        ns += log->steps[i].end_ns - log->steps[i].begin_ns;
    return log->step_count ? ns / log->step_count : 0;
}

static void record_sums(const step_trace *trace, results_cell *cell) {
    const launch_log_sums *s = &trace->sums;
    int steps = trace->log.step_count;
    cell_set_metric(cell, METRIC_TRACED_STEP_NS, "ns", host_step_ns(&trace->log));
    if (!trace->is_observed) {
        cell_set_metric(cell, METRIC_IN_LAUNCHES_NS, "ns", s->busy_ns / steps);
        return;
    }
    cell_set_metric(cell, METRIC_DEVICE_SPAN_NS, "ns", s->span_ns / steps);
    cell_set_metric(cell, METRIC_DEVICE_BUSY_NS, "ns", s->busy_ns / steps);
    cell_set_metric(cell, METRIC_DEVICE_UNKNOWN_NS, "ns", (int64_t)s->unknown_ns / steps);
    cell_set_metric(cell, METRIC_LAUNCHES_UNSEEN, "", s->unseen);
    if (steps > 1)
        cell_set_metric(cell, METRIC_BETWEEN_STEPS_NS, "ns", s->between_ns / (steps - 1));
}

dyno_status breakdown_run(executor *e, const plan *p, const timing_options *options,
                          results_cell *cell) {
    static const grouping BY[] = {{BREAKDOWN_BY_CLASS, {GROUP_CLASS}, 1},
                                  {BREAKDOWN_BY_KERNEL, {GROUP_PLANNED}, 1},
                                  {BREAKDOWN_BY_PHASE, {GROUP_PHASE}, 1},
                                  {BREAKDOWN_BY_SCOPE, {GROUP_FOLDED_SCOPE}, 1}};
    enum { COUNT = sizeof BY / sizeof *BY };
    step_trace trace;
    RETURN_IF_FAILED(step_trace_run(e, p, options, &trace));
    int steps = trace.log.step_count;
    kernel_groups *groups = kernel_groups_create(BY, COUNT);
    dyno_status status = DYNO_OK;
    for (int64_t i = 0; i < trace.log.count && status == DYNO_OK; i++)
        status = kernel_groups_add(groups, &trace.log.records[i]);
    if (status == DYNO_OK) {
        double step_ns = trace.is_observed ? (double)trace.sums.span_ns / steps
                                           : (double)host_step_ns(&trace.log);
        record_sums(&trace, cell);
        cell_set_metric_real(cell, METRIC_CAST_NS, "ns", breakdown_cast_ns(&trace.log, p, steps));
        for (int i = 0; i < COUNT; i++)
            profile_record_shares(groups, i, steps, trace.is_observed, step_ns, cell);
    }
    kernel_groups_destroy(groups);
    step_trace_release(&trace);
    return status;
}
