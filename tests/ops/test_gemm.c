/* test_gemm.c - every way to multiply that this CPU has, of every type it takes, against products in
 * double. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "graph/op.h"
#include "ops/matmul/gemm.h"
#include "ops/matmul/matmul.h"
#include "ops/op_list.h"
#include "support/operand.h"

typedef struct product {
    int64_t batch, m, n, k;
    bool transpose_a, transpose_b;
    layout left, right;
    dtype type, out;
    double alpha;
} product;

/* A product's node, its operands and what it should give. */
typedef struct trial {
    product of;
    graph *g;
    const node *n;
    operand operands[2];
    tensor inputs[2], output;
    kernel_args args;
    double *want, *terms; /* terms: the magnitudes of what is added up */
} trial;

static trial trial_create(const product *p, draw *d) {
    trial t = {.of = *p, .g = graph_create("product")};
    shape a = p->transpose_a ? SHAPE(p->batch, p->k, p->m) : SHAPE(p->batch, p->m, p->k);
    shape b = p->transpose_b ? SHAPE(p->batch, p->n, p->k) : SHAPE(p->batch, p->k, p->n);
    value *left = graph_add_leaf(t.g, ROLE_INPUT, p->type, &a, "a");
    value *right = graph_add_leaf(t.g, ROLE_INPUT, p->type, &b, "b");
    t.n = build_matmul_scaled(t.g, left, right, p->transpose_a, p->transpose_b, p->out, p->alpha)
              ->producer;
    assert_int_equal(graph_status(t.g), DYNO_OK);
    t.operands[0] = operand_create(p->type, &a, p->left, (fill){0}, d);
    t.operands[1] = operand_create(p->type, &b, p->right, (fill){0}, d);
    t.output = tensor_contiguous(NULL, t.n->outputs[0]->type, &t.n->outputs[0]->shape);
    size_t elements = (size_t)shape_elements(&t.output.shape);
    t.want = memory_allocate(elements, sizeof(double));
    t.terms = memory_allocate(elements, sizeof(double));
    double *magnitudes[2];
    for (int i = 0; i < 2; i++) {
        int64_t count = shape_elements(&t.n->inputs[i]->shape);
        magnitudes[i] = memory_allocate((size_t)count, sizeof(double));
        for (int64_t j = 0; j < count; j++)
            magnitudes[i][j] = fabs(t.operands[i].dense[j]);
    }
    t.n->op->reference(t.n, (const double *[]){t.operands[0].dense, t.operands[1].dense}, &t.want);
    t.n->op->reference(t.n, (const double *const *)magnitudes, &t.terms);
    free(magnitudes[0]);
    free(magnitudes[1]);
    return t;
}

static void trial_release(trial *t) {
    operand_release(&t->operands[0]);
    operand_release(&t->operands[1]);
    free(t->want);
    free(t->terms);
    graph_destroy(t->g);
}

static gemm_problem problem_of(trial *t) {
    t->inputs[0] = t->operands[0].view;
    t->inputs[1] = t->operands[1].view;
    t->args = (kernel_args){.input_count = 2,
                            .output_count = 1,
                            .inputs = t->inputs,
                            .outputs = &t->output,
                            .attributes = &t->n->attributes,
                            .target = target_this_cpu()};
    return matmul_gemm_problem(&t->args);
}

static void run_by(gemm_method method, const gemm_problem *p) {
    size_t bytes = gemm_workspace_bytes_by(method, p);
    void *workspace = memset(memory_allocate(bytes + 1, 1), 0xa5, bytes);
    gemm_run_by(method, p, workspace);
    free(workspace);
}

/* Inputs are exact: what is left is the roundings of a sum of K floats, which are independent,
 * and one of the result. */
static void expect_near(const trial *t, gemm_method method) {
    double *got = tensor_to_doubles(&t->output);
    double per_term = 0x1p-23 * (2 + sqrt((double)t->of.k));
    double least = t->output.type == DTYPE_F16 ? 0x1p-25 : 0; /* of a subnormal result */
    double of_result = t->output.type == DTYPE_BF16  ? 0x1p-8
                       : t->output.type == DTYPE_F16 ? 0x1p-11
                                                     : 0x1p-22;
    for (int64_t i = 0; i < shape_elements(&t->output.shape); i++) {
        double allowed = least + per_term * fabs(t->terms[i]) + of_result * fabs(t->want[i]);
        if (!(fabs(got[i] - t->want[i]) <= allowed))
            fail_msg("%s, %s to %s, %lld x [%lld,%lld,%lld]%s%s, layouts %d and %d, alpha %g: "
                     "element %lld is %.9g, should be %.9g +- %.3g",
                     gemm_method_name(method), dtype_name(t->of.type), dtype_name(t->output.type),
                     (long long)t->of.batch, (long long)t->of.m, (long long)t->of.n,
                     (long long)t->of.k, t->of.transpose_a ? " Ta" : "",
                     t->of.transpose_b ? " Tb" : "", (int)t->of.left, (int)t->of.right, t->of.alpha,
                     (long long)i, got[i], t->want[i], allowed);
    }
    free(got);
}

/* Each of our methods, and the same bits from each number of threads. */
static void check(const product *p, draw *d) {
    static const int counts[] = {1, 2, 3, 5, 8};
    trial t = trial_create(p, d);
    size_t bytes = (size_t)tensor_bytes(&t.output);
    void *first = memory_allocate(bytes, 1);
    t.output.data = memory_allocate(bytes, 1);
    int ran = 0;
    for (gemm_method method = GEMM_AMX; method < GEMM_METHOD_COUNT; method++) {
        gemm_problem q = problem_of(&t);
        if (gemm_reject(method, &q))
            continue;
        ran++;
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            threads_set_count(counts[i]);
            memset(t.output.data, 0xff, bytes);
            run_by(method, &q);
            if (i == 0) {
                expect_near(&t, method);
                memcpy(first, t.output.data, bytes);
            } else if (memcmp(first, t.output.data, bytes) != 0) {
                fail_msg("%s: %d threads change [%lld,%lld,%lld]", gemm_method_name(method),
                         counts[i], (long long)p->m, (long long)p->n, (long long)p->k);
            }
        }
    }
    threads_set_count(0);
    assert_true(ran > 0); /* plain C takes all */
    free(first);
    free(t.output.data);
    trial_release(&t);
}

static void all_sizes_and_transpositions_agree_with_the_reference(void **state) {
    (void)state;
    static const int64_t sizes[][4] = {
        {1, 1, 1, 1},      {1, 1, 1, 1000},  {1, 1, 257, 33},   {1, 257, 1, 33},  {1, 65, 63, 1},
        {1, 32, 32, 32},   {1, 31, 33, 31},  {1, 33, 31, 65},   {1, 16, 48, 320}, {1, 48, 16, 321},
        {3, 17, 31, 127},  {65, 2, 3, 7},    {2, 127, 129, 63}, {1, 600, 17, 40}, {1, 17, 500, 40},
        {1, 800, 300, 16}, {1, 300, 800, 5}, {12, 33, 33, 16},  {1, 3, 2, 10000}, {1, 70, 70, 700}};
    draw d = draw_create(1, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int way = 0; way < 16; way++)
            check(&(product){.batch = sizes[i][0],
                             .m = sizes[i][1],
                             .n = sizes[i][2],
                             .k = sizes[i][3],
                             .transpose_a = way & 1,
                             .transpose_b = way & 2,
                             .type = way < 8    ? DTYPE_BF16
                                     : way < 12 ? DTYPE_F32
                                                : DTYPE_F16,
                             .out = way < 4    ? DTYPE_BF16
                                    : way < 12 ? DTYPE_F32
                                               : DTYPE_F16,
                             .alpha = way % 3 ? 1 : 0.25},
                  &d);
}

static const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

static void any_view_of_the_operands_agrees_with_the_reference(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 15, 17, 33, 65};
    draw d = draw_create(2, 0);
    for (int round = 0; round < 400; round++)
        check(&(product){.batch = 1 + draw_below(&d, 3),
                         .m = sizes[draw_below(&d, 7)],
                         .n = sizes[draw_below(&d, 7)],
                         .k = sizes[draw_below(&d, 7)],
                         .transpose_a = draw_chance(&d, 0.5),
                         .transpose_b = draw_chance(&d, 0.5),
                         .left = (layout)draw_below(&d, LAYOUT_COUNT),
                         .right = (layout)draw_below(&d, LAYOUT_COUNT),
                         .type = types[round % 3],
                         .out = types[draw_chance(&d, 0.5) ? round % 3 : 0],
                         .alpha = draw_chance(&d, 0.5) ? 1 : -1.5},
              &d);
}

/* Regions of several tiles, rows and columns that end anywhere, K in one panel and in several. */
static void larger_products_of_drawn_sizes_agree_with_the_reference(void **state) {
    (void)state;
    draw d = draw_create(9, 0);
    for (int round = 0; round < 24; round++)
        check(&(product){.batch = 1 + draw_below(&d, 2),
                         .m = 1 + draw_below(&d, 700),
                         .n = 1 + draw_below(&d, 200),
                         .k = 1 + draw_below(&d, 900),
                         .transpose_a = draw_chance(&d, 0.5),
                         .transpose_b = draw_chance(&d, 0.5),
                         .type = types[round % 3],
                         .out = types[draw_chance(&d, 0.5) ? round % 3 : 0],
                         .alpha = draw_chance(&d, 0.5) ? 1 : -1.5},
              &d);
}

/* Sums that C cannot hold lie in a tile of fixed size. These results are cut into regions that just
 * fit into it, with AVX-512 the first and with AVX2 the second; rounded the other way they do not. */
static void regions_of_narrow_results_fit_their_tile(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{294, 864}, {342, 752}};
    draw d = draw_create(4, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check(&(product){.batch = 1,
                         .m = sizes[i][0],
                         .n = sizes[i][1],
                         .k = 513,
                         .type = DTYPE_BF16,
                         .out = DTYPE_BF16,
                         .alpha = 1},
              &d);
}

/* K in several panels, the last of which ends with half a pair of bf16. */
static void several_panels_of_an_odd_depth_agree_with_the_reference(void **state) {
    (void)state;
    draw d = draw_create(8, 0);
    for (int way = 0; way < 8; way++)
        check(&(product){.batch = 1,
                         .m = 31,
                         .n = way & 4 ? 70 : 161,
                         .k = 2049,
                         .transpose_a = way & 1,
                         .transpose_b = way & 2,
                         .type = DTYPE_BF16,
                         .out = way & 1 ? DTYPE_F32 : DTYPE_BF16,
                         .alpha = 1},
              &d);
}

/* With a last-level cache of one byte every result is larger than it. */
static void streaming_stores_give_the_same_results(void **state) {
    (void)state;
    static const int64_t sizes[][4] = {{1, 48, 96, 64}, {3, 33, 80, 40}, {2, 29, 48, 200}};
    draw d = draw_create(7, 0);
    target small = *target_this_cpu();
    small.l3_bytes = 1;
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        const int64_t *size = sizes[i / 2];
        product p = {size[0], size[1], size[2], size[3], .transpose_b = i % 2, .alpha = 1};
        p.type = p.out = DTYPE_F32;
        trial t = trial_create(&p, &d);
        size_t bytes = (size_t)tensor_bytes(&t.output);
        void *cached = memory_allocate(bytes, 1), *past = aligned_alloc(64, bytes);
        for (gemm_method method = 0; method < GEMM_METHOD_COUNT; method++) {
            gemm_problem q = problem_of(&t);
            if (gemm_reject(method, &q))
                continue;
            q.c = t.output.data = cached;
            run_by(method, &q);
            expect_near(&t, method);
            q.c = memset(past, 0xff, bytes);
            q.target = &small;
            run_by(method, &q);
            assert_memory_equal(past, cached, bytes);
        }
        free(past);
        free(cached);
        trial_release(&t);
    }
}

/* Products like those of attention: with few columns A' is read in place, unless its rows conflict in L1. */
static void products_of_few_columns_agree_with_the_reference(void **state) {
    (void)state;
    static const int64_t depths[] = {64, 300, 512, 1000, 1024};
    draw d = draw_create(8, 0);
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
        for (int64_t n = 24; n <= 144; n += 40)
            check(&(product){.batch = 2,
                             .m = 37,
                             .n = n,
                             .k = depths[i],
                             .transpose_b = n % 80 == 24,
                             .type = DTYPE_F32,
                             .out = DTYPE_F32,
                             .alpha = n == 64 ? 1 : 0.5},
                  &d);
}

/* A batch is packed some products at a time; here one is as much as that. */
static void a_batch_larger_than_its_workspace_is_done_in_turns(void **state) {
    (void)state;
    draw d = draw_create(3, 0);
    check(&(product){.batch = 3,
                     .m = 3,
                     .n = 5,
                     .k = 200000,
                     .type = DTYPE_BF16,
                     .out = DTYPE_F32,
                     .alpha = 1},
          &d);
}

/* Small whole numbers, whose sums f32 holds exactly, over one panel of K, several, and so many that the packed operand
 * is larger than caches: each is cut in its own way. */
static void long_sums_are_exact_however_k_is_cut(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {
        {40, 70, 769}, {70, 40, 2000}, {40, 70, 70001}, {70, 40, 70001}};
    draw d = draw_create(6, 0);
    for (int s = 0; s < 4; s++) {
        int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
        uint16_t *a = memory_allocate((size_t)(m * k), sizeof *a);
        uint16_t *b = memory_allocate((size_t)(k * n), sizeof *b);
        float *want = memory_allocate((size_t)(m * n), sizeof *want);
        float *got = memory_allocate((size_t)(m * n), sizeof *got);
        for (int64_t i = 0; i < m * k; i++)
            a[i] = dtype_f32_to_bf16((float)(draw_below(&d, 5) - 2));
        for (int64_t i = 0; i < k * n; i++)
            b[i] = dtype_f32_to_bf16((float)(draw_below(&d, 5) - 2));
        for (int64_t i = 0; i < m; i++)
            for (int64_t l = 0; l < k; l++)
                for (int64_t j = 0; j < n; j++)
                    want[i * n + j] +=
                        dtype_bf16_to_f32(a[i * k + l]) * dtype_bf16_to_f32(b[l * n + j]);
        gemm_problem p = {.m = m,
                          .n = n,
                          .k = k,
                          .a = {a, DTYPE_BF16, k, 1},
                          .b = {b, DTYPE_BF16, n, 1},
                          .c = got,
                          .c_type = DTYPE_F32,
                          .ldc = n,
                          .alpha = 1};
        for (gemm_method method = 0; method < GEMM_METHOD_COUNT; method++) {
            if (gemm_reject(method, &p))
                continue;
            run_by(method, &p);
            if (memcmp(got, want, (size_t)(m * n) * sizeof *got) != 0)
                fail_msg("%s: [%lld,%lld,%lld] differs", gemm_method_name(method), (long long)m,
                         (long long)n, (long long)k);
        }
        free(a);
        free(b);
        free(want);
        free(got);
    }
}

static void sums_are_added_to_what_c_holds_and_nothing_else_is_written(void **state) {
    (void)state;
    enum { M = 37, N = 45, K = 470, LDC = 51 };
    draw d = draw_create(4, 0);
    for (int pair = 0; pair < 18; pair++) {
        dtype type = types[pair % 3], out = types[pair / 3 % 3];
        float alpha = pair < 9 ? 0.5f : 1;
        const shape a = SHAPE(M, K), b = SHAPE(K, N), c = SHAPE(M, LDC);
        operand left = operand_create(type, &a, LAYOUT_DENSE, (fill){0}, &d);
        operand right = operand_create(type, &b, LAYOUT_DENSE, (fill){0}, &d);
        operand before = operand_create(out, &c, LAYOUT_DENSE, (fill){0}, &d);
        for (gemm_method method = 0; method < GEMM_METHOD_COUNT; method++) {
            operand after = operand_create(out, &c, LAYOUT_DENSE, (fill){0}, &d);
            memcpy(after.block, before.block, (size_t)tensor_bytes(&before.view));
            gemm_problem p = {.m = M,
                              .n = N,
                              .k = K,
                              .a = {left.block, type, K, 1},
                              .b = {right.block, type, N, 1},
                              .c = after.block,
                              .c_type = out,
                              .ldc = LDC,
                              .alpha = alpha,
                              .accumulates = true};
            if (!gemm_reject(method, &p)) {
                run_by(method, &p);
                for (int64_t i = 0; i < M * LDC; i++) {
                    double want = before.dense[i], got = dtype_load(out, after.block, i);
                    for (int64_t l = 0; i % LDC < N && l < K; l++)
                        want += (double)alpha * left.dense[i / LDC * K + l] *
                                right.dense[l * N + i % LDC];
                    double allowed = 1e-4 + (out == DTYPE_F32 ? 0 : fabs(want) * 0x1p-8);
                    if (!(fabs(got - want) <= (i % LDC < N ? allowed : 0)))
                        fail_msg("%s: element %lld is %.9g, should be %.9g",
                                 gemm_method_name(method), (long long)i, got, want);
                }
            }
            operand_release(&after);
        }
        operand_release(&left);
        operand_release(&right);
        operand_release(&before);
    }
}

static void infinities_stay_in_their_rows(void **state) {
    (void)state;
    enum { M = 50, N = 40, K = 30 };
    draw d = draw_create(5, 0);
    const product shape_of = {
        .batch = 1, .m = M, .n = N, .k = K, .type = DTYPE_BF16, .out = DTYPE_BF16, .alpha = 1};
    trial t = trial_create(&shape_of, &d);
    ((uint16_t *)t.operands[0].block)[7 * K + 3] = 0x7f80;      /* infinity */
    ((uint16_t *)t.operands[0].block)[49 * K + K - 1] = 0x7fc0; /* NaN */
    uint16_t result[M * N];
    t.output.data = result;
    for (gemm_method method = GEMM_AMX; method < GEMM_METHOD_COUNT; method++) {
        gemm_problem p = problem_of(&t);
        if (gemm_reject(method, &p))
            continue;
        run_by(method, &p);
        for (int i = 0; i < M * N; i++) {
            float got = dtype_bf16_to_f32(result[i]);
            assert_int_equal(isfinite(got) != 0, i / N != 7 && i / N != 49);
            assert_int_equal(isnan(got) != 0, i / N == 49);
        }
    }
    trial_release(&t);
}

/* Numbers that f32 holds only with fewer bits, and sums of them, are not taken for 0; AMX and dot
 * products of pairs do that, as their hardware defines. */
static void subnormal_numbers_count(void **state) {
    (void)state;
    enum { M = 15, N = 33, K = 21 };
    float a[M * K], b[K * N], c[M * N];
    for (int i = 0; i < M * K; i++)
        a[i] = 0x1p-140f * (float)(i % 7);
    for (int i = 0; i < K * N; i++)
        b[i] = (float)(i % 5);
    gemm_problem p = {.m = M,
                      .n = N,
                      .k = K,
                      .a = {a, DTYPE_F32, K, 1},
                      .b = {b, DTYPE_F32, N, 1},
                      .c = c,
                      .c_type = DTYPE_F32,
                      .ldc = N,
                      .alpha = 1};
    for (gemm_method method = 0; method < GEMM_METHOD_COUNT; method++) {
        if (gemm_reject(method, &p))
            continue;
        run_by(method, &p);
        for (int i = 0; i < M * N; i++) {
            double want = 0;
            for (int k = 0; k < K; k++)
                want += (double)a[i / N * K + k] * (double)b[k * N + i % N];
            if ((double)c[i] != want)
                fail_msg("%s: element %d is %g, should be %g", gemm_method_name(method), i,
                         (double)c[i], want);
        }
    }
}

static value *add_product(graph *g, dtype type, dtype out, double alpha) {
    const shape a = SHAPE(3, 5), b = SHAPE(7, 5);
    value *left = graph_add_leaf(g, ROLE_INPUT, type, &a, "a");
    return build_matmul_scaled(g, left, graph_add_leaf(g, ROLE_INPUT, type, &b, "b"), false, true,
                               out, alpha);
}

static void results_have_the_operands_type_or_f32(void **state) {
    (void)state;
    static const struct {
        dtype type, out;
        bool is_right;
    } cases[] = {{DTYPE_BF16, DTYPE_BF16, true}, {DTYPE_BF16, DTYPE_F32, true},
                 {DTYPE_F32, DTYPE_F32, true},   {DTYPE_F32, DTYPE_BF16, false},
                 {DTYPE_BF16, DTYPE_F16, false}, {DTYPE_BF16, (dtype)99, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        graph *g = graph_create("types");
        value *y = add_product(g, cases[i].type, cases[i].out, 1);
        assert_int_equal(graph_status(g) == DYNO_OK, cases[i].is_right);
        if (cases[i].is_right) {
            assert_int_equal(y->type, cases[i].out);
            op_cost cost = op_matmul.cost(y->producer);
            assert_true(cost.bytes_read == (15 + 35) * dtype_bytes(cases[i].type));
            assert_true(cost.bytes_written == 21 * dtype_bytes(cases[i].out));
            assert_true(cost.flops == 2 * 3 * 7 * 5);
        }
        graph_destroy(g);
    }
}

static void gradients_have_their_operands_types_and_the_scale(void **state) {
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        graph *g = graph_create("gradient");
        value *y = add_product(g, DTYPE_BF16, wide ? DTYPE_F32 : DTYPE_BF16, 0.25);
        value *dy = graph_add_leaf(g, ROLE_INPUT, y->type, &y->shape, "dy"), *dx[2] = {0};
        op_matmul.gradient(g, y->producer, &dy, (bool[]){true, true}, dx);
        assert_int_equal(graph_status(g), DYNO_OK);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(dx[i]->type, DTYPE_BF16);
            assert_true(shape_equal(&dx[i]->shape, &y->producer->inputs[i]->shape));
            assert_true(matmul_alpha(&dx[i]->producer->attributes) == 0.25);
        }
        graph_destroy(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sizes_and_transpositions_agree_with_the_reference),
        cmocka_unit_test(any_view_of_the_operands_agrees_with_the_reference),
        cmocka_unit_test(regions_of_narrow_results_fit_their_tile),
        cmocka_unit_test(several_panels_of_an_odd_depth_agree_with_the_reference),
        cmocka_unit_test(streaming_stores_give_the_same_results),
        cmocka_unit_test(products_of_few_columns_agree_with_the_reference),
        cmocka_unit_test(a_batch_larger_than_its_workspace_is_done_in_turns),
        cmocka_unit_test(long_sums_are_exact_however_k_is_cut),
        cmocka_unit_test(sums_are_added_to_what_c_holds_and_nothing_else_is_written),
        cmocka_unit_test(infinities_stay_in_their_rows),
        cmocka_unit_test(larger_products_of_drawn_sizes_agree_with_the_reference),
        cmocka_unit_test(subnormal_numbers_count),
        cmocka_unit_test(results_have_the_operands_type_or_f32),
        cmocka_unit_test(gradients_have_their_operands_types_and_the_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
