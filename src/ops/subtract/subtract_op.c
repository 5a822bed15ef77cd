#include "ops/subtract/subtract.h"

#include "ops/elementwise.h"
#include "ops/scale/scale.h"

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    (void)n;
    if (wanted[0])
        dx[0] = dy[0];
    if (wanted[1])
        dx[1] = build_scale(g, dy[0], -1);
}

ELEMENTWISE_OP_2(subtract, "a - b", 1, gradient, a - b)

value *build_subtract(graph *g, value *a, value *b) {
    return elementwise_build(g, &op_subtract, (value *[]){a, b}, 2);
}
