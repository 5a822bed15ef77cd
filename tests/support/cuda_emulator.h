/* cuda_emulator.h - a GPU for generated kernels, on one core: included before their source, which
 * is then C++ (tests/support/emulated_plan.c).
 *
 * A block's threads are fibers that run until they wait: for the block, for their group, or for the
 * lanes they exchange numbers with. Blocks run one after the other, so shared memory is static.
 * What would hang on a GPU, or is undefined there, ends the process with a message. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <utility>

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }

static inline float __uint_as_float(unsigned bits) {
    float number;
    memcpy(&number, &bits, 4);
    return number;
}
static inline unsigned __float_as_uint(float number) {
    unsigned bits;
    memcpy(&bits, &number, 4);
    return bits;
}
static inline float __int_as_float(int bits) { return __uint_as_float((unsigned)bits); }

/* ---- what the prelude leaves to the chip ---- */

static inline unsigned bf16_bits(float x) {
    unsigned bits = __float_as_uint(x);
    return x != x ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
static inline unsigned bf16_pair(float low, float high) {
    return bf16_bits(low) | bf16_bits(high) << 16;
}

static inline float f16_number(unsigned bits) {
    unsigned exponent = bits >> 10 & 31u, fraction = bits & 1023u;
    float size = exponent == 31  ? (fraction ? NAN : INFINITY)
                 : exponent == 0 ? ldexpf((float)fraction, -24)
                                 : ldexpf((float)(fraction + 1024), (int)exponent - 25);
    return bits & 0x8000u ? -size : size;
}
static inline unsigned f16_bits(float x) {
    unsigned sign = __float_as_uint(x) >> 16 & 0x8000u;
    float size = fabsf(x);
    if (x != x)
        return 0x7fffu;
    if (size >= 65520.0f)
        return sign | 0x7c00u;
    int exponent = size < 0x1p-14f ? -14 : ilogbf(size);
    unsigned steps = (unsigned)rintf(ldexpf(size, 10 - exponent)); /* rounds to even */
    return sign | (unsigned)((exponent + 14) * 1024 + (int)steps); /* subnormal: exponent -14 */
}
static inline unsigned f16_pair(float low, float high) {
    return f16_bits(low) | f16_bits(high) << 16;
}
static inline float larger(float a, float b) { return a != a || b != b ? NAN : a < b ? b : a; }

/* ---- threads ---- */

struct place {
    unsigned x;
};
static place threadIdx, blockIdx;

enum { EMULATED_THREADS = 1024, EMULATED_STACK = 64 << 10, EMULATED_BARRIERS = 16 + 1024 };

struct emulated_barrier {
    unsigned arrived, generation;
};
static emulated_barrier emulated_barriers[EMULATED_BARRIERS];
static ucontext_t emulated_scheduler, emulated_fibers[EMULATED_THREADS];
static bool emulated_is_done[EMULATED_THREADS];
static float emulated_exchange[EMULATED_THREADS];
static unsigned emulated_threads;
static bool emulated_moved; /* somebody came further in this round */

static inline void emulated_fail(const char *what) {
    fprintf(stderr, "emulated kernel: block %u, thread %u: %s\n", blockIdx.x, threadIdx.x, what);
    abort();
}

static inline void emulated_wait(unsigned which, unsigned threads) {
    emulated_barrier *b = &emulated_barriers[which];
    unsigned mine = b->generation, me = threadIdx.x;
    if (++b->arrived == threads) {
        b->arrived = 0;
        b->generation++;
        emulated_moved = true;
        return;
    }
    while (b->generation == mine)
        swapcontext(&emulated_fibers[me], &emulated_scheduler);
}

static inline void __syncthreads() { emulated_wait(0, emulated_threads); }

static inline void wait_for_earlier_launches() {} /* there are none: launches come one by one */

static inline void group_barrier(unsigned group, unsigned threads) {
    if (group + 1 >= 16 || threads % 32 != 0)
        emulated_fail("such a barrier does not exist");
    emulated_wait(group + 1, threads);
}

static inline float __shfl_xor_sync(unsigned mask, float x, int step) {
    unsigned me = threadIdx.x, lane = me % 32, other = lane ^ (unsigned)step;
    if (!(mask >> lane & 1) || !(mask >> other & 1))
        emulated_fail("exchanges with a lane that is not in the mask");
    for (unsigned i = 0; i < 32; i++)
        if ((mask >> i & 1) && me - lane + i >= emulated_threads)
            emulated_fail("the mask names a lane that is not there");
    unsigned first = me - lane + (unsigned)__builtin_ctz(mask);
    emulated_exchange[me] = x;
    emulated_wait(16 + first, (unsigned)__builtin_popcount(mask));
    float theirs = emulated_exchange[me - lane + other];
    emulated_wait(16 + first, (unsigned)__builtin_popcount(mask));
    return theirs;
}

/* ---- launches ---- */

struct emulated_call {
    void (*run)(const void *kernel, void *const *pointers);
    const void *kernel;
    void *const *pointers;
};
static emulated_call emulated_current;

static void emulated_enter() {
    unsigned me = threadIdx.x;
    emulated_current.run(emulated_current.kernel, emulated_current.pointers);
    emulated_is_done[me] = true;
    emulated_moved = true;
    swapcontext(&emulated_fibers[me], &emulated_scheduler);
}

static void emulated_block(char *stacks) {
    memset(emulated_barriers, 0, sizeof emulated_barriers);
    memset(emulated_is_done, 0, sizeof emulated_is_done);
    for (unsigned t = 0; t < emulated_threads; t++) {
        ucontext_t *c = &emulated_fibers[t];
        getcontext(c);
        c->uc_stack.ss_sp = stacks + (size_t)t * EMULATED_STACK;
        c->uc_stack.ss_size = EMULATED_STACK;
        c->uc_link = NULL;
        makecontext(c, emulated_enter, 0);
    }
    for (unsigned left = emulated_threads; left;) {
        emulated_moved = false;
        left = 0;
        for (unsigned t = 0; t < emulated_threads; t++) {
            if (emulated_is_done[t])
                continue;
            threadIdx.x = t;
            swapcontext(&emulated_scheduler, &emulated_fibers[t]);
            left += !emulated_is_done[t];
        }
        if (left && !emulated_moved)
            emulated_fail("all threads that are left wait");
    }
}

template <class... A, size_t... I>
static void emulated_apply(void (*kernel)(A...), void *const *pointers, std::index_sequence<I...>) {
    kernel((A)pointers[I]...);
}

/* Blocks [begin, end) of `threads` threads; pointers as many as the kernel has parameters. */
template <class... A>
static void emulate(void (*kernel)(A...), void *const *pointers, int64_t begin, int64_t end,
                    int threads) {
    emulated_current.run = [](const void *k, void *const *p) {
        emulated_apply((void (*)(A...))k, p, std::index_sequence_for<A...>{});
    };
    emulated_current.kernel = (const void *)kernel;
    emulated_current.pointers = pointers;
    emulated_threads = (unsigned)threads;
    char *stacks = (char *)malloc((size_t)threads * EMULATED_STACK);
    for (int64_t block = begin; block < end; block++) {
        blockIdx.x = (unsigned)block;
        emulated_block(stacks);
    }
    free(stacks);
}
