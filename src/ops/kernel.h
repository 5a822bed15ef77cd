/* kernel.h - one way to compute one op on one kind of target.
 *
 * An op lists its kernels fastest first; the compiler takes the first that does not reject the
 * operands or the target. Kernels never allocate: what scratch they need they ask for, and the plan
 * holds it. */
#ifndef OPS_KERNEL_H
#define OPS_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/target.h"
#include "base/text.h"
#include "tensor/attributes.h"
#include "tensor/tensor.h"

struct device;       /* runtime/device.h */
struct communicator; /* distributed/communicator.h */

/* Where a kernel runs, and when in its step. */
typedef struct launch_context {
    struct device *device;
    void *stream;                      /* a GPU's cudaStream_t; NULL on a CPU */
    struct communicator *communicator; /* of the ranks; NULL where there is one */
    bool begins_step;                  /* the first launch of it */
    int repetition, repetitions;       /* the micro-batch, from 0, and how many there are */
    /* A collective that may run beside the launches that follow it: it is started, and its handle
     * stored here. NULL: it is complete when the kernel returns (on a GPU: enqueued). */
    int64_t *handle;
} launch_context;

typedef struct kernel_args {
    int input_count, output_count;
    const tensor *inputs;
    const tensor *outputs; /* dense, row-major, unless the kernel writes strided */
    const attributes *attributes;
    void *workspace;
    const char *variant;  /* one of kernel.variants; NULL: the kernel's own choice, their first */
    const target *target; /* the chip that the plan is for */
    /* While planning: the offsets of all operands in their buffers, or-ed together. Buffers are
     * aligned for any kernel, so these are the bits that can spoil alignment. */
    uint64_t offset_bits;
    const launch_context *context; /* NULL while planning */
} kernel_args;

/* One of several ways in which a kernel does the same work, such as the tiles of attention:
 * "64x128". */
typedef struct kernel_variant {
    char name[24];
} kernel_variant;
enum { KERNEL_MOST_VARIANTS = 16 };

typedef struct kernel {
    const char *name; /* "matmul_onednn" */
    target_kind target;
    /* NULL accepts; else the reason why not. Sees layouts and the target: data is NULL. May be
     * NULL. */
    const char *(*reject)(const kernel_args *args);
    /* NULL, or why a kernel further down the list is faster with these operands: this one is then
     * taken only where it is wanted. May be NULL. */
    const char *(*yield)(const kernel_args *args);
    /* Scratch for these operands and this variant; NULL: none. Sees layouts only. */
    size_t (*workspace_bytes)(const kernel_args *args);
    /* NULL for TARGET_CUDA: the CUDA module has the function, under the kernel's name. */
    dyno_status (*run)(const kernel_args *args);
    /* The variants for these operands on args->target, at most KERNEL_MOST_VARIANTS, first the one
     * that is taken when none is asked for. NULL: there is only one. Sees layouts only. */
    int (*variants)(const kernel_args *args, kernel_variant *out);
    /* Outputs may have any strides, 1 in the last dimension. */
    bool writes_strided;
    /* 1 + the output that may lie where input 0 does, element by element; 0 when none may. */
    int overwrites_input;
} kernel;

/* The first of a NULL-terminated list that takes the operands on args->target and does not yield to
 * another; NULL when none does.
 * `reasons`, if not NULL, is told why those before it do not. */
const kernel *kernel_pick(const kernel *const *list, const kernel_args *args, text *reasons);

/* The first that takes the operands and is what is wanted: a variant "64x128", a kernel by its name,
 * or both, "attention_mma:64x128". *variant is the one wanted, "" where any is. */
const kernel *kernel_find_wanted(const kernel *const *list, const kernel_args *args,
                                 const char *wanted, kernel_variant *variant);

/* Choices that timing found best on a device. */
typedef struct kernel_tuning {
    /* "kernel:variant" or "kernel", as kernel_find_wanted takes it; NULL: nothing is known. Holds
     * until the next call. */
    const char *(*find)(const struct kernel_tuning *tuning, const char *key);
} kernel_tuning;

/* Every kernel of the target's kind, for tests and listings: NULL, or why it is not chosen. */
const char *kernel_reject(const kernel *k, const kernel_args *args);

/* For reject: the reason when an input is not f32, else NULL. */
const char *kernel_reject_unless_f32(const kernel_args *args);

#endif
