/* rope_table.cu - in double: an angle of thousands of radians has no digits to lose. A thread has
 * one column, whose frequency it takes once, and a few rows of it. */
#include "runtime/cuda/device_math.cuh"

enum { THREADS = 128, ROWS_PER_THREAD = 4 };

static __global__ void __launch_bounds__(THREADS)
    table_columns(double theta, int64_t length, int64_t half, float *__restrict__ cosine,
                  float *__restrict__ sine) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t column = i % half, first = i / half * ROWS_PER_THREAD;
    if (first >= length)
        return;
    double frequency = pow(theta, -(double)column / (double)half);
    for (int64_t t = first; t < first + ROWS_PER_THREAD && t < length; t++) {
        double c, s;
        sincos((double)t * frequency, &s, &c);
        cosine[t * half + column] = (float)c;
        sine[t * half + column] = (float)s;
    }
}

extern "C" void dyno_rope_table_cuda(const cuda_args *args, cudaStream_t stream) {
    int64_t length = args->outputs[0].shape.dim[0], half = args->outputs[0].shape.dim[1];
    int64_t threads = blocks_for(length, ROWS_PER_THREAD) * half;
    table_columns<<<(unsigned)blocks_for(threads, THREADS), THREADS, 0, stream>>>(
        cuda_real(args, "theta"), length, half, (float *)args->outputs[0].data,
        (float *)args->outputs[1].data);
}
