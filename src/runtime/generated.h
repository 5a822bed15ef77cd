/* generated.h - a plan's generated kernels, compiled and loaded. */
#ifndef RUNTIME_GENERATED_H
#define RUNTIME_GENERATED_H

#include "ops/kernel.h"
#include "plan/plan.h"

typedef struct generated_kernels generated_kernels;

/* Compiles and loads plan.source. On failure *out is NULL. */
NODISCARD dyno_status generated_load(const plan *p, generated_kernels **out);
void generated_destroy(generated_kernels *k);

/* Runs a launch of a generated kernel, its units over all threads. */
void generated_run(const generated_kernels *k, const plan_launch *l, const kernel_args *args);

#endif
