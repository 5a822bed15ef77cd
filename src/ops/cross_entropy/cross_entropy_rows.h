/* cross_entropy_rows.h - the arithmetic of one row of logits, for the ops that have logits of
 * their own. */
#ifndef OPS_CROSS_ENTROPY_ROWS_H
#define OPS_CROSS_ENTROPY_ROWS_H

#include <stdint.h>

double cross_entropy_log_sum_exp(int64_t n, const float *row);

/* (softmax(row) - onehot(target)) * dy, over the row; `lse` is its log-sum-exp. */
void cross_entropy_gradient_in_place(int64_t n, float *row, int64_t target, float lse, float dy);

#endif
