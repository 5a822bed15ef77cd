/* memory.c - reserves addresses first and maps memory to them as it is needed.
 *
 * The driver's virtual memory management gives a range of addresses that tensors keep while the
 * memory mapped to it grows, so that one allocator can manage the whole range. Memory comes in
 * granules of one size, each a mapping of its own, because a mapping can only be removed whole. A
 * granule's handle is released as soon as it is mapped: unmapping then frees the memory, and no
 * handle has to be kept. */
#include "base/units.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/driver.h"

/* Kept free for what is loaded later: code of kernels at their first launch, graphs. */
#define LIBRARY_BYTES ((int64_t)384 << 20)

int64_t cuda_device_free_bytes(void) {
    size_t available = 0, total = 0;
    if (cudaMemGetInfo(&available, &total) != cudaSuccess)
        (void)cudaGetLastError();
    return (int64_t)available;
}

/* Fails when the device has failed: a broken device reports no free memory, and is not full. */
static dyno_status find_free(int64_t *bytes) {
    size_t available = 0, total = 0;
    dyno_status status = cuda_status(cudaMemGetInfo(&available, &total), "asking for free memory");
    *bytes = (int64_t)available;
    return status;
}

int64_t cuda_memory_available(device *d) {
    cuda_device_use(d);
    int64_t available = cuda_device_free_bytes() - LIBRARY_BYTES;
    available = available / d->granularity * d->granularity;
    return available > 0 ? available : 0;
}

static int64_t round_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

/* Reserves no more addresses than the device could ever back with memory. */
static int64_t reserved_bytes(const cuda_device *d, int64_t bytes) {
    int64_t asked = round_up(bytes > 0 ? bytes : 1, d->base.granularity);
    int64_t most = round_up(d->memory_bytes, d->base.granularity);
    return asked < most ? asked : most;
}

dyno_status cuda_memory_reserve(device *d, int64_t bytes, void **base) {
    cuda_device *c = cuda_device_use(d);
    *base = NULL;
    CUdeviceptr address = 0;
    size_t size = (size_t)reserved_bytes(c, bytes);
    RETURN_IF_FAILED(cuda_status_of_driver(
        cuda_driver()->address_reserve(&address, size, (size_t)c->page_bytes, 0, 0),
        "reserving addresses on the GPU"));
    *base = (void *)(uintptr_t)address;
    return DYNO_OK;
}

static CUmemAllocationProp granule_properties(int ordinal) {
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    properties.location.id = ordinal;
    return properties;
}

static CUresult map_granule(const cuda_device *d, CUdeviceptr at) {
    const driver_functions *driver = cuda_driver();
    CUmemAllocationProp properties = granule_properties(d->ordinal);
    CUmemGenericAllocationHandle handle;
    size_t bytes = (size_t)d->base.granularity;
    CUresult result = driver->memory_create(&handle, bytes, &properties, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = driver->memory_map(at, bytes, 0, handle, 0);
    CUresult released = driver->memory_release(handle);
    return result != CUDA_SUCCESS ? result : released;
}

/* No enqueued work may still use what is unmapped. */
static void unmap(cuda_device *d, CUdeviceptr base, int64_t from, int64_t to) {
    int64_t granule = d->base.granularity;
    for (int64_t at = from; at < to; at += granule)
        if (cuda_driver()->memory_unmap(base + (CUdeviceptr)at, (size_t)granule) != CUDA_SUCCESS)
            cuda_device_keep_failure(d, DYNO_DEVICE_FAILED, "giving memory back to the GPU failed");
}

static CUresult allow_access(const cuda_device *d, CUdeviceptr at, int64_t bytes) {
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    access.location.id = d->ordinal;
    return cuda_driver()->memory_set_access(at, (size_t)bytes, &access, 1);
}

/* All of [have, end) or nothing. */
static CUresult map_granules(cuda_device *d, CUdeviceptr base, int64_t have, int64_t end) {
    int64_t granule = d->base.granularity, mapped = have;
    CUresult result = CUDA_SUCCESS;
    while (mapped < end && result == CUDA_SUCCESS) {
        result = map_granule(d, base + (CUdeviceptr)mapped);
        if (result == CUDA_SUCCESS)
            mapped += granule;
    }
    if (result == CUDA_SUCCESS)
        result = allow_access(d, base + (CUdeviceptr)have, end - have);
    if (result != CUDA_SUCCESS)
        unmap(d, base, have, mapped);
    return result;
}

dyno_status cuda_memory_commit(device *d, void *base, int64_t have, int64_t want, int64_t *got) {
    cuda_device *c = cuda_device_use(d);
    *got = have;
    int64_t end = round_up(want, d->granularity), available;
    if (end <= have)
        return DYNO_OK;
    RETURN_IF_FAILED(find_free(&available));
    /* Nothing is being tuned now; scratch of tuning in an eager step would otherwise be kept until
     * the end of that step. */
    if (end - have > available && c->scratch.committed > 0 && base != c->scratch.base) {
        cuda_scratch_release(c);
        RETURN_IF_FAILED(find_free(&available));
    }
    CUresult result = end - have > available
                          ? CUDA_ERROR_OUT_OF_MEMORY /* known without trying granule by granule */
                          : map_granules(c, (CUdeviceptr)(uintptr_t)base, have, end);
    if (result == CUDA_SUCCESS) {
        *got = end;
        c->committed_bytes += end - have;
        return DYNO_OK;
    }
    (void)cudaGetLastError();
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return dyno_fail(DYNO_OUT_OF_MEMORY,
                         "out of memory: %s has no %s more (%s are free, %s are in use here)",
                         d->name, units_bytes(end - have).text, units_bytes(available).text,
                         units_bytes(c->committed_bytes).text);
    return cuda_status_of_driver(result, "taking memory on the GPU");
}

void cuda_memory_decommit(device *d, void *base, int64_t offset, int64_t bytes, int64_t *have) {
    cuda_device *c = cuda_device_use(d);
    int64_t from = round_up(offset, d->granularity);
    if (offset + bytes < *have || from >= *have)
        return; /* memory in the middle stays mapped: only the end of the range is tracked */
    cuda_device_check(c, cudaStreamSynchronize(c->stream), "waiting before memory is given back");
    unmap(c, (CUdeviceptr)(uintptr_t)base, from, *have);
    c->committed_bytes -= *have - from;
    *have = from;
}

static void free_range(cuda_device *d, void *base, int64_t bytes, int64_t have) {
    unmap(d, (CUdeviceptr)(uintptr_t)base, 0, have);
    size_t size = (size_t)reserved_bytes(d, bytes);
    if (cuda_driver()->address_free((CUdeviceptr)(uintptr_t)base, size) != CUDA_SUCCESS)
        cuda_device_keep_failure(d, DYNO_DEVICE_FAILED, "giving addresses back to the GPU failed");
}

void cuda_memory_release(device *d, void *base, int64_t bytes, int64_t have) {
    if (!base)
        return;
    cuda_device *c = cuda_device_use(d);
    cuda_device_check(c, cudaStreamSynchronize(c->stream), "waiting before memory is given back");
    free_range(c, base, bytes, have);
    c->committed_bytes -= have;
}

void cuda_memory_clear(device *d, void *to, int64_t bytes) {
    cuda_device *c = cuda_device_use(d);
    if (bytes > 0)
        cuda_device_check(c, cudaMemsetAsync(to, 0, (size_t)bytes, c->stream), "clearing memory");
}

void cuda_memory_write(device *d, void *to, const void *from, int64_t bytes) {
    cuda_device *c = cuda_device_use(d);
    cuda_device_check(c, staging_write(c->staging, to, from, bytes, c->stream),
                      "copying to the GPU");
}

void cuda_memory_read(device *d, void *to, const void *from, int64_t bytes) {
    cuda_device *c = cuda_device_use(d);
    if (bytes <= 0)
        return;
    cuda_device_check(c,
                      cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToHost, c->stream),
                      "copying from the GPU");
    cuda_device_check(c, cudaStreamSynchronize(c->stream), "waiting for a copy from the GPU");
}

/* ---- scratch: used on a stream of its own, perhaps while the device's stream is being captured
 * and must not be synchronized; its user synchronizes its own stream. ---- */

dyno_status cuda_scratch(cuda_device *d, int64_t bytes, char **out) {
    cuda_region *s = &d->scratch;
    *out = NULL;
    if (bytes > s->reserved) {
        cuda_scratch_release(d);
        RETURN_IF_FAILED(cuda_memory_reserve(&d->base, bytes, &s->base));
        s->reserved = bytes;
    }
    int64_t before = s->committed;
    dyno_status status = cuda_memory_commit(&d->base, s->base, before, bytes, &s->committed);
    d->committed_bytes -= s->committed - before; /* these are not tensors' */
    if (status == DYNO_OK)
        *out = s->base;
    return status;
}

void cuda_scratch_release(cuda_device *d) {
    if (d->scratch.base)
        free_range(d, d->scratch.base, d->scratch.reserved, d->scratch.committed);
    d->scratch = (cuda_region){0};
}
