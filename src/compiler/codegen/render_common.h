/* render_common.h - what the renderers of C and of CUDA C share. */
#ifndef COMPILER_CODEGEN_RENDER_COMMON_H
#define COMPILER_CODEGEN_RENDER_COMMON_H

#include "compiler/codegen/fused_kernel.h"

/* "add, multiply; 2048 rows of 768", as a comment. */
void render_heading(const fused_kernel *k, text *out);

/* A float literal that loses nothing; INFINITY and NAN by name. */
void render_number(double number, text *out);

/* The identity of the reduction. */
const char *render_identity(op_reduction kind);

/* Where row `row` begins, in elements: an expression; `cast` stands before each factor that depends
 * on the row. */
void render_row_offset(int rank, const int64_t *dim, const int64_t *stride, const char *cast,
                       const char *row, text *out);

/* The type of what a member reads. */
dtype render_read_type(const fused_kernel *k, const fused_read *read);

#endif
