/* marks.c - moments on the device, as events that keep the time. A graph records the same events
 * when it is replayed. */
#include "base/memory.h"
#include "runtime/cuda/cuda_device.h"

cudaEvent_t cuda_mark_event(cuda_device *d, int slot) {
    while (d->mark_count <= slot) {
        MEMORY_GROW(d->marks, d->mark_count, d->mark_capacity);
        cudaEvent_t *made = &d->marks[d->mark_count];
        cudaError_t error = cudaEventCreate(made);
        if (error != cudaSuccess) {
            cuda_device_check(d, error, "making an event");
            return NULL;
        }
        d->mark_count++;
    }
    return d->marks[slot];
}

void cuda_mark(device *d, int slot) {
    cuda_device *c = cuda_device_use(d);
    cudaEvent_t event = cuda_mark_event(c, slot);
    if (event)
        cuda_device_check(c, cudaEventRecord(event, c->stream), "recording an event");
}

int64_t cuda_elapsed_ns(device *d, int from, int to) {
    cuda_device *c = cuda_device_use(d);
    cudaEvent_t begin = cuda_mark_event(c, from), end = cuda_mark_event(c, to);
    float ms = 0;
    if (begin && end)
        cuda_device_check(c, cudaEventElapsedTime(&ms, begin, end), "reading the time of an event");
    return (int64_t)((double)ms * 1e6 + 0.5);
}
