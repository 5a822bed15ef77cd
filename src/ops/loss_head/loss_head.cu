/* loss_head.cu - for each chunk of tokens a product, one kernel over the rows, two products.
 *
 * Logits are rounded to the type of x and W, as in PyTorch's autocast; what is computed from them
 * is computed in f32. Their gradients overwrite them. dW is accumulated over the chunks in f32, in
 * order. dx comes last: it may have the memory of x. */
#include <assert.h>

#include "ops/cross_entropy/cross_entropy_rows.cuh"
#include "ops/loss_head/loss_head_layout.h"
#include "runtime/cuda/products.h"

enum { X, WEIGHT, TARGETS, DY };         /* inputs */
enum { LOSSES, X_GRADIENT, W_GRADIENT }; /* outputs */

typedef struct head {
    const cuda_args *args;
    int64_t N, V, D, chunk, row; /* row: logits from one to the next */
    int type, tf32;
    bool has_gradient;
    void *scratch; /* of the products */
} head;

/* Rows of a chunk. dy is NULL when losses are all that is wanted. */
typedef struct chunk_rows {
    int64_t width, row;
    const int32_t *targets;
    float *losses;
    const float *dy;
    int64_t dy_stride;
} chunk_rows;

template <typename T>
static __global__ void __launch_bounds__(CROSS_ENTROPY_THREADS)
    loss_head_rows(const __grid_constant__ chunk_rows c, T *logits) {
    int64_t i = blockIdx.x;
    T *row = logits + i * c.row;
    int32_t target = c.targets[i];
    assert(target >= 0 && target < c.width);
    float at_target = to_float(row[target]); /* before it is written over */
    auto r = cross_entropy_row_sums(row, c.width);
    if (threadIdx.x == 0)
        c.losses[i] = log_sum_exp_above(r, at_target);
    if (c.dy)
        cross_entropy_row_gradient(row, c.width, target, r.largest, 1.0f / (float)r.sum,
                                   c.dy[i * c.dy_stride], row);
}

static void run_rows(const head *h, int64_t first, int64_t rows, cudaStream_t stream) {
    const cuda_tensor *dy = h->has_gradient ? &h->args->inputs[DY] : NULL;
    chunk_rows c = {};
    c.width = h->V;
    c.row = h->row;
    c.targets = (const int32_t *)h->args->inputs[TARGETS].data + first;
    c.losses = (float *)h->args->outputs[LOSSES].data + first;
    c.dy = dy ? (const float *)dy->data + first * dy->stride[0] : NULL;
    c.dy_stride = dy ? dy->stride[0] : 0;
    void *logits = h->args->workspace;
    unsigned grid = (unsigned)rows;
    if (h->type == CUDA_DTYPE_BF16)
        loss_head_rows<<<grid, CROSS_ENTROPY_THREADS, 0, stream>>>(c, (bf16 *)logits);
    else if (h->type == CUDA_DTYPE_F16)
        loss_head_rows<<<grid, CROSS_ENTROPY_THREADS, 0, stream>>>(c, (f16 *)logits);
    else
        loss_head_rows<<<grid, CROSS_ENTROPY_THREADS, 0, stream>>>(c, (float *)logits);
}

/* Rows of D elements from row `first` on. */
static cuda_matrix rows_of(const cuda_tensor *t, int64_t first, int64_t width) {
    return {(char *)t->data + first * width * element_bytes(t->type), t->type, width, 1, 0, 0};
}

static cuda_matrix transposed(cuda_matrix m) {
    return {m.data, m.type, m.column, m.row, m.outer, m.inner};
}

static dyno_status multiply(const head *h, int64_t m, int64_t n, int64_t k, cuda_matrix a,
                            cuda_matrix b, cuda_matrix c, float beta) {
    cuda_product p = {};
    p.m = m;
    p.n = n;
    p.k = k;
    p.outer_batches = p.inner_batches = 1;
    p.a = a;
    p.b = b;
    p.c = c;
    p.alpha = 1;
    p.beta = beta;
    p.tf32 = h->tf32;
    p.workspace = h->scratch;
    p.workspace_bytes = (size_t)product_workspace_bytes(m * n);
    return cuda_product_run(&p, h->args->context);
}

static dyno_status run(const cuda_args *args) {
    const cuda_tensor *x = &args->inputs[X], *w = &args->inputs[WEIGHT];
    head h = {};
    h.args = args;
    h.N = x->shape.dim[0];
    h.V = w->shape.dim[0];
    h.D = w->shape.dim[1];
    h.chunk = cuda_integer(args, "chunk");
    h.chunk = h.chunk < h.N ? h.chunk : h.N;
    h.type = x->type;
    h.tf32 = (int)cuda_integer_or(args, "tf32", 0);
    h.has_gradient = args->output_count > 1;
    h.row = loss_head_row(h.V, element_bytes(h.type));
    h.scratch =
        (char *)args->workspace + loss_head_logits_bytes(h.chunk, h.V, element_bytes(h.type));
    cuda_matrix logits = {args->workspace, h.type, h.row, 1, 0, 0};
    cuda_matrix weight = rows_of(w, 0, h.D);
    for (int64_t first = 0; first < h.N; first += h.chunk) {
        int64_t rows = h.N - first < h.chunk ? h.N - first : h.chunk;
        cuda_matrix x_rows = rows_of(x, first, h.D);
        RETURN_IF_FAILED(multiply(&h, rows, h.V, h.D, x_rows, transposed(weight), logits, 0));
        run_rows(&h, first, rows, args->context->stream);
        if (!h.has_gradient)
            continue;
        RETURN_IF_FAILED(multiply(&h, h.V, h.D, rows, transposed(logits), x_rows,
                                  rows_of(&args->outputs[W_GRADIENT], 0, h.D),
                                  first > 0 ? 1.0f : 0.0f));
        RETURN_IF_FAILED(multiply(&h, rows, h.D, h.V, logits, weight,
                                  rows_of(&args->outputs[X_GRADIENT], first, h.D), 0));
    }
    return cuda_launch_status();
}

extern "C" dyno_status dyno_loss_head_cuda(const cuda_args *args) { return run(args); }
extern "C" dyno_status dyno_loss_head_forward_cuda(const cuda_args *args) { return run(args); }
