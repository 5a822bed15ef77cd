/* fill.cu - the number is converted to its type on the host; the kernel writes bits. */
#include "runtime/cuda/device_math.cuh"

enum { THREADS = 256 };

template <typename BITS>
static __global__ void __launch_bounds__(THREADS) fill_bits(BITS bits, int64_t count, BITS *out) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count)
        out[i] = bits;
}

extern "C" dyno_status dyno_fill_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    const cuda_tensor *out = &args->outputs[0];
    uint64_t bits = 0; /* the first bytes are the element, as this machine orders them */
    dtype_store((dtype)out->type, &bits, 0, cuda_real(args, "number"));
    int64_t count = cuda_elements(out);
    unsigned grid = (unsigned)blocks_for(count, THREADS);
    switch (element_bytes(out->type)) {
    case 1:
        fill_bits<<<grid, THREADS, 0, stream>>>((uint8_t)bits, count, (uint8_t *)out->data);
        break;
    case 2:
        fill_bits<<<grid, THREADS, 0, stream>>>((uint16_t)bits, count, (uint16_t *)out->data);
        break;
    case 4:
        fill_bits<<<grid, THREADS, 0, stream>>>((uint32_t)bits, count, (uint32_t *)out->data);
        break;
    default:
        fill_bits<<<grid, THREADS, 0, stream>>>(bits, count, (uint64_t *)out->data);
        break;
    }
    return cuda_launch_status();
}
