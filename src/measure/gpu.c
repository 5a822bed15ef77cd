#define _GNU_SOURCE
#include "measure/gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/keys.h"

const char *gpu_module_path(const cuda_module *module) {
    Dl_info info;
    return dladdr(module, &info) && info.dli_fname ? info.dli_fname : "";
}

static dyno_status find(const device *d, const cuda_module **module, cuda_device_info *info) {
    target_kind kind;
    int ordinal;
    RETURN_IF_FAILED(device_parse(d->name, &kind, &ordinal));
    RETURN_IF_FAILED(cuda_module_load(module));
    return (*module)->describe(ordinal, info);
}

static void set_version(results *run, const char *key, int number) {
    char version[32];
    snprintf(version, sizeof version, "%d.%d", number / 1000, number % 1000 / 10);
    results_set_environment_text(run, key, version);
}

dyno_status gpu_describe(const device *d, results *run) {
    const cuda_module *module;
    cuda_device_info info = {0};
    RETURN_IF_FAILED(find(d, &module, &info));
    char capability[32];
    snprintf(capability, sizeof capability, "%d.%d", info.major, info.minor);
    results_set_environment_text(run, ENV_GPU, info.name);
    results_set_environment_text(run, ENV_GPU_COMPUTE_CAPABILITY, capability);
    results_set_environment_integer(run, ENV_GPU_MEMORY_BYTES, info.memory_bytes);
    results_set_environment_integer(run, ENV_GPU_MEMORY_FREE_BYTES, info.free_bytes);
    results_set_environment_integer(run, ENV_GPU_MULTIPROCESSORS, info.multiprocessors);
    set_version(run, ENV_CUDA_DRIVER, info.driver_version);
    set_version(run, ENV_CUDA_RUNTIME, info.runtime_version);
    return DYNO_OK;
}

dyno_status gpu_measure(device *d, results *run, cuda_rates *rates) {
    const cuda_module *module;
    *rates = (cuda_rates){0};
    RETURN_IF_FAILED(cuda_module_load(&module));
    RETURN_IF_FAILED(module->measure(d, rates));
    results_set_environment_real(run, ENV_GPU_COPY_GBS, rates->copy_gb_s);
    results_set_environment_real(run, ENV_GPU_FP32_TFLOPS, rates->fp32);
    results_set_environment_real(run, ENV_GPU_TF32_TFLOPS, rates->tf32);
    results_set_environment_real(run, ENV_GPU_BF16_TFLOPS, rates->bf16);
    results_set_environment_real(run, ENV_GPU_FP16_TFLOPS, rates->fp16);
    return DYNO_OK;
}

/* Lines "what: bytes". */
static void record_lines(char *lines, results_cell *cell) {
    for (char *line = lines; *line;) {
        char *end = line + strcspn(line, "\n"), *next = *end ? end + 1 : end;
        *end = '\0';
        char *colon = strrchr(line, ':');
        if (colon) {
            char name[96];
            *colon = '\0';
            snprintf(name, sizeof name, METRIC_DEVICE_PREFIX "%s", line);
            cell_set_metric(cell, name, "B", strtoll(colon + 1, NULL, 10));
        }
        line = next;
    }
}

dyno_status gpu_record_memory(device *d, results_cell *cell) {
    const cuda_module *module;
    cuda_device_info info = {0};
    RETURN_IF_FAILED(find(d, &module, &info));
    cell_set_metric(cell, METRIC_DEVICE_USED_BYTES, "B", info.memory_bytes - info.free_bytes);
    char *lines = NULL;
    RETURN_IF_FAILED(module->explain_memory(d, &lines));
    if (lines)
        record_lines(lines, cell);
    free(lines);
    return DYNO_OK;
}
