/* test_golden.c - whole training steps against vectors that a float64 model made with PyTorch
 * (tests/golden/generate.py says how), for every case there is. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"
#include "support/golden.h"
#include "support/kernel_run.h"
#include "support/scratch.h"

static void expect_ok(dyno_status status, const char *where) {
    if (status != DYNO_OK)
        fail_msg("%s: %s", where, dyno_error_message());
}

static void check_numbers(const golden *c, void *context) {
    (void)context;
    answers a = golden_run(c, device_cpu(), NULL);
    golden_compare(c, &a, false);
    answers_release(&a);
}

static void steps_agree_with_the_float64_model(void **state) {
    (void)state;
    golden_for_each(DYNO_TEST_DIR, check_numbers, NULL);
}

/* In compiled mode the first case only: every target's kernels are compiled anew. */
static void check_targets(const golden *c, void *context) {
    bool *is_first = context;
    const target *chips[KERNEL_RUN_MOST_TARGETS];
    int count = kernel_run_targets(chips);
    for (int i = 0; i < (*is_first ? 2 * count : count); i++) {
        golden restricted = *c;
        restricted.options.pipeline.target = chips[i % count];
        restricted.options.pipeline.mode = i < count ? STEP_EAGER : STEP_COMPILED;
        answers a = golden_run(&restricted, device_cpu(), NULL);
        golden_compare(c, &a, i >= count);
        answers_release(&a);
    }
    *is_first = false;
}

static void steps_planned_for_less_than_this_cpu_has_agree_as_well(void **state) {
    (void)state;
    bool is_first = true;
    golden_for_each(DYNO_TEST_DIR, check_targets, &is_first);
}

static answers run_on_threads(const golden *c, int count) {
    threads_set_count(count);
    answers a = golden_run(c, device_cpu(), NULL);
    threads_set_count(0);
    return a;
}

static void check_threads(const golden *c, void *context) {
    (void)context;
    static const int threads[] = {1, 2, 3, 5};
    answers first = run_on_threads(c, 1);
    for (int i = 0; i < 4; i++) {
        answers other = run_on_threads(c, threads[i]);
        assert_int_equal(first.used, other.used);
        for (int j = 0; j < first.count; j++)
            if (memcmp(first.slices[j], other.slices[j], (size_t)first.sizes[j] * sizeof(float)))
                fail_msg("%s: '%s' differs with %d threads", c->path, first.names[j], threads[i]);
        answers_release(&other);
    }
    answers_release(&first);
}

/* The list of thread counts begins with the first run's own: that is the second run. */
static void steps_give_the_same_bits_again_and_for_any_number_of_threads(void **state) {
    (void)state;
    golden_for_each(DYNO_TEST_DIR, check_threads, NULL);
}

static void check_round_trip(const golden *c, void *context) {
    (void)context;
    scratch made = scratch_create();
    scratch_path path = scratch_join(&made, "saved");
    const model_config *config = &c->options.config;
    trainer *t;
    answers a = golden_run(c, device_cpu(), &t);
    hf_directory *saved;
    expect_ok(weights_save(trainer_storage(t), config, path.text), path.text);
    expect_ok(hf_directory_open(path.text, &saved), path.text);
    model_config read = *hf_directory_config(saved);
    assert_int_equal(read.d_model, config->d_model);
    assert_int_equal(read.d_ff, config->d_ff);
    assert_int_equal(read.layers, config->layers);
    assert_int_equal(read.heads, config->heads);
    assert_int_equal(read.kv_heads, config->kv_heads);
    assert_int_equal(read.head_dim, config->head_dim);
    assert_int_equal(read.vocab, config->vocab);
    assert_true(read.norm_eps == config->norm_eps && read.rope_theta == config->rope_theta);
    float *data = memory_allocate((size_t)model_parameter_elements(config), sizeof *data);
    for (int i = 0; i < model_parameter_count(config); i++) {
        model_parameter p = model_parameter_at(config, i);
        expect_ok(hf_directory_read(saved, p.name, data), p.name);
        assert_memory_equal(data, storage_find(trainer_storage(t), p.name),
                            (size_t)shape_elements(&p.shape) * sizeof(float));
    }
    free(data);
    hf_directory_close(saved);
    answers_release(&a);
    trainer_destroy(t);
    scratch_remove(&made);
}

static void saved_weights_are_loaded_back_to_the_bit(void **state) {
    (void)state;
    golden_for_each(DYNO_TEST_DIR, check_round_trip, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_agree_with_the_float64_model),
        cmocka_unit_test(steps_planned_for_less_than_this_cpu_has_agree_as_well),
        cmocka_unit_test(steps_give_the_same_bits_again_and_for_any_number_of_threads),
        cmocka_unit_test(saved_weights_are_loaded_back_to_the_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
