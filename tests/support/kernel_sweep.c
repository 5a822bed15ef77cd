#include "support/kernel_sweep.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static void compute_reference(const node *n, const double *const *inputs, double **outputs) {
    for (int i = 0; i < n->output_count; i++)
        outputs[i] = memory_allocate((size_t)shape_elements(&n->outputs[i]->shape), sizeof(double));
    n->op->reference(n, inputs, outputs);
}

expectation expectation_create(const op_case *c, const node *n, const double *const *inputs) {
    double *magnitudes[OP_CASE_MAX_INPUTS] = {0};
    expectation e = {0};
    compute_reference(n, inputs, e.value);
    if (c->per_term == 0)
        return e;
    for (int i = 0; i < n->input_count; i++) {
        int64_t elements = shape_elements(&n->inputs[i]->shape);
        magnitudes[i] = memory_allocate((size_t)elements, sizeof(double));
        for (int64_t j = 0; j < elements; j++)
            magnitudes[i][j] = fabs(inputs[i][j]);
    }
    compute_reference(n, (const double *const *)magnitudes, e.terms);
    for (int i = 0; i < n->input_count; i++)
        free(magnitudes[i]);
    return e;
}

void expectation_release(expectation *e) {
    for (int i = 0; i < OP_CASE_MAX_OUTPUTS; i++) {
        free(e->value[i]);
        free(e->terms[i]);
    }
}

static bool is_near(const expectation *e, const op_case *c, const tensor *out, double got,
                    double want, double terms) {
    if (!dtype_is_float(out->type) || isnan(want) || isnan(got))
        return got == want || (isnan(got) && isnan(want));
    if (out->type == DTYPE_F32 && isinf((float)want))
        return got == (float)want;
    if (want == 0 && got == 0)
        return signbit(want) == signbit(got) || c->ulps == 0 || c->per_term > 0;
    double allowed = c->absolute + (e->sums_in_sequence ? 2 : 1) * c->per_term * terms;
    if (e->rounds_factors && (out->type == DTYPE_BF16 || out->type == DTYPE_F16))
        allowed += c->low_factors * (out->type == DTYPE_BF16 ? 0x1p-8 : 0x1p-11);
    if (out->type == DTYPE_BF16 || out->type == DTYPE_F16)
        allowed += c->low_ulps * fmax(fabs(want) * (out->type == DTYPE_BF16 ? 0x1p-7 : 0x1p-10),
                                      out->type == DTYPE_BF16 ? 0x1p-133 : 0x1p-24);
    if (c->ulps > 0)
        allowed += c->ulps * fmax(fabs(want) * FLT_EPSILON, 0x1p-149);
    return fabs(got - want) <= allowed;
}

void expectation_check(const expectation *e, const op_case *c, const node *n, const char *who,
                       int index, const tensor *out) {
    double *got = tensor_to_doubles(out);
    for (int64_t i = 0; i < shape_elements(&out->shape); i++) {
        double want = e->value[index][i], terms = e->terms[index] ? e->terms[index][i] : 0;
        if (!is_near(e, c, out, got[i], want, terms)) {
            for (int j = 0; j < n->input_count; j++)
                print_error("input %d: %s[%s]\n", j, dtype_name(n->inputs[j]->type),
                            shape_format(&n->inputs[j]->shape).text);
            fail_msg("%s, output %d [%s], element %lld: got %.9g, want %.9g (terms %.3g)", who,
                     index, shape_format(&out->shape).text, (long long)i, got[i], want, terms);
        }
    }
    free(got);
}

/* Runs every kernel that takes these operands and adds one to its count. */
static int run_kernels(kernel_sweep *sweep, const op_case *c, const node *n,
                       const operand *operands) {
    tensor inputs[OP_CASE_MAX_INPUTS], outputs[OP_CASE_MAX_OUTPUTS];
    const double *dense[OP_CASE_MAX_INPUTS];
    for (int i = 0; i < n->input_count; i++) {
        inputs[i] = operands[i].view;
        dense[i] = operands[i].dense;
    }
    expectation e = expectation_create(c, n, dense);
    int accepted = 0;
    for (int k = 0; n->op->kernels[k]; k++) {
        const kernel *used = n->op->kernels[k];
        if (used->target != sweep->target || sweep->run(sweep->context, n, used, inputs, outputs))
            continue;
        accepted++;
        sweep->runs[k]++;
        e.sums_in_sequence = sweep->sums_in_sequence && !strstr(used->name, "_onednn");
        e.rounds_factors = used->target == TARGET_CUDA || strstr(used->name, "_bf16") ||
                           strstr(used->name, "_amx");
        for (int i = 0; i < n->output_count; i++) {
            expectation_check(&e, c, n, used->name, i, &outputs[i]);
            free(outputs[i].data);
        }
    }
    expectation_release(&e);
    return accepted;
}

int kernel_sweep_case(kernel_sweep *sweep, const op_case *c, draw *d, bool is_dense,
                      const fill *special) {
    graph *g = graph_create("case");
    op_instance in = op_case_build(c, g, false, d);
    assert_int_equal(graph_status(g), DYNO_OK);
    operand operands[OP_CASE_MAX_INPUTS];
    for (int i = 0; i < in.n->input_count; i++) {
        const value *v = in.n->inputs[i];
        bool is_special = special && v->type == DTYPE_F32;
        layout how = is_dense ? LAYOUT_DENSE : (layout)draw_below(d, LAYOUT_COUNT);
        operands[i] =
            operand_create(v->type, &v->shape, how, is_special ? *special : in.fill[i], d);
    }
    int accepted = run_kernels(sweep, c, in.n, operands);
    for (int i = 0; i < in.n->input_count; i++)
        operand_release(&operands[i]);
    graph_destroy(g);
    return accepted;
}

fill fill_special_floats(void) {
    static const double specials[] = {
        0.0,       -0.0,  1.0,    -1.0,    INFINITY, -INFINITY, NAN,      0x1p-149,
        -0x1p-149, 1e-40, -1e-40, FLT_MIN, -FLT_MIN, FLT_MAX,   -FLT_MAX, 3e38,
        1e30,      -1e30, 1e-30,  88.72,   88.73,    -87.34,    -103.97,  -103.98,
        -104.5,    105,   0.5,    1.0001,  0.999999, 16777216., 123456.7, -0.25};
    return (fill){.kind = FILL_CHOICE,
                  .choice = specials,
                  .count = (int)(sizeof specials / sizeof *specials)};
}
