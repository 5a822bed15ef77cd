/* products.c - a product as strided batches, its descriptors and its algorithm, made once for each
 * problem and kept in a table; a run is a lookup and a call. */
#include "runtime/cuda/products.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ops/matmul/matmul.h"
#include "runtime/cuda/cuda_call.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/products_internal.h"

static_assert(sizeof(problem_matrix) == 24 && sizeof(problem) == 5 * 8 + 3 * 24 + 4 * 4,
              "problem has no padding: it is compared byte by byte");

/* ---- cuBLASLt on this device ---- */

static dyno_status create(cuda_device *d, products **out) {
    products *p = memory_allocate(1, sizeof *p);
    dyno_status status = cublaslt_load(&p->library);
    if (status == DYNO_OK)
        status = cublaslt_status(p->library->create(&p->handle), "opening cuBLASLt");
    if (status == DYNO_OK)
        status = cuda_status(cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking),
                             "making a stream");
    if (status == DYNO_OK)
        status = cuda_status(cudaEventCreate(&p->begin), "making an event");
    if (status == DYNO_OK)
        status = cuda_status(cudaEventCreate(&p->end), "making an event");
    if (status != DYNO_OK) {
        products_destroy(p);
        return status;
    }
    char file[192], name[96];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(d->base.description, ","),
             d->base.description);
    for (char *at = name; *at; at++)
        if (*at == ' ' || *at == '/')
            *at = '-';
    snprintf(file, sizeof file, "cublaslt-%s-%zu.txt", name, p->library->version());
    p->cache = tuning_cache_create(file);
    *out = p;
    return DYNO_OK;
}

static void destroy_plan(const products *p, product_plan *chosen) {
    if (chosen->operation)
        p->library->operation_destroy(chosen->operation);
    if (chosen->first)
        p->library->layout_destroy(chosen->first);
    if (chosen->second)
        p->library->layout_destroy(chosen->second);
    if (chosen->result)
        p->library->layout_destroy(chosen->result);
    free(chosen);
}

void products_destroy(products *p) {
    if (!p)
        return;
    for (int i = 0; i < PRODUCT_TABLE_SIZE; i++)
        for (product_plan *at = p->table[i], *next; at; at = next) {
            next = at->next;
            destroy_plan(p, at);
        }
    if (p->handle)
        p->library->destroy(p->handle);
    if (p->begin)
        cudaEventDestroy(p->begin);
    if (p->end)
        cudaEventDestroy(p->end);
    if (p->stream)
        cudaStreamDestroy(p->stream);
    tuning_cache_destroy(p->cache);
    free(p);
}

/* ---- descriptors ---- */

static cudaDataType_t data_type(int type) {
    return type == CUDA_DTYPE_BF16 ? CUDA_R_16BF : type == CUDA_DTYPE_F16 ? CUDA_R_16F : CUDA_R_32F;
}

/* Our row-major rows x columns is its column-major columns x rows. */
static cublasStatus_t describe_matrix(const cublaslt_functions *l, int type, int64_t rows,
                                      int64_t columns, int64_t batches, const problem_matrix *m,
                                      cublasLtMatrixLayout_t *out) {
    int64_t dense = m->has_dense_rows ? columns : rows, other = m->has_dense_rows ? rows : columns;
    cublasStatus_t status =
        l->layout_create(out, data_type(type), (uint64_t)dense, (uint64_t)other, m->leading);
    int32_t count = (int32_t)batches;
    if (status == CUBLAS_STATUS_SUCCESS)
        status = l->layout_set(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = l->layout_set(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m->batch_stride,
                               sizeof m->batch_stride);
    return status;
}

static cublasStatus_t describe(const cublaslt_functions *l, product_plan *chosen) {
    const problem *k = &chosen->key;
    cublasComputeType_t compute = k->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasOperation_t first = k->b.has_dense_rows ? CUBLAS_OP_N : CUBLAS_OP_T;
    cublasOperation_t second = k->a.has_dense_rows ? CUBLAS_OP_N : CUBLAS_OP_T;
    cublasStatus_t status = l->operation_create(&chosen->operation, compute, CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            l->operation_set(chosen->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = l->operation_set(chosen->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                                  sizeof second);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = describe_matrix(l, k->type, k->k, k->n, k->batches, &k->b, &chosen->first);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = describe_matrix(l, k->type, k->m, k->k, k->batches, &k->a, &chosen->second);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = describe_matrix(l, k->c_type, k->m, k->n, k->batches, &k->c, &chosen->result);
    return status;
}

/* ---- the table ---- */

static size_t bucket(const problem *key) {
    uint64_t hash = 0xcbf29ce484222325u;
    const unsigned char *bytes = (const unsigned char *)key;
    for (size_t i = 0; i < sizeof *key; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return (size_t)((hash >> 32) % PRODUCT_TABLE_SIZE);
}

static product_plan *find(cuda_device *d, products *p, const problem *key) {
    product_plan **place = &p->table[bucket(key)];
    for (product_plan *at = *place; at; at = at->next)
        if (memcmp(&at->key, key, sizeof *key) == 0)
            return at;
    int64_t before = cuda_device_free_bytes() + d->scratch.committed;
    product_plan *made = memory_allocate(1, sizeof *made);
    made->key = *key;
    made->failure = cublaslt_status(describe(p->library, made), "describing a product to cuBLASLt");
    if (made->failure == DYNO_OK)
        made->failure = product_choose(d, p, made);
    d->footprint.libraries += before - cuda_device_free_bytes() - d->scratch.committed;
    made->next = *place;
    *place = made;
    return made;
}

/* ---- a product as strided batches ---- */

static int element_bytes(int type) { return type == CUDA_DTYPE_F32 ? 4 : 2; }

/* The largest power of two, up to 256, that divides every address the matrix is found at. */
static int alignment_of(const void *data, int64_t step_bytes) {
    uint64_t bits = (uint64_t)(uintptr_t)data | (uint64_t)step_bytes | 256;
    return (int)(bits & (~bits + 1));
}

static bool describe_operand(const cuda_matrix *m, int64_t rows, int64_t columns, int64_t stride,
                             int64_t step, problem_matrix *out) {
    matmul_leading found;
    if (!matmul_find_leading(rows, columns, m->row, m->column, &found))
        return false;
    out->leading = found.leading;
    out->has_dense_rows = found.has_dense_rows;
    out->batch_stride = stride;
    out->alignment = alignment_of(m->data, step * element_bytes(m->type));
    return true;
}

/* Two levels of batches as a loop around a strided batch. */
typedef struct batches {
    int64_t loops, count;
    int64_t step[3], stride[3]; /* of A, B, C: from loop to loop, from batch to batch */
} batches;

static batches fold(const cuda_product *p) {
    const cuda_matrix *m[3] = {&p->a, &p->b, &p->c};
    batches out = {.loops = p->outer_batches, .count = p->inner_batches};
    bool is_one = p->outer_batches == 1 || p->inner_batches == 1, continues = true;
    for (int i = 0; i < 3; i++)
        continues = continues && m[i]->outer == m[i]->inner * p->inner_batches;
    /* What does not fold is looped over the level with fewer batches. */
    bool loops_inner = !is_one && !continues && p->inner_batches < p->outer_batches;
    if (loops_inner) {
        out.loops = p->inner_batches;
        out.count = p->outer_batches;
    } else if (is_one || continues) {
        out.loops = 1;
        out.count = p->outer_batches * p->inner_batches;
    }
    bool uses_outer = loops_inner || p->inner_batches == 1;
    for (int i = 0; i < 3; i++) {
        out.stride[i] = out.count == 1 ? 0 : uses_outer ? m[i]->outer : m[i]->inner;
        out.step[i] = out.loops == 1 ? 0 : loops_inner ? m[i]->inner : m[i]->outer;
    }
    return out;
}

static bool describe_problem(const cuda_product *p, const batches *b, problem *out) {
    memset(out, 0, sizeof *out);
    out->m = p->m;
    out->n = p->n;
    out->k = p->k;
    out->batches = b->count;
    out->workspace_bytes = (int64_t)p->workspace_bytes;
    out->type = p->a.type;
    out->c_type = p->c.type;
    out->tf32 = p->tf32 && p->a.type == CUDA_DTYPE_F32;
    out->accumulates = p->beta != 0;
    bool is_good = describe_operand(&p->a, p->m, p->k, b->stride[0], b->step[0], &out->a) &&
                   describe_operand(&p->b, p->k, p->n, b->stride[1], b->step[1], &out->b) &&
                   describe_operand(&p->c, p->m, p->n, b->stride[2], b->step[2], &out->c);
    if (is_good && p->addend) {
        int alignment = alignment_of(p->addend, b->step[2] * element_bytes(p->c.type));
        if (alignment < out->c.alignment)
            out->c.alignment = alignment;
    }
    return is_good && out->c.has_dense_rows;
}

cublasStatus_t product_multiply(const products *p, const product_plan *chosen,
                                const cublasLtMatmulAlgo_t *algorithm, float alpha, float beta,
                                const product_operands *o, cudaStream_t stream) {
    return p->library->multiply(p->handle, chosen->operation, &alpha, o->b, chosen->first, o->a,
                                chosen->second, &beta, o->addend ? o->addend : o->c, chosen->result,
                                o->c, chosen->result, algorithm, o->workspace,
                                (size_t)chosen->key.workspace_bytes, stream);
}

static const void *advance(const void *data, int64_t elements, int type) {
    return data ? (const char *)data + elements * element_bytes(type) : NULL;
}

void cuda_product_run(const cuda_product *p, cudaStream_t stream) {
    cuda_device *d = cuda_device_current();
    if (!d->products) {
        int64_t before = cuda_device_free_bytes();
        dyno_status status = create(d, &d->products);
        d->footprint.libraries += before - cuda_device_free_bytes();
        if (status != DYNO_OK) {
            cuda_device_note(d, status, "%s", dyno_error_message());
            return;
        }
    }
    batches b = fold(p);
    problem key;
    if (!describe_problem(p, &b, &key)) {
        cuda_device_note(d, DYNO_UNSUPPORTED,
                         "a product of %lld x %lld x %lld has an operand without dense rows or "
                         "columns",
                         (long long)p->m, (long long)p->n, (long long)p->k);
        return;
    }
    const product_plan *chosen = find(d, d->products, &key);
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (int64_t i = 0; i < b.loops && status == CUBLAS_STATUS_SUCCESS; i++) {
        product_operands o = {.a = advance(p->a.data, i * b.step[0], p->a.type),
                              .b = advance(p->b.data, i * b.step[1], p->b.type),
                              .addend = advance(p->addend, i * b.step[2], p->c.type),
                              .c = (char *)p->c.data + i * b.step[2] * element_bytes(p->c.type),
                              .workspace = p->workspace};
        if (chosen->failure == DYNO_OK)
            status = product_multiply(d->products, chosen, &chosen->algorithm, p->alpha, p->beta,
                                      &o, stream);
    }
    dyno_status failure =
        chosen->failure != DYNO_OK ? chosen->failure : cublaslt_status(status, "multiplying");
    if (failure != DYNO_OK)
        cuda_device_note(d, failure, "a product of %lld x %lld x %lld, %lld batches: %s",
                         (long long)p->m, (long long)p->n, (long long)p->k, (long long)key.batches,
                         dyno_error_message());
}
