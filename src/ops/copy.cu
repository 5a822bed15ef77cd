/* copy.cu - copies between any two layouts of the same elements.
 *
 * The host brings both layouts to one list of dimensions: each is coalesced, then the two are split
 * at each other's bounds, and dimensions that both traverse alike are coalesced again. A
 * permutation [B, T, H, S] -> [B, H, T, S] becomes rows of S elements, and those become words of up
 * to 16 bytes: only the size of a type matters here. Where the source is dense along another
 * dimension than the destination, tiles of 32 x 32 are transposed in shared memory. */
#include "runtime/cuda/device_math.cuh"

extern "C" {
#include "tensor/attributes.h"
}

enum { THREADS = 256, WORDS_PER_THREAD = 4, TILE = 32, TILE_ROWS = 8 };
enum { MOST_DIMS = 2 * CUDA_MAX_RANK };

/* Dimensions outermost first, strides in elements or, later, in words. */
typedef struct copy_side {
    int rank;
    int64_t dim[CUDA_MAX_RANK], stride[CUDA_MAX_RANK];
} copy_side;

typedef struct copy_dims {
    int rank;
    int64_t dim[MOST_DIMS], from[MOST_DIMS], to[MOST_DIMS];
    fast_divisor by[MOST_DIMS];
} copy_dims;

/* ---- layouts, on the host ---- */

static copy_side merged_side(const cuda_tensor *t) {
    copy_side side = {};
    for (int i = 0; i < t->shape.rank; i++) {
        int64_t dim = t->shape.dim[i], stride = t->stride[i];
        if (dim == 1)
            continue;
        int last = side.rank - 1;
        if (last >= 0 && side.stride[last] == stride * dim) {
            side.dim[last] *= dim;
            side.stride[last] = stride;
        } else {
            side.dim[side.rank] = dim;
            side.stride[side.rank++] = stride;
        }
    }
    return side;
}

/* From the innermost dimensions outwards. False when a bound of one side falls within a run of the
 * other that has no whole number of it. */
static bool cut_alike(const copy_side *from, const copy_side *to, copy_dims *out) {
    int i = from->rank - 1, j = to->rank - 1, count = 0;
    int64_t dim[MOST_DIMS], in[MOST_DIMS], written[MOST_DIMS];
    int64_t left_i = i >= 0 ? from->dim[i] : 1, left_j = j >= 0 ? to->dim[j] : 1;
    int64_t step_i = i >= 0 ? from->stride[i] : 1, step_j = j >= 0 ? to->stride[j] : 1;
    while (i >= 0 && j >= 0) {
        int64_t shared = left_i < left_j ? left_i : left_j;
        if (left_i % shared || left_j % shared)
            return false;
        bool is_mergeable = count > 0 && step_i == in[count - 1] * dim[count - 1] &&
                            step_j == written[count - 1] * dim[count - 1];
        if (is_mergeable) {
            dim[count - 1] *= shared;
        } else {
            dim[count] = shared;
            in[count] = step_i;
            written[count++] = step_j;
        }
        left_i /= shared;
        left_j /= shared;
        step_i *= shared;
        step_j *= shared;
        if (left_i == 1 && --i >= 0) {
            left_i = from->dim[i];
            step_i = from->stride[i];
        }
        if (left_j == 1 && --j >= 0) {
            left_j = to->dim[j];
            step_j = to->stride[j];
        }
    }
    out->rank = count;
    for (int d = 0; d < count; d++) {
        out->dim[d] = dim[count - 1 - d];
        out->from[d] = in[count - 1 - d];
        out->to[d] = written[count - 1 - d];
    }
    if (count == 0) {
        out->rank = 1;
        out->dim[0] = out->from[0] = out->to[0] = 1;
    }
    return true;
}

/* The largest word that both sides can be copied in, and the dimensions counted in it. */
static int widest_word(copy_dims *d, const void *from, const void *to, int bytes) {
    int inner = d->rank - 1, word = VECTOR_BYTES;
    if (d->from[inner] != 1 || d->to[inner] != 1)
        return bytes;
    for (; word > bytes; word /= 2) {
        int64_t per_word = word / bytes;
        bool fits = d->dim[inner] % per_word == 0 && (uintptr_t)from % (uintptr_t)word == 0 &&
                    (uintptr_t)to % (uintptr_t)word == 0;
        for (int i = 0; i < inner && fits; i++)
            fits = d->from[i] % per_word == 0 && d->to[i] % per_word == 0;
        if (fits)
            break;
    }
    int64_t per_word = word / bytes;
    d->dim[inner] /= per_word;
    for (int i = 0; i < inner; i++) {
        d->from[i] /= per_word;
        d->to[i] /= per_word;
    }
    return word;
}

/* ---- kernels ---- */

template <bool IS_WIDE>
static __device__ __forceinline__ void locate(const copy_dims &d, int64_t index, int64_t *from,
                                              int64_t *to) {
    *from = *to = 0;
    int64_t left = index;
    for (int i = d.rank - 1; i > 0; i--) {
        int64_t rest = IS_WIDE ? left / d.dim[i] : (int64_t)fast_divide((uint32_t)left, d.by[i]);
        int64_t at = left - rest * d.dim[i];
        *from += at * d.from[i];
        *to += at * d.to[i];
        left = rest;
    }
    *from += left * d.from[0];
    *to += left * d.to[0];
}

template <typename WORD, bool IS_WIDE>
static __global__ void __launch_bounds__(THREADS)
    copy_words(const __grid_constant__ copy_dims d, int64_t count, const WORD *__restrict__ from,
               WORD *__restrict__ to) {
    int64_t first = (int64_t)blockIdx.x * (THREADS * WORDS_PER_THREAD) + threadIdx.x;
    WORD word[WORDS_PER_THREAD];
    int64_t target[WORDS_PER_THREAD];
#pragma unroll
    for (int i = 0; i < WORDS_PER_THREAD; i++) {
        int64_t index = first + i * THREADS, source;
        if (index < count) {
            locate<IS_WIDE>(d, index, &source, &target[i]);
            word[i] = from[source];
        }
    }
#pragma unroll
    for (int i = 0; i < WORDS_PER_THREAD; i++)
        if (first + i * THREADS < count)
            to[target[i]] = word[i];
}

/* `across` is dense where it is read, the innermost dimension where it is written; `batch` are the
 * dimensions beside the two. */
typedef struct copy_tiles {
    copy_dims batch;
    int64_t across, inner;               /* sizes */
    int64_t to_of_across, from_of_inner; /* strides; the other two are 1 */
    int64_t tiles_across, tiles_inner;
} copy_tiles;

template <typename WORD>
static __global__ void __launch_bounds__(TILE *TILE_ROWS)
    copy_by_tiles(const __grid_constant__ copy_tiles t, const WORD *__restrict__ from,
                  WORD *__restrict__ to) {
    __shared__ WORD tile[TILE][TILE + 1];
    int64_t block = blockIdx.x, source, target;
    int64_t inner = block % t.tiles_inner * TILE;
    block /= t.tiles_inner;
    int64_t across = block % t.tiles_across * TILE;
    locate<true>(t.batch, block / t.tiles_across, &source, &target);
    int x = (int)threadIdx.x % TILE, y = (int)threadIdx.x / TILE;
#pragma unroll
    for (int i = 0; i < TILE; i += TILE_ROWS)
        if (across + x < t.across && inner + y + i < t.inner)
            tile[y + i][x] = from[source + (inner + y + i) * t.from_of_inner + across + x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE; i += TILE_ROWS)
        if (inner + x < t.inner && across + y + i < t.across)
            to[target + (across + y + i) * t.to_of_across + inner + x] = tile[x][y + i];
}

/* Layouts that have no dimensions in common: each is indexed separately. */
template <typename WORD>
static __global__ void __launch_bounds__(THREADS)
    copy_one_by_one(const __grid_constant__ copy_side from_side,
                    const __grid_constant__ copy_side to_side, int64_t count,
                    const WORD *__restrict__ from, WORD *__restrict__ to) {
    int64_t index = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (index >= count)
        return;
    int64_t source = 0, target = 0, left = index;
    for (int i = from_side.rank - 1; i >= 0; i--) {
        source += left % from_side.dim[i] * from_side.stride[i];
        left /= from_side.dim[i];
    }
    left = index;
    for (int i = to_side.rank - 1; i >= 0; i--) {
        target += left % to_side.dim[i] * to_side.stride[i];
        left /= to_side.dim[i];
    }
    to[target] = from[source];
}

/* ---- launches ---- */

template <typename WORD>
static void launch_words(copy_dims *d, const void *from, void *to, cudaStream_t stream) {
    int64_t count = 1;
    for (int i = 0; i < d->rank; i++)
        count *= d->dim[i];
    unsigned grid = (unsigned)blocks_for(count, THREADS * WORDS_PER_THREAD);
    if (count > INT32_MAX) {
        copy_words<WORD, true>
            <<<grid, THREADS, 0, stream>>>(*d, count, (const WORD *)from, (WORD *)to);
        return;
    }
    for (int i = 0; i < d->rank; i++)
        d->by[i] = fast_divisor_of((uint32_t)d->dim[i]);
    copy_words<WORD, false>
        <<<grid, THREADS, 0, stream>>>(*d, count, (const WORD *)from, (WORD *)to);
}

/* False where both sides are dense along the same dimension, or the source along none. */
static bool find_tiles(const copy_dims *d, copy_tiles *t) {
    enum { FEWEST = 8 }; /* a thinner tile would be mostly empty */
    int inner = d->rank - 1, across = -1;
    for (int i = 0; i < inner; i++)
        if (d->from[i] == 1 && d->dim[i] >= FEWEST)
            across = i;
    if (across < 0 || d->to[inner] != 1 || d->from[inner] == 1 || d->dim[inner] < FEWEST)
        return false;
    *t = {};
    t->across = d->dim[across];
    t->to_of_across = d->to[across];
    t->inner = d->dim[inner];
    t->from_of_inner = d->from[inner];
    t->tiles_across = blocks_for(t->across, TILE);
    t->tiles_inner = blocks_for(t->inner, TILE);
    for (int i = 0; i < inner; i++)
        if (i != across) {
            int at = t->batch.rank++;
            t->batch.dim[at] = d->dim[i];
            t->batch.from[at] = d->from[i];
            t->batch.to[at] = d->to[i];
        }
    if (t->batch.rank == 0) {
        t->batch.rank = 1;
        t->batch.dim[0] = 1;
    }
    return true;
}

template <typename WORD>
static void launch_tiles(const copy_tiles *t, const void *from, void *to, cudaStream_t stream) {
    int64_t grid = t->tiles_across * t->tiles_inner;
    for (int i = 0; i < t->batch.rank; i++)
        grid *= t->batch.dim[i];
    copy_by_tiles<WORD>
        <<<(unsigned)grid, TILE * TILE_ROWS, 0, stream>>>(*t, (const WORD *)from, (WORD *)to);
}

static void copy(const cuda_tensor *from, const cuda_tensor *to, cudaStream_t stream) {
    copy_side from_side = merged_side(from), to_side = merged_side(to);
    copy_dims d = {};
    copy_tiles t;
    int bytes = element_bytes(from->type);
#define BY_SIZE(LAUNCH, SIZE)                                                                      \
    switch (SIZE) {                                                                                \
    case 1:                                                                                        \
        LAUNCH(uint8_t);                                                                           \
        break;                                                                                     \
    case 2:                                                                                        \
        LAUNCH(uint16_t);                                                                          \
        break;                                                                                     \
    case 4:                                                                                        \
        LAUNCH(uint32_t);                                                                          \
        break;                                                                                     \
    default:                                                                                       \
        LAUNCH(uint64_t);                                                                          \
        break;                                                                                     \
    }
    if (!cut_alike(&from_side, &to_side, &d)) {
        int64_t count = cuda_elements(from);
#define ONE_BY_ONE(WORD)                                                                           \
    copy_one_by_one<WORD><<<(unsigned)blocks_for(count, THREADS), THREADS, 0, stream>>>(           \
        from_side, to_side, count, (const WORD *)from->data, (WORD *)to->data)
        BY_SIZE(ONE_BY_ONE, bytes)
    } else if (find_tiles(&d, &t)) {
#define BY_TILES(WORD) launch_tiles<WORD>(&t, from->data, to->data, stream)
        BY_SIZE(BY_TILES, bytes)
    } else {
        int word = widest_word(&d, from->data, to->data, bytes);
#define BY_WORDS(WORD) launch_words<WORD>(&d, from->data, to->data, stream)
        if (word == VECTOR_BYTES)
            BY_WORDS(uint4);
        else
            BY_SIZE(BY_WORDS, word)
    }
}

/* Reshapes that no view can express, and detach: the elements in their order. */
extern "C" dyno_status dyno_copy_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    copy(&args->inputs[0], &args->outputs[0], stream);
    return cuda_launch_status();
}

extern "C" dyno_status dyno_transpose_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    const int64_t *order = attribute_list(args->attributes, "order")->dim;
    cuda_tensor view = args->inputs[0];
    for (int i = 0; i < view.shape.rank; i++) {
        view.shape.dim[i] = args->inputs[0].shape.dim[order[i]];
        view.stride[i] = args->inputs[0].stride[order[i]];
    }
    copy(&view, &args->outputs[0], stream);
    return cuda_launch_status();
}

extern "C" dyno_status dyno_broadcast_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    cuda_tensor view = args->inputs[0];
    for (int i = 0; i < view.shape.rank; i++) {
        if (view.shape.dim[i] != args->outputs[0].shape.dim[i])
            view.stride[i] = 0;
        view.shape.dim[i] = args->outputs[0].shape.dim[i];
    }
    copy(&view, &args->outputs[0], stream);
    return cuda_launch_status();
}
