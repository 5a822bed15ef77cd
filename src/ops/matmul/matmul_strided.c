/* matmul_strided.c - products as strided batches. Compiled into the CUDA module too. */
#include "ops/matmul/matmul.h"

/* One level of batches, innermost dimension first; dimensions that continue it are taken in. */
typedef struct level {
    int64_t count, stride[3];
} level;

static bool continues(const level *l, const int64_t stride[3]) {
    for (int i = 0; i < 3; i++)
        if (stride[i] != l->stride[i] * l->count)
            return false;
    return true;
}

static bool fold_batches(const tensor *const operand[3], level levels[2]) {
    int used = 0;
    for (int d = operand[2]->shape.rank - 3; d >= 0; d--) {
        int64_t size = operand[2]->shape.dim[d];
        int64_t stride[3] = {operand[0]->stride[d], operand[1]->stride[d], operand[2]->stride[d]};
        if (size == 1)
            continue;
        if (used && continues(&levels[used - 1], stride)) {
            levels[used - 1].count *= size;
        } else {
            if (used == 2)
                return false;
            levels[used++] = (level){size, {stride[0], stride[1], stride[2]}};
        }
    }
    return true;
}

bool matmul_describe_strided(const kernel_args *args, matmul_strided *out) {
    const tensor *a = &args->inputs[0], *b = &args->inputs[1], *c = &args->outputs[0];
    int rank = c->shape.rank;
    int ta = attribute_integer(args->attributes, "transpose_a") != 0;
    int tb = attribute_integer(args->attributes, "transpose_b") != 0;
    level levels[2] = {{1, {0}}, {1, {0}}};
    *out = (matmul_strided){
        .m = c->shape.dim[rank - 2],
        .n = c->shape.dim[rank - 1],
        .k = a->shape.dim[rank - 1 - ta],
        .row = {a->stride[rank - 2 + ta], b->stride[rank - 2 + tb], c->stride[rank - 2]},
        .column = {a->stride[rank - 1 - ta], b->stride[rank - 1 - tb], c->stride[rank - 1]}};
    if (!fold_batches((const tensor *const[3]){a, b, c}, levels))
        return false;
    out->inner = levels[0].count;
    out->outer = levels[1].count;
    for (int i = 0; i < 3; i++) {
        out->inner_stride[i] = levels[0].stride[i];
        out->outer_stride[i] = levels[1].stride[i];
    }
    return true;
}

/* A dimension of size 1 is walked by no stride, which is then free to be what a library wants. */
bool matmul_find_leading(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride,
                         matmul_leading *out) {
    int64_t by_row = rows == 1 ? columns : row_stride;
    int64_t by_column = columns == 1 ? rows : column_stride;
    if ((column_stride == 1 || columns == 1) && by_row >= columns)
        *out = (matmul_leading){true, by_row};
    else if ((row_stride == 1 || rows == 1) && by_column >= rows)
        *out = (matmul_leading){false, by_column};
    else
        return false;
    return true;
}
