#include "ops/select/select.h"

#include "ops/broadcast/broadcast.h"
#include "ops/elementwise.h"
#include "ops/fill/fill.h"

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    value *zero = build_broadcast_scalar(g, build_fill(g, dy[0]->type, 0), &dy[0]->shape);
    value *mask = n->inputs[0];
    if (wanted[1])
        dx[1] = build_select(g, mask, dy[0], zero);
    if (wanted[2])
        dx[2] = build_select(g, mask, zero, dy[0]);
}

ELEMENTWISE_LOOP_3(select, float, uint8_t, float, float, a ? b : c)
ELEMENTWISE_REFERENCE(select, a != 0 ? b : c)

static const char *reject(const kernel_args *args) {
    return args->inputs[1].type == DTYPE_F32 ? NULL : "selects f32 only";
}

static const kernel select_kernel = {
    .name = "select_f32", .target = TARGET_CPU, .reject = reject, .run = select_run};
static const kernel *const select_kernels[] = {&select_kernel, NULL};

ELEMENTWISE_DESCRIBE(select, 3, "a ? b : c, a being bool", 1, elementwise_infer_select, gradient,
                     "a ? b : c")

value *build_select(graph *g, value *mask, value *a, value *b) {
    return elementwise_build(g, &op_select, (value *[]){mask, a, b}, 3);
}
