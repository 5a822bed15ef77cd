/* test_nonfinite.c - steps whose loss or gradients are not finite: what they change, and what is
 * said about them. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "support/emulated_device.h"
#include "support/emulated_plan.h"
#include "support/fake_device.h"
#include "support/small_model.h"
#include "tensor/finite.h"
#include "train/find_nonfinite.h"
#include "train/split_weights.h"
#include "train/trainer.h"

enum { BATCH = 2, CONTEXT = 6, ROWS = BATCH * CONTEXT, MEMORY_LIMIT = 1 << 28 };

static const int32_t ids[ROWS + 1] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 0};

/* The ways that a step is run here. */
static const struct {
    step_mode mode;
    precision precision;
    attention_way attention;
    double clip_norm;
} ways[] = {{STEP_EAGER, PRECISION_FP32, ATTENTION_NAIVE, 0},
            {STEP_EAGER, PRECISION_BF16, ATTENTION_NAIVE, 1},
            {STEP_COMPILED, PRECISION_FP32, ATTENTION_FLASH, 0},
            {STEP_COMPILED, PRECISION_FP32, ATTENTION_NAIVE, 1},
            {STEP_COMPILED, PRECISION_BF16, ATTENTION_FLASH, 0},
            {STEP_COMPILED, PRECISION_FP16, ATTENTION_FLASH, 0}};
enum { WAYS = sizeof ways / sizeof *ways };

/* Where trainers are made. */
static device *where;

/* On the CPU, on a device whose memory the host cannot touch, and as plans for a GPU. */
static void on_every_device(void (*body)(void)) {
    fake_device *f = fake_device_create(MEMORY_LIMIT, true);
    where = device_cpu();
    body();
    where = fake_device_base(f);
    body();
    device_close(where);
    emulated_plan_skip_without_compiler();
    where = emulated_device();
    body();
}

/* Generated kernels of plans for a GPU take seconds to emulate: one way stands for all there. */
static bool is_tried(int way) { return where != emulated_device() || way == 2; }

static trainer *make(int way, nonfinite_policy policy, int64_t batch, int64_t context) {
    step_options options = {.config = small_model_fixed, .batch = batch, .context = context};
    options.pipeline = (pipeline_options){.extent = STEP_FULL,
                                          .mode = ways[way].mode,
                                          .precision = ways[way].precision,
                                          .attention = ways[way].attention,
                                          .optimizer = step_default_optimizer()};
    options.pipeline.optimizer.clip_norm = ways[way].clip_norm;
    options.pipeline.optimizer.on_nonfinite = policy;
    options.pipeline.target = &where->target;
    trainer *t;
    if (trainer_create(where, &options, MEMORY_LIMIT, &t) != DYNO_OK ||
        weights_init(trainer_storage(t), &small_model_fixed, 1) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return t;
}

static model_parameter find(const char *name) {
    for (int i = 0; i < model_parameter_count(&small_model_fixed); i++) {
        model_parameter p = model_parameter_at(&small_model_fixed, i);
        if (strcmp(p.name, name) == 0)
            return p;
    }
    fail_msg("no parameter '%s'", name);
    return (model_parameter){0};
}

/* Every element becomes `number`, with signs that follow no pattern where that is asked for. */
static void fill(trainer *t, const char *name, float number, bool is_signed) {
    model_parameter p = find(name);
    int64_t count = shape_elements(&p.shape);
    float *x = memory_allocate((size_t)count, sizeof *x);
    for (int64_t i = 0; i < count; i++)
        x[i] = is_signed && (uint32_t)i * 2654435761u >> 31 ? -number : number;
    if (weight_write(trainer_storage(t), &p, x) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    free(x);
}

static float *read_all(trainer *t, int64_t *count) {
    *count = model_parameter_elements(&small_model_fixed);
    float *x = memory_allocate((size_t)*count, sizeof *x), *at = x;
    for (int i = 0; i < model_parameter_count(&small_model_fixed); i++) {
        model_parameter p = model_parameter_at(&small_model_fixed, i);
        if (weight_read(trainer_storage(t), &p, at) != DYNO_OK)
            fail_msg("%s", dyno_error_message());
        at += shape_elements(&p.shape);
    }
    return x;
}

static void expect_message(const char *part) {
    if (!strstr(dyno_error_message(), part))
        fail_msg("'%s' is not in: %s", part, dyno_error_message());
}

static void numbers_that_are_not_finite_are_counted(void **state) {
    (void)state;
    float x[6] = {1, -INFINITY, NAN, 3, INFINITY, NAN};
    shape flat = {.rank = 1, .dim = {6}}, square = {.rank = 2, .dim = {3, 2}};
    tensor t = tensor_contiguous(x, DTYPE_F32, &flat);
    finite_count c = finite_check(&t, false);
    assert_string_equal(finite_format(&c).text,
                        "NaN in 2 and Inf in 2 of 6 elements, the first at 1");
    c = finite_check(&t, true);
    assert_string_equal(finite_format(&c).text,
                        "NaN in 2 and Inf in 1 of 6 elements, the first at 2");
    c = finite_check_floats(x + 4, 1);
    assert_string_equal(finite_format(&c).text, "Inf in 1 of 1 elements, the first at 0");
    c = finite_check_floats(x, 1);
    assert_true(finite_is_all(&c));
    t = tensor_contiguous(x, DTYPE_F32, &square);
    tensor turned = tensor_view_transpose(&t, (const int64_t[]){1, 0});
    c = finite_check(&turned, false); /* rows 1 NaN Inf and -Inf 3 NaN */
    assert_string_equal(finite_format(&c).text,
                        "NaN in 2 and Inf in 2 of 6 elements, the first at 1");
    uint16_t low[2] = {0x3f80, 0x7f80};
    shape pair = {.rank = 1, .dim = {2}};
    t = tensor_contiguous(low, DTYPE_BF16, &pair);
    c = finite_check(&t, false);
    assert_string_equal(finite_format(&c).text, "Inf in 1 of 2 elements, the first at 1");
}

/* The check changes no number, and no launch of a good step is blamed. */
static void try_good_steps(void) {
    for (int way = 0; way < WAYS; way++) {
        if (!is_tried(way))
            continue;
        trainer *with[3];
        float *weights[3];
        int64_t count;
        for (int policy = 0; policy < 3; policy++) {
            with[policy] = make(way, (nonfinite_policy)policy, BATCH, CONTEXT);
            for (int i = 0; i < 3; i++) {
                float loss;
                assert_int_equal(trainer_step(with[policy], ids, ids + 1, 1e-2, &loss), DYNO_OK);
                assert_false(trainer_skipped(with[policy]));
            }
            weights[policy] = read_all(with[policy], &count);
        }
        for (int policy = 1; policy < 3; policy++)
            assert_memory_equal(weights[policy], weights[0], (size_t)count * sizeof(float));
        assert_int_equal(trainer_check_weights(with[1]), DYNO_OK);
        for (int policy = 0; policy < 3; policy++) {
            free(weights[policy]);
            trainer_destroy(with[policy]);
        }
    }
}

static void good_steps_are_what_they_were(void **state) {
    (void)state;
    on_every_device(try_good_steps);
}

static bool sees_all_finite(void *context, int launch, const tensor *outputs) {
    const plan *p = context;
    const plan_launch *l = &p->launches[launch];
    for (int i = 0; i < l->output_count; i++) {
        finite_count c = finite_check(&outputs[i], true);
        if (!finite_is_all(&c))
            fail_msg("launch %d (%s): %s", launch, l->kernel_name, finite_format(&c).text);
    }
    return true;
}

static void launches_of_a_good_step_are_all_finite(void **state) {
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        step_options options = small_model_step(&small_model_fixed, BATCH, CONTEXT, STEP_FULL);
        options.pipeline.mode = ways[way].mode;
        options.pipeline.precision = ways[way].precision;
        options.pipeline.attention = ways[way].attention;
        plan *p;
        memory_pool *pool;
        executor *e;
        assert_int_equal(step_plan_create(&options, &p), DYNO_OK);
        assert_int_equal(memory_pool_create(device_cpu(), MEMORY_LIMIT, &pool), DYNO_OK);
        storage *s = storage_create(pool);
        assert_int_equal(executor_create(p, pool, s, &e), DYNO_OK);
        small_model_fill(e, s, &small_model_fixed, 1);
        float scale = 1;
        if (executor_find(e, "loss_scale").data)
            assert_int_equal(executor_write(e, "loss_scale", &scale, sizeof scale), DYNO_OK);
        assert_int_equal(executor_inspect(e, sees_all_finite, p), DYNO_OK);
        assert_null(executor_find(e, "loss").data);
        assert_int_equal(executor_run(e, NULL, NULL), DYNO_OK); /* goes on as usual */
        assert_non_null(executor_find(e, "loss").data);
        executor_destroy(e);
        storage_destroy(s);
        memory_pool_destroy(pool);
        plan_destroy(p);
    }
}

/* The layer is named, the weights stay as they are, and put right the model learns on. */
static void try_a_bad_loss(void) {
    for (int way = 0; way < WAYS; way++) {
        if (!is_tried(way))
            continue;
        trainer *t = make(way, NONFINITE_STOP, BATCH, CONTEXT);
        int32_t other[ROWS + 1] = {0};
        float loss;
        assert_int_equal(trainer_step(t, ids, ids + 1, 1e-2, &loss), DYNO_OK);
        model_parameter changed = find("model.layers.1.mlp.up_proj.weight");
        float kept[4096];
        int64_t count;
        assert_true(shape_elements(&changed.shape) <= 4096);
        assert_int_equal(weight_read(trainer_storage(t), &changed, kept), DYNO_OK);
        fill(t, changed.name, 3e38f, false);
        float *before = read_all(t, &count);
        assert_int_equal(trainer_give(t, ids, ids + 1), DYNO_OK);
        assert_int_equal(trainer_start(t, 1e-2), DYNO_OK);
        assert_int_equal(trainer_give(t, other, other + 1), DYNO_OK); /* of the next step */
        assert_int_equal(trainer_finish(t, &loss), DYNO_NOT_FINITE);
        assert_true(!isfinite(loss));
        expect_message("step 1: the loss is ");
        expect_message("it shows first in layers.1.mlp");
        expect_message("of the forward");
        float *after = read_all(t, &count);
        assert_memory_equal(before, after, (size_t)count * sizeof *before);
        free(before);
        free(after);
        assert_int_equal(weight_write(trainer_storage(t), &changed, kept), DYNO_OK);
        assert_int_equal(trainer_start(t, 1e-2), DYNO_OK); /* with what was given */
        assert_int_equal(trainer_finish(t, &loss), DYNO_OK);
        float expected;
        assert_int_equal(trainer_evaluate(t, other, other + 1, &expected, NULL), DYNO_OK);
        assert_true(isfinite(loss) && expected < loss);
        trainer_destroy(t);
    }
}

static void a_loss_that_is_not_finite_stops_the_run(void **state) {
    (void)state;
    on_every_device(try_a_bad_loss);
}

/* Logits of ordinary size from a tiny norm and a huge head: the head's part of the backward
 * overflows, the loss does not. */
static void make_gradients_overflow(trainer *t) {
    fill(t, "model.norm.weight", 1e-38f, false);
    fill(t, "lm_head.weight", 3e38f, true);
}

static void try_bad_gradients(void) {
    for (int way = 0; way < 5; way++) { /* in fp16 the head itself is infinite */
        if (!is_tried(way))
            continue;
        trainer *t = make(way, NONFINITE_STOP, 1, 1);
        float loss;
        make_gradients_overflow(t);
        dyno_status status = trainer_step(t, ids, ids + 1, 1e-2, &loss);
        assert_true(isfinite(loss));
        if (ways[way].clip_norm > 0) { /* the norm tells at once, and nothing was applied */
            assert_int_equal(status, DYNO_NOT_FINITE);
            expect_message("step 0: the gradients are not finite; it shows first in ");
            assert_int_equal(trainer_check_weights(t), DYNO_OK);
        } else {
            assert_int_equal(status, DYNO_OK);
            assert_int_equal(trainer_check_weights(t), DYNO_NOT_FINITE);
            expect_message("after 1 steps: the gradients of step 0, ");
            assert_int_equal(trainer_step(t, ids, ids + 1, 1e-2, &loss), DYNO_NOT_FINITE);
            expect_message("step 1: the loss is NaN: the gradients of step 0, ");
            expect_message("in the gradient of 'model.norm.weight': Inf in ");
        }
        trainer_destroy(t);
    }
}

static void gradients_that_are_not_finite_stop_the_run(void **state) {
    (void)state;
    on_every_device(try_bad_gradients);
}

static void try_skipping(void) {
    for (int way = 0; way < WAYS; way++)
        for (int of_gradients = 0; of_gradients < (way < 5 ? 2 : 1); of_gradients++) {
            if (!is_tried(way))
                continue;
            trainer *t = make(way, NONFINITE_SKIP, 1, 1);
            float loss, now;
            if (of_gradients)
                make_gradients_overflow(t);
            else
                fill(t, "model.layers.0.mlp.up_proj.weight", 3e38f, false);
            int64_t count;
            float *before = read_all(t, &count);
            for (int i = 0; i < 2; i++) {
                assert_int_equal(trainer_step(t, ids, ids + 1, 1e-2, &loss), DYNO_OK);
                assert_true(trainer_skipped(t));
                assert_int_equal(isfinite(loss) != 0, of_gradients);
            }
            float *after = read_all(t, &count);
            assert_memory_equal(before, after, (size_t)count * sizeof *before);
            free(before);
            free(after);
            assert_int_equal(weights_init(trainer_storage(t), &small_model_fixed, 1), DYNO_OK);
            assert_int_equal(trainer_step(t, ids, ids + 1, 1e-2, &loss), DYNO_OK);
            assert_false(trainer_skipped(t));
            assert_int_equal(trainer_step(t, ids, ids + 1, 1e-2, &now), DYNO_OK);
            assert_true(now < loss);
            trainer_destroy(t);
        }
}

static void skipped_steps_change_nothing(void **state) {
    (void)state;
    on_every_device(try_skipping);
}

/* In fp16 the scale goes down as ever; at 1 there is nothing left to lower. */
static void overflows_of_a_scaled_loss_do_not_stop_the_run(void **state) {
    (void)state;
    where = device_cpu();
    trainer *t = make(WAYS - 1, NONFINITE_STOP, BATCH, CONTEXT);
    float loss;
    fill(t, "model.norm.weight", 3000, false);
    int steps = 0;
    while (trainer_loss_scale(t)->factor > 1 && steps < 20) {
        int64_t skipped = trainer_loss_scale(t)->skipped_steps;
        assert_int_equal(trainer_step(t, ids, ids + 1, 0, &loss), DYNO_OK);
        assert_false(trainer_skipped(t));
        steps++;
        if (trainer_loss_scale(t)->skipped_steps == skipped)
            break;
    }
    assert_true(steps > 1);
    trainer_destroy(t);
}

static void words_name_the_policies(void **state) {
    (void)state;
    nonfinite_policy policy;
    for (int i = 0; i < NONFINITE_POLICY_COUNT; i++) {
        assert_int_equal(
            nonfinite_policy_parse(nonfinite_policy_name((nonfinite_policy)i), &policy), DYNO_OK);
        assert_int_equal(policy, i);
    }
    assert_int_equal(nonfinite_policy_parse("halt", &policy), DYNO_INVALID);
    expect_message("stop");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_are_not_finite_are_counted),
        cmocka_unit_test(good_steps_are_what_they_were),
        cmocka_unit_test(launches_of_a_good_step_are_all_finite),
        cmocka_unit_test(a_loss_that_is_not_finite_stops_the_run),
        cmocka_unit_test(gradients_that_are_not_finite_stop_the_run),
        cmocka_unit_test(skipped_steps_change_nothing),
        cmocka_unit_test(overflows_of_a_scaled_loss_do_not_stop_the_run),
        cmocka_unit_test(words_name_the_policies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
