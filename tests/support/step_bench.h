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
/* Executor and storage go; pool and plan stay. */
void step_bench_stop(step_bench *b);
void step_bench_destroy(step_bench *b);

/* One step; aborts when it fails. */
void step_bench_run(step_bench *b);

/* Fails the test unless every leaf and every output of `a` is bitwise the same in `b`. */
void expect_same_names(const step_bench *a, const step_bench *b);

#endif
