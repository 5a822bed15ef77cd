#include "support/emulated_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/op.h"
#include "runtime/nvrtc.h"
#include "support/emulated_plan.h"
#include "support/operand.h"

struct program {
    const plan *p;
    emulated_plan *kernels;
};

/* What the emulator takes, NVRTC must take as well, where it is. */
static dyno_status try_nvrtc(const plan *p) {
    static const nvrtc_target hopper = {.toolkit = 13, .major = 9, .minor = 0};
    nvrtc_code code;
    if (!p->source)
        return DYNO_OK;
    dyno_status status = nvrtc_compile(p->source, &hopper, &code);
    if (status == DYNO_OK)
        nvrtc_code_release(&code);
    return status == DYNO_UNSUPPORTED ? DYNO_OK : status;
}

static dyno_status program_create(device *d, const plan *p, program **out) {
    (void)d;
    *out = NULL;
    RETURN_IF_FAILED(try_nvrtc(p));
    *out = memory_allocate(1, sizeof **out);
    **out = (program){.p = p, .kernels = emulated_plan_create_kernels(p)};
    return DYNO_OK;
}

static void program_destroy(program *r) {
    if (!r)
        return;
    emulated_plan_destroy(r->kernels);
    free(r);
}

static void run_generated(const program *r, const plan_launch *l, const kernel_args *args) {
    void **pointers = memory_allocate((size_t)(l->input_count + l->output_count), sizeof(void *));
    for (int i = 0; i < l->input_count; i++)
        pointers[i] = args->inputs[i].data;
    for (int i = 0; i < l->output_count; i++)
        pointers[l->input_count + i] = args->outputs[i].data;
    emulated_plan_run_blocks(r->kernels, l->generated, pointers, 0,
                             r->p->generated[l->generated].units);
    free(pointers);
}

/* The CPU's kernel may want other workspace than the GPU's, which is the one in the plan. */
static bool run_as_it_is(const plan_launch *l, const kernel_args *args) {
    kernel_args here = *args;
    here.target = target_this_cpu();
    bool is_dense = true;
    for (int i = 0; i < l->output_count; i++)
        is_dense = is_dense && tensor_is_contiguous(&args->outputs[i]);
    for (const kernel *const *k = op_find(l->op_name)->kernels; *k; k++) {
        if ((*k)->target != TARGET_CPU || !(is_dense || (*k)->writes_strided) ||
            ((*k)->reject && (*k)->reject(&here)))
            continue;
        size_t bytes = (*k)->workspace_bytes ? (*k)->workspace_bytes(&here) : 0;
        here.workspace = aligned_alloc(64, (bytes + 64) / 64 * 64);
        if ((*k)->run(&here) != DYNO_OK)
            abort();
        free(here.workspace);
        return true;
    }
    return false;
}

static void copy_elements(const tensor *to, const tensor *from) {
    size_t size = (size_t)dtype_bytes(to->type);
    for (int64_t i = 0; i < shape_elements(&to->shape); i++)
        memcpy((char *)to->data + tensor_offset(to, i) * (int64_t)size,
               (const char *)from->data + tensor_offset(from, i) * (int64_t)size, size);
}

static tensor dense_room(const tensor *t) {
    void *room = memory_allocate((size_t)tensor_bytes(t), 1);
    return tensor_contiguous(room, t->type, &t->shape);
}

/* Layouts that only the GPU's kernel takes: the CPU's gets copies. */
static void run_on_copies(const plan_launch *l, const kernel_args *args) {
    tensor *inputs = memory_allocate((size_t)l->input_count, sizeof *inputs);
    tensor *outputs = memory_allocate((size_t)l->output_count, sizeof *outputs);
    for (int i = 0; i < l->input_count; i++) {
        inputs[i] = dense_room(&args->inputs[i]);
        copy_elements(&inputs[i], &args->inputs[i]);
    }
    for (int i = 0; i < l->output_count; i++) {
        outputs[i] = dense_room(&args->outputs[i]);
        for (int j = 0; j < l->input_count; j++) /* in place */
            if (args->inputs[j].data == args->outputs[i].data) {
                free(outputs[i].data);
                outputs[i].data = inputs[j].data;
            }
    }
    kernel_args here = *args;
    here.inputs = inputs;
    here.outputs = outputs;
    if (!run_as_it_is(l, &here)) {
        fprintf(stderr, "no kernel of the CPU stands in for %s\n", l->kernel_name);
        abort();
    }
    for (int i = 0; i < l->output_count; i++) {
        copy_elements(&args->outputs[i], &outputs[i]);
        for (int j = 0; j < l->input_count; j++)
            if (inputs[j].data == outputs[i].data)
                outputs[i].data = NULL;
        free(outputs[i].data);
    }
    for (int i = 0; i < l->input_count; i++)
        free(inputs[i].data);
    free(inputs);
    free(outputs);
}

static dyno_status launch(program *r, int index, const kernel_args *args) {
    const plan_launch *l = &r->p->launches[index];
    if (l->generated >= 0)
        run_generated(r, l, args);
    else if (!run_as_it_is(l, args))
        run_on_copies(l, args);
    return DYNO_OK;
}

device *emulated_device(void) {
    static device_functions functions;
    static device emulated;
    if (!emulated.functions) { /* memory and marks are the host's */
        functions = *device_cpu()->functions;
        functions.program_create = program_create;
        functions.program_destroy = program_destroy;
        functions.launch = launch;
        emulated = *device_cpu();
        emulated.functions = &functions;
        emulated.target = *target_usual(TARGET_CUDA);
        snprintf(emulated.name, sizeof emulated.name, "emulated");
        snprintf(emulated.description, sizeof emulated.description, "a GPU that is none");
    }
    return &emulated;
}
