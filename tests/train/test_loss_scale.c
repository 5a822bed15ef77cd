/* test_loss_scale.c - fp16 training: how the scale moves, that an overflow harms nothing, and the
 * toy model's types. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "experiments/precision_study.h"
#include "support/small_model.h"
#include "train/loss_scale.h"
#include "train/trainer.h"

static void the_scale_halves_on_overflow_and_doubles_with_patience(void **state) {
    (void)state;
    loss_scale s = loss_scale_create();
    assert_true(s.factor == 65536);
    loss_scale_adapt(&s, true);
    assert_true(s.factor == 32768 && s.skipped_steps == 1);
    for (int i = 0; i < 1999; i++)
        loss_scale_adapt(&s, false);
    assert_true(s.factor == 32768);
    loss_scale_adapt(&s, false);
    assert_true(s.factor == 65536 && s.good_steps == 0 && s.skipped_steps == 1);
    /* An overflow starts the count anew. */
    for (int i = 0; i < 1999; i++)
        loss_scale_adapt(&s, false);
    loss_scale_adapt(&s, true);
    loss_scale_adapt(&s, false);
    assert_true(s.factor == 32768 && s.good_steps == 1);
}

static void the_scale_stays_within_its_limits(void **state) {
    (void)state;
    loss_scale s = loss_scale_create();
    for (int i = 0; i < 100; i++)
        loss_scale_adapt(&s, true);
    assert_true(s.factor == 1 && s.skipped_steps == 100);
    for (int i = 0; i < 100 * LOSS_SCALE_PATIENCE; i++)
        loss_scale_adapt(&s, false);
    assert_true(s.factor == LOSS_SCALE_MOST);
}

enum { BATCH = 2, CONTEXT = 6, ROWS = BATCH * CONTEXT, MEMORY_LIMIT = 1 << 24 };

static const model_config tiny = {.name = "tiny",
                                  .d_model = 16,
                                  .d_ff = 24,
                                  .layers = 2,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_dim = 4,
                                  .vocab = 20,
                                  .norm_eps = 1e-5,
                                  .rope_theta = 10000};

static const int32_t ids[ROWS + 1] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 19, 0};

static trainer *make(precision p, step_extent extent, double clip_norm) {
    step_options options = small_model_step(&tiny, BATCH, CONTEXT, extent);
    options.pipeline.precision = p;
    options.pipeline.optimizer.clip_norm = clip_norm;
    trainer *t;
    if (trainer_create(device_cpu(), &options, MEMORY_LIMIT, &t) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    if (weights_init(trainer_storage(t), &tiny, 1) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return t;
}

static float step(trainer *t) {
    float loss;
    if (trainer_step(t, ids, ids + 1, 1e-2, &loss) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
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
            memcpy(out + bytes, storage_find(trainer_storage(t), b->name), (size_t)b->bytes);
        bytes += (size_t)b->bytes;
    }
    return bytes;
}

/* A norm's weight so large that its gradient does not fit into fp16 after scaling; put right, the
 * model learns on. */
static void an_overflow_skips_the_step_and_training_recovers(void **state) {
    (void)state;
    const double clips[] = {0, 1};
    for (int c = 0; c < 2; c++) {
        trainer *t = make(PRECISION_FP16, STEP_FULL, clips[c]);
        step(t);
        const loss_scale *scale = trainer_loss_scale(t);
        assert_true(scale->skipped_steps == 0 && scale->factor == 65536);

        float *norm = storage_find(trainer_storage(t), "model.norm.weight");
        float kept[16];
        memcpy(kept, norm, sizeof kept);
        for (int i = 0; i < 16; i++)
            norm[i] = 60000;
        size_t bytes = copy_state(t, NULL);
        char *before = memory_allocate(bytes, 1), *after = memory_allocate(bytes, 1);
        copy_state(t, before);
        for (int i = 1; i <= 3; i++) {
            step(t);
            assert_int_equal(scale->skipped_steps, i);
            assert_true(scale->factor == ldexpf(65536, -i));
            assert_int_equal(*(const int64_t *)trainer_find(t, "step").data, 2);
        }
        copy_state(t, after);
        assert_memory_equal(before, after, bytes);
        free(before);
        free(after);

        memcpy(norm, kept, sizeof kept);
        float first = step(t), last = first;
        for (int i = 0; i < 40; i++)
            last = step(t);
        assert_int_equal(scale->skipped_steps, 3);
        assert_int_equal(*(const int64_t *)trainer_find(t, "step").data, 42);
        assert_true(last < first / 2);
        trainer_destroy(t);
    }
}

/* The scale is undone before the norm is clipped and the update computed. */
static void scaling_does_not_change_the_update(void **state) {
    (void)state;
    trainer *a = make(PRECISION_FP16, STEP_FULL, 1), *b = make(PRECISION_FP16, STEP_FULL, 1);
    float *norm = storage_find(trainer_storage(b), "model.norm.weight");
    float kept[16];
    memcpy(kept, norm, sizeof kept);
    for (int i = 0; i < 16; i++)
        norm[i] = 60000;
    step(b); /* now at half the scale */
    memcpy(norm, kept, sizeof kept);
    step(a);
    step(b);
    const char *name = "model.layers.1.mlp.up_proj.weight";
    const float *x = storage_find(trainer_storage(a), name);
    const float *y = storage_find(trainer_storage(b), name);
    for (int i = 0; i < 24 * 16; i++)
        assert_true(fabsf(x[i] - y[i]) < 1e-4f);
    trainer_destroy(a);
    trainer_destroy(b);
}

static void only_fp16_scales_its_loss(void **state) {
    (void)state;
    trainer *t = make(PRECISION_BF16, STEP_FULL, 1);
    assert_null(trainer_loss_scale(t));
    trainer_destroy(t);
    t = make(PRECISION_FP16, STEP_BACKWARD, 1); /* nobody would undo it */
    step(t);
    assert_true(*(const float *)trainer_find(t, "loss_scale").data == 1);
    trainer_destroy(t);
}

static void the_toy_model_has_the_policys_types(void **state) {
    (void)state;
    const dtype low[PRECISION_COUNT] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F32};
    precision_study full, study;
    assert_int_equal(precision_study_run(PRECISION_FP32, device_cpu(), &full), DYNO_OK);
    for (int p = 0; p < PRECISION_COUNT; p++) {
        if (precision_study_run((precision)p, device_cpu(), &study) != DYNO_OK)
            fail_msg("%s", dyno_error_message());
        for (int i = 0; i < STUDY_ITEM_COUNT; i++) {
            bool is_low = i == STUDY_FC1 || i == STUDY_FC1_WEIGHT_MULTIPLIED;
            assert_int_equal(study.type[i], is_low ? low[p] : DTYPE_F32);
            assert_non_null(study_item_name((study_item)i));
        }
        assert_true(fabsf(study.loss - full.loss) < 0.01f * full.loss);
        assert_true(fabs(study.largest_gradient - full.largest_gradient) <
                    0.02 * full.largest_gradient);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_scale_halves_on_overflow_and_doubles_with_patience),
        cmocka_unit_test(the_scale_stays_within_its_limits),
        cmocka_unit_test(an_overflow_skips_the_step_and_training_recovers),
        cmocka_unit_test(scaling_does_not_change_the_update),
        cmocka_unit_test(only_fp16_scales_its_loss),
        cmocka_unit_test(the_toy_model_has_the_policys_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
