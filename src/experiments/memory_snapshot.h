/* memory_snapshot.h - a step's allocations as PyTorch's memory viewer reads them
 * (https://pytorch.org/memory_viz, torch/cuda/_memory_viz.py).
 *
 * One segment, the pool, as it is when the step has ended, and every allocation and release that led
 * there. A frame of a stack is `scope:launch:op -> type[shape] role`; the viewer's time is the launch. */
#ifndef EXPERIMENTS_MEMORY_SNAPSHOT_H
#define EXPERIMENTS_MEMORY_SNAPSHOT_H

#include "base/text.h"
#include "plan/plan.h"
#include "runtime/memory_pool.h"

/* What a pool that runs one step of `p` records, without running it; the caller frees *out. Texts are
 * the plan's. */
void memory_snapshot_predict(const plan *p, memory_record **out, int *count);

/* Appends the pickle. The records are those of one step of `p` on a pool that was empty before. */
void memory_snapshot_append(const plan *p, const memory_record *records, int count,
                            int64_t reserved_bytes, text *out);

#endif
