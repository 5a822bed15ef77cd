/* test_cuda_products.c - matrix products on a GPU against double: layouts, types, batches in two
 * levels, views, strides and addresses that suit nobody, results into the middle of a larger one.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "ops/matmul/matmul.h"
#include "ops/op_list.h"
#include "support/device_bench.h"
#include "support/device_run.h"
#include "support/numbers.h"
#include "support/operand.h"

enum { NORMAL_ROUNDS = 120 };

typedef struct problem {
    int64_t outer, inner, m, n, k; /* two levels of batches */
} problem;

typedef struct product {
    problem size;
    bool ta, tb;
    dtype type, result;
    double alpha;
    bool tf32;
} product;

static shape left_shape(const product *p) {
    const problem *s = &p->size;
    return p->ta ? SHAPE(s->outer, s->inner, s->k, s->m) : SHAPE(s->outer, s->inner, s->m, s->k);
}

static shape right_shape(const product *p) {
    const problem *s = &p->size;
    return p->tb ? SHAPE(s->outer, s->inner, s->n, s->k) : SHAPE(s->outer, s->inner, s->k, s->n);
}

static const node *add_product(graph *g, const product *p) {
    shape a = left_shape(p), b = right_shape(p);
    value *in[] = {graph_add_leaf(g, ROLE_INPUT, p->type, &a, "a"),
                   graph_add_leaf(g, ROLE_INPUT, p->type, &b, "b")};
    attribute list[5] = {ATTR_INTEGER("transpose_a", p->ta), ATTR_INTEGER("transpose_b", p->tb)};
    int count = 2;
    if (p->result != p->type)
        list[count++] = ATTR_INTEGER("type", p->result);
    if (p->alpha != 1)
        list[count++] = ATTR_REAL("alpha", p->alpha);
    if (p->tf32)
        list[count++] = ATTR_INTEGER("tf32", 1);
    const node *n = graph_add_node(g, &op_matmul, in, 2, list, count)->producer;
    if (graph_status(g) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return n;
}

/* Sums are in f32, whose roundings are independent; a low result is rounded once more. Tensor cores
 * cut sums off instead of rounding them, once for each 16 terms: that adds up. */
static double tolerance(const product *p) {
    double low = p->result == DTYPE_BF16 ? 0x1p-8 : p->result == DTYPE_F16 ? 0x1p-11 : 0;
    double operands = p->tf32 ? 0x1p-10 : 0;
    bool is_cut_off = p->tf32 || p->type != DTYPE_F32;
    double cut_off = is_cut_off ? 0x1p-24 * (double)p->size.k / 16 : 0;
    return 6e-8 * (4 + sqrt((double)p->size.k)) + cut_off + low + operands;
}

/* Runs each kernel of the device that accepts; returns how many. */
static int check(device_kernel *how, const product *p, const operand *a, const operand *b) {
    graph *g = graph_create("product");
    const node *n = add_product(g, p);
    int64_t elements = shape_elements(&n->outputs[0]->shape);
    double *want = memory_allocate((size_t)elements, sizeof *want), size = 0;
    n->op->reference(n, (const double *[]){a->dense, b->dense}, &want);
    /* One number may cancel by chance; judge few by what they should be in size. */
    double typical = p->alpha * sqrt((double)(elements * p->size.k));
    for (int64_t i = 0; i < elements; i++)
        size += want[i] * want[i];
    int accepted = 0;
    for (int k = 0; op_matmul.kernels[k]; k++) {
        const kernel *used = op_matmul.kernels[k];
        tensor out;
        if (used->target != how->d->target.kind || (how->output && !used->writes_strided) ||
            device_kernel_run(how, n, used, (tensor[]){a->view, b->view}, &out))
            continue;
        accepted++;
        double *got = tensor_to_doubles(&out);
        double error = relative_error(got, want, elements) * sqrt(size) / fmax(sqrt(size), typical);
        if (!(error <= tolerance(p)))
            fail_msg("%s, %s to %s, %lld x %lld x [%lld,%lld,%lld]%s%s%s: error %.3g, limit %.3g",
                     used->name, dtype_name(p->type), dtype_name(p->result),
                     (long long)p->size.outer, (long long)p->size.inner, (long long)p->size.m,
                     (long long)p->size.n, (long long)p->size.k, p->ta ? " Ta" : "",
                     p->tb ? " Tb" : "", p->tf32 ? " tf32" : "", error, tolerance(p));
        free(got);
        free(out.data);
    }
    free(want);
    graph_destroy(g);
    return accepted;
}

static int check_layouts(device_kernel *how, const product *p, layout left, layout right, draw *d) {
    shape a = left_shape(p), b = right_shape(p);
    operand operands[2] = {operand_create(p->type, &a, left, (fill){0}, d),
                           operand_create(p->type, &b, right, (fill){0}, d)};
    int accepted = check(how, p, &operands[0], &operands[1]);
    operand_release(&operands[0]);
    operand_release(&operands[1]);
    return accepted;
}

static const problem problems[] = {
    {1, 1, 1, 1, 1},      {1, 1, 1, 1, 1000},   {1, 1, 1, 257, 33},   {1, 1, 257, 1, 33},
    {1, 1, 65, 63, 1},    {1, 1, 7, 33, 257},   {1, 1, 128, 64, 512}, {1, 1, 49, 65, 513},
    {1, 3, 17, 31, 127},  {5, 13, 2, 3, 7},     {1, 2, 127, 129, 63}, {2, 3, 64, 64, 32},
    {1, 1, 3, 2, 10000},  {3, 4, 33, 33, 16},   {1, 1, 600, 17, 40},  {2, 2, 100, 100, 100},
    {1, 1, 256, 256, 64}, {1, 1, 512, 768, 96},
};
static const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

/* Every layout and type finds a kernel when its operands are dense. */
static void all_sizes_layouts_and_types_agree_with_double(void **state) {
    device_kernel how = {.d = device_bench_open(state)};
    draw d = draw_create(1, 0);
    int every = device_bench_rounds(1, 7); /* coprime to ways and types */
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (int way = 0; way < 4; way++)
            for (int type = 0; type < 3; type++) {
                if ((12 * (int)i + 3 * way + type) % every)
                    continue;
                product p = {.size = problems[i],
                             .ta = way & 1,
                             .tb = way >> 1,
                             .type = types[type],
                             .result = (way + (int)i) % 2 ? DTYPE_F32 : types[type],
                             .alpha = i % 3 ? 1 : 0.125};
                if (!check_layouts(&how, &p, LAYOUT_DENSE, LAYOUT_DENSE, &d))
                    fail_msg("no kernel takes dense %s operands, way %d", dtype_name(p.type), way);
            }
}

static void tf32_rounds_operands_and_nothing_else(void **state) {
    device_kernel how = {.d = device_bench_open(state)};
    draw d = draw_create(2, 0);
    for (size_t i = 0; i < sizeof problems / sizeof *problems;
         i += (size_t)device_bench_rounds(1, 5)) {
        product p = {.size = problems[i],
                     .ta = i & 1,
                     .tb = i >> 1 & 1,
                     .type = DTYPE_F32,
                     .result = DTYPE_F32,
                     .alpha = 1,
                     .tf32 = true};
        check_layouts(&how, &p, LAYOUT_DENSE, LAYOUT_DENSE, &d);
    }
}

static void any_view_of_the_operands_is_right_where_accepted(void **state) {
    static const int64_t sizes[] = {1, 2, 3, 17, 32, 33, 65, 100};
    device_kernel how = {.d = device_bench_open(state)};
    draw d = draw_create(3, 0);
    int accepted = 0, rounds = device_bench_rounds(NORMAL_ROUNDS, 18);
    for (int round = 0; round < rounds; round++) {
        product p = {.size = {1 + draw_below(&d, 3), 1 + draw_below(&d, 3),
                              sizes[draw_below(&d, 8)], sizes[draw_below(&d, 8)],
                              sizes[draw_below(&d, 8)]},
                     .ta = draw_chance(&d, 0.5),
                     .tb = draw_chance(&d, 0.5),
                     .type = types[round % 3],
                     .alpha = round % 5 ? 1 : -0.5};
        p.result = draw_chance(&d, 0.5) ? DTYPE_F32 : p.type;
        layout left = (layout)draw_below(&d, LAYOUT_COUNT);
        layout right = (layout)draw_below(&d, LAYOUT_COUNT);
        accepted += check_layouts(&how, &p, left, right, &d) > 0;
    }
    assert_true(accepted > rounds / 6);
}

/* Rows that are dense and do not touch, at any address: what parts of larger values look like. */
static void padded_rows_at_odd_addresses_are_taken(void **state) {
    device_kernel how = {.d = device_bench_open(state)};
    draw d = draw_create(4, 0);
    for (int round = 0; round < device_bench_rounds(36, 9); round++) {
        product p = {.size = {1, 1, 1 + draw_below(&d, 200), 1 + draw_below(&d, 200),
                              1 + draw_below(&d, 200)},
                     .ta = round & 1,
                     .tb = round >> 1 & 1,
                     .type = types[round % 3],
                     .result = round % 2 ? DTYPE_F32 : types[round % 3],
                     .alpha = 1};
        if (!check_layouts(&how, &p, LAYOUT_PADDED, LAYOUT_PADDED, &d))
            fail_msg("no kernel takes padded %s rows", dtype_name(p.type));
    }
}

/* An operand whose dimensions lie in memory in another order. */
static operand turned_operand(dtype type, shape stored, const int64_t *order, draw *d) {
    operand o = operand_create(type, &stored, LAYOUT_DENSE, (fill){0}, d);
    o.view = tensor_view_transpose(&o.view, order);
    free(o.dense);
    o.dense = tensor_to_doubles(&o.view);
    return o;
}

/* Heads taken out of [batch, tokens, heads, size], as attention without copies reads them. */
static void heads_of_a_batch_are_read_where_they_lie(void **state) {
    static const int64_t order[] = {0, 2, 1, 3};
    device_kernel how = {.d = device_bench_open(state)};
    draw d = draw_create(5, 0);
    for (int round = 0; round < device_bench_rounds(12, 4); round++) {
        int64_t batch = 2, heads = 3, tokens = round % 2 ? 32 : 37, size = round % 4 < 2 ? 16 : 10;
        product p = {.size = {batch, heads, tokens, tokens, size},
                     .tb = true,
                     .type = types[round % 3],
                     .result = round % 2 ? DTYPE_F32 : types[round % 3],
                     .alpha = 0.25};
        operand q = turned_operand(p.type, SHAPE(batch, tokens, heads, size), order, &d);
        operand k = turned_operand(p.type, SHAPE(batch, tokens, heads, size), order, &d);
        if (!check(&how, &p, &q, &k))
            fail_msg("no kernel reads heads of %s where they lie", dtype_name(p.type));
        /* The same keys for all heads, as where several share a key/value head. */
        shape many = right_shape(&p), one = SHAPE(batch, 1, tokens, size);
        operand shared = operand_create(p.type, &one, LAYOUT_DENSE, (fill){0}, &d);
        shared.view = tensor_view_broadcast(&shared.view, &many);
        free(shared.dense);
        shared.dense = tensor_to_doubles(&shared.view);
        if (!check(&how, &p, &q, &shared))
            fail_msg("no kernel takes one %s operand for many", dtype_name(p.type));
        operand_release(&q);
        operand_release(&k);
        operand_release(&shared);
    }
}

/* Columns [3, 3 + n) of a wider result; heads written back to [batch, tokens, heads, size]. */
static void results_go_into_the_middle_of_a_larger_value(void **state) {
    static const int64_t order[] = {0, 2, 1, 3};
    device_kernel how = {.d = device_bench_open(state)};
    draw d = draw_create(6, 0);
    int accepted = 0;
    for (int round = 0; round < device_bench_rounds(24, 6); round++) {
        product p = {.size = {2, 3, round % 2 ? 40 : 37, round % 3 ? 64 : 23, 33},
                     .ta = round & 1,
                     .tb = round >> 1 & 1,
                     .type = types[round % 3],
                     .result = round % 4 < 2 ? types[round % 3] : DTYPE_F32,
                     .alpha = 1};
        const problem *s = &p.size;
        shape stored = SHAPE(s->outer, s->m, s->inner, s->n);
        shape wide = SHAPE(s->outer, s->inner, s->m, s->n + 7);
        tensor heads = tensor_contiguous(NULL, p.result, &stored);
        heads = tensor_view_transpose(&heads, order);
        tensor middle = tensor_contiguous(NULL, p.result, &wide);
        middle.shape.dim[3] = s->n;
        how.output = round % 2 ? &heads : &middle;
        accepted += check_layouts(&how, &p, LAYOUT_DENSE, LAYOUT_DENSE, &d);
    }
    how.output = NULL;
    print_message("%d products wrote with strides\n", accepted);
}

static void infinities_stay_in_their_rows(void **state) {
    device_kernel how = {.d = device_bench_open(state)};
    product p = {.size = {1, 1, 50, 40, 30}, .type = DTYPE_F32, .result = DTYPE_F32, .alpha = 1};
    graph *g = graph_create("infinite");
    const node *n = add_product(g, &p);
    draw d = draw_create(7, 0);
    operand a = operand_create(DTYPE_F32, &n->inputs[0]->shape, LAYOUT_DENSE, (fill){0}, &d);
    operand b = operand_create(DTYPE_F32, &n->inputs[1]->shape, LAYOUT_DENSE, (fill){0}, &d);
    ((float *)a.view.data)[7 * 30 + 3] = INFINITY;
    ((float *)a.view.data)[49 * 30 + 29] = NAN;
    for (int k = 0; op_matmul.kernels[k]; k++) {
        tensor out;
        if (op_matmul.kernels[k]->target != how.d->target.kind ||
            device_kernel_run(&how, n, op_matmul.kernels[k], (tensor[]){a.view, b.view}, &out))
            continue;
        for (int i = 0; i < 50 * 40; i++) {
            float got = ((float *)out.data)[i];
            assert_int_equal(isfinite(got) != 0, i / 40 != 7 && i / 40 != 49);
            assert_int_equal(isnan(got) != 0, i / 40 == 49);
        }
        free(out.data);
    }
    operand_release(&a);
    operand_release(&b);
    graph_destroy(g);
}

/* The same algorithm, and so the same order of sums, every time. */
static void products_give_the_same_bits_again(void **state) {
    device_kernel how = {.d = device_bench_open(state)};
    draw d = draw_create(8, 0);
    for (int type = 0; type < 3; type++) {
        product p = {.size = {1, 1, 96, 80, 2048},
                     .tb = true,
                     .type = types[type],
                     .result = DTYPE_F32,
                     .alpha = 1};
        graph *g = graph_create("again");
        const node *n = add_product(g, &p);
        shape left = left_shape(&p), right = right_shape(&p);
        operand a = operand_create(p.type, &left, LAYOUT_DENSE, (fill){0}, &d);
        operand b = operand_create(p.type, &right, LAYOUT_DENSE, (fill){0}, &d);
        for (int k = 0; op_matmul.kernels[k]; k++) {
            tensor first, again;
            const tensor in[] = {a.view, b.view};
            if (op_matmul.kernels[k]->target != how.d->target.kind ||
                device_kernel_run(&how, n, op_matmul.kernels[k], in, &first))
                continue;
            for (int round = 0; round < device_bench_rounds(5, 1); round++) {
                assert_null(device_kernel_run(&how, n, op_matmul.kernels[k], in, &again));
                assert_memory_equal(first.data, again.data, (size_t)tensor_bytes(&first));
                free(again.data);
            }
            free(first.data);
        }
        operand_release(&a);
        operand_release(&b);
        graph_destroy(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sizes_layouts_and_types_agree_with_double),
        cmocka_unit_test(tf32_rounds_operands_and_nothing_else),
        cmocka_unit_test(any_view_of_the_operands_is_right_where_accepted),
        cmocka_unit_test(padded_rows_at_odd_addresses_are_taken),
        cmocka_unit_test(heads_of_a_batch_are_read_where_they_lie),
        cmocka_unit_test(results_go_into_the_middle_of_a_larger_value),
        cmocka_unit_test(infinities_stay_in_their_rows),
        cmocka_unit_test(products_give_the_same_bits_again),
    };
    return cmocka_run_group_tests(tests, device_bench_setup, device_bench_teardown);
}
