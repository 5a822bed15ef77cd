/* collectives.c - collectives on the stream of their launch, which a capture takes in like any
 * other. */
#include "ops/collectives.h"

#include "runtime/cuda/cuda_call.h"
#include "runtime/cuda/cuda_status.h"

/* A rank without others needs no communicator. */
static dyno_status copy_alone(const collective *what, cudaStream_t stream) {
    if (what->to == what->from)
        return DYNO_OK;
    return cuda_status(cudaMemcpyAsync(what->to, what->from,
                                       (size_t)(what->count * dtype_bytes(what->type)),
                                       cudaMemcpyDeviceToDevice, stream),
                       "copying what a single rank has");
}

static dyno_status enqueue(const kernel_args *args, const collective *what) {
    communicator *c = args->context->communicator;
    collective here = *what;
    here.stream = args->context->stream;
    int64_t ranks = attribute_integer(args->attributes, "ranks");
    if (!c && ranks == 1)
        return copy_alone(what, here.stream);
    if (!c || c->count != ranks || c->kind != COMMUNICATOR_NCCL)
        return dyno_fail(DYNO_INVALID, "a collective of %lld ranks on a GPU: there %s",
                         (long long)ranks, c ? "is another communicator" : "is no communicator");
    return c->functions->run(c, &here, 0);
}

#define KERNEL(name)                                                                               \
    dyno_status dyno_##name##_cuda(const cuda_args *args);                                         \
    dyno_status dyno_##name##_cuda(const cuda_args *args) {                                        \
        return name##_launch((const kernel_args *)args, enqueue);                                  \
    }

KERNEL(all_reduce)
KERNEL(reduce_scatter)
KERNEL(all_gather)
