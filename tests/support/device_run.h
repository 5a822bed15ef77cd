/* device_run.h - a plan on a device, launch after launch, without executor or pool.
 *
 * Every buffer lies in a place of its own between guards. Whatever a launch writes outside of its
 * outputs, and whatever it changes of its inputs, fails the test. Memory that nobody wrote is all
 * ones: NaN, or a huge id. */
#ifndef TESTS_SUPPORT_DEVICE_RUN_H
#define TESTS_SUPPORT_DEVICE_RUN_H

#include "graph/graph.h"
#include "runtime/device.h"

typedef struct device_run device_run;

/* Borrows both. Buffers start at multiples of 256 bytes. */
device_run *device_run_create(device *d, const plan *p);
void device_run_destroy(device_run *r);

/* Before it runs: what is in a buffer. */
void device_run_fill(device_run *r, int buffer, int64_t offset, const void *from, int64_t bytes);
/* The leaf of that name, dense, from doubles. */
void device_run_fill_leaf(device_run *r, const char *name, const double *from);

/* All launches, once. */
void device_run_launch(device_run *r);

/* After it ran: what the operand is, in the host's memory and as long as the run is. */
tensor device_run_find(const device_run *r, const plan_operand *operand);
tensor device_run_find_name(const device_run *r, const char *name);

/* The run of one kernel for kernel_sweep.h; the context is a device_kernel. What is not dense is put
 * at addresses that suit no vector load, unless is_aligned. */
typedef struct device_kernel {
    device *d;
    const char *variant;  /* of the kernel; NULL: its own */
    bool is_aligned;      /* every operand begins where its buffer does */
    uint64_t count;       /* of runs: what the misalignment is drawn from */
    const tensor *output; /* the layout of output 0; NULL: dense, or see below */
    bool pads_outputs;    /* of every other run, for kernels that write with strides */
} device_kernel;
const char *device_kernel_run(void *context, const node *n, const struct kernel *k,
                              const tensor *inputs, tensor *outputs);

#endif
