/* test_threads.c - the bits of a result depend on its operands alone. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "ops/matmul/matmul.h"
#include "ops/op_list.h"
#include "support/kernel_run.h"
#include "support/op_cases.h"

static const int counts[] = {1, 2, 3, 5, 8, 8};

static void expect_same_bits(const target *chip, const node *n, const kernel *k,
                             const tensor *inputs) {
    tensor first[OP_CASE_MAX_OUTPUTS], again[OP_CASE_MAX_OUTPUTS];
    threads_set_count(1);
    if (kernel_run_for(chip, n, k, inputs, first))
        return;
    for (size_t t = 0; t < sizeof counts / sizeof *counts; t++) {
        threads_set_count(counts[t]);
        assert_null(kernel_run_for(chip, n, k, inputs, again));
        for (int i = 0; i < n->output_count; i++) {
            if (memcmp(first[i].data, again[i].data, (size_t)tensor_bytes(&first[i])) != 0)
                fail_msg("%s for %s, output %d [%s]: %d threads change it", k->name, chip->name, i,
                         shape_format(&first[i].shape).text, counts[t]);
            free(again[i].data);
        }
    }
    for (int i = 0; i < n->output_count; i++)
        free(first[i].data);
    threads_set_count(0);
}

static void expect_same_bits_of_node(const node *n, const fill *fills, bool is_dense, draw *d) {
    operand operands[OP_CASE_MAX_INPUTS];
    tensor inputs[OP_CASE_MAX_INPUTS];
    for (int i = 0; i < n->input_count; i++) {
        const value *v = n->inputs[i];
        layout how = is_dense ? LAYOUT_DENSE : (layout)draw_below(d, LAYOUT_COUNT);
        operands[i] = operand_create(v->type, &v->shape, how, fills[i], d);
        inputs[i] = operands[i].view;
    }
    const target *chips[KERNEL_RUN_MOST_TARGETS];
    int count = kernel_run_targets(chips);
    for (int k = 0; n->op->kernels[k]; k++)
        for (int i = 0; i < count && n->op->kernels[k]->target == TARGET_CPU; i++)
            expect_same_bits(chips[i], n, n->op->kernels[k], inputs);
    for (int i = 0; i < n->input_count; i++)
        operand_release(&operands[i]);
}

static void every_kernel_gives_the_same_bits_for_any_number_of_threads(void **state) {
    (void)state;
    for (int o = 0; o < op_list_count(); o++)
        for (int round = 0; round < 2; round++) {
            draw d = draw_create((uint64_t)(o * 10 + round), 200000);
            d.is_full = true;
            graph *g = graph_create("case");
            op_instance in = op_case_build(op_case_find(op_list_at(o)), g, false, &d);
            expect_same_bits_of_node(in.n, in.fill, round == 0, &d);
            graph_destroy(g);
        }
}

/* Few results and long sums: where a library would like to split the sum over threads. */
static void long_products_give_the_same_bits_for_any_number_of_threads(void **state) {
    (void)state;
    static const struct {
        int64_t m, n, k;
    } sizes[] = {{1, 1, 100000}, {16, 16, 20000}, {64, 48, 5000}, {513, 20, 1000}, {20, 800, 700}};
    int cores = omp_get_max_threads();
    omp_set_num_threads(16); /* what a library is told that there is */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        graph *g = graph_create("long");
        shape left = SHAPE(sizes[i].m, sizes[i].k), right = SHAPE(sizes[i].k, sizes[i].n);
        value *a = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &left, "a");
        value *b = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &right, "b");
        draw d = draw_create(i, 0);
        expect_same_bits_of_node(build_matmul(g, a, b, false, false)->producer, (fill[]){{0}, {0}},
                                 true, &d);
        graph_destroy(g);
    }
    omp_set_num_threads(cores);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_gives_the_same_bits_for_any_number_of_threads),
        cmocka_unit_test(long_products_give_the_same_bits_for_any_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
