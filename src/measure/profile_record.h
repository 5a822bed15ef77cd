/* profile_record.h - sums of launch records (profile/kernel_groups.h) as breakdowns of a cell.
 *
 * Times and counts are per step. The durations themselves are not kept, so that what cannot be
 * derived from sums is: the least, median and greatest duration of a single launch and the standard
 * deviation. docs/run-json.md says what stands in which column. */
#ifndef MEASURE_PROFILE_RECORD_H
#define MEASURE_PROFILE_RECORD_H

#include "measure/results.h"
#include "profile/kernel_groups.h"

/* What a profile groups by: by_kernel, by_class, by_op, by_scope, by_phase; kinds, which are all
 * launches that are alike but for their layer; scopes, unfolded and by phase. `by_launch` adds every
 * launch of the plan (in other programs: by kernel, scope, phase and grid). */
const grouping *profile_groupings(bool by_launch, int *count);

/* Writes a breakdown for each grouping of `groups`, "devices" for the times of devices and phases,
 * the metrics traced_steps and records, and uneven_groups: kinds of which some step has more records
 * than another. `steps` is what sums are divided by: the traced steps, or 1 where a trace has none. */
void profile_record_groups(kernel_groups *groups, int64_t steps, results_cell *cell);

/* One grouping as `bench --breakdown` has it: time, count, FLOPs and bytes per step, with `running`
 * where launches may overlap, and a row for the gaps, so that times add up to `step_ns`. */
void profile_record_shares(kernel_groups *groups, int index, int64_t steps, bool has_running,
                           double step_ns, results_cell *cell);

#endif
