/* step_bench.h - a plan with a pool, storage and executor of its own, filled and ready to run. */
#ifndef TESTS_SUPPORT_STEP_BENCH_H
#define TESTS_SUPPORT_STEP_BENCH_H

#include "support/pass_plan.h"
#include "support/small_model.h"

typedef struct step_bench {
    model_config config;
    plan *p;
    memory_pool *pool;
    storage *shared;
    executor *e;
} step_bench;

/* Takes the plan. The same seed gives the same weights and ids. */
step_bench step_bench_create(const model_config *config, plan *p, uint64_t seed, bool is_recording);
/* The same on a device, whose target becomes the plan's. */
step_bench step_bench_create_on(device *d, const step_options *options, uint64_t seed);
/* Executor and storage go; pool and plan stay. */
void step_bench_stop(step_bench *b);
void step_bench_destroy(step_bench *b);

/* One step; fails the test when it fails. */
void step_bench_run(step_bench *b);

/* A copy in the host's memory of a leaf or, after a run, of an output (free data, or the doubles);
 * data or the answer is NULL when there is no such thing. */
tensor step_bench_read(const step_bench *b, const char *name);
double *step_bench_read_doubles(const step_bench *b, const char *name, int64_t *count);

/* Fails the test unless every leaf and every output of `a` is bitwise the same in `b`. */
void expect_same_names(const step_bench *a, const step_bench *b);

#endif
