/* test_cross_entropy.c - the log-sum-exp of rows of several pieces, and of rows that hold numbers
 * which no training wants: what the formula gives in double, at every level that the machine has. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/op_list.h"
#include "support/draw.h"
#include "support/kernel_run.h"

static const int64_t LENGTHS[] = {1, 31, 33, 2047, 2048, 2049, 4096, 10007};
enum { LENGTH_COUNT = sizeof LENGTHS / sizeof *LENGTHS };

/* Checks losses and log-sum-exps of one row, whose target is its first number. */
static void check_row(const float *row, int64_t n, const char *what) {
    graph *g = graph_create("row");
    const shape logits_shape = SHAPE(1, n), one = SHAPE(1);
    value *logits = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &logits_shape, "logits");
    value *targets = graph_add_leaf(g, ROLE_INPUT, DTYPE_I32, &one, "targets");
    const node *made = build_cross_entropy(g, logits, targets)->producer;
    double *wide = memory_allocate((size_t)n, sizeof *wide), first = 0, loss, lse;
    for (int64_t i = 0; i < n; i++)
        wide[i] = (double)row[i];
    op_cross_entropy.reference(made, (const double *[]){wide, &first}, (double *[]){&loss, &lse});
    int32_t target_of_row = 0;
    tensor inputs[] = {tensor_contiguous((void *)row, DTYPE_F32, &logits_shape),
                       tensor_contiguous(&target_of_row, DTYPE_I32, &one)};
    const target *targets_here[KERNEL_RUN_MOST_TARGETS];
    int count = kernel_run_targets(targets_here);
    for (int i = 0; i < count; i++) {
        tensor outputs[2];
        assert_null(
            kernel_run_for(targets_here[i], made, op_cross_entropy.kernels[0], inputs, outputs));
        double got = (double)((float *)outputs[1].data)[0];
        bool is_near = fabs(got - lse) <= 3e-7 * (1 + fabs(lse));
        if (isnan(lse) ? !isnan(got) : !(is_near || got == lse))
            fail_msg("%s, %lld numbers, target %s: log-sum-exp is %.9g, not %.9g", what,
                     (long long)n, targets_here[i]->name, got, lse);
        free(outputs[0].data);
        free(outputs[1].data);
    }
    free(wide);
    graph_destroy(g);
}

static float *drawn_row(int64_t n, double spread, draw *d) {
    float *row = memory_allocate((size_t)n, sizeof *row);
    for (int64_t i = 0; i < n; i++)
        row[i] = (float)draw_uniform(d, -spread, spread);
    return row;
}

static void rows_of_any_length_and_spread_are_right(void **state) {
    (void)state;
    draw d = draw_create(1, 0);
    static const double spreads[] = {0, 1e-40, 1, 10, 100, 1e4, 1e30};
    for (int l = 0; l < LENGTH_COUNT; l++)
        for (size_t s = 0; s < sizeof spreads / sizeof *spreads; s++) {
            float *row = drawn_row(LENGTHS[l], spreads[s], &d);
            check_row(row, LENGTHS[l], "drawn");
            free(row);
        }
}

/* Sums are relative to the largest number so far: here that changes with every piece, or never. */
static void rising_and_falling_rows_are_right(void **state) {
    (void)state;
    for (int l = 0; l < LENGTH_COUNT; l++)
        for (int sign = -1; sign <= 1; sign += 2) {
            int64_t n = LENGTHS[l];
            float *row = memory_allocate((size_t)n, sizeof *row);
            for (int64_t i = 0; i < n; i++)
                row[i] = (float)(sign * (double)i * 0.01);
            check_row(row, n, sign > 0 ? "rising" : "falling");
            free(row);
        }
}

/* -infinity masks a logit; NaN, infinity and a row of nothing but masks have no log-sum-exp. */
static void masks_infinities_and_nans_come_out_as_the_formula_has_them(void **state) {
    (void)state;
    draw d = draw_create(2, 0);
    static const float odd[] = {-INFINITY, INFINITY, NAN, -NAN};
    for (int l = 0; l < LENGTH_COUNT; l++)
        for (int o = 0; o < 4; o++)
            for (int where = 0; where < 3; where++) {
                int64_t n = LENGTHS[l];
                float *row = drawn_row(n, 5, &d);
                row[where == 0 ? 0 : where == 1 ? n / 2 : n - 1] = odd[o];
                check_row(row, n, "one odd number");
                for (int64_t i = 0; i < n; i++)
                    row[i] = where == 0 || i != n - 1 ? odd[o] : 1;
                check_row(row, n, where ? "all odd but the last" : "all odd");
                free(row);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_any_length_and_spread_are_right),
        cmocka_unit_test(rising_and_falling_rows_are_right),
        cmocka_unit_test(masks_infinities_and_nans_come_out_as_the_formula_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
