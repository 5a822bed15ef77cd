/* module.h - the interface between the shared module libdyno_cuda.so and the program that loads it:
 * one exported function. The module has its own copies of base, tensor and plan code; failures are
 * forwarded to the function of the host, so that messages are where the caller looks. */
#ifndef RUNTIME_CUDA_MODULE_H
#define RUNTIME_CUDA_MODULE_H

#include <stdio.h>

#include "runtime/device.h"

/* Compared together with the version. The sizes catch a module that was built before device.h,
 * plan.h or kernel.h changed layout; the first number is raised when only their meaning changes. */
enum {
    CUDA_MODULE_ABI =
        (1 << 24) +
        (int)(sizeof(device_functions) * 7 + sizeof(device) * 11 + sizeof(plan) * 13 +
              sizeof(plan_launch) * 17 + sizeof(plan_generated) * 19 + sizeof(plan_buffer) * 23 +
              sizeof(kernel_args) * 29 + sizeof(tensor) * 31 + sizeof(kernel) * 37 +
              sizeof(communicator) * 41 + sizeof(collective) * 43 + sizeof(nccl_join) * 47)
};

typedef struct cuda_host {
    int abi;
    const char *version; /* DYNO_VERSION */
    dyno_status (*fail)(dyno_status code, const char *message);
} cuda_host;

/* What is known of a GPU without running anything on it. */
typedef struct cuda_device_info {
    char name[96];
    int major, minor; /* compute capability */
    int64_t memory_bytes, free_bytes;
    int multiprocessors;
    int clock_mhz, memory_clock_mhz;
    int64_t l2_bytes;
    int driver_version, runtime_version; /* 13000: CUDA 13.0 */
} cuda_device_info;

/* The target that a GPU is; its name is "cuda". */
static inline target cuda_target(const cuda_device_info *info) {
    target made = {.name = "cuda",
                   .kind = TARGET_CUDA,
                   .capability = 10 * info->major + info->minor,
                   .cores = info->multiprocessors,
                   .l2_bytes = info->l2_bytes,
                   .memory_bytes = info->memory_bytes};
    snprintf(made.description, sizeof made.description, "%s", info->name);
    return made;
}

/* Rates measured on the device, of copies and products of sizes that fill it. */
typedef struct cuda_rates {
    double copy_gb_s;              /* bytes read plus bytes written */
    double fp32, tf32, bf16, fp16; /* TFLOP/s; 0: not there */
} cuda_rates;

typedef struct cuda_module {
    int abi;
    const char *version;
    dyno_status (*count)(int *devices); /* fails when there is no driver, or it is too old */
    dyno_status (*describe)(int ordinal, cuda_device_info *out);
    dyno_status (*open)(int ordinal, device **out);
    dyno_status (*measure)(device *d, cuda_rates *out);
    /* Lines "what: bytes" of device memory in use that is not tensors: context, module code,
     * library workspaces. The text is the caller's to free. */
    dyno_status (*explain_memory)(device *d, char **lines);
} cuda_module;

/* The module's only symbol, "dyno_cuda_module". NULL when the host is of another version. */
typedef const cuda_module *cuda_module_function(const cuda_host *host);

/* In the host: the module, loaded at the first call; fails saying where it was looked for. */
NODISCARD dyno_status cuda_module_load(const cuda_module **out);

#endif
