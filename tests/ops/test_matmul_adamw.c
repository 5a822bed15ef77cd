/* test_matmul_adamw.c - the update inside the product gives the bits of the product, then the
 * update. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul_adamw/matmul_adamw.h"
#include "ops/op_list.h"
#include "support/draw.h"
#include "support/kernel_run.h"
#include "support/operand.h"

enum { MOST = 3, MOST_INPUTS = 4 + 5 * MOST, MOST_OUTPUTS = 4 * MOST };

static const adamw_options adamw = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};

/* How the weights are kept, as adamw_many.h lists it. */
typedef enum keeping { KEPT_WHOLE, KEPT_WITH_COPY, KEPT_IN_HALVES, KEEPING_COUNT } keeping;

typedef struct setting {
    graph *g;
    int count;
    value *rate, *step, *scale, *a, *b;
    adamw_parameter parameters[MOST];
    const node *product;

    double rate_number;
    int64_t step_number;
    float scale_number;
    operand factors[2];
    tensor data[MOST][5]; /* weight, gradient, moments, copy */
} setting;

static tensor make_tensor(draw *d, const value *v, double low, double high) {
    void *data = memory_allocate((size_t)shape_elements(&v->shape), (size_t)dtype_bytes(v->type));
    for (int64_t i = 0; i < shape_elements(&v->shape); i++)
        if (v->type == DTYPE_U16)
            ((uint16_t *)data)[i] = (uint16_t)draw_below(d, 65536);
        else
            dtype_store(v->type, data, i, draw_uniform(d, low, high));
    return tensor_contiguous(data, v->type, &v->shape);
}

static void add_parameter(setting *s, draw *d, keeping how, const shape *size) {
    int i = s->count++;
    char name[5][8];
    for (int j = 0; j < 5; j++)
        snprintf(name[j], sizeof name[j], "%c%d", "wgmvl"[j], i);
    adamw_parameter *p = &s->parameters[i];
    p->weight = graph_add_leaf(s->g, ROLE_PARAMETER, how == KEPT_IN_HALVES ? DTYPE_U16 : DTYPE_F32,
                               size, name[0]);
    p->first_moment = graph_add_leaf(s->g, ROLE_OPTIMIZER_STATE, DTYPE_F32, size, name[2]);
    p->second_moment = graph_add_leaf(s->g, ROLE_OPTIMIZER_STATE, DTYPE_F32, size, name[3]);
    if (how != KEPT_WHOLE)
        p->low_copy = graph_add_leaf(s->g, ROLE_PARAMETER, DTYPE_BF16, size, name[4]);
    s->data[i][0] = make_tensor(d, p->weight, -1, 1);
    s->data[i][2] = make_tensor(d, p->first_moment, -0.1, 0.1);
    s->data[i][3] = make_tensor(d, p->second_moment, 0, 1);
    if (p->low_copy)
        s->data[i][4] = make_tensor(d, p->low_copy, -1, 1);
    p->gradient = graph_add_leaf(s->g, ROLE_INPUT, s->product->outputs[0]->type, size, name[1]);
}

/* `rows` of each weight, MOST of them at most, 0 behind the last. */
static setting make_setting(draw *d, dtype type, keeping how, const int64_t *rows, int64_t columns,
                            int64_t depth) {
    setting s = {.g = graph_create("g"), .rate_number = 3e-3, .step_number = 7, .scale_number = 1};
    int64_t all = 0;
    for (int i = 0; i < MOST; i++)
        all += rows[i];
    bool ta = draw_chance(d, 0.7), tb = draw_chance(d, 0.3);
    shape a = ta ? SHAPE(depth, all) : SHAPE(all, depth);
    shape b = tb ? SHAPE(columns, depth) : SHAPE(depth, columns);
    s.rate = graph_add_leaf(s.g, ROLE_INPUT, DTYPE_F64, &SHAPE_SCALAR, "rate");
    s.step = graph_add_leaf(s.g, ROLE_INPUT, DTYPE_I64, &SHAPE_SCALAR, "step");
    s.scale = graph_add_leaf(s.g, ROLE_INPUT, DTYPE_F32, &SHAPE_SCALAR, "scale");
    s.a = graph_add_leaf(s.g, ROLE_INPUT, type, &a, "a");
    s.b = graph_add_leaf(s.g, ROLE_INPUT, type, &b, "b");
    dtype result = draw_chance(d, 0.5) ? DTYPE_F32 : type;
    double alpha = draw_chance(d, 0.3) ? 0.37 : 1;
    s.product = build_matmul_scaled(s.g, s.a, s.b, ta, tb, result, alpha)->producer;
    s.factors[0] = operand_create(type, &a, (layout)draw_below(d, LAYOUT_COUNT), (fill){0}, d);
    s.factors[1] = operand_create(type, &b, (layout)draw_below(d, LAYOUT_COUNT), (fill){0}, d);
    for (int i = 0; i < MOST && rows[i]; i++) {
        shape size = SHAPE(rows[i], columns);
        add_parameter(&s, d, how, &size);
    }
    return s;
}

static void release_setting(setting *s) {
    for (int i = 0; i < s->count; i++)
        for (int j = 0; j < 5; j++)
            if (j != 1)
                free(s->data[i][j].data);
    operand_release(&s->factors[0]);
    operand_release(&s->factors[1]);
    graph_destroy(s->g);
}

static int output_count(const setting *s) { return s->count * (s->parameters[0].low_copy ? 4 : 3); }

static int add_copies(const setting *s, tensor *inputs, int given) {
    for (int i = 0; i < s->count && s->parameters[0].low_copy; i++)
        inputs[given++] = s->data[i][4];
    return given;
}

/* The product by the kernel that a plan would take, then adamw_many on its rows. */
static void run_one_after_the_other(setting *s, tensor *outputs) {
    tensor gradient;
    int k = 0;
    while (kernel_run(s->product, op_matmul.kernels[k],
                      (tensor[]){s->factors[0].view, s->factors[1].view}, &gradient))
        k++;
    tensor inputs[MOST_INPUTS] = {tensor_contiguous(&s->rate_number, DTYPE_F64, &SHAPE_SCALAR),
                                  tensor_contiguous(&s->step_number, DTYPE_I64, &SHAPE_SCALAR),
                                  tensor_contiguous(&s->scale_number, DTYPE_F32, &SHAPE_SCALAR)};
    int given = 3;
    char *rows = gradient.data;
    for (int i = 0; i < s->count; i++) {
        s->data[i][1] = tensor_contiguous(rows, gradient.type, &s->data[i][0].shape);
        rows += tensor_bytes(&s->data[i][1]);
        for (int j = 0; j < 4; j++)
            inputs[given++] = s->data[i][j];
    }
    add_copies(s, inputs, given);
    value *made =
        build_adamw_many(s->g, s->parameters, s->count, s->rate, s->step, s->scale, &adamw);
    assert_int_equal(graph_status(s->g), DYNO_OK);
    assert_null(kernel_run(made->producer, op_adamw_many.kernels[0], inputs, outputs));
    free(gradient.data);
}

static void run_together(setting *s, tensor *outputs) {
    tensor inputs[MOST_INPUTS] = {tensor_contiguous(&s->rate_number, DTYPE_F64, &SHAPE_SCALAR),
                                  tensor_contiguous(&s->step_number, DTYPE_I64, &SHAPE_SCALAR),
                                  s->factors[0].view, s->factors[1].view};
    int given = 4;
    for (int i = 0; i < s->count; i++) {
        inputs[given++] = s->data[i][0];
        inputs[given++] = s->data[i][2];
        inputs[given++] = s->data[i][3];
    }
    add_copies(s, inputs, given);
    value *made =
        build_matmul_adamw(s->g, s->product, s->parameters, s->count, s->rate, s->step, &adamw);
    assert_int_equal(graph_status(s->g), DYNO_OK);
    assert_null(kernel_run(made->producer, op_matmul_adamw.kernels[0], inputs, outputs));
}

static void expect_same_bits(draw *d, dtype type, keeping how, const int64_t *rows, int64_t columns,
                             int64_t depth) {
    setting s = make_setting(d, type, how, rows, columns, depth);
    tensor wanted[MOST_OUTPUTS], got[MOST_OUTPUTS];
    run_one_after_the_other(&s, wanted);
    for (int threads = 1; threads <= 3; threads++) {
        threads_set_count(threads);
        run_together(&s, got);
        threads_set_count(0);
        for (int i = 0; i < output_count(&s); i++) {
            if (memcmp(got[i].data, wanted[i].data, (size_t)tensor_bytes(&wanted[i])) != 0)
                fail_msg("%s, kept way %d, %lld+%lld+%lld x %lld, sums of %lld, %d threads: "
                         "output %d differs",
                         dtype_name(type), how, (long long)rows[0], (long long)rows[1],
                         (long long)rows[2], (long long)columns, (long long)depth, threads, i);
            free(got[i].data);
        }
    }
    for (int i = 0; i < output_count(&s); i++)
        free(wanted[i].data);
    release_setting(&s);
}

static void updates_in_products_get_the_bits_of_updates_behind_them(void **state) {
    (void)state;
    draw d = draw_create(3, 1);
    for (int i = 0; i < 120; i++) {
        dtype type = i % 2 ? DTYPE_BF16 : DTYPE_F32;
        int64_t rows[MOST] = {draw_size(&d, 150)};
        for (int j = 1; j < MOST && draw_chance(&d, 0.6); j++)
            rows[j] = draw_size(&d, 150);
        expect_same_bits(&d, type, (keeping)draw_below(&d, KEEPING_COUNT), rows, draw_size(&d, 400),
                         draw_size(&d, 600));
    }
}

/* Shapes as a model has them: merged weights, wide and tall ones. */
static void large_weights_get_the_same_bits_too(void **state) {
    (void)state;
    static const int64_t shapes[][MOST + 2] = {
        {256, 256, 256, 256, 128}, {800, 800, 0, 200, 512}, {200, 0, 0, 900, 520}};
    draw d = draw_create(4, 1);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        expect_same_bits(&d, DTYPE_BF16, KEPT_IN_HALVES, shapes[i], shapes[i][3], shapes[i][4]);
        expect_same_bits(&d, DTYPE_F32, KEPT_WHOLE, shapes[i], shapes[i][3], shapes[i][4]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_in_products_get_the_bits_of_updates_behind_them),
        cmocka_unit_test(large_weights_get_the_same_bits_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
