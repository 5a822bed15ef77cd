/* cuda_call.h - a launch as CUDA code sees it, in C and C++ alike.
 *
 * Device code is C++, which cannot read our C headers. These types have the same layout as tensor
 * and kernel_args (runtime/cuda/cuda_call.c asserts it), under names that C++ accepts. */
#ifndef RUNTIME_CUDA_CUDA_CALL_H
#define RUNTIME_CUDA_CUDA_CALL_H

#include <cuda_runtime.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CUDA_MAX_RANK = 6 };

/* The numbers of tensor/dtype.h; cuda_call.c asserts that they agree. */
enum cuda_dtype {
    CUDA_DTYPE_F64,
    CUDA_DTYPE_F32,
    CUDA_DTYPE_BF16,
    CUDA_DTYPE_F16,
    CUDA_DTYPE_I64,
    CUDA_DTYPE_I32,
    CUDA_DTYPE_U16,
    CUDA_DTYPE_U8,
    CUDA_DTYPE_BOOL
};

typedef struct cuda_tensor {
    void *data;
    int type;
    struct {
        int rank;
        int64_t dim[CUDA_MAX_RANK];
    } shape;
    int64_t stride[CUDA_MAX_RANK];
} cuda_tensor;

/* launch_context, field by field. */
typedef struct cuda_context {
    struct device *device;
    cudaStream_t stream;
    struct communicator *communicator;
    bool begins_step;
    int repetition, repetitions;
    int64_t *handle;
} cuda_context;

/* kernel_args, field by field. */
typedef struct cuda_args {
    int input_count, output_count;
    const cuda_tensor *inputs;
    const cuda_tensor *outputs;
    const struct attributes *attributes;
    void *workspace;
    const char *variant;
    const struct target *target;
    uint64_t offset_bits;
    const cuda_context *context;
} cuda_args;

int64_t cuda_elements(const cuda_tensor *t);
int64_t cuda_integer(const cuda_args *args, const char *attribute); /* it is there */
double cuda_real(const cuda_args *args, const char *attribute);
int64_t cuda_integer_or(const cuda_args *args, const char *attribute, int64_t otherwise);
double cuda_real_or(const cuda_args *args, const char *attribute, double otherwise);

/* What a kernel of TARGET_CUDA is in the module: called "dyno_" and the kernel's name; enqueues on
 * the context's stream and returns. Never synchronizes, never allocates: a step is captured into a
 * graph. */
typedef dyno_status cuda_run(const cuda_args *args);

/* The status of the launches since the last call: DYNO_OK, or why one could not be enqueued. */
dyno_status cuda_launch_status(void);

#ifdef __cplusplus
}
#endif

#endif
