#include "runtime/product_problem.h"

#include <string.h>

#include "ops/matmul/matmul.h"

enum { MOST_ALIGNMENT = 256 };

/* Folds two levels of batches into one strided batch; where they do not fold, loops over the level
 * that has fewer. */
static void fold(const product_request *r, product_batches *out, int64_t stride[PRODUCT_MATRICES]) {
    bool is_one_level = r->outer_batches == 1 || r->inner_batches == 1, continues = true;
    for (int i = 0; i < PRODUCT_MATRICES; i++)
        continues = continues && r->matrix[i].outer == r->matrix[i].inner * r->inner_batches;
    bool folds = is_one_level || continues;
    bool loops_inner = !folds && r->inner_batches < r->outer_batches;
    out->loops = folds ? 1 : loops_inner ? r->inner_batches : r->outer_batches;
    out->count = r->outer_batches * r->inner_batches / out->loops;
    bool strides_outer = loops_inner || r->inner_batches == 1;
    for (int i = 0; i < PRODUCT_MATRICES; i++) {
        int64_t outer = r->matrix[i].outer, inner = r->matrix[i].inner;
        stride[i] = out->count == 1 ? 0 : strides_outer ? outer : inner;
        out->step[i] = out->loops == 1 ? 0 : loops_inner ? inner : outer;
    }
}

static int alignment_of(const void *data, int64_t step_bytes) {
    uint64_t bits = (uint64_t)(uintptr_t)data | (uint64_t)step_bytes | MOST_ALIGNMENT;
    return (int)(bits & (~bits + 1));
}

bool product_describe(const product_request *asked, product_batches *batches,
                      problem_matrix matrices[PRODUCT_MATRICES]) {
    const int64_t rows[] = {asked->m, asked->k, asked->m};
    const int64_t columns[] = {asked->k, asked->n, asked->n};
    int64_t stride[PRODUCT_MATRICES];
    memset(matrices, 0, PRODUCT_MATRICES * sizeof *matrices);
    fold(asked, batches, stride);
    for (int i = 0; i < PRODUCT_MATRICES; i++) {
        matmul_leading found;
        if (!matmul_find_leading(rows[i], columns[i], asked->matrix[i].row, asked->matrix[i].column,
                                 &found) ||
            (i == PRODUCT_C && !found.has_dense_rows))
            return false;
        problem_matrix *m = &matrices[i];
        m->rows = found.has_dense_rows ? columns[i] : rows[i];
        m->columns = found.has_dense_rows ? rows[i] : columns[i];
        m->leading = found.leading;
        m->batch_stride = stride[i];
        m->is_transposed = !found.has_dense_rows;
        int64_t step_bytes = batches->step[i] * asked->matrix[i].element_bytes;
        m->alignment = alignment_of(asked->matrix[i].data, step_bytes);
    }
    return true;
}

int64_t product_extent(const problem_matrix *m, int64_t batches) {
    return (m->columns - 1) * m->leading + m->rows + (batches - 1) * m->batch_stride;
}
