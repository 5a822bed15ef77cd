/* test_loss_head.c - the loss head in every type and chunk against its reference, and what it
 * must not depend on. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ops/loss_head/loss_head.h"
#include "ops/op_list.h"
#include "support/kernel_run.h"
#include "support/numbers.h"
#include "support/operand.h"

typedef struct problem {
    int64_t N, V, D;
    dtype type;
    operand inputs[4];
} problem;

static problem make_problem(int64_t N, int64_t V, int64_t D, dtype type, uint64_t seed) {
    problem p = {.N = N, .V = V, .D = D, .type = type};
    draw d = draw_create(seed, 1);
    shape x = SHAPE(N, D), w = SHAPE(V, D), rows = SHAPE(N);
    fill classes = {.kind = FILL_INTEGERS, .high = (double)V};
    p.inputs[0] = operand_create(type, &x, LAYOUT_DENSE, (fill){0}, &d);
    p.inputs[1] = operand_create(type, &w, LAYOUT_DENSE, (fill){.high = 0.3}, &d);
    p.inputs[2] = operand_create(DTYPE_I32, &rows, LAYOUT_DENSE, classes, &d);
    p.inputs[3] = operand_create(DTYPE_F32, &rows, LAYOUT_DENSE, (fill){0}, &d);
    return p;
}

static void release_problem(problem *p) {
    for (int i = 0; i < 4; i++)
        operand_release(&p->inputs[i]);
}

/* dW of one chunk may be in bf16 too. */
static value *build(graph *g, const problem *p, int64_t chunk, dtype dx_type, bool has_gradient) {
    shape x = SHAPE(p->N, p->D), w = SHAPE(p->V, p->D), rows = SHAPE(p->N);
    value *leaves[] = {graph_add_leaf(g, ROLE_INPUT, p->type, &x, "x"),
                       graph_add_leaf(g, ROLE_INPUT, p->type, &w, "w"),
                       graph_add_leaf(g, ROLE_INPUT, DTYPE_I32, &rows, "targets"),
                       graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &rows, "dy")};
    dtype dw_type = dx_type == DTYPE_BF16 && chunk >= p->N ? DTYPE_BF16 : DTYPE_F32;
    return has_gradient ? build_loss_head(g, leaves[0], leaves[1], leaves[2], leaves[3], chunk,
                                          dx_type, dw_type)
                        : build_loss_head_forward(g, leaves[0], leaves[1], leaves[2], chunk);
}

/* Runs the kernel; compares with the reference within `tolerance` (relative, of each output). */
static void run(const problem *p, int64_t chunk, dtype dx_type, bool has_gradient, double tolerance,
                tensor *outputs) {
    graph *g = graph_create("head");
    node *n = build(g, p, chunk, dx_type, has_gradient)->producer;
    assert_int_equal(graph_status(g), DYNO_OK);
    tensor inputs[4];
    const double *dense[4];
    double *wanted[3];
    for (int i = 0; i < 4; i++) {
        inputs[i] = p->inputs[i].view;
        dense[i] = p->inputs[i].dense;
    }
    assert_null(kernel_run(n, n->op->kernels[0], inputs, outputs));
    for (int i = 0; i < n->output_count; i++)
        wanted[i] = memory_allocate((size_t)shape_elements(&n->outputs[i]->shape), sizeof(double));
    n->op->reference(n, dense, wanted);
    for (int i = 0; i < n->output_count; i++) {
        double *got = tensor_to_doubles(&outputs[i]);
        double error = relative_error(got, wanted[i], shape_elements(&outputs[i].shape));
        if (!(error <= tolerance))
            fail_msg("%s, chunk %lld, output %d: off by %g", dtype_name(p->type), (long long)chunk,
                     i, error);
        free(got);
        free(wanted[i]);
    }
    graph_destroy(g);
}

static void release(tensor *outputs, int count) {
    for (int i = 0; i < count; i++)
        free(outputs[i].data);
}

static void every_type_and_chunk_agrees_with_the_reference(void **state) {
    (void)state;
    static const int64_t chunks[] = {1, 7, 16, 64, 70, 1000};
    static const struct {
        dtype type, dx;
        double tolerance;
    } types[] = {{DTYPE_F32, DTYPE_F32, 1e-6},
                 {DTYPE_BF16, DTYPE_F32, 1e-3},
                 {DTYPE_BF16, DTYPE_BF16, 4e-3},
                 {DTYPE_F16, DTYPE_F32, 1e-6},
                 {DTYPE_F16, DTYPE_F16, 1e-3}};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        problem p = make_problem(70, 333, 48, types[t].type, 11 + t);
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            tensor with[3], without[1];
            run(&p, chunks[c], types[t].dx, true, types[t].tolerance, with);
            run(&p, chunks[c], types[t].dx, false, 1e-6, without);
            assert_memory_equal(with[0].data, without[0].data, 70 * sizeof(float));
            release(with, 3);
            release(without, 1);
        }
        release_problem(&p);
    }
}

static void a_gradient_repeated_from_one_number_is_taken(void **state) {
    (void)state;
    problem p = make_problem(9, 50, 8, DTYPE_F32, 3);
    for (int i = 0; i < 9; i++)
        ((float *)p.inputs[3].view.data)[i] = 0.25f, p.inputs[3].dense[i] = 0.25;
    tensor dense[3], repeated[3];
    run(&p, 4, DTYPE_F32, true, 1e-6, dense);
    p.inputs[3].view.stride[0] = 0;
    run(&p, 4, DTYPE_F32, true, 1e-6, repeated);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(dense[i].data, repeated[i].data, (size_t)tensor_bytes(&dense[i]));
    release(dense, 3);
    release(repeated, 3);
    release_problem(&p);
}

static void chunks_are_long_for_their_weights_and_no_longer_than_caches_want(void **state) {
    (void)state;
    static const int64_t vocabularies[] = {97, 10000, 32000, 50257, 151936};
    for (int64_t tokens = 1; tokens <= 65536; tokens = tokens * 3 + 1)
        for (size_t v = 0; v < sizeof vocabularies / sizeof *vocabularies; v++) {
            int64_t chunk = loss_head_chunk(tokens, vocabularies[v]);
            int64_t bytes = chunk * vocabularies[v] * 4;
            assert_true(chunk >= 1 && chunk <= tokens);
            assert_true(chunk == tokens || chunk >= 256);
            assert_true(chunk <= 512 || bytes <= 8 << 20);
        }
    assert_int_equal(loss_head_chunk(600, 10000), 304);
    assert_int_equal(loss_head_chunk(4096, 151936), 512);
}

static void chunks_on_a_gpu_are_as_large_as_their_logits_may_be(void **state) {
    (void)state;
    assert_int_equal(loss_head_chunk_cuda(2048, 10000, DTYPE_BF16), 2048);
    assert_int_equal(loss_head_chunk_cuda(4096, 10000, DTYPE_BF16), 4096);
    assert_int_equal(loss_head_chunk_cuda(65536, 10000, DTYPE_BF16), 4096);
    assert_int_equal(loss_head_chunk_cuda(4096, 32000, DTYPE_BF16), 1024);
    assert_int_equal(loss_head_chunk_cuda(4096, 151936, DTYPE_F32), 1024);
    assert_int_equal(loss_head_chunk_cuda(1, 10000, DTYPE_F32), 1);
    for (int64_t tokens = 1; tokens <= 262144; tokens = tokens * 3 + 1) {
        int64_t chunk = loss_head_chunk_cuda(tokens, 50257, DTYPE_F16);
        assert_true(chunk >= 1 && chunk <= tokens);
        assert_true(chunk <= 1024 || chunk * 50264 * 2 <= 80 << 20);
        assert_true(chunk >= 512 || chunk == tokens);
    }
}

static void shapes_that_do_not_fit_are_refused(void **state) {
    (void)state;
    static const struct {
        shape x, w, targets, dy;
        dtype w_type, dx, dw;
        int64_t chunk;
    } bad[] = {
        {{2, {4, 3}}, {2, {5, 2}}, {1, {4}}, {1, {4}}, DTYPE_F32, DTYPE_F32, DTYPE_F32, 1},
        {{2, {4, 3}}, {2, {5, 3}}, {1, {5}}, {1, {4}}, DTYPE_F32, DTYPE_F32, DTYPE_F32, 1},
        {{2, {4, 3}}, {2, {5, 3}}, {1, {4}}, {1, {5}}, DTYPE_F32, DTYPE_F32, DTYPE_F32, 1},
        {{2, {4, 3}}, {2, {5, 3}}, {1, {4}}, {1, {4}}, DTYPE_BF16, DTYPE_F32, DTYPE_F32, 1},
        {{2, {4, 3}}, {2, {5, 3}}, {1, {4}}, {1, {4}}, DTYPE_F32, DTYPE_BF16, DTYPE_F32, 1},
        {{2, {4, 3}}, {2, {5, 3}}, {1, {4}}, {1, {4}}, DTYPE_F32, DTYPE_F32, DTYPE_BF16, 1},
        {{2, {4, 3}}, {2, {5, 3}}, {1, {4}}, {1, {4}}, DTYPE_F32, DTYPE_F32, DTYPE_F32, 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        graph *g = graph_create("bad");
        value *x = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &bad[i].x, "x");
        value *w = graph_add_leaf(g, ROLE_INPUT, bad[i].w_type, &bad[i].w, "w");
        value *targets = graph_add_leaf(g, ROLE_INPUT, DTYPE_I32, &bad[i].targets, "t");
        value *dy = graph_add_leaf(g, ROLE_INPUT, DTYPE_F32, &bad[i].dy, "dy");
        build_loss_head(g, x, w, targets, dy, bad[i].chunk, bad[i].dx, bad[i].dw);
        assert_int_equal(graph_status(g), DYNO_INVALID);
        graph_destroy(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_chunk_agrees_with_the_reference),
        cmocka_unit_test(a_gradient_repeated_from_one_number_is_taken),
        cmocka_unit_test(chunks_are_long_for_their_weights_and_no_longer_than_caches_want),
        cmocka_unit_test(chunks_on_a_gpu_are_as_large_as_their_logits_may_be),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
