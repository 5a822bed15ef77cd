/* squares.cu - blocks of elements are added up as integers in shared memory, then in the workspace:
 * two 64-bit integers for each exponent, the sums of the low and of the high halves of the blocks'
 * sums. Integers make the result independent of the order in which thread blocks run. */
#include "ops/squares/squares_layout.h"
#include "runtime/cuda/device_math.cuh"

enum { THREADS = 256, BLOCKS_PER_SM = 4 };

typedef unsigned long long integer;

static __global__ void __launch_bounds__(THREADS)
    squares_of_blocks(const void *__restrict__ data, int type, int64_t count, integer *halves) {
    __shared__ integer table[SQUARES_EXPONENTS];
    int64_t blocks = (count + SQUARES_BLOCK - 1) / SQUARES_BLOCK;
    for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
        for (int e = threadIdx.x; e < SQUARES_EXPONENTS; e += THREADS)
            table[e] = 0;
        __syncthreads();
        int64_t begin = block * SQUARES_BLOCK;
        int64_t end = begin + SQUARES_BLOCK < count ? begin + SQUARES_BLOCK : count;
        for (int64_t i = begin + threadIdx.x; i < end; i += THREADS) {
            unsigned bits = __float_as_uint(load_any(data, type, i));
            int exponent = (int)(bits >> 23 & 0xffu);
            integer mantissa = (bits & 0x7fffffu) | (exponent > 0 ? 1u << 23 : 0u);
            if (exponent == 0xff)
                atomicAdd(&halves[bits & 0x7fffffu ? 0 : 1], (integer)1);
            else if (mantissa)
                atomicAdd(&table[exponent > 0 ? exponent : 1], mantissa * mantissa);
        }
        __syncthreads();
        for (int e = 1 + threadIdx.x; e < SQUARES_EXPONENTS; e += THREADS)
            if (table[e]) {
                atomicAdd(&halves[2 * e], table[e] & 0xffffffffu);
                atomicAdd(&halves[2 * e + 1], table[e] >> 32);
            }
        __syncthreads();
    }
}

static __global__ void __launch_bounds__(THREADS)
    squares_to_limbs(const integer *__restrict__ halves, double *__restrict__ limbs) {
    int e = threadIdx.x;
    if (e >= SQUARES_EXPONENTS)
        return;
    integer low = halves[2 * e], high = halves[2 * e + 1];
    double *of = limbs + e * SQUARES_LIMBS;
    integer carried = high + (low >> 32);
    of[0] = e == 0 ? (double)low : (double)(low & 0xffffffffu);
    of[1] = e == 0 ? (double)high : (double)(carried & 0xffffffffu);
    of[2] = e == 0 ? 0.0 : (double)(carried >> 32);
}

extern "C" dyno_status dyno_squares_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    int ordinal = 0, multiprocessors = 0;
    cudaGetDevice(&ordinal);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal);
    integer *halves = (integer *)args->workspace;
    cudaMemsetAsync(halves, 0, SQUARES_EXPONENTS * 2 * sizeof *halves, stream);
    for (int i = 0; i < args->input_count; i++) {
        const cuda_tensor *in = &args->inputs[i];
        int64_t count = cuda_elements(in), blocks = (count + SQUARES_BLOCK - 1) / SQUARES_BLOCK;
        int64_t most = (int64_t)multiprocessors * BLOCKS_PER_SM;
        if (blocks)
            squares_of_blocks<<<(unsigned)(blocks < most ? blocks : most), THREADS, 0, stream>>>(
                in->data, in->type, count, halves);
    }
    squares_to_limbs<<<1, THREADS, 0, stream>>>(halves, (double *)args->outputs[0].data);
    return cuda_launch_status();
}

/* One thread for each exponent; the sums of exponents are then added from small to large, as the CPU
 * adds them. The limbs of several parts are added before that, exactly. */
static __global__ void __launch_bounds__(THREADS)
    root_of_squares(int64_t parts, const double *__restrict__ limbs, float *__restrict__ norm) {
    __shared__ double of_exponent[SQUARES_EXPONENTS];
    __shared__ double others[2];
    int e = threadIdx.x;
    if (e < SQUARES_EXPONENTS) {
        double sums[SQUARES_LIMBS] = {0, 0, 0}; /* of integers below 2^53: exact */
        for (int64_t p = 0; p < parts; p++)
            for (int l = 0; l < SQUARES_LIMBS; l++)
                sums[l] += limbs[p * SQUARES_LENGTH + e * SQUARES_LIMBS + l];
        /* To nearest, once, of the integer sums[0] + sums[1] 2^32 + sums[2] 2^64. */
        integer low = (integer)sums[0], middle = (integer)sums[1] + (low >> 32);
        integer high = (integer)sums[2] + (middle >> 32);
        integer lower = middle << 32 | (low & 0xffffffffu);
        double value;
        if (high == 0) {
            value = __ull2double_rn(lower);
        } else { /* the bits below the 64 that count decide only by not being zero */
            int shift = 64 - __clzll((long long)high);
            integer top = high << (64 - shift) | lower >> shift;
            integer rest = lower & (((integer)1 << shift) - 1);
            value = ldexp(__ull2double_rn(top | (rest != 0)), shift);
        }
        of_exponent[e] = e ? ldexp(value, 2 * (e - 150)) : 0;
        if (e == 0) {
            others[0] = sums[0];
            others[1] = sums[1];
        }
    }
    __syncthreads();
    if (e == 0) {
        double total = 0;
        for (int i = 1; i < SQUARES_EXPONENTS; i++)
            total += of_exponent[i];
        float root = (float)sqrt(total);
        *norm = others[0] > 0 ? NAN : others[1] > 0 ? INFINITY : root;
    }
}

extern "C" dyno_status dyno_root_of_squares_cuda(const cuda_args *args) {
    int64_t parts = cuda_elements(&args->inputs[0]) / SQUARES_LENGTH;
    root_of_squares<<<1, THREADS, 0, args->context->stream>>>(
        parts, (const double *)args->inputs[0].data, (float *)args->outputs[0].data);
    return cuda_launch_status();
}
