/* scatter_add.cu - no atomics, one order of addition, every element of the table written once.
 *
 * A block has `rows` rows of the table, and some columns. It scans all ids for those of its rows
 * and keeps their tokens, in order, in shared memory; sorts them by row; then accumulates each row
 * in f32 registers, and writes zeros where there are none. Ids are small compared with what is
 * added and stay in the L2 cache, so that scanning all of them costs little. Where more tokens are
 * found than shared memory holds, the rows are processed one after the other, each in as many
 * rounds as needed: a table of one row is the worst case, and is handled. */
#include "runtime/cuda/device_math.cuh"

enum { MOST_THREADS = 256, MOST_WARPS = MOST_THREADS / WARP, MOST_ROWS = 64, IN_FLIGHT = 4 };
enum { IDS_PER_THREAD = 8, CAPACITY = IDS_PER_THREAD * MOST_THREADS };

typedef struct found_tokens {
    int32_t token[CAPACITY], sorted[CAPACITY];
    uint8_t row[CAPACITY];
    int32_t start[MOST_ROWS + 1];
    int32_t of_warp[IDS_PER_THREAD][MOST_WARPS];
} found_tokens;

static __device__ __forceinline__ int below_lane(unsigned lanes) {
    return __popc(lanes & ((1u << threadIdx.x % WARP) - 1));
}

/* Collects the tokens from `*next` on whose ids are in [first, end), until all have been scanned or
 * the next round's do not fit. Returns how many there are; `*next` is where to continue. All
 * threads of the block call it, and get the same results. */
static __device__ int find(found_tokens *f, const int32_t *__restrict__ ids, int64_t count,
                           int32_t first, int32_t end, int64_t *next) {
    int warp = (int)threadIdx.x / WARP, warps = (int)blockDim.x / WARP, found = 0;
    int64_t at = *next;
    for (; at < count; at += IDS_PER_THREAD * blockDim.x) {
        int32_t id[IDS_PER_THREAD];
        unsigned ours[IDS_PER_THREAD], any = 0;
#pragma unroll
        for (int k = 0; k < IDS_PER_THREAD; k++) {
            int64_t token = at + k * (int)blockDim.x + threadIdx.x;
            id[k] = token < count ? ids[token] : -1; /* no row is -1 */
        }
#pragma unroll
        for (int k = 0; k < IDS_PER_THREAD; k++) {
            ours[k] = __ballot_sync(0xffffffffu, id[k] >= first && id[k] < end);
            any |= ours[k];
        }
        if (!__syncthreads_or(any != 0))
            continue;
        if (threadIdx.x % WARP == 0)
#pragma unroll
            for (int k = 0; k < IDS_PER_THREAD; k++)
                f->of_warp[k][warp] = __popc(ours[k]);
        __syncthreads();
        int total = found, place[IDS_PER_THREAD];
#pragma unroll
        for (int k = 0; k < IDS_PER_THREAD; k++)
            for (int i = 0; i < warps; i++) {
                if (i == warp)
                    place[k] = total + below_lane(ours[k]);
                total += f->of_warp[k][i];
            }
        if (total > CAPACITY)
            break;
        found = total;
#pragma unroll
        for (int k = 0; k < IDS_PER_THREAD; k++)
            if (id[k] >= first && id[k] < end) {
                f->token[place[k]] = (int32_t)(at + k * (int)blockDim.x + threadIdx.x);
                f->row[place[k]] = (uint8_t)(id[k] - first);
            }
    }
    *next = at;
    __syncthreads();
    return found;
}

/* Stable: a warp counts the tokens of a row, then collects them, in order. */
static __device__ void sort_by_row(found_tokens *f, int found, int rows) {
    int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    int warps = (int)blockDim.x / WARP;
    for (int row = warp; row < rows; row += warps) {
        int here = 0;
        for (int i = lane; i < found; i += WARP)
            here += f->row[i] == row;
        here = __reduce_add_sync(0xffffffffu, here);
        if (lane == 0)
            f->start[row + 1] = here;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        f->start[0] = 0;
        for (int row = 0; row < rows; row++)
            f->start[row + 1] += f->start[row];
    }
    __syncthreads();
    for (int row = warp; row < rows; row += warps) {
        int place = f->start[row];
        for (int i = 0; i < found; i += WARP) {
            bool is_ours = i + lane < found && f->row[i + lane] == row;
            unsigned ours = __ballot_sync(0xffffffffu, is_ours);
            if (is_ours)
                f->sorted[place + below_lane(ours)] = f->token[i + lane];
            place += __popc(ours);
        }
    }
    __syncthreads();
}

/* Adds rows of x to `sum`, in order; several loads are in flight at a time. */
template <typename T, int N>
static __device__ __forceinline__ void add_rows(const int32_t *tokens, int count, int64_t width,
                                                const T *__restrict__ column, float (&sum)[N]) {
    int i = 0;
    for (; i + IN_FLIGHT <= count; i += IN_FLIGHT) {
        float x[IN_FLIGHT][N];
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            load_floats<T, N>(column + tokens[i + k] * width, x[k]);
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
#pragma unroll
            for (int j = 0; j < N; j++)
                sum[j] += x[k][j];
    }
    for (; i < count; i++) {
        float x[N];
        load_floats<T, N>(column + tokens[i] * width, x);
#pragma unroll
        for (int j = 0; j < N; j++)
            sum[j] += x[j];
    }
}

template <typename T, int N>
static __global__ void __launch_bounds__(MOST_THREADS, 3)
    scatter_add_rows(int rows_per_block, int64_t table_rows, int64_t width, int64_t count,
                 const int32_t *__restrict__ ids, const T *__restrict__ x, T *__restrict__ out) {
    __shared__ found_tokens f;
    int64_t first = (int64_t)blockIdx.x * rows_per_block;
    int rows = (int)(table_rows - first < rows_per_block ? table_rows - first : rows_per_block);
    int64_t column = ((int64_t)blockIdx.y * blockDim.x + threadIdx.x) * N, next = 0;
    bool has_column = column < width;
    int found = find(&f, ids, count, (int32_t)first, (int32_t)first + rows, &next);
    if (next >= count && !found) { /* most rows of a large table have no token */
        const float zeros[N] = {};
        for (int row = 0; has_column && row < rows; row++)
            store_floats<T, N>(out + (first + row) * width + column, zeros);
        return;
    }
    if (next >= count) {
        sort_by_row(&f, found, rows);
        for (int row = 0; has_column && row < rows; row++) {
            float sum[N] = {};
            add_rows<T, N>(f.sorted + f.start[row], f.start[row + 1] - f.start[row], width,
                           x + column, sum);
            store_floats<T, N>(out + (first + row) * width + column, sum);
        }
        return;
    }
    for (int row = 0; row < rows; row++) {
        float sum[N] = {};
        int32_t id = (int32_t)first + row;
        for (next = 0; next < count;) {
            found = find(&f, ids, count, id, id + 1, &next);
            if (has_column)
                add_rows<T, N>(f.token, found, width, x + column, sum);
            __syncthreads();
        }
        if (has_column)
            store_floats<T, N>(out + id * width + column, sum);
    }
}

template <typename T, int N>
static void launch(const cuda_args *args, int rows_per_block, cudaStream_t stream) {
    int64_t table_rows = args->outputs[0].shape.dim[0], width = args->outputs[0].shape.dim[1];
    int64_t vectors = width / N, pieces = blocks_for(vectors, MOST_THREADS);
    int64_t threads = blocks_for(blocks_for(vectors, pieces), WARP) * WARP;
    dim3 grid((unsigned)blocks_for(table_rows, rows_per_block), (unsigned)pieces);
    scatter_add_rows<T, N><<<grid, (unsigned)threads, 0, stream>>>(
        rows_per_block, table_rows, width, cuda_elements(&args->inputs[0]),
        (const int32_t *)args->inputs[0].data, (const T *)args->inputs[1].data,
        (T *)args->outputs[0].data);
}

template <typename T>
static void launch_type(const cuda_args *args, int rows_per_block, cudaStream_t stream) {
    enum { N = VECTOR_BYTES / (int)sizeof(T) };
    int64_t row_bytes = args->outputs[0].shape.dim[1] * (int64_t)sizeof(T);
    if (is_aligned(args->inputs[1].data, row_bytes) && is_aligned(args->outputs[0].data, 0))
        launch<T, N>(args, rows_per_block, stream);
    else
        launch<T, 1>(args, rows_per_block, stream);
}

extern "C" dyno_status dyno_scatter_add_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    /* Few enough blocks that scanning ids does not dominate, and enough of them to fill a GPU. */
    enum { FEWEST_ROWS = 8, BLOCKS = 2048 };
    int64_t rows_per_block = blocks_for(args->outputs[0].shape.dim[0], BLOCKS);
    if (rows_per_block < FEWEST_ROWS)
        rows_per_block = FEWEST_ROWS;
    if (rows_per_block > MOST_ROWS)
        rows_per_block = MOST_ROWS;
    switch (args->inputs[1].type) {
    case CUDA_DTYPE_BF16:
        launch_type<bf16>(args, (int)rows_per_block, stream);
        break;
    case CUDA_DTYPE_F16:
        launch_type<f16>(args, (int)rows_per_block, stream);
        break;
    default:
        launch_type<float>(args, (int)rows_per_block, stream);
        break;
    }
    return cuda_launch_status();
}
