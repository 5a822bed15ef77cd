#include "compiler/codegen/render_common.h"

#include <math.h>

void render_heading(const fused_kernel *k, text *out) {
    text_append(out, "/* ");
    for (int i = 0; i < k->member_count; i++)
        text_format(out, "%s%s", i ? (i % 12 ? ", " : ",\n * ") : "", k->members[i].op_name);
    text_format(out, "; %lld rows of %lld */\n", (long long)k->rows, (long long)k->columns);
}

void render_number(double number, text *out) {
    if (isinf(number))
        text_append(out, number < 0 ? "-INFINITY" : "INFINITY");
    else if (isnan(number))
        text_append(out, "NAN");
    else
        text_format(out, "%af", (double)(float)number);
}

const char *render_identity(op_reduction kind) {
    return kind == REDUCTION_MAX ? "-INFINITY" : "0.0f";
}

void render_row_offset(int rank, const int64_t *dim, const int64_t *stride, const char *cast,
                       const char *row, text *out) {
    int64_t below = 1;
    text_append(out, "0");
    for (int i = rank - 1; i >= 0; i--) {
        if (stride[i] != 0 && dim[i] > 1) {
            text_format(out, " + %s(%s", cast, row);
            if (below > 1)
                text_format(out, " / %lld", (long long)below);
            if (i > 0)
                text_format(out, " %% %lld", (long long)dim[i]);
            text_format(out, ") * %lld", (long long)stride[i]);
        }
        below *= dim[i];
    }
}

dtype render_read_type(const fused_kernel *k, const fused_read *read) {
    return read->source == FUSED_MEMBER    ? k->members[read->index].type
           : read->source == FUSED_OPERAND ? k->operands[read->index].type
                                           : DTYPE_F32;
}
