/* kernel_sweep.h - every kernel that a kind of target has for an op, run on drawn operands and held
 * against the op's reference in double. Who runs the kernel is a parameter: the host, or a device.
 */
#ifndef TESTS_SUPPORT_KERNEL_SWEEP_H
#define TESTS_SUPPORT_KERNEL_SWEEP_H

#include "ops/kernel.h"
#include "support/op_cases.h"

enum { SWEEP_MAX_KERNELS = 12 };

typedef struct kernel_sweep {
    target_kind target;
    /* As kernel_run does it: inputs are in the host's memory, and so are the outputs it makes, for
     * the caller to free. NULL, or the reason why the kernel rejects the operands. */
    const char *(*run)(void *context, const node *n, const kernel *k, const tensor *inputs,
                       tensor *outputs);
    void *context;
    /* Sums are added up term after term, where roundings of equal terms all go one way: twice as
     * much may be lost for each. */
    bool sums_in_sequence;
    int runs[SWEEP_MAX_KERNELS]; /* of the op's kernels, by their place in its list */
} kernel_sweep;

/* Draws operands for a node of the case, all dense or in drawn layouts; where `special` is given,
 * f32 inputs are filled with it. Runs every kernel of the target that takes them, fails the test
 * when an element is too far from the reference, and returns how many ran. */
int kernel_sweep_case(kernel_sweep *sweep, const op_case *c, draw *d, bool is_dense,
                      const fill *special);

/* Fails the test unless got is near to what the reference gives: e->value for output `index`. */
typedef struct expectation {
    double *value[OP_CASE_MAX_OUTPUTS];
    double *terms[OP_CASE_MAX_OUTPUTS]; /* the magnitudes of what is added up, where that counts */
    bool sums_in_sequence;
    bool rounds_factors; /* the kernel multiplies low numbers: tensor cores, AMX, dot products */
} expectation;

/* What the node gives for inputs as doubles, dense. */
expectation expectation_create(const op_case *c, const node *n, const double *const *inputs);
void expectation_release(expectation *e);
/* `who` made `out`, which lies in the host's memory. */
void expectation_check(const expectation *e, const op_case *c, const node *n, const char *who,
                       int index, const tensor *out);

/* Floats at which arithmetic goes wrong: zeros, infinities, NaN, subnormals, the ends of exp. */
fill fill_special_floats(void);

#endif
