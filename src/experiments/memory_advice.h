/* memory_advice.h - what each change to a step would save, and what it would cost in time.
 *
 * One change at a time, each planned in full; plan_advice.h looks for a combination that fits. */
#ifndef EXPERIMENTS_MEMORY_ADVICE_H
#define EXPERIMENTS_MEMORY_ADVICE_H

#include "measure/results.h"
#include "train/step_plan.h"

/* Adds the breakdown "advice" to the cell: a row for each change with bytes reserved and the least
 * seconds of a step on paper, before and after; the cheapest in time first, those that save nothing
 * last. Sharding is over the fewest chips, a power of two, with which the step fits `memory_bytes`; over
 * 8 where it fits anyway or that is 0. */
NODISCARD dyno_status memory_advice_record(const step_options *options, bool is_attention_named,
                                           int64_t memory_bytes, results_cell *cell);

#endif
