/* kernel_run.h - one node's kernel on given operands, as an executor would run it. */
#ifndef TESTS_SUPPORT_KERNEL_RUN_H
#define TESTS_SUPPORT_KERNEL_RUN_H

#include "graph/op.h"
#include "ops/kernel.h"

/* The targets whose kernels can run here: one without any instruction set beyond those of every
 * machine, the named CPUs that this one is as good as, and this CPU. */
enum { KERNEL_RUN_MOST_TARGETS = 8 };
int kernel_run_targets(const target **out);

/* As kernel_run, for a target. */
const char *kernel_run_for(const target *chip, const node *n, const kernel *k, const tensor *inputs,
                           tensor *outputs);

/* Asks the kernel with layouts only, gives it workspace and outputs of exactly the size they
 * need (filled with what no kernel may rely on), and runs it. Inputs that an in-place op takes
 * over are copied first. Returns NULL, and the caller frees outputs[i].data; or the reason why
 * the kernel rejects the operands. */
const char *kernel_run(const node *n, const kernel *k, const tensor *inputs, tensor *outputs);

#endif
