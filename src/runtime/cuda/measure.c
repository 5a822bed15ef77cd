/* measure.c - the rates that the device reaches in practice, by copies and square products: the
 * roofline that a training step is compared with, instead of a data sheet. */
#include "runtime/cuda/products.h"

#include <stdlib.h>

#include "ops/matmul/product_workspace.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/products_internal.h"

enum { REPEATS = 7, SIDE = 8192 };
#define COPY_BYTES ((int64_t)1 << 30)

typedef dyno_status timed_work(const void *context, const cuda_context *where);

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Median time of `work`, after one run that is not timed. Uses events 0 and 1 of the device. */
static dyno_status time_work(cuda_device *d, timed_work *work, const void *context,
                             float *median_ms) {
    float ms[REPEATS] = {0};
    *median_ms = 0;
    cuda_context where = {.device = &d->base, .stream = d->stream};
    cudaEvent_t begin = cuda_event(d, 0), end = cuda_event(d, 1);
    for (int i = -1; i < REPEATS && begin && end; i++) {
        cuda_device_check(d, cudaEventRecord(begin, d->stream), "recording an event");
        RETURN_IF_FAILED(work(context, &where));
        cuda_device_check(d, cudaEventRecord(end, d->stream), "recording an event");
        cuda_device_check(d, cudaStreamSynchronize(d->stream), "measuring");
        if (i >= 0)
            cuda_device_check(d, cudaEventElapsedTime(&ms[i], begin, end), "measuring");
        if (d->failure != DYNO_OK)
            break;
    }
    if (d->failure != DYNO_OK)
        return d->base.functions->finish(&d->base);
    qsort(ms, REPEATS, sizeof *ms, compare_floats);
    *median_ms = ms[REPEATS / 2];
    return DYNO_OK;
}

static dyno_status copy_by_kernel(const void *context, const cuda_context *where) {
    char *memory = *(char *const *)context;
    cuda_copy_blocks(memory + COPY_BYTES, memory, COPY_BYTES, where->stream);
    return cuda_launch_status();
}

static dyno_status copy_by_driver(const void *context, const cuda_context *where) {
    char *memory = *(char *const *)context;
    return cuda_status(cudaMemcpyAsync(memory + COPY_BYTES, memory, (size_t)COPY_BYTES,
                                       cudaMemcpyDeviceToDevice, where->stream),
                       "copying");
}

static dyno_status multiply(const void *context, const cuda_context *where) {
    return cuda_product_run(context, where);
}

static dyno_status measure_copies(cuda_device *d, char *memory, cuda_rates *out) {
    timed_work *const ways[] = {copy_by_kernel, copy_by_driver};
    for (int i = 0; i < 2; i++) {
        float ms = 0;
        RETURN_IF_FAILED(time_work(d, ways[i], &memory, &ms));
        double rate = 2 * (double)COPY_BYTES / ((double)ms * 1e6);
        if (rate > out->copy_gb_s)
            out->copy_gb_s = rate;
    }
    return DYNO_OK;
}

static dyno_status measure_product(cuda_device *d, char *memory, int type, bool is_tf32,
                                   double *tflops) {
    int64_t elements = (int64_t)SIDE * SIDE, bytes = elements * (type == DTYPE_F32 ? 4 : 2);
    cuda_matrix m = {.type = type, .row = SIDE, .column = 1};
    cuda_product p = {.m = SIDE,
                      .n = SIDE,
                      .k = SIDE,
                      .outer_batches = 1,
                      .inner_batches = 1,
                      .a = m,
                      .b = m,
                      .c = m,
                      .alpha = 1,
                      .tf32 = is_tf32,
                      .workspace = memory + 3 * bytes,
                      .workspace_bytes = (size_t)product_workspace_bytes(elements)};
    p.a.data = memory;
    p.b.data = memory + bytes;
    p.c.data = memory + 2 * bytes;
    cuda_fill_random(p.a.data, elements, type, 1, d->stream);
    cuda_fill_random(p.b.data, elements, type, 2, d->stream);
    float ms = 0;
    RETURN_IF_FAILED(time_work(d, multiply, &p, &ms));
    *tflops = 2.0 * SIDE * SIDE * SIDE / ((double)ms * 1e9);
    return DYNO_OK;
}

static dyno_status measure_all(cuda_device *d, char *memory, cuda_rates *out) {
    RETURN_IF_FAILED(measure_copies(d, memory, out));
    RETURN_IF_FAILED(measure_product(d, memory, DTYPE_F32, false, &out->fp32));
    RETURN_IF_FAILED(measure_product(d, memory, DTYPE_F32, true, &out->tf32));
    RETURN_IF_FAILED(measure_product(d, memory, DTYPE_BF16, false, &out->bf16));
    return measure_product(d, memory, DTYPE_F16, false, &out->fp16);
}

dyno_status cuda_measure(device *d, cuda_rates *out) {
    cuda_device *c = cuda_device_use(d);
    *out = (cuda_rates){0};
    void *memory = NULL;
    int64_t bytes = 2 * COPY_BYTES, have = 0;
    RETURN_IF_FAILED(cuda_memory_reserve(d, bytes, &memory));
    dyno_status status = cuda_memory_commit(d, memory, 0, bytes, &have);
    if (status == DYNO_OK)
        status = measure_all(c, memory, out);
    cuda_memory_release(d, memory, bytes, have);
    cuda_scratch_release(c);
    return status;
}
