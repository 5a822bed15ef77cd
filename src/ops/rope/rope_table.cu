/* rope_table.cu - in double: an angle of thousands of radians needs all its digits. Frequencies are
 * kernel arguments, because pow in double is what takes a GPU longest. A thread computes one
 * element. */
#include "runtime/cuda/device_math.cuh"

enum { THREADS = 128, MOST_COLUMNS = 256 };

/* Columns of the table from `first` on, of `half` that it has. */
typedef struct table_columns {
    int64_t threads, half, first;
    uint32_t count;
    double frequency[MOST_COLUMNS];
} table_columns;

static __global__ void __launch_bounds__(THREADS)
    rope_table_columns(const __grid_constant__ table_columns c, float *__restrict__ cosine,
                 float *__restrict__ sine) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= c.threads)
        return;
    int64_t position =
        c.threads <= INT32_MAX ? (int64_t)((uint32_t)i / c.count) : i / (int64_t)c.count;
    int column = (int)(i - position * c.count);
    double cos_here, sin_here;
    sincos((double)position * c.frequency[column], &sin_here, &cos_here);
    int64_t at = position * c.half + c.first + column;
    cosine[at] = (float)cos_here;
    sine[at] = (float)sin_here;
}

extern "C" dyno_status dyno_rope_table_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    int64_t length = args->outputs[0].shape.dim[0], half = args->outputs[0].shape.dim[1];
    double theta = cuda_real(args, "theta");
    for (int64_t first = 0; first < half; first += MOST_COLUMNS) {
        table_columns c = {};
        c.half = half;
        c.first = first;
        c.count = (uint32_t)(half - first < MOST_COLUMNS ? half - first : MOST_COLUMNS);
        c.threads = length * c.count;
        for (uint32_t j = 0; j < c.count; j++)
            c.frequency[j] = pow(theta, -(double)(first + j) / (double)half);
        rope_table_columns<<<(unsigned)blocks_for(c.threads, THREADS), THREADS, 0, stream>>>(
            c, (float *)args->outputs[0].data, (float *)args->outputs[1].data);
    }
    return cuda_launch_status();
}
