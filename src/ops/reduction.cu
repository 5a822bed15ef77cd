/* reduction.cu - sum, mean and max over any axes, in f32, in an order that follows from the shape.
 *
 * Dimensions are coalesced into kept ones and reduced ones. Where the innermost is kept, adjacent
 * threads have adjacent columns, and the 32 lanes of a column share its elements. Otherwise a warp
 * or a block computes one result. Few long reductions are split first (reduction_splits.h). */
#include "ops/reduction_splits.h"
#include "runtime/cuda/device_math.cuh"

enum { THREADS = 256, COLUMNS = 32, LANES = 32, IN_FLIGHT = 8 };
enum { SHORTEST_PART_OF_ROW = 4096, LONGEST_FOR_WARP = 512 };

/* Some of the input's dimensions, outermost first. */
typedef struct dims {
    int rank;
    int64_t count; /* the product */
    int64_t dim[CUDA_MAX_RANK], stride[CUDA_MAX_RANK];
} dims;

/* kept: outside the columns, when there are columns; else all. */
typedef struct reduce_layout {
    dims kept, reduced;
    int64_t columns;  /* dense; 1: rows */
    int64_t per_part; /* of the reduced elements */
} reduce_layout;

typedef struct reduce_result {
    void *data;
    int type;
    float scale;
} reduce_result;

static void append(dims *d, int64_t dim, int64_t stride) {
    int last = d->rank - 1;
    d->count *= dim;
    if (last >= 0 && d->stride[last] == stride * dim) {
        d->dim[last] *= dim;
        d->stride[last] = stride;
    } else {
        d->dim[d->rank] = dim;
        d->stride[d->rank++] = stride;
    }
}

static reduce_layout describe(const cuda_tensor *in, const cuda_tensor *out) {
    reduce_layout l = {};
    l.kept.count = l.reduced.count = l.columns = 1;
    int inner = in->shape.rank - 1;
    while (inner >= 0 && in->shape.dim[inner] == 1)
        inner--;
    bool has_columns =
        inner >= 0 && in->stride[inner] == 1 && out->shape.dim[inner] == in->shape.dim[inner];
    for (int i = 0; i <= inner; i++) {
        if (in->shape.dim[i] == 1)
            continue;
        bool is_kept = out->shape.dim[i] == in->shape.dim[i];
        append(is_kept ? &l.kept : &l.reduced, in->shape.dim[i], in->stride[i]);
    }
    if (has_columns) { /* the last of the kept dimensions, with what merged into it */
        dims *kept = &l.kept;
        l.columns = kept->dim[--kept->rank];
        kept->count /= l.columns;
    }
    return l;
}

static __device__ __forceinline__ int64_t offset_of(const dims &d, int64_t index) {
    if (d.rank <= 1)
        return index * d.stride[0];
    int64_t offset = 0;
#pragma unroll 1
    for (int i = d.rank - 1; i >= 0; i--) {
        int64_t rest = index / d.dim[i];
        offset += (index - rest * d.dim[i]) * d.stride[i];
        index = rest;
    }
    return offset;
}

static __device__ __forceinline__ void store(const reduce_result &to, int64_t index, float x) {
    x *= to.scale;
    if (to.type == CUDA_DTYPE_BF16)
        ((bf16 *)to.data)[index] = from_float<bf16>(x);
    else if (to.type == CUDA_DTYPE_F16)
        ((f16 *)to.data)[index] = from_float<f16>(x);
    else
        ((float *)to.data)[index] = x;
}

/* The part of a result that one thread reduces: elements begin, begin + step, ... before end, in
 * that order, several loads in flight at a time. */
template <typename HOW, typename T>
static __device__ __forceinline__ float reduce_evenly(const T *__restrict__ in, int64_t stride,
                                                      int64_t begin, int64_t end, int64_t step) {
    float x = HOW::identity();
    const T *at = in + begin * stride;
    int64_t hop = step * stride;
#pragma unroll 1
    for (int64_t i = begin; i < end; i += IN_FLIGHT * step, at += IN_FLIGHT * hop) {
        float some[IN_FLIGHT];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            some[k] = i + k * step < end ? to_float(at[k * hop]) : HOW::identity();
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            x = HOW::join(x, some[k]);
    }
    return x;
}

/* Most reduced dimensions merge into one, in which elements are evenly spaced. */
template <typename HOW, typename T>
static __device__ __forceinline__ float reduce_some(const T *__restrict__ in, const dims &reduced,
                                                    int64_t begin, int64_t end, int64_t step) {
    if (reduced.rank <= 1)
        return reduce_evenly<HOW, T>(in, reduced.stride[0], begin, end, step);
    float x = HOW::identity();
#pragma unroll 1
    for (int64_t i = begin; i < end; i += step)
        x = HOW::join(x, to_float(in[offset_of(reduced, i)]));
    return x;
}

template <typename HOW, typename T>
static __global__ void __launch_bounds__(COLUMNS *LANES)
    reduce_columns(const __grid_constant__ reduce_layout l, const T *__restrict__ in, int64_t parts,
                   reduce_result to) {
    __shared__ float lanes[LANES][COLUMNS];
    uint32_t tiles = (uint32_t)((l.columns + COLUMNS - 1) / COLUMNS); /* a grid counts 31 bits */
    uint32_t place = blockIdx.x / tiles;
    int x = (int)threadIdx.x % COLUMNS, lane = (int)threadIdx.x / COLUMNS;
    int64_t column = (int64_t)(blockIdx.x - place * tiles) * COLUMNS + x;
    int64_t part = place % (uint32_t)parts, kept = place / (uint32_t)parts;
    int64_t length = l.reduced.count, per_part = l.per_part;
    int64_t begin = part * per_part;
    int64_t end = begin + per_part < length ? begin + per_part : length;
    if (column < l.columns)
        lanes[lane][x] = reduce_some<HOW, T>(in + offset_of(l.kept, kept) + column, l.reduced,
                                             begin + lane, end, LANES);
    __syncthreads();
    if (lane != 0 || column >= l.columns)
        return;
    float all = lanes[0][x];
#pragma unroll
    for (int i = 1; i < LANES; i++)
        all = HOW::join(all, lanes[i][x]);
    store(to, (part * l.kept.count + kept) * l.columns + column, all);
}

/* THREADS_EACH: 32 or all of the block for one result. */
template <typename HOW, typename T, int THREADS_EACH>
static __global__ void __launch_bounds__(THREADS)
    reduce_rows(const __grid_constant__ reduce_layout l, const T *__restrict__ in, int64_t parts,
                reduce_result to) {
    __shared__ float scratch[WARP];
    int64_t place = (int64_t)blockIdx.x * (THREADS / THREADS_EACH) + threadIdx.x / THREADS_EACH;
    if (place >= parts * l.kept.count)
        return; /* a whole warp, or the whole block */
    int64_t part = parts == 1 ? 0 : place / l.kept.count, kept = place - part * l.kept.count;
    int64_t length = l.reduced.count, per_part = l.per_part;
    int64_t begin = part * per_part;
    int64_t end = begin + per_part < length ? begin + per_part : length;
    int thread = (int)threadIdx.x % THREADS_EACH;
    float x = reduce_some<HOW, T>(in + offset_of(l.kept, kept), l.reduced, begin + thread, end,
                                  THREADS_EACH);
    if (THREADS_EACH == WARP)
        x = warp_reduce<HOW>(x);
    else
        x = block_reduce<HOW, THREADS>(x, scratch);
    if (thread == 0)
        store(to, place, x);
}

template <typename HOW, typename T>
static void launch(reduce_layout *l, const void *in, int64_t parts, reduce_result to,
                   cudaStream_t stream) {
    l->per_part = blocks_for(l->reduced.count, parts);
    int64_t tiles = blocks_for(l->columns, COLUMNS), results = parts * l->kept.count;
    if (l->columns > 1)
        reduce_columns<HOW, T><<<(unsigned)(tiles * results), COLUMNS * LANES, 0, stream>>>(
            *l, (const T *)in, parts, to);
    else if (l->reduced.count <= LONGEST_FOR_WARP)
        reduce_rows<HOW, T, WARP>
            <<<(unsigned)blocks_for(results, THREADS / WARP), THREADS, 0, stream>>>(
                *l, (const T *)in, parts, to);
    else
        reduce_rows<HOW, T, THREADS>
            <<<(unsigned)results, THREADS, 0, stream>>>(*l, (const T *)in, parts, to);
}

template <typename HOW>
static void reduce(const cuda_args *args, float scale, cudaStream_t stream) {
    const cuda_tensor *in = &args->inputs[0], *out = &args->outputs[0];
    reduce_layout l = describe(in, out);
    int64_t results = l.kept.count * l.columns, length = l.reduced.count;
    int64_t parts = reduction_most_splits(results, length);
    if (l.columns == 1 && parts > length / SHORTEST_PART_OF_ROW)
        parts = length / SHORTEST_PART_OF_ROW;
    parts = parts > 1 ? parts : 1;
    reduce_result last = {out->data, out->type, scale};
    reduce_result first = last;
    if (parts > 1)
        first = {args->workspace, CUDA_DTYPE_F32, 1.0f};
    switch (in->type) {
    case CUDA_DTYPE_BF16:
        launch<HOW, bf16>(&l, in->data, parts, first, stream);
        break;
    case CUDA_DTYPE_F16:
        launch<HOW, f16>(&l, in->data, parts, first, stream);
        break;
    default:
        launch<HOW, float>(&l, in->data, parts, first, stream);
        break;
    }
    if (parts == 1)
        return;
    reduce_layout joined = {};
    joined.kept.count = 1;
    joined.columns = results;
    joined.reduced = {1, parts, {parts}, {results}};
    launch<HOW, float>(&joined, args->workspace, 1, last, stream);
}

extern "C" dyno_status dyno_sum_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    reduce<add_floats>(args, 1.0f, stream);
    return cuda_launch_status();
}

extern "C" dyno_status dyno_mean_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    int64_t length = cuda_elements(&args->inputs[0]) / cuda_elements(&args->outputs[0]);
    reduce<add_floats>(args, (float)(1.0 / (double)length), stream);
    return cuda_launch_status();
}

extern "C" dyno_status dyno_max_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    reduce<larger_float>(args, 1.0f, stream);
    return cuda_launch_status();
}
