/* test_trainer_device.c - training on a device whose memory the host cannot touch goes as it does
 * on the CPU, and weights find their way there and back. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "support/expect.h"
#include "support/fake_device.h"
#include "support/scratch.h"
#include "support/small_model.h"
#include "train/trainer.h"

enum { POOL_BYTES = 1 << 26, BATCH = 2, CONTEXT = 5, ROWS = BATCH * CONTEXT };

static trainer *make_trainer(device *d, step_mode mode, precision math) {
    step_options options = small_model_step(&small_model_fixed, BATCH, CONTEXT, STEP_FULL);
    options.pipeline.mode = mode;
    options.pipeline.precision = math;
    trainer *t;
    expect_ok(trainer_create(d, &options, POOL_BYTES, &t));
    expect_ok(weights_init(trainer_storage(t), &small_model_fixed, 5));
    return t;
}

static void expect_same_weights(const trainer *a, const trainer *b) {
    const plan *p = trainer_plan(a);
    for (int i = 0; i < p->name_count; i++) {
        if (!p->buffers[p->names[i].operand.buffer].is_persistent)
            continue;
        tensor t = trainer_find(a, p->names[i].name);
        int64_t bytes = tensor_bytes(&t);
        char *one = memory_allocate((size_t)bytes + 1, 2), *other = one + bytes;
        expect_ok(trainer_read(a, p->names[i].name, one, bytes));
        expect_ok(trainer_read(b, p->names[i].name, other, bytes));
        if (memcmp(one, other, (size_t)bytes) != 0)
            fail_msg("'%s' is not the same", p->names[i].name);
        free(one);
    }
}

static void training_goes_the_same_way_on_every_device(void **state) {
    (void)state;
    static const precision maths[] = {PRECISION_FP32, PRECISION_BF16, PRECISION_FP16};
    for (int way = 0; way < 3 * STEP_MODE_COUNT; way++) {
        step_mode mode = (step_mode)(way % STEP_MODE_COUNT);
        precision math = maths[way / STEP_MODE_COUNT];
        fake_device *f = fake_device_create(POOL_BYTES, true);
        trainer *a = make_trainer(device_cpu(), mode, math);
        trainer *b = make_trainer(fake_device_base(f), mode, math);
        int32_t ids[ROWS + 1];
        float x, y;
        for (int step = 0; step < 6; step++) {
            for (int i = 0; i <= ROWS; i++)
                ids[i] = (i * 7 + step) % (int)small_model_fixed.vocab;
            expect_ok(trainer_step(a, ids, ids + 1, 1e-2, &x));
            if (step == 0)
                expect_ok(trainer_give(b, ids, ids + 1));
            expect_ok(trainer_start(b, 1e-2));
            for (int i = 0; i <= ROWS; i++) /* the next step's, while this one runs */
                ids[i] = (i * 7 + step + 1) % (int)small_model_fixed.vocab;
            expect_ok(trainer_give(b, ids, ids + 1));
            expect_ok(trainer_finish(b, &y));
            assert_true(x == y);
        }
        expect_ok(trainer_give(a, ids, ids + 1)); /* as b was given them */
        expect_same_weights(a, b);
        trainer_destroy(a);
        trainer_destroy(b);
        device_close(fake_device_base(f));
    }
}

/* The plan of evaluation finds the weights where the step's left them, whichever way it keeps them;
 * training goes on as if nobody had looked. */
static void evaluation_leaves_training_alone(void **state) {
    (void)state;
    static const precision maths[] = {PRECISION_FP32, PRECISION_BF16, PRECISION_FP16};
    for (int way = 0; way < 3 * STEP_MODE_COUNT; way++) {
        step_mode mode = (step_mode)(way % STEP_MODE_COUNT);
        precision math = maths[way / STEP_MODE_COUNT];
        fake_device *f = fake_device_create(POOL_BYTES, true);
        trainer *a = make_trainer(device_cpu(), mode, math);
        trainer *b = make_trainer(fake_device_base(f), mode, math);
        int32_t ids[ROWS + 1];
        float x, y, seen, again;
        float *logits = memory_allocate((size_t)(ROWS * small_model_fixed.vocab), sizeof *logits);
        for (int i = 0; i <= ROWS; i++)
            ids[i] = i * 7 % (int)small_model_fixed.vocab;
        for (int step = 0; step < 4; step++) {
            expect_ok(trainer_evaluate(b, ids, ids + 1, &seen, step % 2 ? logits : NULL));
            expect_ok(trainer_evaluate(b, ids, ids + 1, &again, step % 2 ? logits : NULL));
            expect_ok(trainer_step(a, ids, ids + 1, 1e-2, &x));
            expect_ok(trainer_step(b, ids, ids + 1, 1e-2, &y));
            assert_true(x == y && seen == again);
            assert_true(fabsf(seen - x) <= (math == PRECISION_FP32 ? 1e-5f : 2e-2f));
        }
        expect_same_weights(a, b);
        free(logits);
        trainer_destroy(a);
        trainer_destroy(b);
        device_close(fake_device_base(f));
    }
}

static void weights_go_to_a_device_and_come_back(void **state) {
    (void)state;
    scratch made = scratch_create();
    fake_device *f = fake_device_create(POOL_BYTES, true);
    trainer *a = make_trainer(device_cpu(), STEP_COMPILED, PRECISION_BF16);
    trainer *b = make_trainer(fake_device_base(f), STEP_COMPILED, PRECISION_BF16);
    expect_same_weights(a, b);
    scratch_path path = scratch_join(&made, "model");
    expect_ok(weights_save(trainer_storage(b), &small_model_fixed, path.text));
    trainer *c = make_trainer(device_cpu(), STEP_COMPILED, PRECISION_BF16);
    expect_ok(weights_init(trainer_storage(c), &small_model_fixed, 6));
    expect_ok(weights_init(trainer_storage(b), &small_model_fixed, 7));
    hf_directory *directory;
    expect_ok(hf_directory_open(path.text, &directory));
    expect_ok(weights_load(trainer_storage(b), directory));
    expect_ok(weights_load(trainer_storage(c), directory));
    hf_directory_close(directory);
    expect_same_weights(a, b);
    expect_same_weights(a, c);
    trainer_destroy(a);
    trainer_destroy(b);
    trainer_destroy(c);
    device_close(fake_device_base(f));
    scratch_remove(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_goes_the_same_way_on_every_device),
        cmocka_unit_test(evaluation_leaves_training_alone),
        cmocka_unit_test(weights_go_to_a_device_and_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
