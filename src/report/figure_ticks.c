#include "report/figure_ticks.h"

#include <float.h>
#include <math.h>

static bool is_inside(figure_range range, double value) {
    double slack = 1e-9 * fabs(range.high);
    return value >= range.low - slack && value <= range.high + slack;
}

static int add(double value, figure_range range, double *ticks, int count) {
    if (is_inside(range, value) && count < FIGURE_MOST_TICKS)
        ticks[count++] = value;
    return count;
}

/* 1, 2, 5, 10, ...; the powers of ten alone over many of them. */
static int add_decades(figure_range range, double *ticks) {
    static const double MARKS[] = {1, 2, 5};
    if (!(range.low >= DBL_MIN) ||
        !isfinite(range.high)) /* no power of ten is below, or the last */
        return 0;
    bool is_wide = range.high / range.low > 200;
    double decades = fmax(1, ceil(log10(range.high / range.low) / (FIGURE_MOST_TICKS - 4)));
    int count = 0;
    for (double decade = pow(10, floor(log10(range.low))); decade <= range.high;
         decade *= pow(10, decades))
        for (int i = 0; i < (is_wide ? 1 : 3); i++)
            count = add(decade * MARKS[i], range, ticks, count);
    return count;
}

static int add_powers_of_two(figure_range range, double *ticks) {
    enum { FEW = 8 };
    if (!(range.low >= DBL_MIN) || !isfinite(range.high))
        return 0;
    double from = floor(log2(range.low)), step = ceil((log2(range.high) - from) / FEW);
    int count = 0;
    for (double power = from; power <= log2(range.high) + 1e-9; power += fmax(1, step))
        count = add(exp2(power), range, ticks, count);
    return count;
}

/* The round number that is not less. */
static double round_up(double least, figure_unit unit) {
    if (unit == FIGURE_BINARY_BYTES)
        return exp2(ceil(log2(least)));
    double decade = pow(10, floor(log10(least)));
    return least <= decade       ? decade
           : least <= 2 * decade ? 2 * decade
           : least <= 5 * decade ? 5 * decade
                                 : 10 * decade;
}

static int add_multiples(figure_range range, figure_unit unit, double *ticks) {
    enum { FEW = 7 };
    double step = round_up((range.high - range.low) / FEW, unit);
    int count = 0;
    for (double i = ceil(range.low / step);
         i * step <= range.high + 1e-9 * fabs(range.high) && count < FIGURE_MOST_TICKS; i++)
        count = add(i * step, range, ticks, count);
    return count;
}

int figure_ticks(const figure_axis *axis, figure_range range, double *ticks) {
    int count = !axis->is_logarithmic               ? add_multiples(range, axis->unit, ticks)
                : axis->unit == FIGURE_BINARY_BYTES ? add_powers_of_two(range, ticks)
                                                    : add_decades(range, ticks);
    if (count > 1)
        return count;
    ticks[0] = range.low;
    ticks[1] = range.high;
    return 2;
}
