#include "ops/copy.h"

#include <string.h>

#include "base/threads.h"

/* Below this many elements a thread costs more than it brings. */
enum { GRAIN_ELEMENTS = 8192, FROM = 0, TO = 1 };

typedef struct walk {
    tensor side[2]; /* collapsed */
} walk;

#define COPY_ROW(NAME, TYPE)                                                                       \
    static void NAME(int64_t n, const void *from, int64_t from_stride, void *to,                   \
                     int64_t to_stride) {                                                          \
        const TYPE *x = from;                                                                      \
        TYPE *y = to;                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i * to_stride] = x[i * from_stride];                                                 \
    }

COPY_ROW(copy_row_1, uint8_t)
COPY_ROW(copy_row_2, uint16_t)
COPY_ROW(copy_row_4, uint32_t)
COPY_ROW(copy_row_8, uint64_t)

/* `n` elements along the innermost dimension, from the given offsets on. */
static void run_row(const walk *w, const int64_t *offset, int64_t n) {
    const tensor *x = &w->side[FROM], *y = &w->side[TO];
    int inner = x->shape.rank - 1, bytes = dtype_bytes(x->type);
    const char *from = (const char *)x->data + offset[FROM] * bytes;
    char *to = (char *)y->data + offset[TO] * bytes;
    if (x->stride[inner] == 1 && y->stride[inner] == 1)
        memcpy(to, from, (size_t)(n * bytes));
    else if (bytes == 1)
        copy_row_1(n, from, x->stride[inner], to, y->stride[inner]);
    else if (bytes == 2)
        copy_row_2(n, from, x->stride[inner], to, y->stride[inner]);
    else if (bytes == 4)
        copy_row_4(n, from, x->stride[inner], to, y->stride[inner]);
    else
        copy_row_8(n, from, x->stride[inner], to, y->stride[inner]);
}

/* Rows [begin, end) of the dimensions outside the innermost. */
static void run_rows(void *context, int64_t begin, int64_t end) {
    const walk *w = context;
    const shape *s = &w->side[FROM].shape;
    for (int64_t row = begin; row < end; row++) {
        int64_t offset[2] = {0}, left = row;
        for (int d = s->rank - 2; d >= 0; d--) {
            offset[FROM] += left % s->dim[d] * w->side[FROM].stride[d];
            offset[TO] += left % s->dim[d] * w->side[TO].stride[d];
            left /= s->dim[d];
        }
        run_row(w, offset, s->dim[s->rank - 1]);
    }
}

static void run_elements(void *context, int64_t begin, int64_t end) {
    const walk *w = context;
    int64_t offset[2] = {begin * w->side[FROM].stride[0], begin * w->side[TO].stride[0]};
    run_row(w, offset, end - begin);
}

void copy_tensor(const tensor *from, const tensor *to) {
    walk w = {{*from, *to}};
    tensor_collapse(w.side, 2);
    const shape *s = &w.side[FROM].shape;
    int64_t inner = s->dim[s->rank - 1];
    if (s->rank == 1)
        threads_for(inner, GRAIN_ELEMENTS, run_elements, &w);
    else
        threads_for(shape_elements(s) / inner, inner >= GRAIN_ELEMENTS ? 1 : GRAIN_ELEMENTS / inner,
                    run_rows, &w);
}

const kernel copy_cuda = {.name = "copy_cuda", .target = TARGET_CUDA, .writes_strided = true};

dyno_status copy_run(const kernel_args *args) {
    copy_tensor(&args->inputs[0], &args->outputs[0]);
    return DYNO_OK;
}
