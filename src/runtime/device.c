/* device.c - from a name to a device. */
#include "runtime/device.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/module.h"

static bool parse_ordinal(const char *digits, int *ordinal) {
    if (digits[0] < '0' || digits[0] > '9' || strlen(digits) > 4)
        return false;
    char *end;
    *ordinal = (int)strtol(digits, &end, 10);
    return *end == '\0';
}

dyno_status device_parse(const char *name, backend *target, int *ordinal) {
    *target = BACKEND_CPU;
    *ordinal = 0;
    if (strcmp(name, "cpu") == 0 || strcmp(name, "auto") == 0)
        return DYNO_OK;
    *target = BACKEND_CUDA;
    if (strcmp(name, "cuda") == 0 ||
        (strncmp(name, "cuda:", 5) == 0 && parse_ordinal(name + 5, ordinal)))
        return DYNO_OK;
    *target = BACKEND_CPU;
    return dyno_fail(DYNO_INVALID,
                     "there is no device '%s'; there are cpu, cuda, cuda:N (the GPU of that "
                     "number, from 0) and auto",
                     name);
}

static dyno_status open_cuda(int ordinal, device **out) {
    const cuda_module *module;
    RETURN_IF_FAILED(cuda_module_load(&module));
    return module->open(ordinal, out);
}

dyno_status device_open(const char *name, device **out) {
    *out = NULL;
    backend target;
    int ordinal;
    const char *chosen = getenv("DYNO_DEVICE");
    bool is_open = strcmp(name, "auto") == 0 && chosen && chosen[0];
    dyno_status status = device_parse(is_open ? chosen : name, &target, &ordinal);
    if (status != DYNO_OK)
        return is_open ? dyno_fail_within(status, "DYNO_DEVICE") : status;
    if (target == BACKEND_CUDA)
        return open_cuda(ordinal, out);
    bool is_auto = strcmp(is_open ? chosen : name, "auto") == 0;
    if (is_auto && open_cuda(0, out) == DYNO_OK)
        return DYNO_OK;
    *out = device_cpu();
    return DYNO_OK;
}

void device_close(device *d) {
    if (d)
        d->functions->close(d);
}
