#include "ops/cross_entropy/cross_entropy_rows.h"

#include <math.h>

#include "ops/scalar_math.h"

/* Twice over a row that the first pass leaves in cache: its maximum, then the sum of
 * exponentials, in 32 lanes and pieces that go into a double. */
double cross_entropy_log_sum_exp(int64_t n, const float *row) {
    enum { LANES = 32, PIECE = 2048 };
    float best[LANES];
    for (int j = 0; j < LANES; j++)
        best[j] = row[0];
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            best[j] = row[i + j] > best[j] ? row[i + j] : best[j];
    for (int j = 0; i < n; i++, j++)
        best[j] = row[i] > best[j] ? row[i] : best[j];
    for (int half = LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            best[j] = best[j + half] > best[j] ? best[j + half] : best[j];
    float largest = best[0];
    double total = 0;
    for (int64_t start = 0; start < n; start += PIECE) {
        int64_t length = n - start < PIECE ? n - start : PIECE;
        float lane[LANES] = {0};
        for (i = 0; i + LANES <= length; i += LANES)
            for (int j = 0; j < LANES; j++)
                lane[j] += exp_f32(row[start + i + j] - largest);
        for (int j = 0; i < length; i++, j++)
            lane[j] += exp_f32(row[start + i] - largest);
        for (int half = LANES / 2; half; half /= 2)
            for (int j = 0; j < half; j++)
                lane[j] += lane[j + half];
        total += lane[0];
    }
    return largest + log(total);
}

void cross_entropy_gradient_in_place(int64_t n, float *row, int64_t target, float lse, float dy) {
    /* Not p * dy - dy: where p is near 1 that would cancel. */
    float at_target = (exp_f32(row[target] - lse) - 1.0f) * dy;
    for (int64_t j = 0; j < n; j++)
        row[j] = exp_f32(row[j] - lse) * dy;
    row[target] = at_target;
}
