/* collectives.c - from the operands of a launch to collectives. Also part of the CUDA module. */
#include "ops/collectives.h"

static int64_t elements_of(const tensor *t) { return shape_elements(&t->shape); }

static bool begins_at_the_end(const tensor *next, const tensor *before, int64_t elements) {
    return next->type == before->type &&
           (const char *)next->data ==
               (const char *)before->data + elements * dtype_bytes(before->type);
}

/* Operands that lie one behind the other, as those of a family do, are one collective: a bucket. They
 * come in the order of their addresses, which is the same on every rank. */
dyno_status all_reduce_launch(const kernel_args *args, collective_runner *run) {
    for (int i = 0; i < args->output_count;) {
        const tensor *first = &args->outputs[i];
        int64_t count = elements_of(first);
        for (i++; i < args->output_count && begins_at_the_end(&args->outputs[i], first, count); i++)
            count += elements_of(&args->outputs[i]);
        RETURN_IF_FAILED(run(args, &(collective){.op = COLLECTIVE_ALL_REDUCE,
                                                 .type = first->type,
                                                 .from = first->data,
                                                 .to = first->data,
                                                 .count = count}));
    }
    return DYNO_OK;
}

dyno_status reduce_scatter_launch(const kernel_args *args, collective_runner *run) {
    return run(args, &(collective){.op = COLLECTIVE_REDUCE_SCATTER,
                                   .type = args->inputs[0].type,
                                   .from = args->inputs[0].data,
                                   .to = args->outputs[0].data,
                                   .count = elements_of(&args->outputs[0])});
}

dyno_status all_gather_launch(const kernel_args *args, collective_runner *run) {
    return run(args, &(collective){.op = COLLECTIVE_ALL_GATHER,
                                   .type = args->inputs[0].type,
                                   .from = args->inputs[0].data,
                                   .to = args->outputs[0].data,
                                   .count = elements_of(&args->inputs[0])});
}
