/* reduction.h - the family of ops that reduce some dimensions to size 1.
 *
 * The attribute "axes" lists the dimensions in rising order. The order of every sum is fixed by
 * the shape alone, so results do not depend on the number of threads. */
#ifndef OPS_REDUCTION_H
#define OPS_REDUCTION_H

#include "graph/op.h"
#include "ops/kernel.h"

dyno_status reduction_infer(const node *n, value_type *outputs);
op_cost reduction_cost(const node *n);
void reduction_reference(const node *n, const double *input, double *output, op_reduction kind);
void reduction_run_f32(const kernel_args *args, op_reduction kind);
/* Of the kernels for GPUs, which take any axes. */
const char *reduction_reject_cuda(const kernel_args *args);
size_t reduction_workspace_cuda(const kernel_args *args);
value *reduction_build(graph *g, const op *kind, value *a, const shape *axes);

/* Elements that go into one result. */
int64_t reduction_length(const node *n);

#define REDUCTION_OP(NAME, KIND, SUMMARY, GRADIENT)                                                \
    static void reference(const node *n, const double *const *inputs, double *const *outputs) {    \
        reduction_reference(n, inputs[0], outputs[0], KIND);                                       \
    }                                                                                              \
    static dyno_status run_f32(const kernel_args *args) {                                          \
        reduction_run_f32(args, KIND);                                                             \
        return DYNO_OK;                                                                            \
    }                                                                                              \
    static const kernel kernel_f32 = {.name = #NAME "_f32",                                        \
                                      .target = TARGET_CPU,                                        \
                                      .reject = kernel_reject_unless_f32,                          \
                                      .run = run_f32};                                             \
    static const kernel kernel_cuda = {.name = #NAME "_cuda",                                      \
                                       .target = TARGET_CUDA,                                      \
                                       .reject = reduction_reject_cuda,                            \
                                       .workspace_bytes = reduction_workspace_cuda};               \
    const op op_##NAME = {.name = #NAME,                                                           \
                          .summary = SUMMARY,                                                      \
                          .class = OP_CLASS_REDUCTION,                                             \
                          .input_count = 1,                                                        \
                          .output_count = 1,                                                       \
                          .infer = reduction_infer,                                                \
                          .gradient = GRADIENT,                                                    \
                          .cost = reduction_cost,                                                  \
                          .reference = reference,                                                  \
                          .reduction = KIND,                                                       \
                          .kernels = (const kernel *const[]){&kernel_f32, &kernel_cuda, NULL}};    \
    value *build_##NAME(graph *g, value *a, const shape *axes) {                                   \
        return reduction_build(g, &op_##NAME, a, axes);                                            \
    }

#endif
