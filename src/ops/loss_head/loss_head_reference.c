/* loss_head_reference.c - the formulas of loss_head.h, a token at a time. Like the kernel it
 * rounds what goes into the second products to bf16 if x is that. */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "graph/op.h"
#include "ops/loss_head/loss_head.h"

static double rounded(dtype type, double number) {
    double held = 0;
    dtype_store(type, &held, 0, number);
    return dtype_load(type, &held, 0);
}

void loss_head_reference(const node *n, const double *const *inputs, double *const *outputs) {
    const shape *weight = &n->inputs[1]->shape;
    int64_t N = n->inputs[0]->shape.dim[0], V = weight->dim[0], D = weight->dim[1];
    dtype type = n->inputs[0]->type == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F64;
    bool has_gradient = n->output_count > 1;
    const double *w = inputs[1];
    double *logits = memory_allocate((size_t)V, sizeof *logits);
    for (int64_t i = 0; has_gradient && i < V * D; i++)
        outputs[2][i] = 0;
    for (int64_t i = 0; i < N; i++) {
        const double *x = inputs[0] + i * D;
        int64_t right = (int64_t)inputs[2][i];
        double largest = -INFINITY, sum = 0;
        for (int64_t v = 0; v < V; v++) {
            logits[v] = 0;
            for (int64_t d = 0; d < D; d++)
                logits[v] += x[d] * w[v * D + d];
            largest = fmax(largest, logits[v]);
        }
        for (int64_t v = 0; v < V; v++)
            sum += exp(logits[v] - largest);
        double lse = largest + log(sum);
        outputs[0][i] = lse - logits[right];
        for (int64_t d = 0; has_gradient && d < D; d++)
            outputs[1][i * D + d] = 0;
        for (int64_t v = 0; has_gradient && v < V; v++) {
            double dlogit = rounded(type, (exp(logits[v] - lse) - (v == right)) * inputs[3][i]);
            for (int64_t d = 0; d < D; d++) {
                outputs[1][i * D + d] += dlogit * w[v * D + d];
                outputs[2][v * D + d] += dlogit * x[d];
            }
        }
    }
    free(logits);
}
