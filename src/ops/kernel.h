/* kernel.h - one way to compute one op on one backend.
 *
 * An op lists its kernels fastest first; the compiler takes the first that does not reject the
 * operands. Kernels never allocate: what scratch they need they ask for, and the plan holds it. */
#ifndef OPS_KERNEL_H
#define OPS_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "tensor/attributes.h"
#include "tensor/tensor.h"

typedef enum backend { BACKEND_CPU, BACKEND_CUDA, BACKEND_COUNT } backend;

typedef struct kernel_args {
    int input_count, output_count;
    const tensor *inputs;
    const tensor *outputs; /* dense, row-major, unless the kernel writes strided */
    const attributes *attributes;
    void *workspace;
} kernel_args;

typedef struct kernel {
    const char *name; /* "matmul_onednn" */
    backend backend;
    /* NULL accepts; else the reason why not. Sees layouts only: data is NULL. May be NULL. */
    const char *(*reject)(const kernel_args *args);
    /* Scratch for these operands; NULL: none. Sees layouts only. */
    size_t (*workspace_bytes)(const kernel_args *args);
    /* NULL for BACKEND_CUDA: the CUDA module has the function, under the kernel's name. */
    void (*run)(const kernel_args *args);
    /* Outputs may have any strides, 1 in the last dimension. */
    bool writes_strided;
    /* 1 + the output that may lie where input 0 does, element by element; 0 when none may. */
    int overwrites_input;
} kernel;

const char *backend_name(backend b);

/* For reject: the reason when an input is not f32, else NULL. */
const char *kernel_reject_unless_f32(const kernel_args *args);

#endif
