#include "support/kernel_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ops/levels.h"

int kernel_run_targets(const target **out) {
    static target baseline;
    int count = 0;
    baseline = *target_this_cpu();
    baseline.instruction_sets = 0;
    snprintf(baseline.name, sizeof baseline.name, "baseline");
    out[count++] = &baseline;
    for (int i = target_count() - 1; i >= 0; i--)
        if (!target_is_cuda(target_at(i)) && target_check_is_runnable(target_at(i)) == DYNO_OK)
            out[count++] = target_at(i);
    return count;
}

const char *kernel_run(const node *n, const kernel *k, const tensor *inputs, tensor *outputs) {
    return kernel_run_for(target_this_cpu(), n, k, inputs, outputs);
}

const char *kernel_run_for(const target *chip, const node *n, const kernel *k, const tensor *inputs,
                           tensor *outputs) {
    if (k->target != TARGET_CPU)
        return "runs on a device, not here";
    size_t count = (size_t)n->input_count;
    tensor *given = memory_allocate(count, sizeof *given);
    for (size_t i = 0; i < count; i++) {
        given[i] = inputs[i];
        given[i].data = NULL;
    }
    for (int i = 0; i < n->output_count; i++)
        outputs[i] = tensor_contiguous(NULL, n->outputs[i]->type, &n->outputs[i]->shape);
    kernel_args args = {.input_count = n->input_count,
                        .output_count = n->output_count,
                        .inputs = given,
                        .outputs = outputs,
                        .attributes = &n->attributes,
                        .target = chip};
    const char *why = k->reject ? k->reject(&args) : NULL;
    if (why) {
        free(given);
        return why;
    }
    size_t scratch = k->workspace_bytes ? k->workspace_bytes(&args) : 0;
    if (scratch)
        args.workspace = memset(memory_allocate(scratch, 1), 0xa5, scratch);
    if (count)
        memcpy(given, inputs, count * sizeof *given);
    for (int i = 0; i < n->output_count; i++) {
        size_t bytes = (size_t)tensor_bytes(&outputs[i]);
        outputs[i].data = memset(memory_allocate(bytes, 1), 0xff, bytes);
        int taken = op_inplace_input(n, i);
        if (taken >= 0) {
            memcpy(outputs[i].data, inputs[taken].data, bytes);
            given[taken].data = outputs[i].data;
        }
    }
    const char *failure =
        level_kernel(k, chip)->run(&args) == DYNO_OK ? NULL : dyno_error_message();
    free(args.workspace);
    free(given);
    return failure;
}
