/* fuzz_pytorch.c - any bytes as the JSON of PyTorch's profiler, plain or compressed. */
#include "read_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read_trace(data, size);
    return 0;
}
