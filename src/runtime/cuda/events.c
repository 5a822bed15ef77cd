/* events.c - timing events by slot. A captured graph records the same events when it is replayed.
 * */
#include "base/memory.h"
#include "runtime/cuda/cuda_device.h"

cudaEvent_t cuda_event(cuda_device *d, int slot) {
    while (d->event_count <= slot) {
        MEMORY_GROW(d->events, d->event_count, d->event_capacity);
        cudaEvent_t *made = &d->events[d->event_count];
        cudaError_t error = cudaEventCreate(made);
        if (error != cudaSuccess) {
            cuda_device_check(d, error, "making an event");
            return NULL;
        }
        d->event_count++;
    }
    return d->events[slot];
}

void cuda_record_event(device *d, int slot) {
    cuda_device *c = cuda_device_use(d);
    cudaEvent_t event = cuda_event(c, slot);
    if (event)
        cuda_device_check(c, cudaEventRecord(event, c->stream), "recording an event");
}

int64_t cuda_elapsed_ns(device *d, int from, int to) {
    cuda_device *c = cuda_device_use(d);
    cudaEvent_t begin = cuda_event(c, from), end = cuda_event(c, to);
    float ms = 0;
    if (begin && end)
        cuda_device_check(c, cudaEventElapsedTime(&ms, begin, end), "reading the time of an event");
    return (int64_t)((double)ms * 1e6 + 0.5);
}
