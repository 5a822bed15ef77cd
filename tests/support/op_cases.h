/* op_cases.h - one case for each op there is: how to build a node of it, what numbers it takes,
 * how exact its kernels are. Run against the reference (ops/test_kernels.c), against finite
 * differences (test_gradients.c) and over thread counts (test_threads.c). */
#ifndef TESTS_SUPPORT_OP_CASES_H
#define TESTS_SUPPORT_OP_CASES_H

#include "graph/op.h"
#include "support/draw.h"
#include "support/operand.h"

enum { OP_CASE_MAX_INPUTS = 18, OP_CASE_MAX_OUTPUTS = 12 };

typedef struct op_case op_case;

typedef struct op_instance {
    graph *g;
    node *n;
    bool is_smooth; /* wanted for finite differences: all floats, nothing rounds */
    int leaf_count;
    fill fill[OP_CASE_MAX_INPUTS];
} op_instance;

struct op_case {
    const op *kind;
    /* Adds leaves of drawn shapes and one node on them to in->g. */
    void (*build)(const op_case *c, op_instance *in, draw *d);
    fill fill[OP_CASE_MAX_INPUTS];

    /* A kernel's element may be off by ulps (of a float) + absolute + per_term * T, T being what
     * the op's reference gives for the inputs' magnitudes: the sum of the magnitudes of what the
     * kernel adds up. All zero: results are exact. */
    double ulps, absolute, per_term;
    double low_ulps; /* the same for bf16 and f16 results, in units of their last place */
    /* What products of low numbers may add on low operands, whose every factor is rounded to the
     * low type before it is multiplied: in units of that type's precision at 1. */
    double low_factors;

    /* One operation, so that any float, infinities and NaN included, comes out as IEEE has it. */
    bool takes_any_float;
    unsigned differentiable; /* bit i: a gradient flows to input i */
};

/* NULL when the op has none. */
const op_case *op_case_find(const op *kind);

op_instance op_case_build(const op_case *c, graph *g, bool is_smooth, draw *d);

#endif
