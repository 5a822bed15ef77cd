/* device.c - from a name to a device. */
#include "runtime/device.h"

#include <stdlib.h>
#include <string.h>

#include "distributed/world.h"
#include "runtime/cuda/module.h"

static bool parse_ordinal(const char *digits, int *ordinal) {
    if (digits[0] < '0' || digits[0] > '9' || strlen(digits) > 4)
        return false;
    char *end;
    *ordinal = (int)strtol(digits, &end, 10);
    return *end == '\0';
}

dyno_status device_parse(const char *name, target_kind *kind, int *ordinal) {
    *kind = TARGET_CPU;
    *ordinal = 0;
    if (strcmp(name, "cpu") == 0 || strcmp(name, "auto") == 0)
        return DYNO_OK;
    *kind = TARGET_CUDA;
    if (strcmp(name, "cuda") == 0 ||
        (strncmp(name, "cuda:", 5) == 0 && parse_ordinal(name + 5, ordinal)))
        return DYNO_OK;
    *kind = TARGET_CPU;
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

/* The GPU of a rank that names none: GPUs are dealt out to the ranks of a host. */
static int dealt_ordinal(void) {
    world_place place;
    const cuda_module *module;
    int gpus = 0;
    if (world_find_place(&place) != DYNO_OK || place.host_rank <= 0 ||
        cuda_module_load(&module) != DYNO_OK || module->count(&gpus) != DYNO_OK || gpus < 1)
        return 0;
    return place.host_rank % gpus;
}

/* The device that a name asks for; "auto" reads the environment. */
typedef struct request {
    target_kind kind;
    int ordinal;
    bool is_auto; /* a GPU if there is one */
} request;

static dyno_status resolve(const char *name, request *out) {
    const char *chosen = getenv("DYNO_DEVICE");
    bool is_open = strcmp(name, "auto") == 0 && chosen && chosen[0];
    name = is_open ? chosen : name;
    dyno_status status = device_parse(name, &out->kind, &out->ordinal);
    out->is_auto = strcmp(name, "auto") == 0;
    if (status == DYNO_OK && (out->is_auto || strcmp(name, "cuda") == 0))
        out->ordinal = dealt_ordinal();
    return status != DYNO_OK && is_open ? dyno_fail_within(status, "DYNO_DEVICE") : status;
}

dyno_status device_open(const char *name, device **out) {
    *out = NULL;
    request asked;
    RETURN_IF_FAILED(resolve(name, &asked));
    if (asked.kind == TARGET_CUDA)
        return open_cuda(asked.ordinal, out);
    if (asked.is_auto && open_cuda(asked.ordinal, out) == DYNO_OK)
        return DYNO_OK;
    *out = device_cpu();
    return DYNO_OK;
}

dyno_status device_open_as(const char *name, const char *target_name, device **out) {
    if (!target_name)
        return device_open(name, out);
    *out = NULL;
    const target *chip;
    request asked;
    RETURN_IF_FAILED(target_find(target_name, &chip));
    RETURN_IF_FAILED(resolve(name, &asked));
    if (target_is_cuda(chip) || asked.kind == TARGET_CUDA)
        return dyno_fail(DYNO_INVALID,
                         "--target says which instruction sets of the CPU are used; it takes cpu, "
                         "avx2, avx512 or amx, not '%s' on device %s",
                         target_name, name);
    return device_create_cpu(chip, out);
}

static bool describe_gpu(int ordinal, target *out) {
    const cuda_module *module;
    cuda_device_info info;
    if (cuda_module_load(&module) != DYNO_OK || module->describe(ordinal, &info) != DYNO_OK)
        return false;
    *out = cuda_target(&info);
    return true;
}

dyno_status device_find_target(const char *name, target *out) {
    request asked;
    RETURN_IF_FAILED(resolve(name, &asked));
    bool wants_gpu = asked.kind == TARGET_CUDA || asked.is_auto;
    if (!wants_gpu || !describe_gpu(asked.ordinal, out))
        *out = *target_usual(asked.kind);
    return DYNO_OK;
}

void device_close(device *d) {
    if (d)
        d->functions->close(d);
}
