#include "ops/copy.h"

#include <string.h>

#include "ops/elementwise.h"

#define COPY_ROW(NAME, TYPE)                                                                       \
    static void NAME(int64_t n, void *out, const void *const *in, const int64_t *stride,           \
                     double s) {                                                                   \
        (void)s;                                                                                   \
        if (stride[0] == 1) {                                                                      \
            memcpy(out, in[0], (size_t)n * sizeof(TYPE));                                          \
            return;                                                                                \
        }                                                                                          \
        const TYPE *from = in[0];                                                                  \
        TYPE *to = out;                                                                            \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i] = from[i * stride[0]];                                                           \
    }

COPY_ROW(copy_row_1, uint8_t)
COPY_ROW(copy_row_2, uint16_t)
COPY_ROW(copy_row_4, uint32_t)
COPY_ROW(copy_row_8, uint64_t)

const kernel copy_cuda = {.name = "copy_cuda", .backend = BACKEND_CUDA, .writes_strided = true};

void copy_run(const kernel_args *args) {
    switch (dtype_bytes(args->inputs[0].type)) {
    case 1:
        elementwise_run(args, copy_row_1);
        break;
    case 2:
        elementwise_run(args, copy_row_2);
        break;
    case 4:
        elementwise_run(args, copy_row_4);
        break;
    default:
        elementwise_run(args, copy_row_8);
        break;
    }
}
