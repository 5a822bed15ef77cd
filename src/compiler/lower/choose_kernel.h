/* choose_kernel.h - which kernel runs a launch, and which of its variants: the only place that
 * decides it. */
#ifndef COMPILER_LOWER_CHOOSE_KERNEL_H
#define COMPILER_LOWER_CHOOSE_KERNEL_H

#include "graph/op.h"
#include "ops/kernel.h"
#include "plan/plan.h"

/* What the user wants for the launches of an op, as kernel_find_wanted takes it. */
typedef struct kernel_wish {
    const op *of;
    const char *wanted; /* NULL: nothing particular */
} kernel_wish;

typedef struct kernel_options {
    kernel_wish wishes[2];
    const kernel_tuning *tuning; /* NULL: nothing is known of the device */
} kernel_options;

typedef struct kernel_choice {
    const kernel *kernel;
    kernel_variant variant; /* "": the kernel's own choice */
} kernel_choice;

/* What the user wants; else what the tuning found best, if a kernel takes the operands and has it;
 * else the first kernel that takes them, with its own variant. A wish that no kernel fulfils is
 * DYNO_UNSUPPORTED; the message names what there is. So is an op without a kernel; then the message
 * says why each declined. `scope` is for messages. */
NODISCARD dyno_status choose_kernel(const op *of, const kernel_args *args, const char *scope,
                                    const kernel_options *options, kernel_choice *out);

/* The key that a choice is tuned under: "attention,bf16,d64,causal,q512,k512". */
void choose_kernel_key(const op *of, const kernel_args *args, text *out);

/* A launch's operands as arguments, without data. */
typedef struct launch_layouts {
    kernel_args args;
    tensor operands[16];
} launch_layouts;
void choose_kernel_describe(const plan *p, const plan_launch *l, launch_layouts *out);

#endif
