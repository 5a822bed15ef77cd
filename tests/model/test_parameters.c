#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "model/parameters.h"

static const model_config tiny = {.name = "tiny",
                                  .d_model = 64,
                                  .d_ff = 96,
                                  .layers = 2,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_dim = 16,
                                  .vocab = 50,
                                  .norm_eps = 1e-5,
                                  .rope_theta = 10000};

static void order_names_and_shapes_are_hugging_faces(void **state) {
    (void)state;
    static const struct {
        const char *name;
        parameter_kind kind;
        int rank;
        int64_t dim[2];
    } expected[] = {
        {"model.embed_tokens.weight", PARAMETER_EMBEDDING, 2, {50, 64}},
        {"model.layers.0.input_layernorm.weight", PARAMETER_NORM, 1, {64}},
        {"model.layers.0.self_attn.q_proj.weight", PARAMETER_LINEAR, 2, {64, 64}},
        {"model.layers.0.self_attn.k_proj.weight", PARAMETER_LINEAR, 2, {32, 64}},
        {"model.layers.0.self_attn.v_proj.weight", PARAMETER_LINEAR, 2, {32, 64}},
        {"model.layers.0.self_attn.o_proj.weight", PARAMETER_LINEAR, 2, {64, 64}},
        {"model.layers.0.post_attention_layernorm.weight", PARAMETER_NORM, 1, {64}},
        {"model.layers.0.mlp.gate_proj.weight", PARAMETER_LINEAR, 2, {96, 64}},
        {"model.layers.0.mlp.up_proj.weight", PARAMETER_LINEAR, 2, {96, 64}},
        {"model.layers.0.mlp.down_proj.weight", PARAMETER_LINEAR, 2, {64, 96}},
        {"model.layers.1.input_layernorm.weight", PARAMETER_NORM, 1, {64}},
    };
    assert_int_equal(model_parameter_count(&tiny), 3 + 9 * 2);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        model_parameter parameter = model_parameter_at(&tiny, (int)i);
        shape wanted = shape_make(expected[i].rank, expected[i].dim);
        assert_string_equal(parameter.name, expected[i].name);
        assert_int_equal(parameter.kind, expected[i].kind);
        assert_true(shape_equal(&parameter.shape, &wanted));
    }
    model_parameter norm = model_parameter_at(&tiny, 19), head = model_parameter_at(&tiny, 20);
    assert_string_equal(norm.name, "model.norm.weight");
    assert_string_equal(head.name, "lm_head.weight");
    assert_int_equal(head.kind, PARAMETER_LINEAR);
    assert_string_equal(shape_format(&head.shape).text, "50,64");
}

static void head_size_may_differ_from_width_over_heads(void **state) {
    (void)state;
    model_config config = tiny;
    config.head_dim = 32;
    model_parameter q = model_parameter_at(&config, 2), o = model_parameter_at(&config, 5);
    assert_string_equal(shape_format(&q.shape).text, "128,64");
    assert_string_equal(shape_format(&o.shape).text, "64,128");
}

static void total_is_the_sum_of_all(void **state) {
    (void)state;
    for (int i = -1; i < model_preset_count(); i++) {
        const model_config *config = i < 0 ? &tiny : model_preset(i);
        int64_t sum = 0;
        for (int k = 0; k < model_parameter_count(config); k++) {
            model_parameter parameter = model_parameter_at(config, k);
            sum += shape_elements(&parameter.shape);
        }
        assert_int_equal(model_parameter_elements(config), sum);
    }
    assert_int_equal(model_parameter_elements(model_preset(0)), 128625408);
}

static model_parameter make(const char *name, parameter_kind kind, shape dims) {
    model_parameter parameter = {.kind = kind, .shape = dims};
    strcpy(parameter.name, name);
    return parameter;
}

static float *filled(const model_parameter *parameter, uint64_t seed, int threads) {
    int64_t elements = shape_elements(&parameter->shape);
    float *data = malloc((size_t)elements * sizeof *data);
    assert_non_null(data);
    memset(data, 0xff, (size_t)elements * sizeof *data);
    threads_set_count(threads);
    model_parameter_init(parameter, seed, data);
    threads_set_count(0);
    return data;
}

static void first_values_are_the_same_for_any_number_of_threads(void **state) {
    (void)state;
    const model_parameter cases[] = {
        make("w", PARAMETER_LINEAR, SHAPE(301, 517)),
        make("e", PARAMETER_EMBEDDING, SHAPE(1000, 100)),
        make("n", PARAMETER_NORM, SHAPE(100001)),
        make("s", PARAMETER_LINEAR, SHAPE(1, 1)),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t bytes = (size_t)shape_elements(&cases[i].shape) * sizeof(float);
        float *one = filled(&cases[i], 7, 1);
        for (int threads = 2; threads <= 3; threads++) {
            float *other = filled(&cases[i], 7, threads);
            assert_memory_equal(one, other, bytes);
            free(other);
        }
        free(one);
    }
}

static void spread_and_cut_are_as_promised(void **state) {
    (void)state;
    const model_parameter cases[] = {
        make("model.layers.0.mlp.up_proj.weight", PARAMETER_LINEAR, SHAPE(2000, 500)),
        make("model.embed_tokens.weight", PARAMETER_EMBEDDING, SHAPE(1000, 1000)),
    };
    const double stds[] = {sqrt(2.0 / 2500), 1};
    /* A normal cut at three standard deviations has this one left. */
    const double left = sqrt(1 - 6 * exp(-4.5) / sqrt(2 * acos(-1)) / erf(3 / sqrt(2)));
    for (size_t c = 0; c < 2; c++) {
        int64_t elements = shape_elements(&cases[c].shape);
        float *data = filled(&cases[c], 1, 0);
        double sum = 0, squares = 0, largest = 0, within_one = 0;
        for (int64_t i = 0; i < elements; i++) {
            double value = data[i] / stds[c];
            sum += value;
            squares += value * value;
            largest = fmax(largest, fabs(value));
            within_one += fabs(value) < 1;
        }
        double count = (double)elements, mean = sum / count;
        assert_true(fabs(mean) < 5e-3);
        assert_true(fabs(sqrt(squares / count - mean * mean) - left) < 3e-3);
        assert_true(largest <= 3 * (1 + 1e-6) && largest > 2.98);
        assert_true(fabs(within_one / count - erf(1 / sqrt(2)) / erf(3 / sqrt(2))) < 3e-3);
        free(data);
    }
}

static void norms_begin_at_one(void **state) {
    (void)state;
    model_parameter norm = make("model.norm.weight", PARAMETER_NORM, SHAPE(777));
    float *data = filled(&norm, 3, 0);
    for (int i = 0; i < 777; i++)
        assert_true(data[i] == 1.0f);
    free(data);
}

static void seed_and_name_both_change_the_values(void **state) {
    (void)state;
    model_parameter a = make("a", PARAMETER_LINEAR, SHAPE(8, 8)),
                    b = make("b", PARAMETER_LINEAR, SHAPE(8, 8));
    float *first = filled(&a, 1, 1), *seed = filled(&a, 2, 1), *name = filled(&b, 1, 1),
          *again = filled(&a, 1, 1);
    assert_memory_equal(first, again, 64 * sizeof(float));
    assert_memory_not_equal(first, seed, 64 * sizeof(float));
    assert_memory_not_equal(first, name, 64 * sizeof(float));
    free(first);
    free(seed);
    free(name);
    free(again);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_names_and_shapes_are_hugging_faces),
        cmocka_unit_test(head_size_may_differ_from_width_over_heads),
        cmocka_unit_test(total_is_the_sum_of_all),
        cmocka_unit_test(first_values_are_the_same_for_any_number_of_threads),
        cmocka_unit_test(spread_and_cut_are_as_promised),
        cmocka_unit_test(norms_begin_at_one),
        cmocka_unit_test(seed_and_name_both_change_the_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
