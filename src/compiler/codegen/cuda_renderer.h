/* cuda_renderer.h - what the parts of the CUDA renderer share: the kernel being written, and its
 * memory accesses. */
#ifndef COMPILER_CODEGEN_CUDA_RENDERER_H
#define COMPILER_CODEGEN_CUDA_RENDERER_H

#include "compiler/codegen/cuda_geometry.h"
#include "compiler/codegen/render_common.h"

typedef struct cuda_renderer {
    const fused_kernel *k;
    cuda_geometry g;
    int pair;        /* elements computed side by side: low types are converted two by two */
    const char *at;  /* which chunk of an array: "i", or "0" where only one is held */
    const char *raw; /* where loads go: "raw", or "ahead" for prefetched rows */
    bool is_guarded; /* the last block has groups without a row */
    bool *needed;    /* by member: computed in the current stage */
    text *out;
} cuda_renderer;

/* In memory, in registers, and of places that count so many elements. */
const char *cuda_stored_type(dtype type);
const char *cuda_register_type(dtype type);
const char *cuda_index_type(int64_t elements);

/* How memory is reached, operands' and outputs' alike. */
typedef struct cuda_access {
    dtype type;
    int rank, alignment;
    const int64_t *dim, *stride;
    int64_t column_stride;
    bool is_dense;
} cuda_access;

cuda_access cuda_operand_access(const cuda_renderer *r, int operand);
cuda_access cuda_output_access(const cuda_renderer *r, int output);

/* A number of the row, as far as the kernel's columns go. */
bool cuda_is_of_row(const cuda_renderer *r, const cuda_access *a);

/* Where row r begins, in elements. */
void cuda_append_row_offset(const cuda_renderer *r, const cuda_access *a);

/* The words of an operand; then one chunk into them, and a chunk's words of an output out. */
void cuda_declare_raw(const cuda_renderer *r, int operand, int64_t chunks, const char *indent);
void cuda_render_load(const cuda_renderer *r, int operand, const char *indent);
void cuda_render_store(const cuda_renderer *r, int output, const char *indent);

/* ---- cuda_rows.c ---- */

/* One number for each element of the space. */
static inline bool cuda_is_full(const fused_member *m) {
    return m->kind == FUSION_ELEMENTWISE && !m->is_row;
}

/* A loop over the chunks of a lane's part of the row; its end is the caller's to write. */
void cuda_open_chunks(const cuda_renderer *r, const char *indent);
/* All before the first stage, and the scope of a row, which is the caller's to close: row r, its
 * numbers xN, where its outputs go. */
void cuda_open_rows(const cuda_renderer *r);
/* What a stage finds in registers: rawN. */
void cuda_render_loads(const cuda_renderer *r, int stage);

#endif
