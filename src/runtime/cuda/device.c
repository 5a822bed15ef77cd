/* device.c - the module's one exported function; GPUs are counted, described, opened and closed. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/cuda/clear_kernel.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/nccl.h"
#include "runtime/cuda/observe.h"

enum { OLDEST_MAJOR = 8 };                /* Ampere: bf16 products, async copies */
#define GRANULE_BYTES ((int64_t)32 << 20) /* few calls, and little memory that is not used */

/* ---- the device in use ---- */

cuda_device *cuda_device_use(device *d) {
    cuda_device *c = (cuda_device *)d;
    cudaSetDevice(c->ordinal); /* cheap when the device is current already */
    return c;
}

void cuda_device_keep_failure(cuda_device *d, dyno_status code, const char *format, ...) {
    if (d->failure != DYNO_OK)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(d->failure_message, sizeof d->failure_message, format, arguments);
    va_end(arguments);
    d->failure = code;
}

void cuda_device_check(cuda_device *d, cudaError_t error, const char *what) {
    dyno_status status = cuda_status(error, what);
    if (status != DYNO_OK)
        cuda_device_keep_failure(d, status, "%s", dyno_error_message());
}

/* The host runs ahead of the device: a failure of enqueued work is reported last, and is the cause
 * of the failures that the host saw before. */
static void keep_work_failure(cuda_device *d, cudaError_t error) {
    char met[sizeof d->failure_message / 2] = "";
    if (error != cudaSuccess && d->failure != DYNO_OK) {
        snprintf(met, sizeof met, "; first seen as: %.450s", d->failure_message);
        d->failure = DYNO_OK;
    }
    dyno_status status = cuda_status(error, "waiting for the GPU");
    if (status != DYNO_OK)
        cuda_device_keep_failure(d, status, "%s%s", dyno_error_message(), met);
}

static dyno_status finish(device *d) {
    cuda_device *c = cuda_device_use(d);
    keep_work_failure(c, cudaStreamSynchronize(c->stream));
    cuda_device_check(c, cudaGetLastError(), "work on the GPU");
    cuda_scratch_release(c);
    dyno_status status = c->failure;
    c->failure = DYNO_OK;
    return status == DYNO_OK ? DYNO_OK : dyno_fail(status, "%s: %s", d->name, c->failure_message);
}

/* ---- what there is ---- */

static dyno_status count_devices(int *devices) {
    *devices = 0;
    int driver = 0;
    cudaError_t error = cudaDriverGetVersion(&driver);
    if (error != cudaSuccess || driver == 0) {
        (void)cudaGetLastError();
        return dyno_fail(DYNO_UNSUPPORTED,
                         "there is no CUDA driver (libcuda.so.1); install NVIDIA's driver, or use "
                         "--device cpu");
    }
    error = cudaGetDeviceCount(devices);
    if (error == cudaErrorInsufficientDriver) {
        (void)cudaGetLastError();
        return dyno_fail(DYNO_UNSUPPORTED,
                         "the CUDA driver is for CUDA %d.%d, this build needs %d.%d; install a "
                         "newer NVIDIA driver, or use --device cpu",
                         driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                         CUDART_VERSION % 1000 / 10);
    }
    if (error == cudaErrorNoDevice) {
        (void)cudaGetLastError();
        *devices = 0;
        return DYNO_OK;
    }
    return cuda_status(error, "counting GPUs");
}

static dyno_status check_ordinal(int ordinal) {
    int devices;
    RETURN_IF_FAILED(count_devices(&devices));
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (devices == 0)
        return dyno_fail(DYNO_UNSUPPORTED, "the CUDA driver sees no GPU%s%s%s",
                         visible ? " (CUDA_VISIBLE_DEVICES is '" : "", visible ? visible : "",
                         visible ? "')" : "");
    if (ordinal < 0 || ordinal >= devices)
        return dyno_fail(DYNO_UNSUPPORTED, "there is no GPU %d: GPUs here are numbered 0 to %d",
                         ordinal, devices - 1);
    return DYNO_OK;
}

static int attribute_of(int ordinal, enum cudaDeviceAttr which) {
    int found = 0;
    if (cudaDeviceGetAttribute(&found, which, ordinal) != cudaSuccess)
        (void)cudaGetLastError();
    return found;
}

static dyno_status describe(int ordinal, cuda_device_info *out) {
    *out = (cuda_device_info){0};
    RETURN_IF_FAILED(check_ordinal(ordinal));
    struct cudaDeviceProp properties;
    RETURN_IF_FAILED(
        cuda_status(cudaGetDeviceProperties(&properties, ordinal), "describing a GPU"));
    snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, properties.name);
    out->major = properties.major;
    out->minor = properties.minor;
    out->memory_bytes = (int64_t)properties.totalGlobalMem;
    out->multiprocessors = properties.multiProcessorCount;
    out->clock_mhz = attribute_of(ordinal, cudaDevAttrClockRate) / 1000;
    out->memory_clock_mhz = attribute_of(ordinal, cudaDevAttrMemoryClockRate) / 1000;
    out->l2_bytes = properties.l2CacheSize;
    RETURN_IF_FAILED(
        cuda_status(cudaDriverGetVersion(&out->driver_version), "asking for the driver's version"));
    RETURN_IF_FAILED(cuda_status(cudaRuntimeGetVersion(&out->runtime_version),
                                 "asking for the runtime's version"));
    RETURN_IF_FAILED(cuda_status(cudaSetDevice(ordinal), "using a GPU"));
    out->free_bytes = cuda_device_free_bytes();
    return DYNO_OK;
}

/* ---- open and close ---- */

static void close_device(device *d) {
    if (!d)
        return;
    cuda_device *c = cuda_device_use(d);
    if (c->stream)
        cudaStreamSynchronize(c->stream);
    products_destroy(c->products);
    cuda_scratch_release(c);
    staging_destroy(c->staging);
    for (int i = 0; i < c->event_count; i++)
        cudaEventDestroy(c->events[i]);
    for (int i = 0; i < c->side_stream_count; i++)
        cudaStreamDestroy(c->side_streams[i]);
    if (c->stream)
        cudaStreamDestroy(c->stream);
    (void)cudaGetLastError();
    free(c->events);
    free(c->side_streams);
    free(c);
}

static dyno_status choose_granularity(cuda_device *d) {
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    properties.location.id = d->ordinal;
    size_t page = 0;
    RETURN_IF_FAILED(cuda_status_of_driver(
        cuda_driver()->memory_granularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
        "asking how the GPU's memory is divided"));
    d->page_bytes = (int64_t)page;
    d->base.granularity = (GRANULE_BYTES + d->page_bytes - 1) / d->page_bytes * d->page_bytes;
    return DYNO_OK;
}

/* The module is built for some architectures only, and has no code for others. */
static dyno_status check_code(const cuda_device_info *info) {
    cudaError_t error = cuda_clear_find_code();
    if (error != cudaErrorNoKernelImageForDevice && error != cudaErrorInvalidDeviceFunction)
        return cuda_status(error, "loading the CUDA module's code");
    (void)cudaGetLastError();
    return dyno_fail(DYNO_UNSUPPORTED,
                     "the CUDA module was built for other chips than sm_%d%d; build it with "
                     "-DDYNO_CUDA_ARCHITECTURES=%d%d, or use --device cpu",
                     info->major, info->minor, info->major, info->minor);
}

static dyno_status prepare(cuda_device *d, const cuda_device_info *info) {
    snprintf(d->base.name, sizeof d->base.name, "cuda:%d", d->ordinal);
    snprintf(d->base.description, sizeof d->base.description, "%.80s, sm_%d%d, %s", info->name,
             info->major, info->minor, units_bytes(info->memory_bytes).text);
    RETURN_IF_FAILED(cuda_status(cudaInitDevice(d->ordinal, 0, 0), "opening the GPU"));
    RETURN_IF_FAILED(cuda_status(cudaSetDevice(d->ordinal), "opening the GPU"));
    RETURN_IF_FAILED(cuda_driver_load());
    RETURN_IF_FAILED(check_code(info));
    RETURN_IF_FAILED(choose_granularity(d));
    RETURN_IF_FAILED(cuda_status(cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking),
                                 "making a stream"));
    RETURN_IF_FAILED(staging_create(&d->staging));
    d->footprint.at_open = d->memory_bytes - cuda_device_free_bytes();
    return DYNO_OK;
}

static dyno_status open_device(int ordinal, device **out) {
    *out = NULL;
    cuda_device_info info;
    RETURN_IF_FAILED(describe(ordinal, &info));
    if (info.major < OLDEST_MAJOR)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "GPU %d (%s) has compute capability %d.%d; the kernels need %d.0 or "
                         "later. Use --device cpu",
                         ordinal, info.name, info.major, info.minor, OLDEST_MAJOR);
    cuda_device *d = memory_allocate(1, sizeof *d);
    d->base.functions = &cuda_device_functions;
    d->base.target = cuda_target(&info);
    d->ordinal = ordinal;
    d->major = info.major;
    d->minor = info.minor;
    d->memory_bytes = info.memory_bytes;
    dyno_status status = prepare(d, &info);
    if (status != DYNO_OK) {
        /* Closing must not overwrite the message of the failure. */
        char message[sizeof d->failure_message];
        snprintf(message, sizeof message, "%s", dyno_error_message());
        close_device(&d->base);
        return dyno_fail(status, "GPU %d: %s", ordinal, message);
    }
    *out = &d->base;
    return DYNO_OK;
}

static dyno_status explain_memory(device *d, char **lines) {
    cuda_device *c = cuda_device_use(d);
    int64_t in_use_bytes = c->memory_bytes - cuda_device_free_bytes();
    const cuda_footprint *f = &c->footprint;
    int64_t known = f->at_open + f->libraries + f->programs + c->committed_bytes;
    text out = {0};
    text_format(&out, "context and other processes: %lld\n", (long long)f->at_open);
    text_format(&out, "libraries: %lld\n", (long long)f->libraries);
    text_format(&out, "generated code and graphs: %lld\n", (long long)f->programs);
    text_format(&out, "memory for tensors: %lld\n", (long long)c->committed_bytes);
    text_format(&out, "scratch of tuning: %lld\n", (long long)c->scratch.committed);
    text_format(&out, "code loaded at its first launch, and the rest: %lld\n",
                (long long)(in_use_bytes - known - c->scratch.committed));
    *lines = out.data; /* text's memory is malloc's */
    return DYNO_OK;
}

const device_functions cuda_device_functions = {.close = close_device,
                                                .available_bytes = cuda_memory_available,
                                                .reserve = cuda_memory_reserve,
                                                .commit = cuda_memory_commit,
                                                .decommit = cuda_memory_decommit,
                                                .release = cuda_memory_release,
                                                .clear = cuda_memory_clear,
                                                .write = cuda_memory_write,
                                                .read = cuda_memory_read,
                                                .finish = finish,
                                                .program_create = cuda_program_create,
                                                .program_destroy = cuda_program_destroy,
                                                .launch = cuda_program_launch,
                                                .capture = cuda_program_capture,
                                                .replay = cuda_program_replay,
                                                .record_event = cuda_record_event,
                                                .elapsed_ns = cuda_elapsed_ns,
                                                .observe_begin = cuda_observe_begin,
                                                .observe_end = cuda_observe_end,
                                                .nccl_id = cuda_nccl_id,
                                                .nccl_join = cuda_nccl_join};

static const cuda_module MODULE = {.abi = CUDA_MODULE_ABI,
                                   .version = DYNO_VERSION,
                                   .count = count_devices,
                                   .describe = describe,
                                   .open = open_device,
                                   .measure = cuda_measure,
                                   .explain_memory = explain_memory};

__attribute__((visibility("default"))) cuda_module_function dyno_cuda_module;

const cuda_module *dyno_cuda_module(const cuda_host *host) {
    if (host->abi != CUDA_MODULE_ABI || strcmp(host->version, DYNO_VERSION) != 0)
        return NULL;
    status_tell(host->fail);
    return &MODULE;
}
