/* program.c - resolves the code of every launch of a plan before anything runs, and enqueues
 * launches. */
#include "runtime/cuda/program.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/kernel_list.h"
#include "runtime/cuda/observe.h"
#include "runtime/nvrtc.h"

#define DECLARE(name) cuda_run dyno_##name;
FOR_EACH_CUDA_KERNEL(DECLARE)
#undef DECLARE

static const struct {
    const char *name;
    cuda_run *run;
} KERNELS[] = {
#define ROW(name) {#name, dyno_##name},
    FOR_EACH_CUDA_KERNEL(ROW)
#undef ROW
};

static cuda_run *find_kernel(const char *name) {
    for (size_t i = 0; i < sizeof KERNELS / sizeof *KERNELS; i++)
        if (strcmp(KERNELS[i].name, name) == 0)
            return KERNELS[i].run;
    return NULL;
}

static dyno_status find_runs(program *r) {
    const plan *p = r->p;
    r->runs = memory_allocate((size_t)p->launch_count, sizeof *r->runs);
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        if (l->generated >= 0)
            continue;
        r->runs[i] = find_kernel(l->kernel_name);
        if (!r->runs[i])
            return dyno_fail(DYNO_UNSUPPORTED,
                             "the CUDA module has no kernel '%s' (%s in scope '%s')",
                             l->kernel_name, l->op_name, p->scopes[l->scope]);
    }
    return DYNO_OK;
}

/* ---- generated kernels ---- */

enum { MOST_THREADS = 1024, MOST_SHARED_UNASKED = 48 << 10 };

/* More than 48 KiB of shared memory for a block needs an explicit opt-in. */
static dyno_status prepare_function(CUfunction function, const plan_generated *g) {
    if (g->units < 1 || g->units > INT_MAX)
        return dyno_fail(DYNO_UNSUPPORTED, "kernel '%s' has %lld blocks; a grid has 1 to %d",
                         g->symbol, (long long)g->units, INT_MAX);
    if (g->threads < 1 || g->threads > MOST_THREADS)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "kernel '%s' has blocks of %d threads; they have 1 to %d", g->symbol,
                         g->threads, MOST_THREADS);
    if (g->shared_bytes <= MOST_SHARED_UNASKED)
        return DYNO_OK;
    return cuda_status_of_driver(
        cuda_driver()->function_set(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    g->shared_bytes),
        "asking for more shared memory");
}

static dyno_status find_generated(program *r) {
    const plan *p = r->p;
    r->generated = memory_allocate((size_t)p->generated_count, sizeof *r->generated);
    for (int i = 0; i < p->generated_count; i++) {
        const plan_generated *g = &p->generated[i];
        dyno_status status = cuda_status_of_driver(
            cuda_driver()->module_function(&r->generated[i], r->module, g->symbol),
            "finding a generated kernel");
        if (status == DYNO_OK)
            status = prepare_function(r->generated[i], g);
        if (status != DYNO_OK)
            return dyno_fail_within(status, "%s", g->symbol);
    }
    return DYNO_OK;
}

static dyno_status load_generated(program *r) {
    if (!r->p->generated_count)
        return DYNO_OK;
    nvrtc_target chip = {
        .toolkit = CUDART_VERSION / 1000, .major = r->device->major, .minor = r->device->minor};
    nvrtc_code code;
    RETURN_IF_FAILED(nvrtc_compile(r->p->source, &chip, &code));
    dyno_status status = cuda_status_of_driver(cuda_driver()->module_load(&r->module, code.bytes),
                                               "loading generated kernels");
    nvrtc_code_release(&code);
    return status == DYNO_OK ? find_generated(r) : status;
}

/* Programmatic dependent launch. Generated kernels begin with wait_for_earlier_launches
 * (compiler/codegen/cuda_prelude.cuh), so that they may be launched while the previous kernel of
 * the stream still runs, which hides the launch latency. Other kernels start when all earlier work
 * is complete. DYNO_CUDA_PDL=0 switches it off, for measuring its effect. */
static bool uses_dependent_launch(const cuda_device *d) {
    enum { FIRST_MAJOR = 9, FIRST_DRIVER = 12030 }; /* the first that captures them */
    const char *chosen = getenv("DYNO_CUDA_PDL");
    int driver = 0;
    return d->major >= FIRST_MAJOR && cudaDriverGetVersion(&driver) == cudaSuccess &&
           driver >= FIRST_DRIVER && !(chosen && strcmp(chosen, "0") == 0);
}

static dyno_status launch_generated(program *r, const plan_launch *l, const kernel_args *args,
                                    cudaStream_t stream) {
    enum { MOST_ON_STACK = 64 };
    void *few[2 * MOST_ON_STACK], **pointers = few;
    int count = args->input_count + args->output_count;
    if (count > MOST_ON_STACK)
        pointers = memory_allocate(2 * (size_t)count, sizeof *pointers);
    void **data = pointers + count; /* the parameters follow the pointers to them */
    for (int i = 0; i < count; i++) {
        data[i] = i < args->input_count ? args->inputs[i].data
                                        : args->outputs[i - args->input_count].data;
        pointers[i] = &data[i];
    }
    const plan_generated *g = &r->p->generated[l->generated];
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig config = {.gridDimX = (unsigned)g->units,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = (unsigned)g->threads,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .sharedMemBytes = (unsigned)g->shared_bytes,
                             .hStream = stream,
                             .attrs = &early,
                             .numAttrs = r->uses_dependent_launch};
    CUresult result = cuda_driver()->launch(&config, r->generated[l->generated], pointers, NULL);
    if (pointers != few)
        free(pointers);
    return cuda_status_of_driver(result, "launching a generated kernel");
}

/* ---- programs ---- */

dyno_status cuda_program_create(device *d, const plan *p, program **out) {
    *out = NULL;
    cuda_device *c = cuda_device_use(d);
    int64_t before = cuda_device_free_bytes();
    program *r = memory_allocate(1, sizeof *r);
    r->device = c;
    r->p = p;
    r->uses_dependent_launch = uses_dependent_launch(c);
    dyno_status status = find_runs(r);
    if (status == DYNO_OK)
        status = load_generated(r);
    r->device_bytes = before - cuda_device_free_bytes();
    c->footprint.programs += r->device_bytes;
    if (status != DYNO_OK) {
        cuda_program_destroy(r);
        return status;
    }
    *out = r;
    return DYNO_OK;
}

void cuda_program_destroy(program *r) {
    if (!r)
        return;
    cuda_device *d = cuda_device_use(&r->device->base);
    if (r->graph || r->module)
        cuda_device_check(d, cudaStreamSynchronize(d->stream), "waiting before code is unloaded");
    if (r->graph)
        cuda_device_check(d, cudaGraphExecDestroy(r->graph), "destroying a graph");
    if (r->module && cuda_driver()->module_unload(r->module) != CUDA_SUCCESS)
        cuda_device_keep_failure(d, DYNO_DEVICE_FAILED, "unloading generated kernels failed");
    d->footprint.programs -= r->device_bytes;
    free(r->generated);
    free(r->runs);
    free(r);
}

/* Code is loaded lazily, at the first launch: that may run out of memory. */
dyno_status program_enqueue(program *r, int index, const kernel_args *args, cudaStream_t stream) {
    const plan_launch *l = &r->p->launches[index];
    launch_context context = args->context ? *args->context : (launch_context){0};
    context.device = &r->device->base;
    context.stream = stream;
    kernel_args here = *args;
    here.context = &context;
    dyno_status status = l->generated >= 0 ? launch_generated(r, l, &here, stream)
                                           : r->runs[index]((const cuda_args *)&here);
    if (status == DYNO_OK)
        return DYNO_OK;
    return dyno_fail_within(status, "'%s' in scope '%s'", l->kernel_name, r->p->scopes[l->scope]);
}

dyno_status program_rehearse(program *r, const device_launch *steps, int count) {
    cuda_device *d = r->device;
    dyno_status status = DYNO_OK;
    d->is_rehearsing = true;
    for (int i = 0; i < count && status == DYNO_OK; i++)
        if (r->runs[steps[i].launch] == dyno_matmul_cublas)
            status = program_enqueue(r, steps[i].launch, steps[i].args, d->stream);
    d->is_rehearsing = false;
    return status;
}

dyno_status cuda_program_launch(program *r, int index, const kernel_args *args) {
    cuda_device *d = cuda_device_use(&r->device->base);
    cuda_observe_launch_begin(r, index, args->context && args->context->begins_step);
    dyno_status status = program_enqueue(r, index, args, d->stream);
    cuda_observe_launch_end(r);
    return status;
}

dyno_status cuda_program_replay(program *r) {
    cuda_device *d = cuda_device_use(&r->device->base);
    return cuda_status(cudaGraphLaunch(r->graph, d->stream), "replaying a step");
}
