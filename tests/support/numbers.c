#include "support/numbers.h"

#include <math.h>

double relative_error(const double *a, const double *b, int64_t count) {
    double apart = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        apart += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return sqrt(size > 0 ? apart / size : apart);
}

double ulps_apart(float got, double exact) {
    if (isnan(exact) || isnan(got))
        return isnan(exact) && isnan(got) ? 0 : INFINITY;
    if (isinf((float)exact) || isinf(got))
        return got == (float)exact ? 0 : INFINITY;
    int exponent;
    frexp(exact, &exponent);
    double ulp = ldexp(1, exponent - 24 > -149 ? exponent - 24 : -149);
    return fabs(got - exact) / ulp;
}
