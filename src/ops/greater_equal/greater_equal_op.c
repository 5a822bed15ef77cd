#include "ops/greater_equal/greater_equal.h"

#include "ops/elementwise.h"

ELEMENTWISE_OP_COMPARE(greater_equal, "a >= b, as bool", a >= b)

value *build_greater_equal(graph *g, value *a, value *b) {
    return elementwise_build(g, &op_greater_equal, (value *[]){a, b}, 2);
}
