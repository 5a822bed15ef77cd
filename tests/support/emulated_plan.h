/* emulated_plan.h - plans for a GPU, run without one: generated kernels by the emulator
 * (cuda_emulator.h), all others by what their op has for the CPU. Plans for the CPU run as they
 * are, to compare with. */
#ifndef TESTS_SUPPORT_EMULATED_PLAN_H
#define TESTS_SUPPORT_EMULATED_PLAN_H

#include "plan/plan.h"

typedef struct emulated_plan emulated_plan;

/* Skips the test that runs, with the reason, where there is no C++ compiler to emulate with. */
void emulated_plan_skip_without_compiler(void);

/* Borrows the plan. Memory is where the plan puts it, an arena for a static one, and full of NaN.
 * Aborts when the source does not compile. */
emulated_plan *emulated_plan_create(const plan *p);
/* Only the kernels, without memory for anything. */
emulated_plan *emulated_plan_create_kernels(const plan *p);
void emulated_plan_destroy(emulated_plan *e);

/* A leaf or output; data is NULL when there is none of that name. */
tensor emulated_plan_find(const emulated_plan *e, const char *name);

/* Blocks [begin, end) of a generated kernel, on memory of the caller's. */
void emulated_plan_run_blocks(const emulated_plan *e, int generated, void *const *pointers,
                              int64_t begin, int64_t end);

/* Every launch once. Aborts when a kernel hangs, or writes beside its memory. */
void emulated_plan_run(emulated_plan *e);

/* Fails the test unless every leaf and output of `exact` is as near in `got`; the seed is for the
 * message. */
void expect_close_plans(const emulated_plan *exact, const emulated_plan *got, double limit,
                        uint64_t seed);

#endif
