/* rope.cu - adjacent threads access adjacent memory: of a row, then of the next row as x has them,
 * be it the next head of a position or the next position of a head. A thread has a vector of the
 * first half of a row, and the vector of the second that it is rotated with; where there is enough
 * work, it has the same columns of two rows at one position, which share the table's values. Rows
 * may have any strides, in source and destination.
 *
 * y may be x: a thread has read all its vectors before it writes them. Heads that are not rotated
 * are then left alone; else a second launch copies them. */
#include "runtime/cuda/device_math.cuh"

/* Resident BLOCKS: registers are not saved at the price of loads that wait for one another. */
enum { THREADS = 128, BLOCKS = 9, MOST_DIMS = CUDA_MAX_RANK - 1 };
/* So many threads fill a GPU; with more, each can have two rows. */
enum { MANY_THREADS = 1 << 18 };

/* A dimension outside the columns: how many, and from one to the next, in elements. */
typedef struct rope_dim {
    int64_t size, from, to, table;
} rope_dim;

typedef struct rope_walk {
    int rank;
    int64_t half, threads;
    fast_divisor pieces; /* of half a row */
    fast_divisor by[MOST_DIMS];
    rope_dim dim[MOST_DIMS];        /* innermost first */
    int64_t from_start, to_start;   /* of the first row */
    int64_t from_second, to_second; /* from a thread's first row to its second */
} rope_walk;

/* Whether two dimensions coalesce: the outer stride covers all of the inner. */
static bool is_mergeable(const rope_dim *outer, const rope_dim *inner) {
    return outer->from == inner->from * inner->size && outer->to == inner->to * inner->size &&
           outer->table == inner->table * inner->size;
}

static void insert_by_step(rope_walk *w, rope_dim d) {
    int at = w->rank++;
    for (; at > 0 && w->dim[at - 1].from > d.from; at--)
        w->dim[at] = w->dim[at - 1];
    w->dim[at] = d;
}

/* Heads [first_head, end_head) of each position; where there is no dimension of heads, both are 0.
 */
static rope_walk describe(const cuda_tensor *x, const cuda_tensor *y, int64_t first_head,
                          int64_t end_head) {
    int last = x->shape.rank - 1, heads = end_head ? last - 1 : -1;
    int position = end_head ? last - 2 : last - 1;
    rope_walk w = {};
    w.half = x->shape.dim[last] / 2;
    if (end_head) {
        w.from_start = first_head * x->stride[heads];
        w.to_start = first_head * y->stride[heads];
    }
    for (int i = last - 1; i >= 0; i--) { /* the innermost first, should steps be alike */
        int64_t size = i == heads ? end_head - first_head : x->shape.dim[i];
        if (size > 1)
            insert_by_step(&w, {size, x->stride[i], y->stride[i], i == position ? w.half : 0});
    }
    int kept = 0;
    for (int i = 0; i < w.rank; i++) {
        if (kept && is_mergeable(&w.dim[i], &w.dim[kept - 1]))
            w.dim[kept - 1].size *= w.dim[i].size;
        else
            w.dim[kept++] = w.dim[i];
    }
    w.rank = kept;
    return w;
}

static int64_t count_rows(const rope_walk *w) {
    int64_t rows = 1;
    for (int i = 0; i < w->rank; i++)
        rows *= w->dim[i].size;
    return rows;
}

/* Gives every thread two rows at one position, half of a dimension apart; false: there is no
 * dimension that can be halved. */
static bool pair_rows(rope_walk *w) {
    for (int i = 0; i < w->rank; i++) {
        rope_dim *d = &w->dim[i];
        if (d->table != 0 || d->size % 2 != 0)
            continue;
        d->size /= 2;
        w->from_second = d->size * d->from;
        w->to_second = d->size * d->to;
        return true;
    }
    return false;
}

/* N floats, N being 1 or a multiple of 4. */
template <int N>
static __device__ __forceinline__ void load_table(const float *__restrict__ from, float (&to)[N]) {
    enum { STEP = N < 4 ? N : 4 };
#pragma unroll
    for (int i = 0; i < N; i += STEP) {
        const vector_of<float, STEP> packed = *(const vector_of<float, STEP> *)(from + i);
#pragma unroll
        for (int j = 0; j < STEP; j++)
            to[i + j] = packed.at[j];
    }
}

template <typename T, int N, int ROWS, bool IS_COPY>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    rope_rows(const __grid_constant__ rope_walk w, const T *x, const float *__restrict__ cosine,
           const float *__restrict__ sine, float sign, T *y) {
    int64_t index = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (index >= w.threads)
        return;
    int64_t row64 = w.threads <= INT32_MAX ? (int64_t)fast_divide((uint32_t)index, w.pieces)
                                           : index / w.pieces.divisor;
    uint32_t row = (uint32_t)row64;
    int64_t column = (index - row64 * w.pieces.divisor) * N;
    int64_t from = w.from_start + column, to = w.to_start + column, table = column;
#pragma unroll
    for (int i = 0; i < MOST_DIMS; i++) {
        if (i >= w.rank)
            break;
        uint32_t rest = i + 1 < w.rank ? fast_divide(row, w.by[i]) : 0;
        int64_t at = (int64_t)(row - rest * w.by[i].divisor);
        from += at * w.dim[i].from;
        to += at * w.dim[i].to;
        table += at * w.dim[i].table;
        row = rest;
    }
    float c[N], s[N];
    if (!IS_COPY) {
        load_table<N>(cosine + table, c);
        load_table<N>(sine + table, s);
    }
    vector_of<T, N> low[ROWS], high[ROWS];
#pragma unroll
    for (int k = 0; k < ROWS; k++) {
        const T *here = x + from + k * w.from_second;
        low[k] = *(const vector_of<T, N> *)here;
        high[k] = *(const vector_of<T, N> *)(here + w.half);
    }
    if (!IS_COPY) {
#pragma unroll
        for (int k = 0; k < ROWS; k++)
#pragma unroll
            for (int j = 0; j < N; j++) {
                float turn = sign * s[j], a = to_float(low[k].at[j]), b = to_float(high[k].at[j]);
                low[k].at[j] = from_float<T>(a * c[j] - b * turn);
                high[k].at[j] = from_float<T>(b * c[j] + a * turn);
            }
    }
#pragma unroll
    for (int k = 0; k < ROWS; k++) {
        T *there = y + to + k * w.to_second;
        *(vector_of<T, N> *)there = low[k];
        *(vector_of<T, N> *)(there + w.half) = high[k];
    }
}

template <typename T, int N, int ROWS, bool IS_COPY>
static void launch_rows(const cuda_args *args, rope_walk *w, cudaStream_t stream) {
    w->pieces = fast_divisor_of((uint32_t)(w->half / N));
    w->threads = count_rows(w) * (w->half / N);
    for (int i = 0; i < w->rank; i++)
        w->by[i] = fast_divisor_of((uint32_t)w->dim[i].size);
    rope_rows<T, N, ROWS, IS_COPY><<<(unsigned)blocks_for(w->threads, THREADS), THREADS, 0, stream>>>(
        *w, (const T *)args->inputs[0].data, (const float *)args->inputs[1].data,
        (const float *)args->inputs[2].data, cuda_integer(args, "inverse") ? -1.0f : 1.0f,
        (T *)args->outputs[0].data);
}

template <typename T, int N>
static void launch(const cuda_args *args, rope_walk *w, bool is_copy, cudaStream_t stream) {
    if (is_copy)
        launch_rows<T, N, 1, true>(args, w, stream);
    else if (count_rows(w) * (w->half / N) >= MANY_THREADS && pair_rows(w))
        launch_rows<T, N, 2, false>(args, w, stream);
    else
        launch_rows<T, N, 1, false>(args, w, stream);
}

template <typename T>
static void launch_heads(const cuda_args *args, int64_t first, int64_t end, bool is_copy,
                         cudaStream_t stream) {
    enum { N = VECTOR_BYTES / (int)sizeof(T) };
    rope_walk w = describe(&args->inputs[0], &args->outputs[0], first, end);
    int64_t steps = w.half | w.from_start | w.to_start;
    for (int i = 0; i < w.rank; i++)
        steps |= w.dim[i].from | w.dim[i].to;
    bool fits = is_aligned(args->inputs[0].data, steps * (int64_t)sizeof(T)) &&
                is_aligned(args->outputs[0].data, 0) && is_aligned(args->inputs[1].data, 0) &&
                is_aligned(args->inputs[2].data, 0);
    if (fits)
        launch<T, N>(args, &w, is_copy, stream);
    else
        launch<T, 1>(args, &w, is_copy, stream);
}

template <typename T> static void launch_type(const cuda_args *args, cudaStream_t stream) {
    const cuda_tensor *x = &args->inputs[0], *y = &args->outputs[0];
    int64_t rotated = cuda_integer_or(args, "heads", 0);
    launch_heads<T>(args, 0, rotated, false, stream);
    int64_t heads = rotated ? x->shape.dim[x->shape.rank - 2] : 0;
    if (rotated < heads && x->data != y->data)
        launch_heads<T>(args, rotated, heads, true, stream);
}

extern "C" dyno_status dyno_rope_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    switch (args->inputs[0].type) {
    case CUDA_DTYPE_BF16:
        launch_type<bf16>(args, stream);
        break;
    case CUDA_DTYPE_F16:
        launch_type<f16>(args, stream);
        break;
    default:
        launch_type<float>(args, stream);
        break;
    }
    return cuda_launch_status();
}
