/* adamw.cu - adamw and adamw_many: one kernel, so that both give the same bits.
 *
 * Addresses and sizes of up to MOST_TENSORS parameters are kernel arguments, which a captured step
 * replays. All parameters are divided into chunks of one length, one thread block for each, which
 * finds its parameter by binary search. Many short blocks leave room for kernels of another stream;
 * a few persistent ones would not. What all elements share (bias corrections, from the step number
 * and the learning rate, which are in device memory) each block computes once, while its first
 * elements are being loaded.
 *
 * How a weight is stored and the type of its gradient are the same for a whole parameter, and
 * choose the code that its chunks run. */
#include <string.h>

#include "runtime/cuda/device_math.cuh"

enum { THREADS = 256, IN_FLIGHT = 2, VECTOR = 4 };
enum { FEW_TENSORS = 32, MOST_TENSORS = 600 };
/* A round is what a block has in flight at a time. So many rounds keep every GPU busy with short
 * blocks, without a long tail; more blocks would only add launch overhead. */
enum { ROUND = THREADS * VECTOR * IN_FLIGHT, MOST_ROUNDS = 4, ENOUGH_BLOCKS = 8192 };

/* How a weight is stored. SPLIT: the upper half, which is its rounding to bf16, in place of a low
 * copy, and the rest in place of the weight. */
enum { WEIGHT_F32, WEIGHT_AND_BF16, WEIGHT_AND_F16, WEIGHT_SPLIT };

typedef struct adamw_tensor {
    void *weight, *low; /* low: of copies and of upper halves */
    const void *gradient;
    float *first, *second;
    uint64_t count : 48, kind : 8, gradient_type : 8;
} adamw_tensor;

typedef struct adamw_scalars {
    double beta1, beta2, eps, weight_decay;
    const double *rate;
    const int64_t *step;
    const float *scale;
    int skips_nan;
} adamw_scalars;

/* Arguments are copied at every launch; few parameters should not pay for many. */
template <int MOST> struct adamw_launch {
    adamw_scalars scalars;
    int tensor_count, rounds; /* rounds: of a chunk */
    int32_t first_chunk[MOST + 1];
    adamw_tensor tensor[MOST];
};

static_assert(sizeof(adamw_launch<MOST_TENSORS>) <= 32764, "what a kernel's arguments may take");

/* What is the same for every element of a step; see ops/adamw/update.c. */
typedef struct adamw_step {
    float beta1, beta2, rest1, rest2;
    float eps, keep, rate, inverse_root, scale;
} adamw_step;

/* By squaring: the library's pow takes microseconds, and every block would wait for it. */
static __device__ double power(double base, int64_t exponent) {
    double result = 1;
    for (; exponent > 0; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}

/* Two threads share the work, which is a chain of slow operations. */
static __device__ void compute_step(const adamw_scalars &l, adamw_step *u) {
    if (threadIdx.x == 0) {
        double rate = *l.rate;
        u->beta1 = (float)l.beta1;
        u->beta2 = (float)l.beta2;
        u->rest1 = (float)(1 - l.beta1);
        u->rest2 = (float)(1 - l.beta2);
        u->eps = (float)l.eps;
        u->scale = *l.scale;
        u->keep = (float)(1 - rate * l.weight_decay);
        u->rate = (float)(rate / (1 - power(l.beta1, *l.step)));
    } else if (threadIdx.x == WARP) {
        u->inverse_root = (float)(1 / sqrt(1 - power(l.beta2, *l.step)));
    }
}

/* ---- weights in two halves; see ops/adamw/split_weight.h ---- */

static __device__ __forceinline__ uint32_t quiet_bits(float weight) {
    uint32_t bits = __float_as_uint(weight);
    return (bits & 0x7fffffffu) > 0x7f800000u ? (bits | 0x400000u) & 0xffff0000u : bits;
}

/* Rounded to bf16, ties away from zero. */
static __device__ __forceinline__ uint16_t upper_half(float weight) {
    return (uint16_t)((quiet_bits(weight) + 0x8000u) >> 16);
}

static __device__ __forceinline__ uint16_t lower_half(float weight) {
    return (uint16_t)quiet_bits(weight);
}

static __device__ __forceinline__ float joined(uint16_t upper, uint16_t lower) {
    return __uint_as_float(((uint32_t)upper << 16) + (uint32_t)(int32_t)(int16_t)lower);
}

/* ---- N elements: what is read, and the update ---- */

/* Within an ulp, and the quotient within two: the last digits of an update. Exact division and
 * square root are branches and calls, which prevent instruction-level parallelism over the elements
 * of a thread. */
static __device__ __forceinline__ float approximate_root(float x) {
    float root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
}

template <int KIND, typename G, int N> struct elements {
    vector_of<float, N> weight, first, second;
    vector_of<uint16_t, N> upper, lower;
    vector_of<G, N> gradient;
};

/* The unsigned word of that size. */
template <int BYTES> struct word_of;
template <> struct word_of<16> { typedef uint4 type; };
template <> struct word_of<8> { typedef uint2 type; };
template <> struct word_of<4> { typedef unsigned type; };
template <> struct word_of<2> { typedef unsigned short type; };

/* Streaming accesses: this data is not used again before the next step and should not evict other
 * data from the L2 cache. */
template <typename T, int N>
static __device__ __forceinline__ vector_of<T, N> read(const void *data, int64_t index) {
    typedef typename word_of<sizeof(T) * N>::type word;
    word bits = __ldcs((const word *)((const T *)data + index));
    vector_of<T, N> x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

template <typename T, int N>
static __device__ __forceinline__ void write(void *data, int64_t index, vector_of<T, N> x) {
    typedef typename word_of<sizeof(T) * N>::type word;
    word bits;
    memcpy(&bits, &x, sizeof x);
    __stcs((word *)((T *)data + index), bits);
}

template <int KIND, typename G, int N>
static __device__ __forceinline__ void load(const adamw_tensor &p, int64_t i,
                                            elements<KIND, G, N> *e) {
    if (KIND == WEIGHT_SPLIT) {
        e->upper = read<uint16_t, N>(p.low, i);
        e->lower = read<uint16_t, N>(p.weight, i);
    } else {
        e->weight = read<float, N>(p.weight, i);
    }
    e->gradient = read<G, N>(p.gradient, i);
    e->first = read<float, N>(p.first, i);
    e->second = read<float, N>(p.second, i);
}

template <int KIND, typename G, int N>
static __device__ __forceinline__ void update(const adamw_tensor &p, int64_t i, const adamw_step &u,
                                              elements<KIND, G, N> *e) {
#pragma unroll
    for (int j = 0; j < N; j++) {
        float w = KIND == WEIGHT_SPLIT ? joined(e->upper.at[j], e->lower.at[j]) : e->weight.at[j];
        float g = to_float(e->gradient.at[j]) * u.scale;
        float m = u.beta1 * e->first.at[j] + u.rest1 * g;
        float v = u.beta2 * e->second.at[j] + u.rest2 * g * g;
        w = w * u.keep - __fdividef(u.rate * m, approximate_root(v) * u.inverse_root + u.eps);
        e->first.at[j] = m;
        e->second.at[j] = v;
        e->weight.at[j] = w;
        if (KIND == WEIGHT_SPLIT)
            e->lower.at[j] = lower_half(w);
        if (KIND == WEIGHT_SPLIT || KIND == WEIGHT_AND_BF16)
            e->upper.at[j] = upper_half(w);
        if (KIND == WEIGHT_AND_F16)
            e->upper.at[j] = __half_as_ushort(__float2half_rn(w));
    }
    write<float, N>(p.first, i, e->first);
    write<float, N>(p.second, i, e->second);
    if (KIND == WEIGHT_SPLIT)
        write<uint16_t, N>(p.weight, i, e->lower);
    else
        write<float, N>(p.weight, i, e->weight);
    if (KIND != WEIGHT_F32)
        write<uint16_t, N>(p.low, i, e->upper);
}

template <int KIND, typename G>
static __device__ __forceinline__ void load_round(const adamw_tensor &p, int64_t i,
                                                  elements<KIND, G, VECTOR> (&e)[IN_FLIGHT]) {
#pragma unroll
    for (int k = 0; k < IN_FLIGHT; k++)
        load(p, i + k * THREADS * VECTOR, &e[k]);
}

/* What all elements share; false: nothing is to be done. All threads of the block call it. */
static __device__ __forceinline__ bool find_step(const adamw_scalars &l, adamw_step *shared_step,
                                                 adamw_step *u) {
    compute_step(l, shared_step);
    __syncthreads();
    *u = *shared_step;
    return !l.skips_nan || !isnan(u->scale);
}

template <int KIND, typename G>
static __device__ __forceinline__ void update_rounds(const adamw_tensor &p, int64_t begin,
                                                     int rounds, const adamw_scalars &l,
                                                     adamw_step *shared_step) {
    int64_t i = begin + (int64_t)threadIdx.x * VECTOR;
    elements<KIND, G, VECTOR> e[IN_FLIGHT];
    load_round(p, i, e);
    adamw_step u;
    if (!find_step(l, shared_step, &u))
        return;
#pragma unroll 1
    for (;;) {
#pragma unroll
        for (int k = 0; k < IN_FLIGHT; k++)
            update(p, i + k * THREADS * VECTOR, u, &e[k]);
        if (--rounds == 0)
            return;
        i += ROUND;
        load_round(p, i, e);
    }
}

/* Elements [begin, end) by one block, N at a time, N dividing their number. */
template <int KIND, typename G, int N>
static __device__ __forceinline__ void update_range(const adamw_tensor &p, int64_t begin,
                                                    int64_t end, const adamw_step &u) {
#pragma unroll 1
    for (int64_t i = begin + (int64_t)threadIdx.x * N; i < end; i += THREADS * N) {
        elements<KIND, G, N> e;
        load(p, i, &e);
        update(p, i, u, &e);
    }
}

/* The last chunk of a parameter is short, and those of one that is not aligned take longer. */
template <int KIND, typename G>
static __device__ __forceinline__ void update_chunk(const adamw_tensor &p, int64_t chunk,
                                                    int rounds, const adamw_scalars &l,
                                                    adamw_step *shared_step) {
    int64_t length = (int64_t)rounds * ROUND, begin = chunk * length, count = (int64_t)p.count;
    uintptr_t addresses = (uintptr_t)p.weight | (uintptr_t)p.low | (uintptr_t)p.gradient |
                          (uintptr_t)p.first | (uintptr_t)p.second;
    bool is_aligned = addresses % VECTOR_BYTES == 0;
    if (is_aligned && begin + length <= count) {
        update_rounds<KIND, G>(p, begin, rounds, l, shared_step);
        return;
    }
    adamw_step u;
    if (!find_step(l, shared_step, &u))
        return;
    int64_t end = begin + length < count ? begin + length : count;
    int64_t whole = is_aligned ? begin + (end - begin) / VECTOR * VECTOR : begin;
    update_range<KIND, G, VECTOR>(p, begin, whole, u);
    update_range<KIND, G, 1>(p, whole, end, u);
}

template <int KIND>
static __device__ __forceinline__ void update_kind(const adamw_tensor &p, int64_t chunk, int rounds,
                                                   const adamw_scalars &l,
                                                   adamw_step *shared_step) {
    if (p.gradient_type == CUDA_DTYPE_F32)
        update_chunk<KIND, float>(p, chunk, rounds, l, shared_step);
    else if (p.gradient_type == CUDA_DTYPE_BF16)
        update_chunk<KIND, bf16>(p, chunk, rounds, l, shared_step);
    else
        update_chunk<KIND, f16>(p, chunk, rounds, l, shared_step);
}

template <int MOST>
static __global__ void __launch_bounds__(THREADS, 3)
    adamw_tensors(const __grid_constant__ adamw_launch<MOST> l) {
    __shared__ adamw_step shared_step;
    int32_t chunk = (int32_t)blockIdx.x;
    int at = 0, above = l.tensor_count; /* first_chunk[at] <= chunk < first_chunk[above] */
    while (above - at > 1) {
        int middle = (at + above) / 2;
        if (l.first_chunk[middle] <= chunk)
            at = middle;
        else
            above = middle;
    }
    const adamw_tensor &p = l.tensor[at];
    int64_t part = chunk - l.first_chunk[at];
    if (p.kind == WEIGHT_SPLIT)
        update_kind<WEIGHT_SPLIT>(p, part, l.rounds, l.scalars, &shared_step);
    else if (p.kind == WEIGHT_AND_BF16)
        update_kind<WEIGHT_AND_BF16>(p, part, l.rounds, l.scalars, &shared_step);
    else if (p.kind == WEIGHT_AND_F16)
        update_kind<WEIGHT_AND_F16>(p, part, l.rounds, l.scalars, &shared_step);
    else
        update_kind<WEIGHT_F32>(p, part, l.rounds, l.scalars, &shared_step);
}

/* ---- launches ---- */

/* A parameter's operands; low is NULL where there is no copy. */
typedef struct adamw_operands {
    const cuda_tensor *weight, *gradient, *first, *second, *low;
} adamw_operands;

static adamw_tensor tensor_of(const adamw_operands *o) {
    adamw_tensor p = {};
    p.weight = o->weight->data;
    p.low = o->low ? o->low->data : NULL;
    p.gradient = o->gradient->data;
    p.first = (float *)o->first->data;
    p.second = (float *)o->second->data;
    p.count = (uint64_t)cuda_elements(o->weight);
    p.kind = !o->low                             ? WEIGHT_F32
             : o->weight->type == CUDA_DTYPE_U16 ? WEIGHT_SPLIT
             : o->low->type == CUDA_DTYPE_BF16   ? WEIGHT_AND_BF16
                                                 : WEIGHT_AND_F16;
    p.gradient_type = (uint64_t)o->gradient->type;
    return p;
}

static adamw_scalars scalars_of(const cuda_args *args, const cuda_tensor *rate,
                                const cuda_tensor *step, const cuda_tensor *scale) {
    adamw_scalars s = {};
    s.beta1 = cuda_real(args, "beta1");
    s.beta2 = cuda_real(args, "beta2");
    s.eps = cuda_real(args, "eps");
    s.weight_decay = cuda_real(args, "weight_decay");
    s.rate = (const double *)rate->data;
    s.step = (const int64_t *)step->data;
    s.scale = (const float *)scale->data;
    s.skips_nan = (int)cuda_integer_or(args, "skips_nan", 0);
    return s;
}

template <int MOST> static void launch(adamw_launch<MOST> *l, cudaStream_t stream) {
    int64_t total = 0;
    for (int i = 0; i < l->tensor_count; i++)
        total += (int64_t)l->tensor[i].count;
    int64_t rounds = total / ((int64_t)ROUND * ENOUGH_BLOCKS);
    l->rounds = (int)(rounds < 1 ? 1 : rounds < MOST_ROUNDS ? rounds : MOST_ROUNDS);
    for (int i = 0; i < l->tensor_count; i++)
        l->first_chunk[i + 1] = l->first_chunk[i] + (int32_t)blocks_for((int64_t)l->tensor[i].count,
                                                                        (int64_t)l->rounds * ROUND);
    adamw_tensors<<<(unsigned)l->first_chunk[l->tensor_count], THREADS, 0, stream>>>(*l);
}

/* Parameters of adamw_many from `first` on, as many as there are or fit: how many these are.
 * Inputs: learning rate, step, scale; weight, gradient and moments of each parameter; low copies
 * of the first so many. Outputs, in place: weight and moments of each, low copies. */
template <int MOST>
static int launch_many(const cuda_args *args, int first, int parameters, int low,
                       cudaStream_t stream) {
    enum { SCALARS = 3, GRADIENT = 1, PER_PARAMETER = 4, RESULTS = 3 };
    const cuda_tensor *in = args->inputs, *out = args->outputs;
    adamw_launch<MOST> l = {};
    l.scalars = scalars_of(args, &in[0], &in[1], &in[2]);
    for (; first + l.tensor_count < parameters && l.tensor_count < MOST; l.tensor_count++) {
        int at = l.tensor_count, i = first + at;
        adamw_operands o = {&out[i * RESULTS], &in[SCALARS + i * PER_PARAMETER + GRADIENT],
                            &out[i * RESULTS + 1], &out[i * RESULTS + 2],
                            i < low ? &out[parameters * RESULTS + i] : NULL};
        l.tensor[at] = tensor_of(&o);
    }
    launch(&l, stream);
    return l.tensor_count;
}

extern "C" dyno_status dyno_adamw_many_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    enum { SCALARS = 3, PER_PARAMETER = 4 };
    int low = (int)cuda_integer_or(args, "low_copies", 0);
    int parameters = (args->input_count - SCALARS - low) / PER_PARAMETER;
    for (int done = 0; done < parameters;)
        done += parameters <= FEW_TENSORS
                    ? launch_many<FEW_TENSORS>(args, done, parameters, low, stream)
                    : launch_many<MOST_TENSORS>(args, done, parameters, low, stream);
    return cuda_launch_status();
}

/* Inputs: weight, gradient, first and second moment, learning rate, step, scale. Outputs lie where
 * weight and moments do. */
extern "C" dyno_status dyno_adamw_cuda(const cuda_args *args) {
    cudaStream_t stream = args->context->stream;
    const cuda_tensor *in = args->inputs, *out = args->outputs;
    adamw_operands o = {&out[0], &in[1], &out[1], &out[2], NULL};
    adamw_launch<FEW_TENSORS> l = {};
    l.scalars = scalars_of(args, &in[4], &in[5], &in[6]);
    l.tensor[0] = tensor_of(&o);
    l.tensor_count = 1;
    launch(&l, stream);
    return cuda_launch_status();
}
