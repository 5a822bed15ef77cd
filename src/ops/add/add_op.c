#include "ops/add/add.h"

#include "ops/elementwise.h"

static void gradient(graph *g, const node *n, value *const *dy, const bool *wanted, value **dx) {
    (void)g;
    (void)n;
    for (int i = 0; i < 2; i++)
        if (wanted[i])
            dx[i] = dy[0];
}

ELEMENTWISE_OP_2(add, "a + b", 1, gradient, a + b)

value *build_add(graph *g, value *a, value *b) {
    return elementwise_build(g, &op_add, (value *[]){a, b}, 2);
}
