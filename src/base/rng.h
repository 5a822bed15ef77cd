/* rng.h - random numbers that depend on (seed, stream, index) alone.
 *
 * Counter-based: element i is a pure function of its index, so a tensor comes out the same
 * for any number of threads and any order of filling. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

typedef struct rng_stream {
    uint64_t key;
} rng_stream;

/* `stream` separates tensors drawn from one seed; a hash of the tensor's name serves. */
rng_stream rng_stream_init(uint64_t seed, uint64_t stream);
uint64_t rng_hash_name(const char *name);

/* 64 uniform random bits for this index. */
static inline uint64_t rng_bits(rng_stream stream, uint64_t index) {
    uint64_t z = stream.key + (index + 1) * 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform in (0, 1), never 0 or 1. */
static inline double rng_uniform(rng_stream stream, uint64_t index) {
    return ((double)(rng_bits(stream, index) >> 12) + 0.5) * 0x1p-52;
}

/* A standard normal cut at three standard deviations (redistributed, not clamped). */
double rng_truncated_normal(rng_stream stream, uint64_t index);

#endif
