/* machine.h - what this machine can do at best, measured: the 100 % of "% of peak".
 *
 * Measured, because a data sheet knows neither the clock under load nor the cores this process
 * was given. The best of several short runs counts: everything else that happens on the
 * machine can only make a run slower.
 *
 * Peaks are of this machine held to the instruction sets of `chip`, a CPU that it can stand in for: what runs
 * with --target avx2 is judged by what AVX2 can do. */
#ifndef MEASURE_MACHINE_H
#define MEASURE_MACHINE_H

#include <stdint.h>

#include "base/status.h"
#include "base/target.h"

/* In GB/s, 10^9 bytes a second. Bytes are those that the loop names, as STREAM counts them:
 * reading what is about to be overwritten is not counted. */
typedef struct machine_bandwidth {
    double read;  /* n bytes:    s += a[i] */
    double copy;  /* 2 n bytes:  b[i] = a[i] */
    double triad; /* 3 n bytes:  a[i] = b[i] + k * c[i] */
} machine_bandwidth;

typedef struct machine_peaks {
    int threads;
    double gflops_f32; /* GFLOP/s, an FMA counting as two */
    machine_bandwidth bandwidth;
} machine_peaks;

/* GFLOP/s of independent fp32 FMAs in registers, the widest that `chip` has, on `threads` threads (0: threads_count()):
 *     threads * iterations * accumulators * lanes * 2 FLOP / elapsed ns
 * Takes about 0.15 s. */
double machine_measure_peak_flops_f32(const target *chip, int threads);

/* A rate, and the instructions that reach it: "AMX tiles". */
typedef struct machine_peak {
    double gflops;
    const char *by;
} machine_peak;

/* GFLOP/s of products of bf16 summed in fp32, in registers, counted and timed as above: by AMX
 * tiles, else by AVX-512 BF16 dot products; {0, NULL} where `chip` has neither. */
machine_peak machine_measure_peak_bf16(const target *chip, int threads);

/* On a buffer that no cache holds (256 MiB, or four times the L3 cache if that is more).
 * Fails when there is no memory for it. Takes about half a second. */
NODISCARD dyno_status machine_measure_bandwidth(int threads, machine_bandwidth *out);

/* Both, measured once per process, instruction sets and number of threads. */
NODISCARD dyno_status machine_peaks_get(const target *chip, int threads, machine_peaks *out);

#endif
