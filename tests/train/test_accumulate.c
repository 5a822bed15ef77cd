/* test_accumulate.c - a step of several micro-batches is the step of one large batch, in the memory of
 * a small one. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/parameters.h"
#include "plan/memory_account.h"
#include "support/fake_device.h"
#include "support/small_model.h"
#include "train/split_weights.h"
#include "train/trainer.h"

enum { CONTEXT = 6, MOST_SEQUENCES = 6, STEPS = 3, MEMORY_LIMIT = 1 << 24 };

typedef struct outcome {
    float losses[STEPS];
    float *weights; /* all of them, one after the other */
    int64_t count;
} outcome;

static void expect_ok(dyno_status status) {
    if (status != DYNO_OK)
        fail_msg("%s", dyno_error_message());
}

static step_options options_of(int64_t batch, int64_t micro_batches, step_mode mode,
                               precision math) {
    step_options options = small_model_step(&small_model_fixed, batch, CONTEXT, STEP_FULL);
    options.pipeline.mode = mode;
    options.pipeline.precision = math;
    options.pipeline.micro_batches = micro_batches;
    return options;
}

static void read_weights(trainer *t, outcome *out) {
    out->weights =
        memory_allocate((size_t)model_parameter_elements(&small_model_fixed), sizeof(float));
    for (int i = 0; i < model_parameter_count(&small_model_fixed); i++) {
        model_parameter p = model_parameter_at(&small_model_fixed, i);
        expect_ok(weight_read(trainer_storage(t), &p, out->weights + out->count));
        out->count += shape_elements(&p.shape);
    }
}

static outcome train(const step_options *options, device *d) {
    trainer *t;
    outcome out = {0};
    int64_t sequences =
        options->batch * (options->pipeline.micro_batches ? options->pipeline.micro_batches : 1);
    expect_ok(trainer_create(d, options, MEMORY_LIMIT, &t));
    expect_ok(weights_init(trainer_storage(t), &small_model_fixed, 1));
    for (int k = 0; k < STEPS; k++) {
        int32_t ids[MOST_SEQUENCES * CONTEXT + 1];
        for (int64_t i = 0; i <= sequences * CONTEXT; i++)
            ids[i] = (int32_t)((i * i * 7 + i * 3 + k) % small_model_fixed.vocab);
        expect_ok(trainer_step(t, ids, ids + 1, 1e-2, &out.losses[k]));
    }
    read_weights(t, &out);
    trainer_destroy(t);
    return out;
}

static double largest_difference(const outcome *a, const outcome *b) {
    double most = 0;
    assert_int_equal(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++) {
        double difference = fabs((double)a->weights[i] - (double)b->weights[i]);
        most = difference > most ? difference : most;
    }
    return most;
}

static void expect_close(const step_options *a, const step_options *b, double tolerance) {
    outcome x = train(a, device_cpu()), y = train(b, device_cpu());
    for (int k = 0; k < STEPS; k++)
        assert_true(fabs((double)x.losses[k] - (double)y.losses[k]) < tolerance);
    assert_true(largest_difference(&x, &y) < tolerance);
    free(x.weights);
    free(y.weights);
}

static void micro_batches_are_one_large_batch(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++)
        for (int clip = 0; clip < 2; clip++) {
            step_options whole = options_of(6, 1, (step_mode)mode, PRECISION_FP32);
            step_options parts = options_of(2, 3, (step_mode)mode, PRECISION_FP32);
            whole.pipeline.optimizer.clip_norm = parts.pipeline.optimizer.clip_norm = clip * 0.1;
            expect_close(&whole, &parts, 2e-5);
        }
}

static void micro_batches_train_in_low_precision(void **state) {
    (void)state;
    for (int math = PRECISION_BF16; math <= PRECISION_FP16; math++)
        for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
            step_options whole = options_of(6, 1, (step_mode)mode, (precision)math);
            step_options parts = options_of(3, 2, (step_mode)mode, (precision)math);
            expect_close(&whole, &parts, 5e-2);
        }
}

/* A weight has the sum of its gradients beside it, and there is the sum of the loss; nothing else is
 * more, however many micro-batches there are. */
static void memory_does_not_grow_with_micro_batches(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        int64_t tokens = 2 * CONTEXT * 2 * (int64_t)sizeof(int32_t), peak[3];
        for (int i = 0; i < 3; i++) {
            step_options options = options_of(2, i + 1, (step_mode)mode, PRECISION_FP32);
            plan *p;
            expect_ok(step_plan_create(&options, &p));
            peak[i] = 0;
            memory_account account = memory_account_plan(p);
            for (int r = 0; r < ROLE_COUNT; r++)
                peak[i] += account.at_peak[r];
            plan_destroy(p);
        }
        int64_t sums = model_parameter_elements(&small_model_fixed) * (int64_t)sizeof(float);
        assert_int_equal(peak[2] - peak[1], tokens);
        assert_true(peak[1] - peak[0] <= sums + tokens + 512);
    }
}

/* One capture holds all micro-batches, each with its own tokens. */
static void a_captured_step_has_all_micro_batches(void **state) {
    (void)state;
    step_options options = options_of(2, 3, STEP_COMPILED, PRECISION_FP32);
    outcome plain = train(&options, device_cpu());
    fake_device *fake = fake_device_create(MEMORY_LIMIT, true);
    outcome captured = train(&options, &fake->base);
    assert_int_equal(fake->captures, 1);
    assert_int_equal(fake->replays, STEPS);
    assert_memory_equal(plain.losses, captured.losses, sizeof plain.losses);
    assert_memory_equal(plain.weights, captured.weights,
                        (size_t)plain.count * sizeof *plain.weights);
    free(plain.weights);
    free(captured.weights);
    device_close(&fake->base);
}

/* The work of a step is counted in all its micro-batches. */
static void work_is_that_of_all_micro_batches(void **state) {
    (void)state;
    plan_cost cost[2];
    for (int i = 0; i < 2; i++) {
        step_options options = options_of(2, i ? 4 : 1, STEP_EAGER, PRECISION_FP32);
        plan *p;
        expect_ok(step_plan_create(&options, &p));
        cost[i] = plan_total_cost(p, PHASE_FORWARD);
        plan_destroy(p);
    }
    /* Beside the model: a multiplication of the loss and an addition of it. */
    assert_true(fabs(cost[1].flops - 4 * (cost[0].flops + 2)) < 1);
    assert_int_equal(cost[1].launches, 4 * (cost[0].launches + 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(micro_batches_are_one_large_batch),
        cmocka_unit_test(micro_batches_train_in_low_precision),
        cmocka_unit_test(memory_does_not_grow_with_micro_batches),
        cmocka_unit_test(a_captured_step_has_all_micro_batches),
        cmocka_unit_test(work_is_that_of_all_micro_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
