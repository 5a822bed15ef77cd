#include "ops/equal/equal.h"

#include "ops/elementwise.h"

ELEMENTWISE_OP_COMPARE(equal, "a == b, as bool", a == b)

value *build_equal(graph *g, value *a, value *b) {
    return elementwise_build(g, &op_equal, (value *[]){a, b}, 2);
}
