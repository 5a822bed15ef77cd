/* cuda_device.h - an opened GPU, as the files of the module see it.
 *
 * All work goes to one non-blocking stream; launches captured into a graph may use more. The first
 * failure of enqueued work is kept until device_functions.finish reports it. */
#ifndef RUNTIME_CUDA_CUDA_DEVICE_H
#define RUNTIME_CUDA_CUDA_DEVICE_H

#include <cuda_runtime.h>

#include "runtime/cuda/module.h"

typedef struct staging staging;   /* staging.c: pinned memory that writes go through */
typedef struct products products; /* products.c: what is known about matrix products */
typedef struct cuda_region {      /* reserved addresses with memory mapped to their first bytes */
    void *base;
    int64_t reserved, committed;
} cuda_region;

/* Bytes of device memory in use besides tensors, as differences of what was free. */
typedef struct cuda_footprint {
    int64_t at_open;   /* in use when the device had just been opened: context, other processes */
    int64_t libraries; /* taken by cuBLASLt when it was loaded and while it was tuned */
    int64_t programs;  /* generated code and graphs, of programs that exist */
} cuda_footprint;

typedef struct cuda_device {
    device base;
    int ordinal, major, minor;
    int64_t memory_bytes;
    int64_t page_bytes; /* the device's own granularity */
    cudaStream_t stream;
    cudaStream_t *side_streams; /* for plan_launch.stream 1 and up, created at the first use */
    int side_stream_count, side_stream_capacity;
    cudaEvent_t *events; /* by slot */
    int event_count, event_capacity;
    staging *staging;
    products *products;      /* NULL until the first product */
    cuda_region scratch;     /* for tuning; released at finish */
    int64_t committed_bytes; /* of tensors' memory */
    cuda_footprint footprint;
    bool is_rehearsing;  /* products are tuned but not run */
    dyno_status failure; /* DYNO_OK: none */
    char failure_message[1024];
} cuda_device;

/* Every function of device_functions begins with it: makes the device the thread's current one in
 * CUDA. */
cuda_device *cuda_device_use(device *d);

/* Keeps a failure until finish reports it, unless an earlier one is kept already. */
void cuda_device_keep_failure(cuda_device *d, dyno_status code, const char *format, ...)
    PRINTF_LIKE(3, 4);
/* The same for a CUDA call that should have succeeded. */
void cuda_device_check(cuda_device *d, cudaError_t error, const char *what);

int64_t cuda_device_free_bytes(void);

/* ---- memory.c ---- */
extern const device_functions cuda_device_functions; /* device.c */
int64_t cuda_memory_available(device *d);
dyno_status cuda_memory_reserve(device *d, int64_t bytes, void **base);
dyno_status cuda_memory_commit(device *d, void *base, int64_t have, int64_t want, int64_t *got);
void cuda_memory_decommit(device *d, void *base, int64_t offset, int64_t bytes, int64_t *have);
void cuda_memory_release(device *d, void *base, int64_t bytes, int64_t have);
void cuda_memory_clear(device *d, void *to, int64_t bytes);
void cuda_memory_write(device *d, void *to, const void *from, int64_t bytes);
void cuda_memory_read(device *d, void *to, const void *from, int64_t bytes);
/* Scratch of at least `bytes`, whose contents are lost when it grows. */
NODISCARD dyno_status cuda_scratch(cuda_device *d, int64_t bytes, char **out);
void cuda_scratch_release(cuda_device *d);

/* ---- staging.c ---- */
NODISCARD dyno_status staging_create(staging **out);
void staging_destroy(staging *s);
/* Copies through pinned memory: the caller may reuse `from` at return. Waits for running work only
 * when the pinned memory is full of copies that have not run yet. */
cudaError_t staging_write(staging *s, void *to, const void *from, int64_t bytes,
                          cudaStream_t stream);

/* ---- events.c ---- */
void cuda_record_event(device *d, int slot);
int64_t cuda_elapsed_ns(device *d, int from, int to);
/* The event of a slot, created at its first use; NULL when CUDA fails (the failure is kept). */
cudaEvent_t cuda_event(cuda_device *d, int slot);

/* ---- program.c, capture.c ---- */
dyno_status cuda_program_create(device *d, const plan *p, program **out);
void cuda_program_destroy(program *r);
dyno_status cuda_program_launch(program *r, int index, const kernel_args *args);
dyno_status cuda_program_capture(program *r, const device_launch *steps, int count,
                                 const int *event_after, int event_count);
dyno_status cuda_program_replay(program *r);

/* ---- products.c ---- */
/* Loads cuBLASLt, if it is not. */
NODISCARD dyno_status products_prepare(cuda_device *d);
void products_destroy(products *p);

/* ---- measure.c ---- */
dyno_status cuda_measure(device *d, cuda_rates *out);

#endif
