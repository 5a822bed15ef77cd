#define _GNU_SOURCE
#include "measure/gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

dyno_status gpu_capture(device *d, results *run, cuda_rates *rates) {
    const cuda_module *module;
    cuda_device_info info = {0};
    *rates = (cuda_rates){0};
    RETURN_IF_FAILED(find(d, &module, &info));
    RETURN_IF_FAILED(module->measure(d, rates));
    char capability[32];
    snprintf(capability, sizeof capability, "%d.%d", info.major, info.minor);
    results_set_environment_text(run, "gpu", info.name);
    results_set_environment_text(run, "gpu_compute_capability", capability);
    results_set_environment_integer(run, "gpu_memory_bytes", info.memory_bytes);
    results_set_environment_integer(run, "gpu_memory_free_bytes", info.free_bytes);
    results_set_environment_integer(run, "gpu_multiprocessors", info.multiprocessors);
    set_version(run, "cuda_driver", info.driver_version);
    set_version(run, "cuda_runtime", info.runtime_version);
    results_set_environment_real(run, "gpu_copy_gbs", rates->copy_gb_s);
    results_set_environment_real(run, "gpu_fp32_tflops", rates->fp32);
    results_set_environment_real(run, "gpu_tf32_tflops", rates->tf32);
    results_set_environment_real(run, "gpu_bf16_tflops", rates->bf16);
    results_set_environment_real(run, "gpu_fp16_tflops", rates->fp16);
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
            snprintf(name, sizeof name, "device.%s", line);
            cell_set_metric(cell, name, "B", strtoll(colon + 1, NULL, 10));
        }
        line = next;
    }
}

dyno_status gpu_record_memory(device *d, results_cell *cell) {
    const cuda_module *module;
    cuda_device_info info = {0};
    RETURN_IF_FAILED(find(d, &module, &info));
    cell_set_metric(cell, "device_used_bytes", "B", info.memory_bytes - info.free_bytes);
    char *lines = NULL;
    RETURN_IF_FAILED(module->explain_memory(d, &lines));
    if (lines)
        record_lines(lines, cell);
    free(lines);
    return DYNO_OK;
}
