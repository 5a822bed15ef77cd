/* test_strided_outputs.c - kernels that may write their outputs with strides, or over input 0, give
 * the bits they give in memory of its own, and touch nothing else. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ops/levels.h"
#include "ops/op_list.h"
#include "support/kernel_run.h"
#include "support/op_cases.h"

enum { ROUNDS = 60, FRAME = 0x5a };

/* Dimensions in any order but the last, which stays innermost and dense; rows with gaps. */
static tensor draw_strides(const tensor *dense, draw *d) {
    tensor t = *dense;
    int rank = t.shape.rank;
    if (rank < 1)
        return t;
    shape order = draw_order(d, rank - 1);
    t.stride[rank - 1] = 1;
    int64_t stride = t.shape.dim[rank - 1] + draw_below(d, 4);
    for (int i = rank - 2; i >= 0; i--) {
        int k = (int)order.dim[i];
        t.stride[k] = stride;
        stride *= t.shape.dim[k];
        stride += draw_below(d, 3);
    }
    return t;
}

static int64_t span(const tensor *t) {
    int64_t last = 0;
    for (int i = 0; i < t->shape.rank; i++)
        last += (t->shape.dim[i] - 1) * t->stride[i];
    return last + 1;
}

static void run(const node *n, const kernel *k, const tensor *inputs, const tensor *outputs) {
    kernel_args args = {.input_count = n->input_count,
                        .output_count = n->output_count,
                        .inputs = inputs,
                        .outputs = outputs,
                        .attributes = &n->attributes,
                        .target = target_this_cpu()};
    size_t scratch = k->workspace_bytes ? k->workspace_bytes(&args) : 0;
    args.workspace = scratch ? memory_allocate(scratch, 1) : NULL;
    level_kernel(k, args.target)->run(&args);
    free(args.workspace);
}

static void check_elements(const kernel *k, const tensor *out, const tensor *want) {
    int64_t bytes = dtype_bytes(out->type), all = span(out);
    const unsigned char *memory = out->data;
    bool *is_written = memory_allocate((size_t)all, sizeof *is_written);
    for (int64_t i = 0; i < shape_elements(&out->shape); i++) {
        int64_t at = tensor_offset(out, i);
        is_written[at] = true;
        if (memcmp(memory + at * bytes, (const char *)want->data + i * bytes, (size_t)bytes) != 0)
            fail_msg("%s [%s], element %lld: other bits than in dense memory", k->name,
                     shape_format(&out->shape).text, (long long)i);
    }
    for (int64_t i = 0; i < all * bytes; i++)
        if (!is_written[i / bytes] && memory[i] != FRAME)
            fail_msg("%s [%s] wrote between its rows", k->name, shape_format(&out->shape).text);
    free(is_written);
}

static void check_strided(const node *n, const kernel *k, const tensor *inputs, const tensor *want,
                          draw *d) {
    tensor out[OP_CASE_MAX_OUTPUTS];
    for (int i = 0; i < n->output_count; i++) {
        out[i] = draw_strides(&want[i], d);
        size_t bytes = (size_t)(span(&out[i]) * dtype_bytes(out[i].type));
        out[i].data = memset(memory_allocate(bytes, 1), FRAME, bytes);
    }
    run(n, k, inputs, out);
    for (int i = 0; i < n->output_count; i++) {
        check_elements(k, &out[i], &want[i]);
        free(out[i].data);
    }
}

static void check_over_input(const node *n, const kernel *k, const tensor *inputs,
                             const tensor *wanted) {
    tensor given[OP_CASE_MAX_INPUTS], out[OP_CASE_MAX_OUTPUTS];
    const tensor *want = &wanted[k->overwrites_input - 1];
    memcpy(given, inputs, (size_t)n->input_count * sizeof *given);
    size_t bytes = (size_t)(span(&given[0]) * dtype_bytes(given[0].type));
    given[0].data = memcpy(memory_allocate(bytes, 1), given[0].data, bytes);
    for (int i = 0; i < n->output_count; i++) {
        out[i] = wanted[i];
        out[i].data = memory_allocate((size_t)tensor_bytes(&wanted[i]), 1);
    }
    free(out[k->overwrites_input - 1].data);
    out[k->overwrites_input - 1] = given[0];
    run(n, k, given, out);
    double *got = tensor_to_doubles(&given[0]), *expected = tensor_to_doubles(want);
    assert_memory_equal(got, expected, (size_t)shape_elements(&want->shape) * sizeof *got);
    for (int i = 0; i < n->output_count; i++)
        free(out[i].data);
    free(got);
    free(expected);
}

static void check_op(const op *kind, uint64_t seed, int *strided, int *over) {
    draw d = draw_create(seed, seed % 3 ? 3000 : 40);
    graph *g = graph_create("case");
    op_instance in = op_case_build(op_case_find(kind), g, false, &d);
    const node *n = in.n;
    operand operands[OP_CASE_MAX_INPUTS];
    tensor inputs[OP_CASE_MAX_INPUTS], out[OP_CASE_MAX_OUTPUTS];
    for (int i = 0; i < n->input_count; i++) {
        const value *v = n->inputs[i];
        layout how = i == 0 && seed % 2 ? LAYOUT_PADDED : LAYOUT_DENSE;
        operands[i] = operand_create(v->type, &v->shape, how, in.fill[i], &d);
        inputs[i] = operands[i].view;
    }
    for (int k = 0; kind->kernels[k]; k++) {
        const kernel *used = kind->kernels[k];
        if (used->target != TARGET_CPU || (!used->writes_strided && !used->overwrites_input) ||
            kernel_run(n, used, inputs, out))
            continue;
        if (used->writes_strided) {
            check_strided(n, used, inputs, out, &d);
            ++*strided;
        }
        if (used->overwrites_input) {
            check_over_input(n, used, inputs, out);
            ++*over;
        }
        for (int i = 0; i < n->output_count; i++)
            free(out[i].data);
    }
    for (int i = 0; i < n->input_count; i++)
        operand_release(&operands[i]);
    graph_destroy(g);
}

static void strided_results_have_the_bits_of_dense_ones(void **state) {
    (void)state;
    int strided = 0, over = 0;
    for (int o = 0; o < op_list_count(); o++)
        for (uint64_t round = 0; round < ROUNDS; round++)
            check_op(op_list_at(o), 500 * (uint64_t)o + round, &strided, &over);
    assert_true(strided > 3 * ROUNDS); /* matmul, rope and concat at the least */
    assert_true(over >= ROUNDS / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strided_results_have_the_bits_of_dense_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
