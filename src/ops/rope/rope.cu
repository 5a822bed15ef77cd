/* rope.cu - a thread has the same few columns of several rows at one position: cos and sin are read
 * once for all of them, and the rows are on their way together. Rows may lie anywhere, where they
 * are read and where they are written; [B, T, H, D] in memory is as good as [B, H, T, D].
 *
 * y may be x: a thread has read both halves of its columns before it writes them. Heads that are
 * not to be rotated are then left alone; else a second launch moves them. */
#include "runtime/cuda/device_math.cuh"

enum { THREADS = 128, ROWS = 4, MOST_OUTER = CUDA_MAX_RANK - 2, MOST_GRID_Y = 65535 };

/* The dimensions outside position and column, merged where both sides walk them alike. Strides in
 * elements. */
typedef struct rope_rows {
    int rank;
    int64_t count, length, half;
    fast_divisor by[MOST_OUTER];
    int64_t from[MOST_OUTER], to[MOST_OUTER];
    int64_t from_position, to_position;
    int64_t from_start, to_start; /* of the first row */
    bool is_copy;
} rope_rows;

/* Heads [first_head, end_head) of each position; where there is no dimension of heads, both are 0.
 */
static rope_rows describe(const cuda_tensor *x, const cuda_tensor *y, int64_t first_head,
                          int64_t end_head) {
    int last_dim = x->shape.rank - 1, heads = end_head ? last_dim - 1 : -1;
    int position = end_head ? last_dim - 2 : last_dim - 1;
    rope_rows r = {};
    r.count = 1;
    r.length = x->shape.dim[position];
    r.half = x->shape.dim[last_dim] / 2;
    r.from_position = x->stride[position];
    r.to_position = y->stride[position];
    if (end_head) {
        r.from_start = first_head * x->stride[heads];
        r.to_start = first_head * y->stride[heads];
    }
    int64_t dim[MOST_OUTER];
    for (int i = 0; i < last_dim; i++) {
        int64_t size = i == heads ? end_head - first_head : x->shape.dim[i];
        if (size == 1 || i == position)
            continue;
        int last = r.rank - 1;
        bool is_mergeable =
            last >= 0 && r.from[last] == x->stride[i] * size && r.to[last] == y->stride[i] * size;
        if (is_mergeable)
            dim[last] *= size;
        else
            dim[last = r.rank++] = size;
        r.from[last] = x->stride[i];
        r.to[last] = y->stride[i];
        r.count *= size;
    }
    for (int i = 0; i < r.rank; i++)
        r.by[i] = fast_divisor_of((uint32_t)dim[i]);
    return r;
}

static __device__ __forceinline__ void locate(const rope_rows &r, uint32_t row, int64_t *from,
                                              int64_t *to) {
    *from = *to = 0;
    for (int i = r.rank - 1; i >= 0; i--) {
        uint32_t rest = fast_divide(row, r.by[i]);
        int64_t at = (int64_t)(row - rest * r.by[i].divisor);
        *from += at * r.from[i];
        *to += at * r.to[i];
        row = rest;
    }
}

/* N floats, N being 1 or a multiple of 4. */
template <int N>
static __device__ __forceinline__ void load_table(const float *from, float (&to)[N]) {
    enum { STEP = N < 4 ? N : 4 };
#pragma unroll
    for (int i = 0; i < N; i += STEP) {
        const vector_of<float, STEP> packed = *(const vector_of<float, STEP> *)(from + i);
#pragma unroll
        for (int j = 0; j < STEP; j++)
            to[i + j] = packed.at[j];
    }
}

template <typename T, int N>
static __global__ void __launch_bounds__(THREADS)
    rotate(const __grid_constant__ rope_rows r, const T *x, const float *__restrict__ cosine,
           const float *__restrict__ sine, float sign, T *y) {
    int64_t pieces = r.half / N;
    int64_t index = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t position = index / pieces, column = (index - position * pieces) * N;
    if (position >= r.length)
        return;
    float c[N], s[N];
    load_table<N>(cosine + position * r.half + column, c);
    load_table<N>(sine + position * r.half + column, s);
    const T *from_here = x + r.from_start + position * r.from_position + column;
    T *to_here = y + r.to_start + position * r.to_position + column;
    for (int64_t first = (int64_t)blockIdx.y * ROWS; first < r.count;
         first += (int64_t)gridDim.y * ROWS) {
        float low[ROWS][N], high[ROWS][N];
        int64_t to[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            if (first + i < r.count) {
                int64_t from;
                locate(r, (uint32_t)(first + i), &from, &to[i]);
                load_floats<T, N>(from_here + from, low[i]);
                load_floats<T, N>(from_here + from + r.half, high[i]);
            }
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            if (first + i < r.count) {
                float turned_low[N], turned_high[N];
#pragma unroll
                for (int j = 0; j < N; j++) {
                    float turn = sign * s[j];
                    float a = low[i][j], b = high[i][j];
                    turned_low[j] = r.is_copy ? a : a * c[j] - b * turn;
                    turned_high[j] = r.is_copy ? b : b * c[j] + a * turn;
                }
                store_floats<T, N>(to_here + to[i], turned_low);
                store_floats<T, N>(to_here + to[i] + r.half, turned_high);
            }
    }
}

template <typename T, int N>
static void launch(const cuda_args *args, const rope_rows *r, cudaStream_t stream) {
    int64_t groups = blocks_for(r->count, ROWS);
    dim3 grid((unsigned)blocks_for(r->length * (r->half / N), THREADS),
              (unsigned)(groups < MOST_GRID_Y ? groups : (int64_t)MOST_GRID_Y));
    rotate<T, N><<<grid, THREADS, 0, stream>>>(
        *r, (const T *)args->inputs[0].data, (const float *)args->inputs[1].data,
        (const float *)args->inputs[2].data, cuda_integer(args, "inverse") ? -1.0f : 1.0f,
        (T *)args->outputs[0].data);
}

template <typename T>
static void launch_heads(const cuda_args *args, int64_t first, int64_t end, bool is_copy,
                         cudaStream_t stream) {
    enum { N = VECTOR_BYTES / (int)sizeof(T) };
    rope_rows r = describe(&args->inputs[0], &args->outputs[0], first, end);
    r.is_copy = is_copy;
    int64_t steps = r.half | r.from_position | r.to_position | r.from_start | r.to_start;
    for (int i = 0; i < r.rank; i++)
        steps |= r.from[i] | r.to[i];
    bool fits = is_aligned(args->inputs[0].data, steps * (int64_t)sizeof(T)) &&
                is_aligned(args->outputs[0].data, 0) && is_aligned(args->inputs[1].data, 0) &&
                is_aligned(args->inputs[2].data, 0);
    if (fits)
        launch<T, N>(args, &r, stream);
    else
        launch<T, 1>(args, &r, stream);
}

template <typename T> static void launch_type(const cuda_args *args, cudaStream_t stream) {
    const cuda_tensor *x = &args->inputs[0], *y = &args->outputs[0];
    int64_t rotated = cuda_integer_or(args, "heads", 0);
    launch_heads<T>(args, 0, rotated, false, stream);
    int64_t heads = rotated ? x->shape.dim[x->shape.rank - 2] : 0;
    if (rotated < heads && x->data != y->data)
        launch_heads<T>(args, rotated, heads, true, stream);
}

extern "C" void dyno_rope_cuda(const cuda_args *args, cudaStream_t stream) {
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
}
