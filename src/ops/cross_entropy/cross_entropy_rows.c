/* cross_entropy_rows.c - the log-sum-exp of a row in one pass over memory.
 *
 * A piece of the row is read into the first cache for its maximum and read there once more for the sum
 * of its exponentials, relative to the largest number so far. A larger one scales down what was added
 * before. Pieces are summed in 32 lanes and then in double: the order depends on the length alone. */
#include "ops/cross_entropy/cross_entropy_rows.h"

#include <math.h>
#include <stdbool.h>

#include "ops/scalar_math.h"

enum { LANES = 32, PIECE = 2048 };

/* e^x for x <= 0: 1 at 0, within 1.3e-7 (1 - x) of itself down to -86.9, and no more than that below,
 * which is nothing beside the 1 that the largest of a row adds. 2^(n + r) with |r| <= 1/2; 2^r by a
 * polynomial. The limit is one of bits, as in exp_f32: a negative number of larger magnitude has more
 * of them. */
static inline float exp_of_nonpositive(float x) {
    const float magic = 0x1.8p23f;       /* adding it rounds to an integer, held in the low bits */
    const uint32_t lowest = 0xc2fb0000u; /* -125.5 */
    uint32_t bits = bits_from_float(x * 0x1.715476p0f);
    float power = float_from_bits(bits < lowest ? bits : lowest);
    float rounded = power + magic, r = power - (rounded - magic);
    float y = 1.32647273e-3f;
    y = MULTIPLY_ADD(y, r, 9.67151299e-3f);
    y = MULTIPLY_ADD(y, r, 5.55073358e-2f);
    y = MULTIPLY_ADD(y, r, 2.40222424e-1f);
    y = MULTIPLY_ADD(y, r, 6.93147004e-1f);
    y = MULTIPLY_ADD(y, r, 1.0f);
    return float_from_bits(bits_from_float(y) + (bits_from_float(rounded) << 23));
}

static float largest_of(int64_t n, const float *row, bool *has_nan) {
    float best[LANES];
    int32_t is_nan[LANES] = {0};
    for (int j = 0; j < LANES; j++)
        best[j] = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float x = row[i + j];
            best[j] = x > best[j] ? x : best[j];
            is_nan[j] |= x != x;
        }
    for (int j = 0; i < n; i++, j++) {
        best[j] = row[i] > best[j] ? row[i] : best[j];
        is_nan[j] |= row[i] != row[i];
    }
    for (int half = LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++) {
            best[j] = best[j + half] > best[j] ? best[j + half] : best[j];
            is_nan[j] |= is_nan[j + half];
        }
    *has_nan = is_nan[0];
    return best[0];
}

/* Meanwhile the next piece, or the next row, is asked for: while nothing new is read, the memory
 * would have nothing to do. */
static float sum_of_exponentials(int64_t n, const float *row, float largest) {
    enum { LINE = 64 / sizeof(float) };
    float lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j += LINE)
            __builtin_prefetch(row + PIECE + i + j);
        for (int j = 0; j < LANES; j++)
            lane[j] += exp_of_nonpositive(row[i + j] - largest);
    }
    for (int j = 0; i < n; i++, j++)
        lane[j] += exp_of_nonpositive(row[i] - largest);
    for (int half = LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

/* NaN where the row has one, an infinity, or nothing above -infinity: what the formula gives. */
double cross_entropy_log_sum_exp(int64_t n, const float *row) {
    float largest = -INFINITY;
    double total = 0;
    for (int64_t start = 0; start < n; start += PIECE) {
        int64_t length = n - start < PIECE ? n - start : PIECE;
        bool has_nan;
        float top = largest_of(length, row + start, &has_nan);
        if (has_nan || top == INFINITY)
            return NAN;
        if (top > largest) {
            total *= exp((double)largest - top);
            largest = top;
        }
        if (largest > -INFINITY)
            total += sum_of_exponentials(length, row + start, largest);
    }
    return largest > -INFINITY ? largest + log(total) : NAN;
}

void cross_entropy_gradient_in_place(int64_t n, float *row, int64_t target, float lse, float dy) {
    /* Not p * dy - dy: where p is near 1 that would cancel. */
    float at_target = (exp_f32(row[target] - lse) - 1.0f) * dy;
    for (int64_t j = 0; j < n; j++)
        row[j] = exp_f32(row[j] - lse) * dy;
    row[target] = at_target;
}
