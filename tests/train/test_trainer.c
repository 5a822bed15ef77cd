/* test_trainer.c - a model in memory: what it needs, what a step changes, what it does not. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "model/parameters.h"
#include "plan/memory_account.h"
#include "support/small_model.h"
#include "train/trainer.h"

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

static trainer *make(step_options options) {
    trainer *t;
    if (trainer_create(device_cpu(), &options, MEMORY_LIMIT, &t) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    if (weights_init(trainer_storage(t), &tiny, 1) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return t;
}

static float step(trainer *t, double learning_rate) {
    float loss;
    if (trainer_step(t, ids, ids + 1, learning_rate, &loss) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return loss;
}

static const float *weight(trainer *t) {
    return storage_find(trainer_storage(t), "model.layers.1.mlp.up_proj.weight");
}
enum { WEIGHT_BYTES = 24 * 16 * sizeof(float) };

static void memory_is_checked_before_it_is_taken(void **state) {
    (void)state;
    step_options options = small_model_step(&tiny, BATCH, CONTEXT, STEP_FULL);
    trainer *t = make(options);
    int64_t needed = memory_account_plan(trainer_plan(t)).reserved_bytes;
    trainer_destroy(t);
    assert_int_equal(trainer_create(device_cpu(), &options, needed - 1, &t), DYNO_OUT_OF_MEMORY);
    assert_null(t);
    assert_non_null(strstr(dyno_error_message(), "'tiny' needs "));
    assert_non_null(strstr(dyno_error_message(), "use a smaller batch or context"));
    assert_int_equal(trainer_create(device_cpu(), &options, 0, &t), DYNO_OUT_OF_MEMORY);
    assert_int_equal(trainer_create(device_cpu(), &options, -1, &t), DYNO_OUT_OF_MEMORY);
    assert_int_equal(trainer_create(device_cpu(), &options, needed, &t),
                     DYNO_OK); /* not a byte more */
    if (weights_init(trainer_storage(t), &tiny, 1) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    for (int i = 0; i < 3; i++)
        step(t, 1e-3);
    trainer_destroy(t);
    trainer_destroy(NULL);
}

static void a_model_that_cannot_be_built_is_refused(void **state) {
    (void)state;
    step_options options = small_model_step(&tiny, 0, CONTEXT, STEP_FULL);
    trainer *t;
    assert_int_equal(trainer_create(device_cpu(), &options, MEMORY_LIMIT, &t), DYNO_INVALID);
    assert_null(t);
    options = small_model_step(&tiny, BATCH, CONTEXT, STEP_FULL);
    options.config.heads = 5;
    assert_int_equal(trainer_create(device_cpu(), &options, MEMORY_LIMIT, &t), DYNO_INVALID);
    assert_null(t);
}

static void the_same_batch_again_and_again_is_learned(void **state) {
    (void)state;
    trainer *t = make(small_model_step(&tiny, BATCH, CONTEXT, STEP_FULL));
    float first = step(t, 1e-2), last = first;
    for (int i = 0; i < 60; i++)
        last = step(t, 1e-2);
    assert_true(last < first / 4);
    trainer_destroy(t);
}

static void steps_are_counted_from_one(void **state) {
    (void)state;
    trainer *t = make(small_model_step(&tiny, BATCH, CONTEXT, STEP_FULL));
    for (int64_t i = 1; i <= 3; i++) {
        step(t, 0.5);
        assert_int_equal(*(const int64_t *)trainer_find(t, "step").data, i);
        assert_true(*(const double *)trainer_find(t, "learning_rate").data == 0.5);
    }
    trainer_destroy(t);
}

static void a_learning_rate_of_zero_leaves_the_weights(void **state) {
    (void)state;
    trainer *t = make(small_model_step(&tiny, BATCH, CONTEXT, STEP_FULL));
    char before[WEIGHT_BYTES];
    memcpy(before, weight(t), WEIGHT_BYTES);
    float first = step(t, 0);
    assert_memory_equal(before, weight(t), WEIGHT_BYTES);
    assert_true(first == step(t, 0));
    step(t, 1e-3);
    assert_memory_not_equal(before, weight(t), WEIGHT_BYTES);
    trainer_destroy(t);
}

static void all_three_passes_agree_on_the_loss(void **state) {
    (void)state;
    float losses[STEP_EXTENT_COUNT];
    char before[WEIGHT_BYTES];
    for (int extent = 0; extent < STEP_EXTENT_COUNT; extent++) {
        trainer *t = make(small_model_step(&tiny, BATCH, CONTEXT, (step_extent)extent));
        memcpy(before, weight(t), WEIGHT_BYTES);
        losses[extent] = step(t, 1e-3);
        bool is_same = memcmp(before, weight(t), WEIGHT_BYTES) == 0;
        assert_int_equal(is_same, extent != STEP_FULL);
        assert_int_equal(trainer_find(t, "g.lm_head.weight").data != NULL, extent != STEP_FORWARD);
        trainer_destroy(t);
    }
    assert_true(losses[0] == losses[1] && losses[1] == losses[2]);
}

static void what_is_not_kept_cannot_be_found(void **state) {
    (void)state;
    step_options options = small_model_step(&tiny, BATCH, CONTEXT, STEP_FULL);
    options.keep_logits = options.pipeline.keep_gradients = false;
    trainer *t = make(options), *kept = make(small_model_step(&tiny, BATCH, CONTEXT, STEP_FULL));
    assert_true(step(t, 1e-3) == step(kept, 1e-3));
    assert_null(trainer_find(t, "logits").data);
    assert_null(trainer_find(t, "g.lm_head.weight").data);
    assert_non_null(trainer_find(kept, "logits").data);
    assert_memory_equal(weight(t), weight(kept), WEIGHT_BYTES); /* keeping changes nothing */
    trainer_destroy(t);
    trainer_destroy(kept);
}

static bool stop_at_the_third(void *asked) { return ++*(int *)asked == 3; }

static void drawing_weights_ends_when_asked_to(void **state) {
    (void)state;
    trainer *t = make(small_model_step(&tiny, BATCH, CONTEXT, STEP_FULL));
    int asked = 0;
    assert_int_equal(weights_init_unless(trainer_storage(t), &tiny, 1, stop_at_the_third, &asked),
                     DYNO_INTERRUPTED);
    assert_non_null(strstr(dyno_error_message(), "interrupted after drawing 2 of "));
    trainer_destroy(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_checked_before_it_is_taken),
        cmocka_unit_test(a_model_that_cannot_be_built_is_refused),
        cmocka_unit_test(the_same_batch_again_and_again_is_learned),
        cmocka_unit_test(steps_are_counted_from_one),
        cmocka_unit_test(a_learning_rate_of_zero_leaves_the_weights),
        cmocka_unit_test(all_three_passes_agree_on_the_loss),
        cmocka_unit_test(what_is_not_kept_cannot_be_found),
        cmocka_unit_test(drawing_weights_ends_when_asked_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
