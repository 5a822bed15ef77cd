/* test_cuda_attention_errors.c - how exact attention and its gradients of f32 are on a GPU: in fp32
 * as f32 is, in tf32 as its operands are. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "ops/attention/attention.h"
#include "ops/op_list.h"
#include "support/device_bench.h"
#include "support/device_run.h"
#include "support/numbers.h"
#include "support/operand.h"

typedef struct attended {
    int64_t heads, kv_heads, queries, keys, size;
    bool is_causal;
} attended;

static const attended problems[] = {
    {1, 1, 1024, 1024, 64, false}, {4, 2, 300, 300, 64, true},   {2, 1, 129, 257, 80, true},
    {2, 2, 260, 130, 128, true},   {1, 1, 200, 513, 256, false}, {3, 1, 65, 65, 20, false},
    {1, 1, 1, 700, 96, false},     {2, 2, 33, 70, 192, true},
};

enum { INPUTS = 6 };

static const node *add_attention(graph *g, const attended *p, bool is_tf32, bool is_gradient,
                                 value **in) {
    attribute list[3] = {ATTR_INTEGER("causal", p->is_causal),
                         ATTR_REAL("scale", 1 / sqrt((double)p->size)), ATTR_INTEGER("tf32", 1)};
    const node *n = graph_add_node(g, is_gradient ? &op_attention_gradient : &op_attention, in,
                                   is_gradient ? INPUTS : 3, list, is_tf32 ? 3 : 2)
                        ->producer;
    if (graph_status(g) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return n;
}

static double **reference_of(const node *n, const operand *operands) {
    const double *in[INPUTS];
    double **out = memory_allocate((size_t)n->output_count, sizeof *out);
    for (int i = 0; i < n->input_count; i++)
        in[i] = operands[i].dense;
    for (int i = 0; i < n->output_count; i++)
        out[i] = memory_allocate((size_t)shape_elements(&n->outputs[i]->shape), sizeof **out);
    n->op->reference(n, in, out);
    return out;
}

/* In norm. Of rows that see no key the log-sum-exp is -infinity, in both or the error is. */
static double error_of(double *got, const double *want, int64_t count) {
    double *finite = memory_allocate((size_t)count, sizeof *finite);
    for (int64_t i = 0; i < count; i++) {
        bool is_left_out = want[i] == -INFINITY && got[i] == -INFINITY;
        finite[i] = is_left_out ? 0 : want[i];
        got[i] = is_left_out ? 0 : got[i];
    }
    double error = relative_error(got, finite, count);
    free(finite);
    return error;
}

/* The largest relative error of an output, in norm, over the device's kernels. */
static double check_node(device_kernel *how, const node *n, const operand *operands,
                         const double *limits) {
    double **want = reference_of(n, operands), largest = 0;
    tensor in[INPUTS], out[3];
    int ran = 0;
    for (int i = 0; i < n->input_count; i++)
        in[i] = operands[i].view;
    for (int k = 0; n->op->kernels[k]; k++) {
        const kernel *used = n->op->kernels[k];
        if (used->target != how->d->target.kind || device_kernel_run(how, n, used, in, out))
            continue;
        ran++;
        for (int i = 0; i < n->output_count; i++) {
            int64_t elements = shape_elements(&n->outputs[i]->shape);
            double *got = tensor_to_doubles(&out[i]);
            double error = error_of(got, want[i], elements);
            if (!(error <= limits[i]))
                fail_msg("%s, output %d [%s]: error %.3g, limit %.3g", used->name, i,
                         shape_format(&n->outputs[i]->shape).text, error, limits[i]);
            largest = fmax(largest, error);
            free(got);
            free(out[i].data);
        }
    }
    assert_true(ran > 0);
    for (int i = 0; i < n->output_count; i++)
        free(want[i]);
    free(want);
    return largest;
}

/* Both ops; the gradient's O and LSE are what the reference of attention gives. */
static double check(device_kernel *how, const attended *p, bool is_tf32, const double *limits,
                    const double *gradient_limits) {
    draw d = draw_create((uint64_t)(p->queries * 1000 + p->size), 1000);
    graph *g = graph_create("attention");
    shape q = SHAPE(1, p->heads, p->queries, p->size), k = SHAPE(1, p->kv_heads, p->keys, p->size);
    shape lse = SHAPE(1, p->heads, p->queries);
    const shape *shapes[INPUTS] = {&q, &k, &k, &q, &q, &lse};
    static const char *const names[INPUTS] = {"Q", "K", "V", "O", "dO", "LSE"};
    value *in[INPUTS];
    for (int i = 0; i < INPUTS; i++)
        in[i] = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, shapes[i], names[i]);
    const node *forward = add_attention(g, p, is_tf32, false, in);
    const node *n = add_attention(g, p, is_tf32, true, in);
    operand operands[INPUTS];
    for (int i = 0; i < INPUTS; i++) {
        const value *v = n->inputs[i];
        operands[i] = operand_create(v->type, &v->shape, LAYOUT_DENSE, (fill){0}, &d);
    }
    double largest = check_node(how, forward, operands, limits);
    double **made = reference_of(forward, operands);
    for (int i = 0; i < 2; i++) {
        operand *o = &operands[i ? ATTENTION_LSE : ATTENTION_O];
        for (int64_t j = 0; j < shape_elements(&o->view.shape); j++) {
            float number = (float)made[i][j];
            ((float *)o->view.data)[j] = number;
            o->dense[j] = number;
        }
        free(made[i]);
    }
    free(made);
    largest = fmax(largest, check_node(how, n, operands, gradient_limits));
    for (int i = 0; i < INPUTS; i++)
        operand_release(&operands[i]);
    graph_destroy(g);
    return largest;
}

static void attention_in_fp32_is_as_exact_as_f32_is(void **state) {
    device_kernel how = {.d = device_bench_open(state)};
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        check(&how, &problems[i], false, (double[]){1e-6, 1e-6}, (double[]){3e-6, 3e-6, 3e-6});
}

static void attention_in_tf32_rounds_its_operands_and_nothing_else(void **state) {
    device_kernel how = {.d = device_bench_open(state)};
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        double error =
            check(&how, &problems[i], true, (double[]){1e-3, 1e-3}, (double[]){2e-3, 2e-3, 2e-3});
        if (how.d->target.kind == TARGET_CUDA) /* it does */
            assert_true(error > 1e-5);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_in_fp32_is_as_exact_as_f32_is),
        cmocka_unit_test(attention_in_tf32_rounds_its_operands_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, device_bench_setup, device_bench_teardown);
}
