/* cuda_prelude.cuh - the prelude of generated CUDA kernels, embedded as text.
 *
 * Includes no header: NVRTC has none. Memory is moved in words of 32 bits, `words[]`, whatever the
 * type; element j of them is extracted by load_TYPE and packed, one or two at a time, by pack_TYPE.
 * All indices are constants once the loops around them are unrolled, so that such arrays are
 * registers. */

#define DEVICE inline __device__ __attribute__((always_inline))
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fc00000)
#endif
#define EXP(x) expf(x)
#define LOG(x) logf(x)
#define SQRT(x) sqrtf(x)

/* ---- inline PTX ---- */
#ifdef __CUDACC__

/* Two numbers rounded to nearest even, the first in the low half. */
DEVICE unsigned bf16_pair(float low, float high) {
    unsigned bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

DEVICE unsigned f16_pair(float low, float high) {
    unsigned bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

DEVICE float f16_number(unsigned bits) {
    float number;
    asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"((unsigned short)bits));
    return number;
}

/* NaN if either is. */
DEVICE float larger(float a, float b) {
    float number;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(number) : "f"(a), "f"(b));
    return number;
}

/* Programmatic dependent launch: a launch may begin before the previous one has ended
 * (runtime/cuda/program.c). This waits for its end and for its writes to be visible; then allows
 * the next launch to begin. A kernel that touches no memory before is correct in either case.
 * Pointers must not be declared restrict: data that another launch still writes must not go through
 * the read-only cache. */
DEVICE void wait_for_earlier_launches() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" : : : "memory");
    asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
#endif
}

/* A named barrier for `threads` threads (whole warps); there are 15. */
DEVICE void group_barrier(unsigned group, unsigned threads) {
    asm volatile("bar.sync %0, %1;" : : "r"(group + 1), "r"(threads) : "memory");
}

#endif

/* ---- elements in words ---- */

DEVICE float load_f32(const unsigned *words, int j) { return __uint_as_float(words[j]); }
DEVICE int load_i32(const unsigned *words, int j) { return (int)words[j]; }
DEVICE int load_u8(const unsigned *words, int j) { return words[j / 4] >> j % 4 * 8 & 0xffu; }
DEVICE int load_u16(const unsigned *words, int j) { return words[j / 2] >> j % 2 * 16 & 0xffffu; }
DEVICE int load_bool(const unsigned *words, int j) { return load_u8(words, j); }
DEVICE float load_bf16(const unsigned *words, int j) {
    return __uint_as_float(j % 2 ? words[j / 2] & 0xffff0000u : words[j / 2] << 16);
}
DEVICE float load_f16(const unsigned *words, int j) {
    return f16_number(words[j / 2] >> j % 2 * 16 & 0xffffu);
}

DEVICE void put_byte(unsigned *words, int j, unsigned bits) {
    words[j / 4] = j % 4 ? words[j / 4] | bits << j % 4 * 8 : bits;
}
DEVICE void put_half(unsigned *words, int j, unsigned bits) {
    words[j / 2] = j % 2 ? words[j / 2] | bits << 16 : bits;
}

/* Elements j .. j + W - 1, in rising order and j a multiple of W. */
template <int W> DEVICE void pack_f32(unsigned *words, int j, const float (&v)[W]) {
    for (int w = 0; w < W; w++)
        words[j + w] = __float_as_uint(v[w]);
}
template <int W> DEVICE void pack_i32(unsigned *words, int j, const int (&v)[W]) {
    for (int w = 0; w < W; w++)
        words[j + w] = (unsigned)v[w];
}
template <int W> DEVICE void pack_u8(unsigned *words, int j, const int (&v)[W]) {
    for (int w = 0; w < W; w++)
        put_byte(words, j + w, (unsigned)v[w] & 0xffu);
}
template <int W> DEVICE void pack_u16(unsigned *words, int j, const int (&v)[W]) {
    for (int w = 0; w < W; w++)
        put_half(words, j + w, (unsigned)v[w] & 0xffffu);
}
template <int W> DEVICE void pack_bool(unsigned *words, int j, const int (&v)[W]) {
    pack_u8(words, j, v);
}
template <int W> DEVICE void pack_bf16(unsigned *words, int j, const float (&v)[W]) {
    if (W == 2)
        words[j / 2] = bf16_pair(v[0], v[W - 1]);
    else
        put_half(words, j, bf16_pair(v[0], 0.0f) & 0xffffu);
}
template <int W> DEVICE void pack_f16(unsigned *words, int j, const float (&v)[W]) {
    if (W == 2)
        words[j / 2] = f16_pair(v[0], v[W - 1]);
    else
        put_half(words, j, f16_pair(v[0], 0.0f) & 0xffffu);
}

/* Rounds an op's result to its type. */
template <int W> DEVICE void round_bf16(float (&v)[W]) {
    unsigned words[1];
    pack_bf16(words, 0, v);
    for (int w = 0; w < W; w++)
        v[w] = load_bf16(words, w);
}
template <int W> DEVICE void round_f16(float (&v)[W]) {
    unsigned words[1];
    pack_f16(words, 0, v);
    for (int w = 0; w < W; w++)
        v[w] = load_f16(words, w);
}
template <int W> DEVICE void round_bool(int (&v)[W]) {
    for (int w = 0; w < W; w++)
        v[w] = v[w] != 0;
}

/* ---- words and memory ---- */

/* BYTES that are aligned to PIECE of them; both are powers of two, PIECE at most 16. */
template <int BYTES, int PIECE> DEVICE void fetch(unsigned *words, const void *from) {
#pragma unroll
    for (int i = 0; i < BYTES / PIECE; i++) {
        if (PIECE == 16) {
            const uint4 piece = ((const uint4 *)from)[i];
            words[4 * i] = piece.x;
            words[4 * i + 1] = piece.y;
            words[4 * i + 2] = piece.z;
            words[4 * i + 3] = piece.w;
        } else if (PIECE == 8) {
            const uint2 piece = ((const uint2 *)from)[i];
            words[2 * i] = piece.x;
            words[2 * i + 1] = piece.y;
        } else if (PIECE == 4) {
            words[i] = ((const unsigned *)from)[i];
        } else if (PIECE == 2) {
            put_half(words, i, ((const unsigned short *)from)[i]);
        } else {
            put_byte(words, i, ((const unsigned char *)from)[i]);
        }
    }
}

template <int BYTES, int PIECE> DEVICE void put(void *to, const unsigned *words) {
#pragma unroll
    for (int i = 0; i < BYTES / PIECE; i++) {
        if (PIECE == 16) {
            ((uint4 *)to)[i] =
                make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
        } else if (PIECE == 8) {
            ((uint2 *)to)[i] = make_uint2(words[2 * i], words[2 * i + 1]);
        } else if (PIECE == 4) {
            ((unsigned *)to)[i] = words[i];
        } else if (PIECE == 2) {
            ((unsigned short *)to)[i] = (unsigned short)(words[i / 2] >> i % 2 * 16);
        } else {
            ((unsigned char *)to)[i] = (unsigned char)(words[i / 4] >> i % 4 * 8);
        }
    }
}

/* Copies prefetched words. */
template <int CHUNKS, int WORDS>
DEVICE void take(unsigned (&to)[CHUNKS][WORDS], const unsigned (&from)[CHUNKS][WORDS]) {
#pragma unroll
    for (int i = 0; i < CHUNKS; i++)
#pragma unroll
        for (int j = 0; j < WORDS; j++)
            to[i][j] = from[i][j];
}

/* COUNT elements of SIZE bytes that lie `stride` bytes apart. */
template <int SIZE, int COUNT>
DEVICE void fetch_apart(unsigned *words, const void *from, long long stride) {
#pragma unroll
    for (int j = 0; j < COUNT; j++) {
        unsigned word[1];
        fetch<SIZE, SIZE>(word, (const char *)from + j * stride);
        if (SIZE == 4)
            words[j] = word[0];
        else if (SIZE == 2)
            put_half(words, j, word[0]);
        else
            put_byte(words, j, word[0]);
    }
}

/* The first `count` of COUNT elements of SIZE bytes; the others are zero. */
template <int SIZE, int COUNT>
DEVICE void fetch_first(unsigned *words, const void *from, unsigned count) {
#pragma unroll
    for (int j = 0; j < COUNT; j++) {
        unsigned word[1] = {0};
        if (j < (int)count)
            fetch<SIZE, SIZE>(word, (const char *)from + j * SIZE);
        if (SIZE == 4)
            words[j] = word[0];
        else if (SIZE == 2)
            put_half(words, j, word[0]);
        else
            put_byte(words, j, word[0]);
    }
}

template <int SIZE, int COUNT>
DEVICE void put_first(void *to, const unsigned *words, unsigned count) {
#pragma unroll
    for (int j = 0; j < COUNT; j++) {
        const unsigned word[1] = {words[j * SIZE / 4] >> j * SIZE % 4 * 8};
        if (j < (int)count)
            put<SIZE, SIZE>((char *)to + j * SIZE, word);
    }
}

/* ---- numbers of a row ---- */

/* Butterfly reduction among LANES adjacent threads, a power of two of at most 32. All get the same
 * bits. */
template <int LANES> DEVICE float join_sum(float x) {
    const unsigned mask = LANES == 32 ? ~0u
                                      : ((1u << LANES % 32) - 1u)
                                            << threadIdx.x % 32 / LANES * LANES;
#pragma unroll
    for (int step = LANES / 2; step; step /= 2)
        x += __shfl_xor_sync(mask, x, step);
    return x;
}

template <int LANES> DEVICE float join_max(float x) {
    const unsigned mask = LANES == 32 ? ~0u
                                      : ((1u << LANES % 32) - 1u)
                                            << threadIdx.x % 32 / LANES * LANES;
#pragma unroll
    for (int step = LANES / 2; step; step /= 2)
        x = larger(x, __shfl_xor_sync(mask, x, step));
    return x;
}

/* Reduces the warps' partial results in shared memory. */
template <int WARPS> DEVICE float total_sum(const float *parts) {
    float x = parts[0];
#pragma unroll
    for (int i = 1; i < WARPS; i++)
        x += parts[i];
    return x;
}

template <int WARPS> DEVICE float total_max(const float *parts) {
    float x = parts[0];
#pragma unroll
    for (int i = 1; i < WARPS; i++)
        x = larger(x, parts[i]);
    return x;
}

/* ---- sums of columns ---- */

/* Adds up what the groups of a block have, group by group, and writes the COLUMNS. `shared` is
 * [GROUPS][COLUMNS] and free for the next when the function returns; of one group it is not
 * used. */
template <int COLUMNS, int LANES, int GROUPS, int CHUNKS, int VECTOR>
DEVICE void put_columns(float *to, const float (&total)[CHUNKS][VECTOR], float *shared) {
    const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    float *mine = GROUPS == 1 ? to : shared + group * COLUMNS;
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        const int column = (i * LANES + lane) * VECTOR;
        if (column < COLUMNS) {
            unsigned words[VECTOR];
#pragma unroll
            for (int j = 0; j < VECTOR; j++)
                words[j] = __float_as_uint(total[i][j]);
            put<VECTOR * 4, VECTOR * 4 < 16 ? VECTOR * 4 : 16>(mine + column, words);
        }
    }
    if (GROUPS == 1)
        return;
    __syncthreads();
    for (int column = threadIdx.x; column < COLUMNS; column += LANES * GROUPS) {
        float sum = shared[column];
#pragma unroll
        for (int i = 1; i < GROUPS; i++)
            sum += shared[i * COLUMNS + column];
        to[column] = sum;
    }
    __syncthreads();
}
