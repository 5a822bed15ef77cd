/* elementwise.h - the family of ops that compute each element from the elements at the same
 * place of their inputs.
 *
 * Such an op is its scalar expression, written once:
 *
 *   ELEMENTWISE_OP_2(multiply, "element-wise product", 1, gradient, a * b)
 *
 * over a, b, c (the inputs) and s (the real attribute "s"). The macro compiles it into the
 * eager kernel (float) and the reference (double), and keeps it as text for the code generator. */
#ifndef OPS_ELEMENTWISE_H
#define OPS_ELEMENTWISE_H

#include "graph/op.h"
#include "ops/kernel.h"
#include "ops/scalar_math.h"

enum { ELEMENTWISE_MAX_INPUTS = 3 };

/* One run of n elements; stride[i] is input i's, in elements. */
typedef void elementwise_row(int64_t n, void *out, const void *const *in, const int64_t *stride,
                             double s);

/* Walks operands of any strides, splits the work over threads, hands rows to `row`. */
dyno_status elementwise_run(const kernel_args *args, elementwise_row *row);

/* Shape rules: all inputs alike; alike, giving bool; a bool choosing between two alike. */
dyno_status elementwise_infer_same(const node *n, value_type *outputs);
dyno_status elementwise_infer_same_with_scalar(const node *n, value_type *outputs);
dyno_status elementwise_infer_compare(const node *n, value_type *outputs);
dyno_status elementwise_infer_select(const node *n, value_type *outputs);

typedef double elementwise_scalar(double a, double b, double c, double s);
void elementwise_reference(const node *n, const double *const *inputs, double *output,
                           elementwise_scalar *scalar);

/* Builders for the op headers. */
value *elementwise_build(graph *g, const op *kind, value *const *inputs, int count);
value *elementwise_build_scalar(graph *g, const op *kind, value *a, double s);

/* The loop over one row. Strides of 0 and 1 are compiled apart, so that they vectorise. */
#define ELEMENTWISE_LOOP_1(NAME, OUT, A, EXPRESSION)                                               \
    static inline __attribute__((always_inline)) void NAME##_loop(                                 \
        int64_t n, OUT *restrict out, const A *restrict pa, int64_t sa, float s) {                 \
        (void)s;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            A a = pa[i * sa];                                                                      \
            out[i] = (OUT)(EXPRESSION);                                                            \
        }                                                                                          \
    }                                                                                              \
    static void NAME##_row(int64_t n, void *out, const void *const *in, const int64_t *stride,     \
                           double s) {                                                             \
        if (stride[0] == 1)                                                                        \
            NAME##_loop(n, out, in[0], 1, (float)s);                                               \
        else                                                                                       \
            NAME##_loop(n, out, in[0], stride[0], (float)s);                                       \
    }                                                                                              \
    static dyno_status NAME##_run(const kernel_args *args) {                                       \
        return elementwise_run(args, NAME##_row);                                                  \
    }

#define ELEMENTWISE_LOOP_2(NAME, OUT, A, B, EXPRESSION)                                            \
    static inline __attribute__((always_inline)) void NAME##_loop(                                 \
        int64_t n, OUT *restrict out, const A *restrict pa, int64_t sa, const B *restrict pb,      \
        int64_t sb, float s) {                                                                     \
        (void)s;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            A a = pa[i * sa];                                                                      \
            B b = pb[i * sb];                                                                      \
            out[i] = (OUT)(EXPRESSION);                                                            \
        }                                                                                          \
    }                                                                                              \
    static void NAME##_row(int64_t n, void *out, const void *const *in, const int64_t *stride,     \
                           double s) {                                                             \
        if (stride[0] == 1 && stride[1] == 1)                                                      \
            NAME##_loop(n, out, in[0], 1, in[1], 1, (float)s);                                     \
        else if (stride[0] == 1 && stride[1] == 0)                                                 \
            NAME##_loop(n, out, in[0], 1, in[1], 0, (float)s);                                     \
        else if (stride[0] == 0 && stride[1] == 1)                                                 \
            NAME##_loop(n, out, in[0], 0, in[1], 1, (float)s);                                     \
        else                                                                                       \
            NAME##_loop(n, out, in[0], stride[0], in[1], stride[1], (float)s);                     \
    }                                                                                              \
    static dyno_status NAME##_run(const kernel_args *args) {                                       \
        return elementwise_run(args, NAME##_row);                                                  \
    }

#define ELEMENTWISE_LOOP_3(NAME, OUT, A, B, C, EXPRESSION)                                         \
    static inline __attribute__((always_inline)) void NAME##_loop(                                 \
        int64_t n, OUT *restrict out, const A *restrict pa, int64_t sa, const B *restrict pb,      \
        int64_t sb, const C *restrict pc, int64_t sc, float s) {                                   \
        (void)s;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            A a = pa[i * sa];                                                                      \
            B b = pb[i * sb];                                                                      \
            C c = pc[i * sc];                                                                      \
            out[i] = (OUT)(EXPRESSION);                                                            \
        }                                                                                          \
    }                                                                                              \
    static void NAME##_row(int64_t n, void *out, const void *const *in, const int64_t *stride,     \
                           double s) {                                                             \
        if (stride[0] == 1 && stride[1] == 1 && stride[2] == 1)                                    \
            NAME##_loop(n, out, in[0], 1, in[1], 1, in[2], 1, (float)s);                           \
        else if (stride[0] == 1 && stride[1] == 1 && stride[2] == 0)                               \
            NAME##_loop(n, out, in[0], 1, in[1], 1, in[2], 0, (float)s);                           \
        else if (stride[0] == 1 && stride[1] == 0 && stride[2] == 1)                               \
            NAME##_loop(n, out, in[0], 1, in[1], 0, in[2], 1, (float)s);                           \
        else                                                                                       \
            NAME##_loop(n, out, in[0], stride[0], in[1], stride[1], in[2], stride[2], (float)s);   \
    }                                                                                              \
    static dyno_status NAME##_run(const kernel_args *args) {                                       \
        return elementwise_run(args, NAME##_row);                                                  \
    }

#define ELEMENTWISE_REFERENCE(NAME, EXPRESSION)                                                    \
    static double NAME##_scalar(double a, double b, double c, double s) {                          \
        (void)a, (void)b, (void)c, (void)s;                                                        \
        return (double)(EXPRESSION);                                                               \
    }                                                                                              \
    static void NAME##_reference(const node *n, const double *const *inputs,                       \
                                 double *const *outputs) {                                         \
        elementwise_reference(n, inputs, outputs[0], NAME##_scalar);                               \
    }

/* The op itself, given `NAME##_kernels`. */
#define ELEMENTWISE_DESCRIBE(NAME, INPUTS, SUMMARY, FLOPS, INFER, GRADIENT, TEXT)                  \
    static op_cost NAME##_cost(const node *n) { return op_cost_streaming(n, FLOPS); }              \
    const op op_##NAME = {.name = #NAME,                                                           \
                          .summary = SUMMARY,                                                      \
                          .class = OP_CLASS_ELEMENTWISE,                                           \
                          .input_count = INPUTS,                                                   \
                          .output_count = 1,                                                       \
                          .infer = INFER,                                                          \
                          .gradient = GRADIENT,                                                    \
                          .cost = NAME##_cost,                                                     \
                          .reference = NAME##_reference,                                           \
                          .expression = TEXT,                                                      \
                          .kernels = NAME##_kernels};

#define ELEMENTWISE_KERNEL_F32(NAME)                                                               \
    static const kernel NAME##_kernel = {.name = #NAME "_f32",                                     \
                                         .target = TARGET_CPU,                                     \
                                         .reject = kernel_reject_unless_f32,                       \
                                         .run = NAME##_run};                                       \
    static const kernel *const NAME##_kernels[] = {&NAME##_kernel, NULL};

#define ELEMENTWISE_OP_1(NAME, SUMMARY, FLOPS, GRADIENT, EXPRESSION)                               \
    ELEMENTWISE_LOOP_1(NAME, float, float, EXPRESSION)                                             \
    ELEMENTWISE_REFERENCE(NAME, EXPRESSION)                                                        \
    ELEMENTWISE_KERNEL_F32(NAME)                                                                   \
    ELEMENTWISE_DESCRIBE(NAME, 1, SUMMARY, FLOPS, elementwise_infer_same, GRADIENT, #EXPRESSION)

#define ELEMENTWISE_OP_2(NAME, SUMMARY, FLOPS, GRADIENT, EXPRESSION)                               \
    ELEMENTWISE_LOOP_2(NAME, float, float, float, EXPRESSION)                                      \
    ELEMENTWISE_REFERENCE(NAME, EXPRESSION)                                                        \
    ELEMENTWISE_KERNEL_F32(NAME)                                                                   \
    ELEMENTWISE_DESCRIBE(NAME, 2, SUMMARY, FLOPS, elementwise_infer_same, GRADIENT, #EXPRESSION)

#define ELEMENTWISE_OP_3(NAME, SUMMARY, FLOPS, GRADIENT, EXPRESSION)                               \
    ELEMENTWISE_LOOP_3(NAME, float, float, float, float, EXPRESSION)                               \
    ELEMENTWISE_REFERENCE(NAME, EXPRESSION)                                                        \
    ELEMENTWISE_KERNEL_F32(NAME)                                                                   \
    ELEMENTWISE_DESCRIBE(NAME, 3, SUMMARY, FLOPS, elementwise_infer_same, GRADIENT, #EXPRESSION)

/* One input and the attribute s. */
#define ELEMENTWISE_OP_SCALAR(NAME, SUMMARY, FLOPS, GRADIENT, EXPRESSION)                          \
    ELEMENTWISE_LOOP_1(NAME, float, float, EXPRESSION)                                             \
    ELEMENTWISE_REFERENCE(NAME, EXPRESSION)                                                        \
    ELEMENTWISE_KERNEL_F32(NAME)                                                                   \
    ELEMENTWISE_DESCRIBE(NAME, 1, SUMMARY, FLOPS, elementwise_infer_same_with_scalar, GRADIENT,    \
                         #EXPRESSION)

/* Two inputs of one type, bool out; compares floats and integers. */
#define ELEMENTWISE_OP_COMPARE(NAME, SUMMARY, EXPRESSION)                                          \
    ELEMENTWISE_LOOP_2(NAME##_f32, uint8_t, float, float, EXPRESSION)                              \
    ELEMENTWISE_LOOP_2(NAME##_i32, uint8_t, int32_t, int32_t, EXPRESSION)                          \
    ELEMENTWISE_REFERENCE(NAME, EXPRESSION)                                                        \
    static const kernel NAME##_f32_kernel = {.name = #NAME "_f32",                                 \
                                             .target = TARGET_CPU,                                 \
                                             .reject = kernel_reject_unless_f32,                   \
                                             .run = NAME##_f32_run};                               \
    static const char *NAME##_reject_unless_i32(const kernel_args *args) {                         \
        return args->inputs[0].type == DTYPE_I32 ? NULL : "compares i32 only";                     \
    }                                                                                              \
    static const kernel NAME##_i32_kernel = {.name = #NAME "_i32",                                 \
                                             .target = TARGET_CPU,                                 \
                                             .reject = NAME##_reject_unless_i32,                   \
                                             .run = NAME##_i32_run};                               \
    static const kernel *const NAME##_kernels[] = {&NAME##_f32_kernel, &NAME##_i32_kernel, NULL};  \
    ELEMENTWISE_DESCRIBE(NAME, 2, SUMMARY, 1, elementwise_infer_compare, NULL, #EXPRESSION)

#endif
