/* attention_sample.h - a problem of attention or of its gradients: operands in memory as a kernel
 * may find them, what the reference makes of them, and whether a kernel's outputs are that. */
#ifndef TESTS_SUPPORT_ATTENTION_SAMPLE_H
#define TESTS_SUPPORT_ATTENTION_SAMPLE_H

#include "graph/graph.h"
#include "ops/attention/attention.h"
#include "support/draw.h"

enum { MOST_INPUTS = ATTENTION_LSE + 1 + ATTENTION_TABLES, MOST_OUTPUTS = 3 };

/* How operands lie, inputs and outputs alike. */
typedef enum placing {
    PLACED_DENSE,
    PLACED_BY_TOKEN,   /* [B, T, H, S] in memory: what a projection gives */
    PLACED_MISALIGNED, /* one element off, rows that do not touch */
    PLACED_REPEATED,   /* inputs: one head for all; outputs dense */
    PLACING_COUNT
} placing;

typedef struct sizes {
    int64_t batch, heads, kv_heads, queries, keys, head_dim;
} sizes;

typedef struct buffer {
    tensor view;
    void *block;
    size_t bytes;
} buffer;

/* A node with operands and what the reference makes of them. */
typedef struct sample {
    graph *g;
    node *n;
    buffer in[MOST_INPUTS];
    double *dense[MOST_INPUTS], *want[MOST_OUTPUTS];
    double *terms[MOST_OUTPUTS]; /* the magnitudes of what P and dS contribute to an element */
    placing how;
} sample;

typedef struct numbers {
    double q, k, v, dy; /* standard deviations */
} numbers;
static const numbers NORMAL = {1, 1, 1, 1};

sample forward_without_numbers(const sizes *z, dtype type, bool is_causal, placing how);
/* Rotated, by tables of any angles, which it has already. */
sample rotated_without_numbers(const sizes *z, dtype type, bool is_causal, placing how);
/* Sets an input to given numbers, or to normal ones; then, when all are set, asks the reference. */
void sample_place(sample *s, int input, const double *given);
void sample_draw(sample *s, int input, double deviation, draw *d);
void sample_expect(sample *s);
/* After another sample_place. */
void sample_expect_again(sample *s);

sample forward_sample(const sizes *z, dtype type, bool is_causal, placing how, numbers drawn);
sample rotated_sample(const sizes *z, dtype type, bool is_causal, placing how, numbers drawn);
/* The gradient's node on what the forward took and gave; dO from the drawn numbers. Takes and
 * releases the forward. */
sample gradient_of(sample *forward, double dy_deviation);
sample gradient_sample(const sizes *z, dtype type, bool is_causal, placing how, numbers drawn);
void sample_release(sample *s);

/* False when the kernel rejects the operands; else the caller frees the outputs' blocks. */
bool run_kernel(const sample *s, const kernel *k, buffer *out);
/* Kernels that round P and dS to bf16 and take subnormal numbers for 0. */
bool rounds_weights(const kernel *k);
/* How many kernels this machine has for the type. */
int kernels_here(dtype type);

/* Off by so much at most: of the element, and besides. Kernels that round weights may be off by
 * the rounding of each of the terms, too. */
typedef struct tolerance {
    double relative, absolute;
} tolerance;

/* All kernels that take the operands: their number. That of a machine with AVX2 is also run as it is
 * compiled for one. What should be no finite number must not be one. */
int check_kernels(const sample *s, tolerance t);
/* Every kernel gives the same bits with 1 to 8 threads. */
void expect_same_bits_with_threads(const sample *s);
/* Every variant of every kernel; the first is the one that is taken when none is asked for. */
int check_variants(const sample *s, tolerance t);

#endif
