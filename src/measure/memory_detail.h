/* memory_detail.h - where the bytes of one step go, as numbers in a cell of a run: what `dyno memory`
 * shows of a cell beyond its peak. */
#ifndef MEASURE_MEMORY_DETAIL_H
#define MEASURE_MEMORY_DETAIL_H

#include "measure/results.h"
#include "plan/memory_account.h"
#include "plan/plan.h"
#include "runtime/memory_pool.h"

/* Peak, what the allocator holds for it, and the tensor of the residual stream. */
void memory_detail_record_peak(const plan *p, const memory_account *account, int64_t batch,
                               int64_t context, results_cell *cell);

/* Bytes at one launch as a run had them: of blocks of the pool, and of the tensors in them. */
typedef struct memory_sample {
    int64_t block_bytes, tensor_bytes;
} memory_sample;

/* What was in use while each launch ran, from the records of a pool that was empty when the recording
 * began; samples[0] is before the first launch, samples[i + 1] while launch i runs. */
void memory_detail_sample(const memory_record *records, int count, memory_sample *samples,
                          int launch_count);

/* Bytes by role at every launch: "timeline". `measured` has launch_count + 1 samples, or is NULL. */
void memory_detail_record_timeline(const plan *p, const memory_sample *measured,
                                   results_cell *cell);

/* Values alive at the peak, the largest allocations, what is saved for the backward by op, and bytes
 * by block. */
void memory_detail_record_values(const plan *p, const memory_account *account, results_cell *cell);

#endif
