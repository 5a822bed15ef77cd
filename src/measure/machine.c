/* machine.c - the loops behind "% of peak".
 *
 * Twelve accumulators cover a latency of four cycles on two, and nearly three, FMA units, and
 * fit the sixteen registers of AVX2; 24 cover four units, as aarch64 has them, and fit its 32. They
 * are x = x + x * m with an m so small that x stays what it is: no value ever becomes a denormal or
 * infinite, and the sum overwrites an operand, as NEON's FMA does. */
#define _GNU_SOURCE
#include "measure/machine.h"

#include <omp.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/stop.h"
#include "base/system_memory.h"
#include "base/target.h"
#include "base/threads.h"
#include "measure/environment.h"
#include "measure/machine_bf16.h"

#if defined(__aarch64__)
enum { ACCUMULATORS = 24 };
#else
enum { ACCUMULATORS = 12 };
#endif
enum { MOST_KNOWN = 8 };

static const int64_t FLOPS_BUDGET_NS = 150 * 1000 * 1000;
static const int64_t FLOPS_RUN_NS = 10 * 1000 * 1000;
static const int64_t BANDWIDTH_BUDGET_NS = 120 * 1000 * 1000; /* for each of the three loops */

typedef enum traffic { LOOP_FILL, LOOP_READ, LOOP_COPY, LOOP_TRIAD } traffic;

/* One thread's share of the buffer: whole, in halves, or in thirds. */
static inline __attribute__((always_inline)) uint64_t loop_body(traffic which, unsigned char *bytes,
                                                                size_t count) {
    if (which == LOOP_FILL) {
        memset(bytes, 0, count); /* +0.0f, and touches the page from the thread that uses it */
        return 0;
    }
    if (which == LOOP_READ) {
        /* Integers, because the order of a float sum is not the compiler's to change. */
        const uint64_t *a = (const uint64_t *)(void *)bytes;
        uint64_t sum = 0;
        for (size_t i = 0; i < count / sizeof *a; i++)
            sum += a[i];
        return sum;
    }
    if (which == LOOP_COPY) {
        memcpy(bytes, bytes + count / 2, count / 2);
        return bytes[0];
    }
    size_t third = count / 3 / 64 * 64, floats = third / sizeof(float);
    float *restrict a = (float *)(void *)bytes;
    const float *restrict b = (const float *)(void *)(bytes + third);
    const float *restrict c = (const float *)(void *)(bytes + 2 * third);
    for (size_t i = 0; i < floats; i++)
        a[i] = b[i] + 3.0f * c[i];
    return bytes[0];
}

/* Both kinds of loop for one level, in vectors of so many bytes. `seed` is 1, but the compiler must
 * not know. Without an FMA unit an FMA is two instructions. */
#define LOOPS(LEVEL, ATTRIBUTE, BYTES)                                                             \
    ATTRIBUTE static float fmas_##LEVEL(int64_t iterations, float seed) {                          \
        typedef float lanes __attribute__((vector_size(BYTES)));                                   \
        lanes m = (lanes){0} + seed * 0x1p-40f, x[ACCUMULATORS];                                   \
        for (int k = 0; k < ACCUMULATORS; k++)                                                     \
            x[k] = (lanes){0} + seed * (float)(k + 2);                                             \
        for (int64_t i = 0; i < iterations; i++) {                                                 \
            _Pragma("GCC unroll 24") for (int k = 0; k < ACCUMULATORS; k++) x[k] += x[k] * m;      \
        }                                                                                          \
        float sum = 0;                                                                             \
        for (int k = 0; k < ACCUMULATORS; k++)                                                     \
            sum += x[k][k % 4];                                                                    \
        return sum;                                                                                \
    }                                                                                              \
    ATTRIBUTE static uint64_t move_##LEVEL(traffic which, unsigned char *bytes, size_t count) {    \
        return loop_body(which, bytes, count);                                                     \
    }                                                                                              \
    static const loops LEVEL = {                                                                   \
        {fmas_##LEVEL, ACCUMULATORS * (BYTES) / (int)sizeof(float) * 2, "FMAs"}, move_##LEVEL};

typedef struct loops {
    machine_loop fmas;
    uint64_t (*move)(traffic which, unsigned char *bytes, size_t count);
} loops;

LOOPS(baseline, , 16)
#if defined(__x86_64__)
LOOPS(avx2, __attribute__((target("avx2,fma"))), 32)
LOOPS(avx512, __attribute__((target("avx512f"))), 64)
#endif

static const loops *widest_loops(const target *chip) {
#if defined(__x86_64__)
    if (target_has(chip, ISA_AVX512))
        return &avx512;
    if (target_has(chip, ISA_AVX2))
        return &avx2;
#endif
    (void)chip;
    return &baseline;
}

static int64_t time_loops(const machine_loop *loop, int threads, int64_t iterations) {
    volatile float seed = 1, sink = 0;
    float total = 0;
    int64_t begin = 0, end = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
    {
        float value = seed;
#pragma omp barrier
#pragma omp master
        begin = clock_now_ns();
        total += loop->run(iterations, value);
#pragma omp barrier
#pragma omp master
        end = clock_now_ns();
    }
    sink = total;
    (void)sink;
    return end > begin ? end - begin : 1;
}

/* One interruption by the scheduler must not count as work. */
static int64_t best_of_three(const machine_loop *loop, int64_t iterations) {
    int64_t best = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        int64_t elapsed = time_loops(loop, 1, iterations);
        best = elapsed < best ? elapsed : best;
    }
    return best;
}

/* More threads than cores take turns: together they are as fast as the cores, and measuring it takes
 * that many times longer. */
static int limit_to_cores(int threads) {
    int most = threads_available();
    if (threads <= 0)
        threads = threads_count();
    return threads < most ? threads : most;
}

/* The duration is calibrated on one thread: with other processes running, several threads wait for
 * one another, and a run that is short compared with that measures nothing else. */
static double measure_peak(const machine_loop *loop, int threads) {
    threads = limit_to_cores(threads);
    int64_t iterations = 1000, elapsed;
    while ((elapsed = best_of_three(loop, iterations)) < FLOPS_RUN_NS / 2)
        iterations *= 2;
    iterations = iterations * FLOPS_RUN_NS / elapsed + 1;
    int64_t best = INT64_MAX, deadline = clock_now_ns() + FLOPS_BUDGET_NS;
    do {
        elapsed = time_loops(loop, threads, iterations);
        if (elapsed < best)
            best = elapsed;
    } while (clock_now_ns() < deadline);
    return (double)threads * (double)iterations * (double)loop->flops / (double)best;
}

double machine_measure_peak_flops_f32(const target *chip, int threads) {
    return measure_peak(&widest_loops(chip)->fmas, threads);
}

machine_peak machine_measure_peak_bf16(const target *chip, int threads) {
    machine_loop fastest = machine_loop_bf16(chip);
    if (!fastest.run)
        return (machine_peak){0};
    return (machine_peak){measure_peak(&fastest, threads), fastest.by};
}

static int64_t time_loop(traffic which, int threads, unsigned char *buffer, size_t share) {
    volatile uint64_t sink = 0;
    uint64_t total = 0;
    int64_t begin = 0, end = 0;
    const loops *widest = widest_loops(target_this_cpu());
#pragma omp parallel num_threads(threads) reduction(+ : total)
    {
        unsigned char *mine = buffer + (size_t)omp_get_thread_num() * share;
#pragma omp barrier
#pragma omp master
        begin = clock_now_ns();
        total += widest->move(which, mine, share);
#pragma omp barrier
#pragma omp master
        end = clock_now_ns();
    }
    sink = total;
    (void)sink;
    return end > begin ? end - begin : 1;
}

/* In pieces, because finding the pages can take the system seconds. */
static dyno_status fill(int threads, unsigned char *buffer, size_t share) {
    const size_t piece = 16 << 20;
    for (size_t at = 0; at < share; at += piece) {
        RETURN_IF_FAILED(stop_check("measuring the machine"));
        size_t count = share - at < piece ? share - at : piece;
#pragma omp parallel num_threads(threads)
        loop_body(LOOP_FILL, buffer + (size_t)omp_get_thread_num() * share + at, count);
    }
    return DYNO_OK;
}

/* Best of at least three, and of as many as the budget allows. */
static double best_rate(traffic which, int threads, unsigned char *buffer, size_t share) {
    int64_t best = INT64_MAX, deadline = clock_now_ns() + BANDWIDTH_BUDGET_NS;
    for (int i = 0; i < 3 || clock_now_ns() < deadline; i++) {
        int64_t elapsed = time_loop(which, threads, buffer, share);
        if (elapsed < best)
            best = elapsed;
    }
    size_t moved = which == LOOP_TRIAD ? share / 3 / 64 * 64 * 3 : share;
    return (double)threads * (double)moved / (double)best;
}

dyno_status machine_measure_bandwidth(int threads, machine_bandwidth *out) {
    *out = (machine_bandwidth){0};
    threads = limit_to_cores(threads);
    int64_t wanted = 256 << 20, past_cache = environment_read_cpu().info.l3_bytes * 4;
    int64_t available = system_memory_read().available_bytes;
    if (past_cache > wanted)
        wanted = past_cache;
    if (available > 0 && wanted > available / 2)
        wanted = available / 2;
    size_t share = (size_t)wanted / (size_t)threads / 4096 * 4096;
    size_t bytes = share * (size_t)threads;
    unsigned char *buffer =
        share && !memory_is_refused()
            ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
            : MAP_FAILED;
    if (buffer == MAP_FAILED)
        return dyno_fail(DYNO_OUT_OF_MEMORY,
                         "measuring memory bandwidth: no %zu bytes for the "
                         "buffer; free some memory",
                         bytes);
    madvise(buffer, bytes, MADV_HUGEPAGE); /* fewer faults; a refusal does not matter */
    dyno_status status = fill(threads, buffer, share);
    if (status == DYNO_OK) {
        out->read = best_rate(LOOP_READ, threads, buffer, share);
        out->copy = best_rate(LOOP_COPY, threads, buffer, share);
        out->triad = best_rate(LOOP_TRIAD, threads, buffer, share);
    }
    munmap(buffer, bytes);
    return status;
}

dyno_status machine_peaks_get(const target *chip, int threads, machine_peaks *out) {
    static struct {
        unsigned instruction_sets;
        machine_peaks peaks;
    } known[MOST_KNOWN];
    static int known_count;
    if (threads <= 0)
        threads = threads_count();
    for (int i = 0; i < known_count; i++)
        if (known[i].peaks.threads == threads &&
            known[i].instruction_sets == chip->instruction_sets) {
            *out = known[i].peaks;
            return DYNO_OK;
        }
    machine_peaks peaks = {.threads = threads};
    RETURN_IF_FAILED(machine_measure_bandwidth(threads, &peaks.bandwidth));
    RETURN_IF_FAILED(stop_check("measuring the machine"));
    peaks.gflops_f32 = machine_measure_peak_flops_f32(chip, threads);
    if (known_count < MOST_KNOWN) {
        known[known_count].instruction_sets = chip->instruction_sets;
        known[known_count++].peaks = peaks;
    }
    *out = peaks;
    return DYNO_OK;
}
