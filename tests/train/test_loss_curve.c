/* test_loss_curve.c - two hundred steps on a small text: bf16 learns what fp32 learns. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "train/trainer.h"

enum { BATCH = 4, CONTEXT = 32, ROWS = BATCH * CONTEXT, STEPS = 200, WINDOW = 10 };

static const model_config tiny = {.name = "tiny",
                                  .d_model = 64,
                                  .d_ff = 160,
                                  .layers = 2,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_dim = 16,
                                  .vocab = 128,
                                  .norm_eps = 1e-5,
                                  .rope_theta = 10000};

/* The losses of the steps on the license, byte by byte, around and around. */
static void train(precision p, step_mode mode, float *losses) {
    char *letters;
    size_t size;
    assert_int_equal(file_read_all(DYNO_TEST_DIR "/../LICENSE", 1 << 20, &letters, &size), DYNO_OK);
    step_options options = {.config = tiny,
                            .batch = BATCH,
                            .context = CONTEXT,
                            .pipeline = {.extent = STEP_FULL,
                                         .mode = mode,
                                         .precision = p,
                                         .optimizer = step_default_optimizer()}};
    trainer *t;
    if (trainer_create(device_cpu(), &options, 1 << 28, &t) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    if (weights_init(trainer_storage(t), &tiny, 1) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    for (int k = 0; k < STEPS; k++) {
        int32_t ids[ROWS + 1];
        for (int i = 0; i <= ROWS; i++)
            ids[i] = letters[((size_t)k * ROWS + (size_t)i) % size] & 0x7f;
        if (trainer_step(t, ids, ids + 1, 1e-3, &losses[k]) != DYNO_OK)
            fail_msg("%s", dyno_error_message());
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

static void bf16_stays_within_a_percent_of_fp32(void **state) {
    (void)state;
    float full[STEPS], low[STEPS];
    train(PRECISION_FP32, STEP_EAGER, full);
    assert_true(smooth(full, STEPS - WINDOW) < 0.75 * smooth(full, 0)); /* it learns at all */
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        train(PRECISION_BF16, (step_mode)mode, low);
        for (int k = 0; k + WINDOW <= STEPS; k++) {
            double want = smooth(full, k), got = smooth(low, k);
            if (!(fabs(got - want) <= 0.01 * want))
                fail_msg("%s, step %d: loss %g, in fp32 %g", step_mode_name((step_mode)mode), k,
                         got, want);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bf16_stays_within_a_percent_of_fp32)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
