/* products.c - a product as strided batches; its descriptors and its algorithm are created once for
 * each problem and kept in a table, so that a run is a lookup and a call. */
#include "runtime/cuda/products.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/cuda/cuda_call.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/products_internal.h"

static_assert(sizeof(problem_matrix) == 4 * 8 + 2 * 4 &&
                  sizeof(problem) == 5 * 8 + 3 * sizeof(problem_matrix) + 4 * 4,
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
    p->tuned = autotune_create(&d->base.target);
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
    autotune_destroy(p->tuned);
    free(p);
}

/* ---- descriptors ---- */

static cudaDataType_t data_type(int type) {
    return type == CUDA_DTYPE_BF16 ? CUDA_R_16BF : type == CUDA_DTYPE_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static cublasStatus_t describe_matrix(const cublaslt_functions *l, int type, int64_t batches,
                                      const problem_matrix *m, cublasLtMatrixLayout_t *out) {
    cublasStatus_t status =
        l->layout_create(out, data_type(type), (uint64_t)m->rows, (uint64_t)m->columns, m->leading);
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
    const problem_matrix *a = &k->matrix[PRODUCT_A], *b = &k->matrix[PRODUCT_B];
    cublasComputeType_t compute = k->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasOperation_t first = b->is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = a->is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t status = l->operation_create(&chosen->operation, compute, CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            l->operation_set(chosen->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = l->operation_set(chosen->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                                  sizeof second);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = describe_matrix(l, k->type, k->batches, b, &chosen->first);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = describe_matrix(l, k->type, k->batches, a, &chosen->second);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = describe_matrix(l, k->c_type, k->batches, &k->matrix[PRODUCT_C], &chosen->result);
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
    if (made->failure != DYNO_OK)
        snprintf(made->reason, sizeof made->reason, "%s", dyno_error_message());
    d->footprint.libraries += before - cuda_device_free_bytes() - d->scratch.committed;
    made->next = *place;
    *place = made;
    return made;
}

/* ---- running ---- */

static bool describe_problem(const cuda_product *p, product_batches *batches, problem *out) {
    const cuda_matrix *matrix[PRODUCT_MATRICES] = {&p->a, &p->b, &p->c};
    product_request asked = {.m = p->m,
                             .n = p->n,
                             .k = p->k,
                             .outer_batches = p->outer_batches,
                             .inner_batches = p->inner_batches};
    for (int i = 0; i < PRODUCT_MATRICES; i++) {
        asked.matrix[i].data = matrix[i]->data;
        asked.matrix[i].element_bytes = product_element_bytes(matrix[i]->type);
        asked.matrix[i].row = matrix[i]->row;
        asked.matrix[i].column = matrix[i]->column;
        asked.matrix[i].outer = matrix[i]->outer;
        asked.matrix[i].inner = matrix[i]->inner;
    }
    memset(out, 0, sizeof *out);
    if (!product_describe(&asked, batches, out->matrix))
        return false;
    out->m = p->m;
    out->n = p->n;
    out->k = p->k;
    out->batches = batches->count;
    out->workspace_bytes = (int64_t)p->workspace_bytes;
    out->type = p->a.type;
    out->c_type = p->c.type;
    out->tf32 = p->tf32 && p->a.type == CUDA_DTYPE_F32;
    out->accumulates = p->beta != 0;
    return true;
}

cublasStatus_t product_multiply(const products *p, const product_plan *chosen,
                                const cublasLtMatmulAlgo_t *algorithm, float alpha, float beta,
                                const product_operands *o, cudaStream_t stream) {
    return p->library->multiply(p->handle, chosen->operation, &alpha, o->b, chosen->first, o->a,
                                chosen->second, &beta, o->c, chosen->result, o->c, chosen->result,
                                algorithm, o->workspace, (size_t)chosen->key.workspace_bytes,
                                stream);
}

dyno_status products_prepare(cuda_device *d) {
    if (d->products)
        return DYNO_OK;
    int64_t before = cuda_device_free_bytes();
    dyno_status status = create(d, &d->products);
    d->footprint.libraries += before - cuda_device_free_bytes();
    return status;
}

static void *advance(void *data, int64_t elements, int type) {
    return (char *)data + elements * product_element_bytes(type);
}

static cublasStatus_t multiply_all(const products *made, const product_plan *chosen,
                                   const product_batches *b, const cuda_product *p,
                                   cudaStream_t stream) {
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (int64_t i = 0; i < b->loops && status == CUBLAS_STATUS_SUCCESS; i++) {
        product_operands o = {.a = advance(p->a.data, i * b->step[PRODUCT_A], p->a.type),
                              .b = advance(p->b.data, i * b->step[PRODUCT_B], p->b.type),
                              .c = advance(p->c.data, i * b->step[PRODUCT_C], p->c.type),
                              .workspace = p->workspace};
        status = product_multiply(made, chosen, &chosen->algorithm, p->alpha, p->beta, &o, stream);
    }
    return status;
}

dyno_status cuda_product_run(const cuda_product *p, const cuda_context *where) {
    cuda_device *d = (cuda_device *)where->device;
    product_batches b;
    problem key;
    dyno_status failure = products_prepare(d);
    if (failure == DYNO_OK && !describe_problem(p, &b, &key))
        failure = dyno_fail(DYNO_UNSUPPORTED, "an operand has neither dense rows nor columns");
    const product_plan *chosen = failure == DYNO_OK ? find(d, d->products, &key) : NULL;
    if (chosen) {
        failure = chosen->failure;
        if (failure != DYNO_OK)
            failure = dyno_fail(failure, "%s", chosen->reason);
        else if (!d->is_rehearsing)
            failure = cublaslt_status(multiply_all(d->products, chosen, &b, p, where->stream),
                                      "multiplying");
    }
    if (failure == DYNO_OK)
        return DYNO_OK;
    return dyno_fail_within(failure, "a product of %lld x %lld x %lld, %lld batches",
                            (long long)p->m, (long long)p->n, (long long)p->k,
                            (long long)(p->outer_batches * p->inner_batches));
}
