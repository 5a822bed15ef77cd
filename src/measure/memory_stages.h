/* memory_stages.h - the bytes of a step by kind, at the moments that a comparison of sharding looks at:
 * predicted from the plan, and measured in a step whose every allocation is recorded. */
#ifndef MEASURE_MEMORY_STAGES_H
#define MEASURE_MEMORY_STAGES_H

#include "measure/results.h"
#include "runtime/executor.h"

/* The pool records since before the executor of `p` was made (memory_pool_start_recording), and nothing
 * else took memory from it. Runs one step, and adds the breakdown "memory_stages". */
NODISCARD dyno_status memory_stages_record(executor *e, const plan *p, const memory_pool *pool,
                                           results_cell *cell);

#endif
