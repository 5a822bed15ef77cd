/* gather.cu - rows are copied in words of up to 16 bytes: only the size of a type matters. A thread
 * copies one word of the result. */
#include <assert.h>

#include "runtime/cuda/device_math.cuh"

enum { THREADS = 256 };

template <typename WORD>
static __global__ void __launch_bounds__(THREADS)
    gather_words(int64_t rows, int64_t words_per_row, int64_t count,
                 const int32_t *__restrict__ ids, const WORD *__restrict__ table,
                 WORD *__restrict__ out) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count)
        return;
    int64_t token = i <= INT32_MAX && words_per_row <= INT32_MAX
                        ? (int64_t)((uint32_t)i / (uint32_t)words_per_row)
                        : i / words_per_row;
    int32_t id = ids[token];
    assert(id >= 0 && id < rows);
    out[i] = table[id * words_per_row + (i - token * words_per_row)];
}

extern "C" dyno_status dyno_gather_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    const cuda_tensor *table = &args->inputs[0], *ids = &args->inputs[1], *out = &args->outputs[0];
    int64_t row_bytes = table->shape.dim[1] * element_bytes(table->type);
    int64_t bytes = cuda_elements(ids) * row_bytes;
    uint64_t common =
        (uint64_t)(uintptr_t)table->data | (uint64_t)(uintptr_t)out->data | (uint64_t)row_bytes;
#define GATHER(WORD)                                                                               \
    gather_words<WORD>                                                                             \
        <<<(unsigned)blocks_for(bytes / (int64_t)sizeof(WORD), THREADS), THREADS, 0, stream>>>(    \
            table->shape.dim[0], row_bytes / (int64_t)sizeof(WORD), bytes / (int64_t)sizeof(WORD), \
            (const int32_t *)ids->data, (const WORD *)table->data, (WORD *)out->data)
    if (common % sizeof(uint4) == 0)
        GATHER(uint4);
    else if (common % sizeof(uint64_t) == 0)
        GATHER(uint64_t);
    else if (common % sizeof(uint32_t) == 0)
        GATHER(uint32_t);
    else if (common % sizeof(uint16_t) == 0)
        GATHER(uint16_t);
    else
        GATHER(uint8_t);
#undef GATHER
    return cuda_launch_status();
}
