/* cuda_memory.c - loads and stores of a generated CUDA kernel: as wide as the alignment allows,
 * with 32-bit offsets where these suffice. */
#include "compiler/codegen/cuda_renderer.h"

enum { NARROW_LIMIT = INT32_MAX }; /* elements that 32-bit places can count */

const char *cuda_register_type(dtype type) { return dtype_is_float(type) ? "float" : "int"; }

const char *cuda_stored_type(dtype type) {
    int bytes = dtype_bytes(type);
    return bytes == 1 ? "unsigned char" : bytes == 2 ? "unsigned short" : cuda_register_type(type);
}

const char *cuda_index_type(int64_t elements) {
    return elements < NARROW_LIMIT ? "unsigned" : "unsigned long long";
}

cuda_access cuda_operand_access(const cuda_renderer *r, int operand) {
    const fused_operand *o = &r->k->operands[operand];
    return (cuda_access){
        o->type,
        o->row_rank,
        o->alignment,
        o->row_dim,
        o->row_stride,
        o->column_stride,
        cuda_is_dense(r->k, o->row_rank, o->row_dim, o->row_stride, o->column_stride)};
}

cuda_access cuda_output_access(const cuda_renderer *r, int output) {
    const fused_output *o = &r->k->outputs[output];
    return (cuda_access){o->type,
                         o->row_rank,
                         o->alignment,
                         o->row_dim,
                         o->row_stride,
                         1,
                         cuda_is_dense(r->k, o->row_rank, o->row_dim, o->row_stride, 1)};
}

bool cuda_is_of_row(const cuda_renderer *r, const cuda_access *a) {
    return a->column_stride == 0 && !(r->g.is_flat && a->is_dense);
}

static int64_t last_place(const cuda_renderer *r, const cuda_access *a) {
    int64_t last = (r->k->columns - 1) * a->column_stride;
    for (int i = 0; i < a->rank; i++)
        last += (a->dim[i] - 1) * a->stride[i];
    return last;
}

static const char *place_cast(const cuda_renderer *r, const cuda_access *a) {
    return last_place(r, a) < NARROW_LIMIT ? "" : "(long long)";
}

/* Bytes that one cuda_access may take: the vector's, as far as every row is aligned for it. */
static int piece_bytes(const cuda_renderer *r, const cuda_access *a) {
    int size = dtype_bytes(a->type), piece = r->g.vector * size;
    int limit = a->alignment && a->alignment < 16 ? a->alignment : 16;
    piece = piece < limit ? piece : limit;
    for (int i = 0; i < a->rank && !(r->g.is_flat && a->is_dense); i++)
        while (a->dim[i] > 1 && a->stride[i] * size % piece != 0)
            piece /= 2;
    return piece;
}

void cuda_append_row_offset(const cuda_renderer *r, const cuda_access *a) {
    render_row_offset(a->rank, a->dim, a->stride, place_cast(r, a), "r", r->out);
}

/* "in3 + where column c of row r lies", in bytes of a pointer to elements. */
static void append_place(const cuda_renderer *r, const cuda_access *a, const char *name,
                         int index) {
    text_format(r->out, "%s%d", name, index);
    if (!r->g.is_flat) {
        if (!cuda_is_of_row(r, a) && a->column_stride == 1)
            text_append(r->out, " + column");
        else if (!cuda_is_of_row(r, a))
            text_format(r->out, " + %scolumn * %lld", place_cast(r, a),
                        (long long)a->column_stride);
        return;
    }
    if (a->is_dense) {
        text_append(r->out, " + e");
        return;
    }
    text_append(r->out, " + (");
    cuda_append_row_offset(r, a);
    if (a->column_stride)
        text_format(r->out, " + %scolumn * %lld", place_cast(r, a), (long long)a->column_stride);
    text_append(r->out, ")");
}

static bool has_tail(const cuda_renderer *r) {
    return r->g.is_flat && r->k->rows * r->k->columns % r->g.vector != 0;
}

void cuda_render_load(const cuda_renderer *r, int operand, const char *indent) {
    cuda_access a = cuda_operand_access(r, operand);
    int size = dtype_bytes(a.type), vector = r->g.vector;
    text *out = r->out;
    if (has_tail(r) && a.is_dense)
        text_format(out,
                    "%sif (e + %d > %lld)\n%s    fetch_first<%d, %d>(%s%d[%s], in%d + e, "
                    "(unsigned)(%lld - e));\n%selse\n    ",
                    indent, vector, (long long)(r->k->rows * r->k->columns), indent, size, vector,
                    r->raw, operand, r->at, operand, (long long)(r->k->rows * r->k->columns),
                    indent);
    text_append(out, indent);
    if (cuda_is_of_row(r, &a))
        text_format(out, "fetch<%d, %d>(%s%d[%s], ", size, size, r->raw, operand, r->at);
    else if (a.column_stride == 1 || a.is_dense)
        text_format(out, "fetch<%d, %d>(%s%d[%s], ", vector * size, piece_bytes(r, &a), r->raw,
                    operand, r->at);
    else
        text_format(out, "fetch_apart<%d, %d>(%s%d[%s], ", size, vector, r->raw, operand, r->at);
    append_place(r, &a, r->g.is_flat ? "in" : "row", operand);
    if (!cuda_is_of_row(r, &a) && a.column_stride != 1 && !a.is_dense)
        text_format(out, ", %lld", (long long)a.column_stride * size);
    text_append(out, ");\n");
}

void cuda_render_store(const cuda_renderer *r, int output, const char *indent) {
    cuda_access a = cuda_output_access(r, output);
    int size = dtype_bytes(a.type), vector = r->g.vector;
    text *out = r->out;
    if (has_tail(r))
        text_format(out,
                    "%sif (e + %d > %lld)\n%s    put_first<%d, %d>(out%d + e, packed%d, "
                    "(unsigned)(%lld - e));\n%selse\n    ",
                    indent, vector, (long long)(r->k->rows * r->k->columns), indent, size, vector,
                    output, output, (long long)(r->k->rows * r->k->columns), indent);
    else if (r->is_guarded)
        text_format(out, "%sif (is_mine)\n    ", indent);
    text_format(out, "%sput<%d, %d>(", indent, vector * size, piece_bytes(r, &a));
    append_place(r, &a, r->g.is_flat ? "out" : "to", output);
    text_format(out, ", packed%d);\n", output);
}

void cuda_declare_raw(const cuda_renderer *r, int operand, int64_t chunks, const char *indent) {
    cuda_access a = cuda_operand_access(r, operand);
    text_format(r->out, "%sunsigned %s%d[%lld][%d];\n", indent, r->raw, operand, (long long)chunks,
                cuda_words(cuda_is_of_row(r, &a) ? 1 : r->g.vector, a.type));
}
