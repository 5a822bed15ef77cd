/* bench_baselines.h - which cell of a bench each cell is compared with.
 *
 * Two cells are compared that agree in all parameters but those compared: the way a step is run
 * (mode, math, attention, recompute, gradients), or the recompute level alone. A cell that is SKIP was
 * not run and is no baseline. */
#ifndef REPORT_BENCH_BASELINES_H
#define REPORT_BENCH_BASELINES_H

#include "measure/results.h"

typedef struct bench_baselines {
    const results_cell **first_way; /* by cell: the first that differs in the way only, or itself */
    const results_cell **plain;     /* by cell that recomputes: the one that does not; else NULL */
    bool has_ways, has_recompute;   /* some cell is compared with another one */
} bench_baselines;

/* Borrows the run; released by bench_baselines_release. */
bench_baselines bench_baselines_of(const results *run);
void bench_baselines_release(bench_baselines *b);

#endif
