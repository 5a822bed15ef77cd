/* test_cuda_model.c - whole training steps on a GPU: eager, compiled and the CPU agree, the same
 * bits come again, and training goes the same way. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "support/device_bench.h"
#include "support/expect.h"
#include "support/golden.h"
#include "support/numbers.h"
#include "support/operand.h"
#include "support/skip.h"
#include "support/small_model.h"
#include "support/step_bench.h"
#include "train/loss_scale.h"
#include "train/trainer.h"

/* Both, or the one whose steps have fewer launches. */
static int first_mode(void) { return device_bench_rounds(STEP_EAGER, STEP_COMPILED); }

/* ---- against the CPU ---- */

typedef struct drawn {
    step_options options;
    uint64_t seed;
} drawn;

static drawn draw_step(uint64_t seed, step_extent extent) {
    draw d = draw_create(seed, 1);
    model_config config = small_model_draw(&d);
    int64_t batch = 1 + draw_below(&d, 4), context = 1 + draw_below(&d, 70);
    return (drawn){.options = small_model_step(&config, batch, context, extent), .seed = seed};
}

static step_bench run_one(device *d, const drawn *what, step_mode mode, precision p) {
    step_options options = what->options;
    options.pipeline.mode = mode;
    options.pipeline.precision = p;
    step_bench b = step_bench_create_on(d, &options, what->seed);
    float scale = 1; /* so that gradients are those of the loss itself */
    if (executor_find(b.e, "loss_scale").data)
        expect_ok(executor_write(b.e, "loss_scale", &scale, sizeof scale));
    step_bench_run(&b);
    return b;
}

/* Outputs, and what a step changes, in fp32: low copies and halves of weights say nothing new. */
static bool is_compared(const step_bench *exact, const char *name) {
    tensor t = executor_find(exact->e, name);
    return t.data && t.type == DTYPE_F32;
}

/* ||a - b|| / ||b||; 0 when `b` is zero but for rounding. -1 when `a` has no such name, or only
 * half of its bits under it. */
static double name_error(const step_bench *a, const step_bench *b, const char *name) {
    if (executor_find(a->e, name).data && !dtype_is_float(executor_find(a->e, name).type))
        return -1;
    int64_t count = 0, here = 0;
    double *want = step_bench_read_doubles(b, name, &count), size = 0;
    double *got = step_bench_read_doubles(a, name, &here);
    double error = -1;
    if (got) {
        assert_int_equal(count, here);
        error = relative_error(got, want, count);
        for (int64_t i = 0; i < count; i++)
            size = fmax(size, fabs(want[i]));
        if (size <= 1e-7 && isfinite(error))
            error = 0;
    }
    free(want);
    free(got);
    return error;
}

/* Every value of the exact step that `got` has, too: off by no more than `limit`, or where there
 * is one, by three times as much as `peer`, the same arithmetic on the CPU, and a little. */
static void expect_close(const step_bench *got, const step_bench *exact, const step_bench *peer,
                         double limit, const char *what) {
    int compared = 0;
    for (int i = 0; i < exact->p->name_count; i++) {
        const char *name = exact->p->names[i].name;
        if (!is_compared(exact, name))
            continue;
        double allowed = limit, error = name_error(got, exact, name);
        if (error == -1)
            continue;
        if (peer)
            allowed += 3 * fmax(0, name_error(peer, exact, name));
        compared++;
        if (!(error <= allowed))
            fail_msg("%s: '%s' is %g off, the limit is %g (d_model %d, heads %d/%d of %d)", what,
                     name, error, allowed, (int)exact->config.d_model, (int)exact->config.heads,
                     (int)exact->config.kv_heads, (int)exact->config.head_dim);
    }
    assert_true(compared > 3);
}

static void check_precision(device *d, const drawn *what, const step_bench *exact, precision p,
                            step_mode mode) {
    char label[96];
    snprintf(label, sizeof label, "seed %d, %s, %s", (int)what->seed, step_mode_name(mode),
             precision_name(p));
    bool is_low = p == PRECISION_BF16 || p == PRECISION_FP16;
    step_bench peer = {0};
    if (is_low)
        peer = run_one(device_cpu(), what, STEP_EAGER, p);
    step_bench got = run_one(d, what, mode, p);
    double limit = p == PRECISION_FP32 ? 5e-5 : p == PRECISION_TF32 ? 2e-2 : 1e-2;
    expect_close(&got, exact, is_low ? &peer : NULL, limit, label);
    step_bench_destroy(&got);
    if (is_low)
        step_bench_destroy(&peer);
}

static void eager_and_compiled_agree_with_the_cpu_in_fp32(void **state) {
    device *d = device_bench_open(state);
    uint64_t end = 200 + (uint64_t)device_bench_rounds(6, 1);
    for (uint64_t seed = 200; seed < end; seed++) {
        drawn what = draw_step(seed, (step_extent)(seed % STEP_EXTENT_COUNT));
        step_bench exact = run_one(device_cpu(), &what, STEP_EAGER, PRECISION_FP32);
        check_precision(d, &what, &exact, PRECISION_FP32, STEP_EAGER);
        check_precision(d, &what, &exact, PRECISION_FP32, STEP_COMPILED);
        step_bench_destroy(&exact);
    }
}

static void eager_and_compiled_agree_with_the_cpu_in_low_precision(void **state) {
    device *d = device_bench_open(state);
    uint64_t first = (uint64_t)device_bench_rounds(300, 301);
    uint64_t end = (uint64_t)device_bench_rounds(304, 302);
    for (uint64_t seed = first; seed < end; seed++) {
        drawn what = draw_step(seed, STEP_FULL);
        /* Sizes that tensor cores like, in half of the cases. */
        if (seed % 2) {
            model_config *c = &what.options.config;
            *c = (model_config){.name = "even",
                                .d_model = 64,
                                .d_ff = 96,
                                .layers = 2,
                                .heads = 4,
                                .kv_heads = 2,
                                .head_dim = seed == 301 ? 16 : 64,
                                .vocab = 80,
                                .norm_eps = 1e-5,
                                .rope_theta = 10000};
            what.options.context = seed == 301 ? 64 : 130;
        }
        step_bench exact = run_one(device_cpu(), &what, STEP_EAGER, PRECISION_FP32);
        for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
            check_precision(d, &what, &exact, PRECISION_BF16, (step_mode)mode);
            if (seed < 302)
                check_precision(d, &what, &exact, PRECISION_FP16, (step_mode)mode);
            if (seed == 301 && precision_check(PRECISION_TF32, &d->target) == DYNO_OK)
                check_precision(d, &what, &exact, PRECISION_TF32, (step_mode)mode);
        }
        step_bench_destroy(&exact);
    }
}

/* Head sizes whose gradients attention rotates back itself. */
static void gradients_that_attention_rotates_back_agree_with_the_cpu(void **state) {
    device *d = device_bench_open(state);
    static const int64_t head_dims[] = {64, 80, 96, 128};
    for (int i = 0; i < device_bench_rounds(4, 2); i++) {
        drawn what = draw_step(350 + (uint64_t)i, STEP_FULL);
        model_config *c = &what.options.config;
        c->layers = 2;
        c->head_dim = head_dims[i];
        what.options.context = 130 + i;
        step_bench exact = run_one(device_cpu(), &what, STEP_EAGER, PRECISION_FP32);
        check_precision(d, &what, &exact, i % 2 ? PRECISION_FP16 : PRECISION_BF16, STEP_COMPILED);
        step_bench_destroy(&exact);
    }
}

/* Several steps through the optimizer; a captured step is replayed from the second on. */
static void losses_of_several_steps_are_those_of_the_cpu(void **state) {
    device *d = device_bench_open(state);
    for (int mode = first_mode(); mode < STEP_MODE_COUNT; mode++) {
        drawn what = draw_step(400, STEP_FULL);
        what.options.pipeline.mode = (step_mode)mode;
        step_bench here = step_bench_create_on(device_cpu(), &what.options, 400);
        step_bench there = step_bench_create_on(d, &what.options, 400);
        for (int step = 0; step < device_bench_rounds(6, 2); step++) {
            step_bench_run(&here);
            step_bench_run(&there);
            double error = name_error(&there, &here, "loss");
            if (!(error >= 0 && error < 1e-4))
                fail_msg("%s, step %d: the loss is %g off", step_mode_name((step_mode)mode), step,
                         error);
        }
        step_bench_destroy(&here);
        step_bench_destroy(&there);
    }
}

/* ---- the same bits ---- */

static void steps_give_the_same_bits_again(void **state) {
    device *d = device_bench_open(state);
    for (int p = device_bench_rounds(PRECISION_FP32, PRECISION_BF16); p <= PRECISION_BF16; p++)
        for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
            drawn what = draw_step(500 + (uint64_t)p, STEP_FULL);
            what.options.pipeline.mode = (step_mode)mode;
            what.options.pipeline.precision = (precision)p;
            step_bench one = step_bench_create_on(d, &what.options, 1);
            step_bench two = step_bench_create_on(d, &what.options, 1);
            for (int step = 0; step < device_bench_rounds(3, 2); step++) {
                step_bench_run(&one);
                step_bench_run(&two);
                expect_same_names(&one, &two);
            }
            step_bench_destroy(&one);
            step_bench_destroy(&two);
        }
}

static void recompute_changes_no_bit(void **state) {
    device *d = device_bench_open(state);
    static const char *const levels[] = {"mlp:2", "every:1", "nested"};
    drawn what = draw_step(600, STEP_FULL);
    what.options.config.layers = 4;
    what.options.pipeline.mode = STEP_COMPILED;
    what.options.pipeline.precision = PRECISION_BF16;
    step_bench plain = step_bench_create_on(d, &what.options, 1);
    step_bench_run(&plain);
    for (int i = 0; i < device_bench_rounds(3, 1); i++) {
        expect_ok(recompute_parse(levels[i], &what.options.pipeline.recompute));
        step_bench again = step_bench_create_on(d, &what.options, 1);
        step_bench_run(&again);
        expect_same_names(&plain, &again);
        step_bench_destroy(&again);
    }
    step_bench_destroy(&plain);
}

/* ---- golden vectors ---- */

static void check_golden(const golden *c, void *context) {
    device *d = context;
    if (device_bench_rounds(false, true) && !strstr(c->path, "grouped"))
        return;
    for (int mode = first_mode(); mode < STEP_MODE_COUNT; mode++) {
        golden here = *c;
        here.options.pipeline.target = &d->target;
        here.options.pipeline.mode = (step_mode)mode;
        answers a = golden_run(&here, d, NULL);
        golden_compare(&here, &a, mode == STEP_COMPILED);
        answers_release(&a);
    }
}

static void steps_agree_with_the_float64_model(void **state) {
    device *d = device_bench_open(state);
    golden_for_each(test_directory(DYNO_TEST_DIR), check_golden, d);
}

/* ---- training ---- */

static trainer *make_trainer(device *d, const step_options *options) {
    step_options here = *options;
    here.pipeline.target = &d->target;
    trainer *t;
    expect_ok(trainer_create(d, &here, (int64_t)1 << 31, &t));
    expect_ok(weights_init(trainer_storage(t), &options->config, 1));
    return t;
}

static float take_step(trainer *t, const int32_t *ids, double rate) {
    float loss;
    expect_ok(trainer_step(t, ids, ids + 1, rate, &loss));
    return loss;
}

/* All that a step may write, one after the other. */
static size_t copy_state(trainer *t, char *out) {
    const plan *p = trainer_plan(t);
    size_t bytes = 0;
    for (int i = 0; i < p->buffer_count; i++) {
        const plan_buffer *b = &p->buffers[i];
        if (!b->is_persistent || b->role == ROLE_INPUT)
            continue;
        if (out)
            expect_ok(storage_read(trainer_storage(t), b->name, out + bytes, b->bytes));
        bytes += (size_t)b->bytes;
    }
    return bytes;
}

static int64_t step_number(trainer *t) {
    int64_t number;
    expect_ok(trainer_read(t, "step", &number, sizeof number));
    return number;
}

/* Evaluation has a plan of its own, which is replayed between the steps and shares their weights. */
static void evaluation_leaves_training_alone(void **state) {
    device *d = device_bench_open(state);
    static const int32_t ids[13] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 19, 0};
    for (int way = 0; way < 2 * STEP_MODE_COUNT; way++) {
        step_options options = small_model_step(&small_model_fixed, 2, 6, STEP_FULL);
        options.pipeline.mode = (step_mode)(way % STEP_MODE_COUNT);
        options.pipeline.precision = way / STEP_MODE_COUNT ? PRECISION_BF16 : PRECISION_FP32;
        trainer *alone = make_trainer(d, &options), *watched = make_trainer(d, &options);
        float *logits = memory_allocate((size_t)(12 * small_model_fixed.vocab), sizeof *logits);
        for (int step = 0; step < device_bench_rounds(4, 2); step++) {
            float seen;
            expect_ok(trainer_evaluate(watched, ids, ids + 1, &seen, step % 2 ? logits : NULL));
            float loss = take_step(alone, ids, 1e-2);
            assert_true(take_step(watched, ids, 1e-2) == loss);
            assert_true(fabsf(seen - loss) <= 2e-2f);
        }
        free(logits);
        trainer_destroy(alone);
        trainer_destroy(watched);
    }
}

/* A norm's weight so large that its gradient does not fit into fp16 after scaling; put right, the
 * model learns on. */
static void an_overflow_in_fp16_skips_the_step_and_training_recovers(void **state) {
    device *d = device_bench_open(state);
    static const int32_t ids[13] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 19, 0};
    for (int mode = first_mode(); mode < STEP_MODE_COUNT; mode++) {
        step_options options = small_model_step(&small_model_fixed, 2, 6, STEP_FULL);
        options.pipeline.precision = PRECISION_FP16;
        options.pipeline.mode = (step_mode)mode;
        options.pipeline.keep_gradients = false;
        options.keep_logits = false;
        trainer *t = make_trainer(d, &options);
        const loss_scale *scale = trainer_loss_scale(t);
        float kept[16], large[16];
        take_step(t, ids, 1e-2);
        assert_true(scale->skipped_steps == 0 && scale->factor == 65536);
        const char *norm = "model.norm.weight";
        expect_ok(storage_read(trainer_storage(t), norm, kept, sizeof kept));
        for (int i = 0; i < 16; i++)
            large[i] = 60000;
        expect_ok(storage_write(trainer_storage(t), norm, large, sizeof large));
        size_t bytes = copy_state(t, NULL);
        char *before = memory_allocate(bytes, 1), *after = memory_allocate(bytes, 1);
        copy_state(t, before);
        for (int i = 1; i <= 3; i++) {
            take_step(t, ids, 1e-2);
            assert_int_equal(scale->skipped_steps, i);
            assert_true(scale->factor == ldexpf(65536, -i));
            assert_int_equal(step_number(t), 2);
        }
        copy_state(t, after);
        assert_memory_equal(before, after, bytes);
        free(before);
        free(after);
        expect_ok(storage_write(trainer_storage(t), norm, kept, sizeof kept));
        float first = take_step(t, ids, 1e-2), last = first;
        int more = device_bench_rounds(40, 4);
        for (int i = 0; i < more; i++)
            last = take_step(t, ids, 1e-2);
        assert_int_equal(scale->skipped_steps, 3);
        assert_true(last < (more == 40 ? first / 2 : first));
        trainer_destroy(t);
    }
}

enum { BATCH = 4, CONTEXT = 32, ROWS = BATCH * CONTEXT, STEPS = 300, WINDOW = 10 };

/* The losses of the steps on the license, byte by byte, around and around. */
static void train(device *d, precision p, step_mode mode, float *losses) {
    static const model_config learner = {.name = "learner",
                                         .d_model = 64,
                                         .d_ff = 160,
                                         .layers = 2,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .head_dim = 16,
                                         .vocab = 128,
                                         .norm_eps = 1e-5,
                                         .rope_theta = 10000};
    char path[600], *letters;
    size_t size;
    snprintf(path, sizeof path, "%s/../LICENSE", test_directory(DYNO_TEST_DIR));
    expect_ok(file_read_all(path, 1 << 20, &letters, &size));
    step_options options = {.config = learner,
                            .batch = BATCH,
                            .context = CONTEXT,
                            .pipeline = {.extent = STEP_FULL,
                                         .mode = mode,
                                         .precision = p,
                                         .optimizer = step_default_optimizer()}};
    trainer *t = make_trainer(d, &options);
    for (int k = 0; k < STEPS; k++) {
        int32_t ids[ROWS + 1];
        for (int i = 0; i <= ROWS; i++)
            ids[i] = letters[((size_t)k * ROWS + (size_t)i) % size] & 0x7f;
        losses[k] = take_step(t, ids, 1e-3);
    }
    trainer_destroy(t);
    free(letters);
}

/* Means over a window: single steps differ by the batch they see. */
static double smooth(const float *losses, int step) {
    double sum = 0;
    for (int i = 0; i < WINDOW; i++)
        sum += (double)losses[step + i];
    return sum / WINDOW;
}

static void three_hundred_steps_of_bf16_stay_within_a_percent_of_the_cpu(void **state) {
    device *d = device_bench_open(state);
    if ((d->target.kind == TARGET_CUDA && !device_bench_is_real(d)) ||
        device_bench_rounds(false, true))
        SKIP_BECAUSE("an emulated GPU takes too long");
    float full[STEPS], low[STEPS];
    train(device_cpu(), PRECISION_FP32, STEP_EAGER, full);
    assert_true(smooth(full, STEPS - WINDOW) < 0.75 * smooth(full, 0)); /* it learns at all */
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        train(d, PRECISION_BF16, (step_mode)mode, low);
        double worst = 0;
        for (int k = 0; k + WINDOW <= STEPS; k++) {
            double want = smooth(full, k), got = smooth(low, k);
            worst = fmax(worst, fabs(got - want) / want);
            if (!(fabs(got - want) <= 0.01 * want))
                fail_msg("%s, step %d: loss %g, on the CPU in fp32 %g",
                         step_mode_name((step_mode)mode), k, got, want);
        }
        print_message("%s bf16: %.3f to %.3f, worst %.2g off\n", step_mode_name((step_mode)mode),
                      (double)low[0], smooth(low, STEPS - WINDOW), worst);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eager_and_compiled_agree_with_the_cpu_in_fp32),
        cmocka_unit_test(steps_agree_with_the_float64_model),
        cmocka_unit_test(eager_and_compiled_agree_with_the_cpu_in_low_precision),
        cmocka_unit_test(gradients_that_attention_rotates_back_agree_with_the_cpu),
        cmocka_unit_test(losses_of_several_steps_are_those_of_the_cpu),
        cmocka_unit_test(steps_give_the_same_bits_again),
        cmocka_unit_test(recompute_changes_no_bit),
        cmocka_unit_test(evaluation_leaves_training_alone),
        cmocka_unit_test(an_overflow_in_fp16_skips_the_step_and_training_recovers),
        cmocka_unit_test(three_hundred_steps_of_bf16_stay_within_a_percent_of_the_cpu),
    };
    return cmocka_run_group_tests(tests, device_bench_setup, device_bench_teardown);
}
