/* cross_entropy.cu - cross_entropy and cross_entropy_gradient, a block for each row. */
#include <assert.h>

#include "ops/cross_entropy/cross_entropy_rows.cuh"

template <typename T>
static __global__ void __launch_bounds__(CROSS_ENTROPY_THREADS)
    cross_entropy_rows(int64_t width, const T *__restrict__ logits, const int32_t *__restrict__ targets,
                   T *__restrict__ losses, T *__restrict__ log_sum_exp) {
    int64_t i = blockIdx.x;
    const T *row = logits + i * width;
    auto r = cross_entropy_row_sums(row, width);
    if (threadIdx.x == 0) {
        assert(targets[i] >= 0 && targets[i] < width);
        log_sum_exp[i] = from_float<T>(log_sum_exp_above(r, 0.0f));
        losses[i] = from_float<T>(log_sum_exp_above(r, to_float(row[targets[i]])));
    }
}

/* One number for each row, of any float type; broadcast where the stride is 0. */
typedef struct row_numbers {
    const void *data;
    int type;
    int64_t stride;
} row_numbers;

template <typename T>
static __global__ void __launch_bounds__(CROSS_ENTROPY_THREADS)
    cross_entropy_gradient_rows(int64_t width, const T *__restrict__ logits,
                      const int32_t *__restrict__ targets, row_numbers log_sum_exp, row_numbers dy,
                      T *__restrict__ out) {
    int64_t i = blockIdx.x;
    float lse = load_any(log_sum_exp.data, log_sum_exp.type, i * log_sum_exp.stride);
    float upstream = load_any(dy.data, dy.type, i * dy.stride);
    cross_entropy_row_gradient(logits + i * width, width, targets[i], lse, 1.0f, upstream,
                               out + i * width);
}

template <typename T> static void launch_losses(const cuda_args *args, cudaStream_t stream) {
    const cuda_tensor *logits = &args->inputs[0];
    cross_entropy_rows<<<(unsigned)logits->shape.dim[0], CROSS_ENTROPY_THREADS, 0, stream>>>(
        logits->shape.dim[1], (const T *)logits->data, (const int32_t *)args->inputs[1].data,
        (T *)args->outputs[0].data, (T *)args->outputs[1].data);
}

template <typename T> static void launch_gradients(const cuda_args *args, cudaStream_t stream) {
    const cuda_tensor *logits = &args->inputs[0], *lse = &args->inputs[2], *dy = &args->inputs[3];
    cross_entropy_gradient_rows<<<(unsigned)logits->shape.dim[0], CROSS_ENTROPY_THREADS, 0, stream>>>(
        logits->shape.dim[1], (const T *)logits->data, (const int32_t *)args->inputs[1].data,
        row_numbers{lse->data, lse->type, lse->stride[0]},
        row_numbers{dy->data, dy->type, dy->stride[0]}, (T *)args->outputs[0].data);
}

extern "C" dyno_status dyno_cross_entropy_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    switch (args->inputs[0].type) {
    case CUDA_DTYPE_BF16:
        launch_losses<bf16>(args, stream);
        break;
    case CUDA_DTYPE_F16:
        launch_losses<f16>(args, stream);
        break;
    default:
        launch_losses<float>(args, stream);
        break;
    }
    return cuda_launch_status();
}

extern "C" dyno_status dyno_cross_entropy_gradient_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    switch (args->inputs[0].type) {
    case CUDA_DTYPE_BF16:
        launch_gradients<bf16>(args, stream);
        break;
    case CUDA_DTYPE_F16:
        launch_gradients<f16>(args, stream);
        break;
    default:
        launch_gradients<float>(args, stream);
        break;
    }
    return cuda_launch_status();
}
