/* cuda_call.c - kernel_args is cuda_args: the same bytes under names that C++ accepts. */
#include "runtime/cuda/cuda_call.h"

#include <assert.h>
#include <stddef.h>

#include "ops/kernel.h"
#include "runtime/cuda/cuda_status.h"

#define SAME_PLACE(a, b, field)                                                                    \
    static_assert(offsetof(a, field) == offsetof(b, field), #a " and " #b " differ in " #field)

SAME_PLACE(cuda_tensor, tensor, data);
SAME_PLACE(cuda_tensor, tensor, type);
SAME_PLACE(cuda_tensor, tensor, shape.rank);
SAME_PLACE(cuda_tensor, tensor, shape.dim);
SAME_PLACE(cuda_tensor, tensor, stride);
static_assert(sizeof(cuda_tensor) == sizeof(tensor), "cuda_tensor and tensor differ in size");
static_assert(sizeof(dtype) == sizeof(int), "cuda_tensor.type is an int");
static_assert((int)CUDA_MAX_RANK == (int)SHAPE_MAX_RANK, "CUDA_MAX_RANK is SHAPE_MAX_RANK");

SAME_PLACE(cuda_args, kernel_args, input_count);
SAME_PLACE(cuda_args, kernel_args, output_count);
SAME_PLACE(cuda_args, kernel_args, inputs);
SAME_PLACE(cuda_args, kernel_args, outputs);
SAME_PLACE(cuda_args, kernel_args, attributes);
SAME_PLACE(cuda_args, kernel_args, workspace);
SAME_PLACE(cuda_args, kernel_args, variant);
SAME_PLACE(cuda_args, kernel_args, target);
SAME_PLACE(cuda_args, kernel_args, offset_bits);
SAME_PLACE(cuda_args, kernel_args, context);
static_assert(sizeof(cuda_args) == sizeof(kernel_args), "cuda_args and kernel_args differ in size");

SAME_PLACE(cuda_context, launch_context, device);
SAME_PLACE(cuda_context, launch_context, stream);
SAME_PLACE(cuda_context, launch_context, communicator);
SAME_PLACE(cuda_context, launch_context, begins_step);
SAME_PLACE(cuda_context, launch_context, repetition);
SAME_PLACE(cuda_context, launch_context, repetitions);
SAME_PLACE(cuda_context, launch_context, handle);
static_assert(sizeof(cuda_context) == sizeof(launch_context),
              "cuda_context and launch_context differ in size");

#define SAME_DTYPE(name)                                                                           \
    static_assert((int)CUDA_DTYPE_##name == (int)DTYPE_##name, "CUDA_DTYPE_" #name)
SAME_DTYPE(F64);
SAME_DTYPE(F32);
SAME_DTYPE(BF16);
SAME_DTYPE(F16);
SAME_DTYPE(I64);
SAME_DTYPE(I32);
SAME_DTYPE(U16);
SAME_DTYPE(U8);
SAME_DTYPE(BOOL);

dyno_status cuda_launch_status(void) { return cuda_status(cudaGetLastError(), "launching"); }

int64_t cuda_elements(const cuda_tensor *t) {
    int64_t count = 1;
    for (int i = 0; i < t->shape.rank; i++)
        count *= t->shape.dim[i];
    return count;
}

int64_t cuda_integer(const cuda_args *args, const char *name) {
    return attribute_integer(args->attributes, name);
}

double cuda_real(const cuda_args *args, const char *name) {
    return attribute_real(args->attributes, name);
}

int64_t cuda_integer_or(const cuda_args *args, const char *name, int64_t otherwise) {
    const attribute *found = attribute_find(args->attributes, name);
    return found && found->kind == ATTRIBUTE_INTEGER ? found->integer : otherwise;
}

double cuda_real_or(const cuda_args *args, const char *name, double otherwise) {
    const attribute *found = attribute_find(args->attributes, name);
    return found && found->kind == ATTRIBUTE_REAL ? found->real : otherwise;
}
