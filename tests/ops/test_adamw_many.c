/* test_adamw_many.c - one launch for all parameters does to each what adamw does to one. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "ops/adamw/split_weight.h"
#include "ops/adamw_many/adamw_many.h"
#include "ops/cast/convert.h"
#include "ops/op_list.h"
#include "support/draw.h"
#include "support/kernel_run.h"

enum { PARAMETERS = 5, LOW = 3, MOST_INPUTS = 3 + 5 * PARAMETERS, MOST_OUTPUTS = 4 * PARAMETERS };

static const int64_t sizes[PARAMETERS] = {1, 2048, 40003, 17, 5000};

typedef struct setting {
    double rate;
    int64_t step;
    float scale;
    tensor data[PARAMETERS][4]; /* weight, gradient, moments */
} setting;

static setting make_setting(float scale) {
    setting s = {.rate = 3e-3, .step = 7, .scale = scale};
    draw d = draw_create(5, 1);
    for (int i = 0; i < PARAMETERS; i++)
        for (int j = 0; j < 4; j++) {
            shape flat = SHAPE(sizes[i]);
            float *numbers = memory_allocate((size_t)sizes[i], sizeof *numbers);
            for (int64_t k = 0; k < sizes[i]; k++)
                numbers[k] = (float)(j == 3 ? draw_uniform(&d, 0, 1) : draw_normal(&d));
            s.data[i][j] = tensor_contiguous(numbers, DTYPE_F32, &flat);
        }
    return s;
}

static void release_setting(setting *s) {
    for (int i = 0; i < PARAMETERS; i++)
        for (int j = 0; j < 4; j++)
            free(s->data[i][j].data);
}

typedef struct step_graph {
    graph *g;
    value *rate, *number, *scale;
    adamw_parameter parameters[PARAMETERS];
    adamw_options options;
} step_graph;

static step_graph make_graph(int low, dtype low_type) {
    step_graph s = {
        .g = graph_create("many"),
        .options = {
            .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .skips_nan = true}};
    s.rate = graph_add_leaf(s.g, ROLE_INPUT, DTYPE_F64, &SHAPE_SCALAR, "rate");
    s.number = graph_add_leaf(s.g, ROLE_INPUT, DTYPE_I64, &SHAPE_SCALAR, "step");
    s.scale = graph_add_leaf(s.g, ROLE_INPUT, DTYPE_F32, &SHAPE_SCALAR, "scale");
    for (int i = 0; i < PARAMETERS; i++) {
        char name[4][8];
        for (int j = 0; j < 4; j++)
            snprintf(name[j], sizeof name[j], "%c%d", "wgmv"[j], i);
        shape flat = SHAPE(sizes[i]);
        s.parameters[i] = (adamw_parameter){
            graph_add_leaf(s.g, ROLE_PARAMETER, DTYPE_F32, &flat, name[0]),
            graph_add_leaf(s.g, ROLE_INPUT, DTYPE_F32, &flat, name[1]),
            graph_add_leaf(s.g, ROLE_OPTIMIZER_STATE, DTYPE_F32, &flat, name[2]),
            graph_add_leaf(s.g, ROLE_OPTIMIZER_STATE, DTYPE_F32, &flat, name[3]),
            i < low ? graph_add_leaf(s.g, ROLE_PARAMETER, low_type, &flat, "low") : NULL};
    }
    return s;
}

/* Results of adamw_many on the setting; the low copies start as zeros. */
static void run_many(const setting *s, int low, dtype low_type, tensor *outputs) {
    step_graph sg = make_graph(low, low_type);
    value *made = build_adamw_many(sg.g, sg.parameters, PARAMETERS, sg.rate, sg.number, sg.scale,
                                   &sg.options);
    assert_int_equal(graph_status(sg.g), DYNO_OK);
    tensor inputs[MOST_INPUTS] = {tensor_contiguous((void *)&s->rate, DTYPE_F64, &SHAPE_SCALAR),
                                  tensor_contiguous((void *)&s->step, DTYPE_I64, &SHAPE_SCALAR),
                                  tensor_contiguous((void *)&s->scale, DTYPE_F32, &SHAPE_SCALAR)};
    uint16_t *zeros = memory_allocate(40003, sizeof *zeros);
    for (int i = 0; i < PARAMETERS; i++)
        memcpy(&inputs[3 + 4 * i], s->data[i], sizeof s->data[i]);
    for (int i = 0; i < low; i++)
        inputs[3 + 4 * PARAMETERS + i] = tensor_contiguous(zeros, low_type, &s->data[i][0].shape);
    assert_null(kernel_run(made->producer, op_adamw_many.kernels[0], inputs, outputs));
    free(zeros);
    graph_destroy(sg.g);
}

static void run_one(const setting *s, int index, tensor *outputs) {
    step_graph sg = make_graph(0, DTYPE_BF16);
    adamw_parameter *p = &sg.parameters[index];
    adamw_inputs in = {p->weight, p->gradient, p->first_moment, p->second_moment,
                       sg.rate,   sg.number,   sg.scale};
    value *made = build_adamw(sg.g, &in, &sg.options);
    tensor inputs[7] = {s->data[index][0],
                        s->data[index][1],
                        s->data[index][2],
                        s->data[index][3],
                        tensor_contiguous((void *)&s->rate, DTYPE_F64, &SHAPE_SCALAR),
                        tensor_contiguous((void *)&s->step, DTYPE_I64, &SHAPE_SCALAR),
                        tensor_contiguous((void *)&s->scale, DTYPE_F32, &SHAPE_SCALAR)};
    assert_null(kernel_run(made->producer, op_adamw.kernels[0], inputs, outputs));
    graph_destroy(sg.g);
}

static void expect_bits(const tensor *got, const tensor *wanted) {
    assert_memory_equal(got->data, wanted->data, (size_t)tensor_bytes(wanted));
}

static void release(tensor *outputs, int count) {
    for (int i = 0; i < count; i++)
        free(outputs[i].data);
}

static void many_at_once_get_the_bits_that_each_alone_gets(void **state) {
    (void)state;
    setting s = make_setting(0.37f);
    tensor many[MOST_OUTPUTS], one[3];
    run_many(&s, LOW, DTYPE_BF16, many);
    for (int i = 0; i < PARAMETERS; i++) {
        run_one(&s, i, one);
        for (int j = 0; j < 3; j++)
            expect_bits(&many[3 * i + j], &one[j]);
        release(one, 3);
    }
    release(many, 3 * PARAMETERS + LOW);
    release_setting(&s);
}

static void low_copies_are_the_new_weights_rounded(void **state) {
    (void)state;
    setting s = make_setting(1);
    const dtype types[] = {DTYPE_BF16, DTYPE_F16};
    for (int t = 0; t < 2; t++) {
        tensor many[MOST_OUTPUTS];
        run_many(&s, LOW, types[t], many);
        for (int i = 0; i < LOW; i++)
            for (int64_t k = 0; k < sizes[i]; k++) {
                float weight = ((const float *)many[3 * i].data)[k];
                uint16_t copy = ((const uint16_t *)many[3 * PARAMETERS + i].data)[k];
                assert_int_equal(copy, t ? dtype_f32_to_f16(weight) : split_weight_high(weight));
            }
        release(many, 3 * PARAMETERS + LOW);
    }
    release_setting(&s);
}

static void a_scale_that_is_not_a_number_writes_nothing(void **state) {
    (void)state;
    setting s = make_setting(NAN);
    tensor many[MOST_OUTPUTS], one[3];
    run_many(&s, LOW, DTYPE_F16, many);
    for (int i = 0; i < PARAMETERS; i++) {
        run_one(&s, i, one);
        for (int j = 0; j < 3; j++) {
            const tensor *before = &s.data[i][j ? 1 + j : 0];
            expect_bits(&many[3 * i + j], before);
            expect_bits(&one[j], before);
        }
        release(one, 3);
        for (int64_t k = 0; i < LOW && k < sizes[i]; k++)
            assert_int_equal(((const uint16_t *)many[3 * PARAMETERS + i].data)[k], 0);
    }
    release(many, 3 * PARAMETERS + LOW);
    release_setting(&s);
}

/* Runs the kernel on the first LOW parameters in halves, the others whole, with the gradients in
 * `gradient_type`; results as of run_many with LOW copies in bf16. */
static void run_split(const setting *s, dtype gradient_type, tensor *outputs) {
    step_graph sg = make_graph(LOW, DTYPE_BF16);
    tensor inputs[MOST_INPUTS] = {tensor_contiguous((void *)&s->rate, DTYPE_F64, &SHAPE_SCALAR),
                                  tensor_contiguous((void *)&s->step, DTYPE_I64, &SHAPE_SCALAR),
                                  tensor_contiguous((void *)&s->scale, DTYPE_F32, &SHAPE_SCALAR)};
    uint16_t *room[PARAMETERS][3];
    for (int i = 0; i < PARAMETERS; i++) {
        tensor *of = &inputs[3 + 4 * i];
        memcpy(of, s->data[i], sizeof s->data[i]);
        for (int j = 0; j < 3; j++)
            room[i][j] = memory_allocate((size_t)sizes[i], sizeof *room[i][j]);
        if (gradient_type != DTYPE_F32) {
            convert_f32_to_low(gradient_type, sizes[i], of[1].data, room[i][2]);
            of[1] = tensor_contiguous(room[i][2], gradient_type, &of[1].shape);
            sg.parameters[i].gradient->type = gradient_type;
        }
        if (i >= LOW)
            continue;
        for (int64_t k = 0; k < sizes[i]; k++) {
            room[i][0][k] = split_weight_high(((const float *)of[0].data)[k]);
            room[i][1][k] = split_weight_rest(((const float *)of[0].data)[k]);
        }
        inputs[3 + 4 * PARAMETERS + i] = tensor_contiguous(room[i][0], DTYPE_BF16, &of[0].shape);
        of[0] = tensor_contiguous(room[i][1], DTYPE_U16, &of[0].shape);
        sg.parameters[i].weight->type = DTYPE_U16;
    }
    value *made = build_adamw_many(sg.g, sg.parameters, PARAMETERS, sg.rate, sg.number, sg.scale,
                                   &sg.options);
    assert_int_equal(graph_status(sg.g), DYNO_OK);
    assert_null(kernel_run(made->producer, op_adamw_many.kernels[0], inputs, outputs));
    for (int i = 0; i < PARAMETERS; i++)
        for (int j = 0; j < 3; j++)
            free(room[i][j]);
    graph_destroy(sg.g);
}

/* What run_many gives for gradients that were rounded and widened again. */
static void run_whole(const setting *s, dtype gradient_type, tensor *outputs) {
    setting rounded = make_setting(s->scale);
    for (int i = 0; i < PARAMETERS && gradient_type != DTYPE_F32; i++) {
        float *gradient = rounded.data[i][1].data;
        uint16_t *low = memory_allocate((size_t)sizes[i], sizeof *low);
        convert_f32_to_low(gradient_type, sizes[i], gradient, low);
        convert_low_to_f32(gradient_type, sizes[i], low, gradient);
        free(low);
    }
    run_many(&rounded, LOW, DTYPE_BF16, outputs);
    release_setting(&rounded);
}

static void expect_halves(const tensor *whole, const tensor *rest, const tensor *high) {
    for (int64_t k = 0; k < shape_elements(&whole->shape); k++) {
        float weight = ((const float *)whole->data)[k];
        assert_int_equal(((const uint16_t *)high->data)[k], split_weight_high(weight));
        assert_int_equal(((const uint16_t *)rest->data)[k], split_weight_rest(weight));
    }
}

static void weights_in_halves_get_the_bits_that_whole_ones_get(void **state) {
    (void)state;
    const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    setting s = make_setting(0.37f);
    for (int t = 0; t < 3; t++) {
        tensor split[MOST_OUTPUTS], whole[MOST_OUTPUTS];
        run_split(&s, types[t], split);
        run_whole(&s, types[t], whole);
        for (int i = 0; i < PARAMETERS; i++) {
            if (i < LOW)
                expect_halves(&whole[3 * i], &split[3 * i], &split[3 * PARAMETERS + i]);
            else
                expect_bits(&split[3 * i], &whole[3 * i]);
            expect_bits(&split[3 * i + 1], &whole[3 * i + 1]);
            expect_bits(&split[3 * i + 2], &whole[3 * i + 2]);
        }
        release(split, 3 * PARAMETERS + LOW);
        release(whole, 3 * PARAMETERS + LOW);
    }
    release_setting(&s);
}

static void a_void_step_leaves_halves_as_they_are(void **state) {
    (void)state;
    setting s = make_setting(NAN);
    tensor split[MOST_OUTPUTS];
    run_split(&s, DTYPE_BF16, split);
    for (int i = 0; i < LOW; i++)
        expect_halves(&s.data[i][0], &split[3 * i], &split[3 * PARAMETERS + i]);
    release(split, 3 * PARAMETERS + LOW);
    release_setting(&s);
}

static void half_a_weight_without_the_other_is_refused(void **state) {
    (void)state;
    for (int wrong_type = 0; wrong_type < 2; wrong_type++) {
        step_graph sg = make_graph(wrong_type ? PARAMETERS : 1, DTYPE_F16);
        sg.parameters[PARAMETERS - 1].weight->type = DTYPE_U16;
        build_adamw_many(sg.g, sg.parameters, PARAMETERS, sg.rate, sg.number, sg.scale,
                         &sg.options);
        assert_int_equal(graph_status(sg.g), DYNO_INVALID);
        graph_destroy(sg.g);
    }
}

static void operands_that_do_not_fit_are_refused(void **state) {
    (void)state;
    static const int input_counts[] = {1, 3, 5, 6, 9};
    for (size_t i = 0; i < sizeof input_counts / sizeof *input_counts; i++)
        for (int low = -1; low < 4; low++) {
            step_graph sg = make_graph(0, DTYPE_BF16);
            value *inputs[9];
            for (int j = 0; j < 9; j++)
                inputs[j] = sg.g->values[j];
            attribute items[] = {ATTR_REAL("beta1", 0), ATTR_REAL("beta2", 0), ATTR_REAL("eps", 0),
                                 ATTR_REAL("weight_decay", 0), ATTR_INTEGER("low_copies", low)};
            graph_add_node(sg.g, &op_adamw_many, inputs, input_counts[i], items, 5);
            assert_int_equal(graph_status(sg.g), DYNO_INVALID);
            graph_destroy(sg.g);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_at_once_get_the_bits_that_each_alone_gets),
        cmocka_unit_test(low_copies_are_the_new_weights_rounded),
        cmocka_unit_test(a_scale_that_is_not_a_number_writes_nothing),
        cmocka_unit_test(weights_in_halves_get_the_bits_that_whole_ones_get),
        cmocka_unit_test(a_void_step_leaves_halves_as_they_are),
        cmocka_unit_test(half_a_weight_without_the_other_is_refused),
        cmocka_unit_test(operands_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
