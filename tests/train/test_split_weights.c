/* test_split_weights.c - how weights are kept, and when they are updated, changes no bit of what
 * training does. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "compiler/passes/low_copies.h"
#include "support/expect.h"
#include "support/small_model.h"
#include "train/split_weights.h"
#include "train/trainer.h"

enum { BATCH = 2, CONTEXT = 12, ROWS = BATCH * CONTEXT, STEPS = 20, MEMORY_LIMIT = 1 << 26 };

static const model_config tiny = {.name = "tiny",
                                  .d_model = 32,
                                  .d_ff = 80,
                                  .layers = 3,
                                  .heads = 4,
                                  .kv_heads = 2,
                                  .head_dim = 8,
                                  .vocab = 150,
                                  .norm_eps = 1e-5,
                                  .rope_theta = 10000};

static step_options options_of(step_mode mode, precision kind, step_extent extent) {
    step_options options = small_model_step(&tiny, BATCH, CONTEXT, extent);
    options.keep_logits = false;
    options.pipeline.keep_gradients = false;
    options.pipeline.mode = mode;
    options.pipeline.precision = kind;
    options.pipeline.optimizer.clip_norm = 0;
    return options;
}

static trainer *make(const step_options *options) {
    trainer *t;
    expect_ok(trainer_create(device_cpu(), options, MEMORY_LIMIT, &t));
    expect_ok(weights_init(trainer_storage(t), &tiny, 3));
    return t;
}

static float step(trainer *t, int number) {
    int32_t ids[ROWS + 1];
    for (int i = 0; i <= ROWS; i++)
        ids[i] = (int32_t)((i * i + 7 * i * (number % 3)) % tiny.vocab);
    float loss;
    expect_ok(trainer_step(t, ids, ids + 1, 3e-3, &loss));
    return loss;
}

/* ---- one way against another ---- */

static void expect_same_weights(const storage *a, const storage *b) {
    for (int i = 0; i < model_parameter_count(&tiny); i++) {
        model_parameter p = model_parameter_at(&tiny, i);
        size_t count = (size_t)shape_elements(&p.shape);
        float *x = memory_allocate(count, sizeof *x), *y = memory_allocate(count, sizeof *y);
        expect_ok(weight_read(a, &p, x));
        expect_ok(weight_read(b, &p, y));
        if (memcmp(x, y, count * sizeof *x) != 0)
            fail_msg("'%s' differs", p.name);
        free(x);
        free(y);
        for (int j = 0; j < 2; j++) {
            char name[128];
            snprintf(name, sizeof name, "%s%s", j ? "v." : "m.", p.name);
            if (storage_find(a, name) && storage_find(b, name))
                assert_memory_equal(storage_find(a, name), storage_find(b, name),
                                    count * sizeof(float));
        }
    }
}

static void expect_same_training(const step_options *a, const step_options *b) {
    trainer *first = make(a), *second = make(b);
    for (int i = 0; i < STEPS; i++) {
        float x = step(first, i), y = step(second, i);
        if (memcmp(&x, &y, sizeof x) != 0)
            fail_msg("step %d: loss %.9g and %.9g", i, (double)x, (double)y);
    }
    expect_same_weights(trainer_storage(first), trainer_storage(second));
    trainer_destroy(first);
    trainer_destroy(second);
}

static int count_leaves(const plan *p, const char *prefix) {
    int count = 0;
    for (int i = 0; i < p->name_count; i++) {
        const plan_buffer *b = &p->buffers[p->names[i].operand.buffer];
        count += b->is_persistent && b->role == ROLE_PARAMETER &&
                 strncmp(p->names[i].name, prefix, strlen(prefix)) == 0;
    }
    return count;
}

static void weights_in_halves_train_as_whole_ones_do(void **state) {
    (void)state;
    for (int gradients = 0; gradients < GRADIENTS_COUNT; gradients++)
        for (int clips = 0; clips < 2; clips++) {
            step_options split = options_of(STEP_COMPILED, PRECISION_BF16, STEP_FULL);
            split.pipeline.gradients = (gradients_type)gradients;
            split.pipeline.optimizer.clip_norm = clips ? 0.5 : 0;
            step_options whole = split;
            whole.pipeline.keep_whole_weights = true;
            expect_same_training(&split, &whole);
        }
}

static void a_split_weight_is_not_there_a_second_time(void **state) {
    (void)state;
    for (int extent = 0; extent < STEP_EXTENT_COUNT; extent++) {
        step_options options = options_of(STEP_COMPILED, PRECISION_BF16, (step_extent)extent);
        plan *p;
        expect_ok(step_plan_create(&options, &p));
        int products = 7 * (int)tiny.layers + 1, all = model_parameter_count(&tiny);
        assert_int_equal(count_leaves(p, WEIGHT_REST_PREFIX), products);
        assert_int_equal(count_leaves(p, LOW_COPY_PREFIX), products);
        assert_int_equal(count_leaves(p, ""), all + products);
        int64_t bytes = 0;
        for (int i = 0; i < p->buffer_count; i++)
            bytes += p->buffers[i].role == ROLE_PARAMETER ? p->buffers[i].bytes : 0;
        assert_int_equal(bytes, 4 * model_parameter_elements(&tiny));
        plan_destroy(p);
    }
}

static int count_updates(const step_options *options) {
    plan *p;
    expect_ok(step_plan_create(options, &p));
    int updates = 0;
    for (int i = 0; i < p->launch_count; i++)
        updates += strncmp(p->launches[i].op_name, "adamw", 5) == 0;
    plan_destroy(p);
    return updates;
}

static void updates_by_block_train_as_one_at_the_end_does(void **state) {
    (void)state;
    static const recompute_options recomputes[] = {{RECOMPUTE_NONE, 0},
                                                   {RECOMPUTE_MLP, 1},
                                                   {RECOMPUTE_FULL, 0},
                                                   {RECOMPUTE_EVERY, 2},
                                                   {RECOMPUTE_NESTED, 0}};
    for (int kind = PRECISION_FP32; kind <= PRECISION_BF16; kind++)
        for (int r = 0; r < 5; r++) {
            step_options blocks = options_of(STEP_COMPILED, (precision)kind, STEP_FULL);
            blocks.pipeline.recompute = recomputes[r];
            step_options end = blocks;
            end.pipeline.optimizer.one_launch = true;
            assert_int_equal(count_updates(&blocks), tiny.layers + 2); /* and head and embedding */
            assert_int_equal(count_updates(&end), 1);
            expect_same_training(&blocks, &end);
        }
}

static void eager_updates_give_the_same_in_one_launch_or_many(void **state) {
    (void)state;
    step_options eager = options_of(STEP_EAGER, PRECISION_FP32, STEP_FULL), many = eager;
    many.pipeline.optimizer.one_launch = true;
    step_options blocks = eager;
    blocks.pipeline.optimizer.by_block = true;
    expect_same_training(&eager, &many);
    expect_same_training(&eager, &blocks);
}

/* ---- from plan to plan ---- */

typedef struct way {
    step_mode mode;
    precision kind;
    step_extent extent;
} way;

/* Through every way to keep them and back, in one storage, as the cells of a bench go. */
static void weights_go_from_plan_to_plan_without_losing_a_bit(void **state) {
    (void)state;
    static const way ways[] = {{STEP_EAGER, PRECISION_FP32, STEP_FULL},
                               {STEP_COMPILED, PRECISION_BF16, STEP_FORWARD},
                               {STEP_COMPILED, PRECISION_BF16, STEP_FULL},
                               {STEP_COMPILED, PRECISION_FP16, STEP_FULL},
                               {STEP_COMPILED, PRECISION_BF16, STEP_BACKWARD},
                               {STEP_COMPILED, PRECISION_FP32, STEP_FULL},
                               {STEP_EAGER, PRECISION_BF16, STEP_FORWARD}};
    step_options first = options_of(STEP_EAGER, PRECISION_FP32, STEP_FORWARD);
    trainer *wanted = make(&first);
    memory_pool *pool;
    expect_ok(memory_pool_create(device_cpu(), MEMORY_LIMIT, &pool));
    storage *shared = storage_create(pool);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        step_options options = options_of(ways[i].mode, ways[i].kind, ways[i].extent);
        plan *p;
        expect_ok(step_plan_create(&options, &p));
        held_weights *held = NULL;
        if (i)
            expect_ok(weights_hold(shared, &tiny, p, &held));
        assert_int_equal(held != NULL, i == 1 || (i >= 3 && i <= 5));
        storage_keep_parameters(shared, p);
        executor *e;
        expect_ok(executor_create(p, pool, shared, &e));
        if (held)
            expect_ok(weights_restore(shared, held));
        else if (!i)
            expect_ok(weights_init(shared, &tiny, 3));
        else
            expect_ok(weights_fill_low_copies(shared, &tiny));
        held_weights_destroy(held);
        expect_same_weights(shared, trainer_storage(wanted));
        executor_destroy(e);
        plan_destroy(p);
    }
    storage_destroy(shared);
    memory_pool_destroy(pool);
    trainer_destroy(wanted);
}

static void halves_are_saved_and_loaded_as_whole_weights(void **state) {
    (void)state;
    char path[] = "/tmp/dyno-split-XXXXXX", file[64];
    assert_non_null(mkdtemp(path));
    step_options split = options_of(STEP_COMPILED, PRECISION_BF16, STEP_FULL);
    step_options whole = options_of(STEP_EAGER, PRECISION_FP32, STEP_FULL);
    trainer *a = make(&split), *b = make(&whole), *c = make(&split);
    for (int i = 0; i < 3; i++)
        step(a, i);
    expect_ok(weights_save(trainer_storage(a), &tiny, path));
    hf_directory *directory;
    expect_ok(hf_directory_open(path, &directory));
    expect_ok(weights_load(trainer_storage(b), directory));
    expect_ok(weights_load(trainer_storage(c), directory));
    hf_directory_close(directory);
    trainer *const loaded[] = {b, c};
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < model_parameter_count(&tiny); i++) {
            model_parameter p = model_parameter_at(&tiny, i);
            size_t count = (size_t)shape_elements(&p.shape);
            float *x = memory_allocate(count, sizeof *x), *y = memory_allocate(count, sizeof *y);
            expect_ok(weight_read(trainer_storage(a), &p, x));
            expect_ok(weight_read(trainer_storage(loaded[t]), &p, y));
            assert_memory_equal(x, y, count * sizeof *x);
            free(x);
            free(y);
        }
    static const char *const files[] = {"config.json", "model.safetensors"};
    for (int i = 0; i < 2; i++) {
        snprintf(file, sizeof file, "%s/%s", path, files[i]);
        unlink(file);
    }
    rmdir(path);
    trainer_destroy(a);
    trainer_destroy(b);
    trainer_destroy(c);
}

static void a_weight_that_is_not_there_is_named(void **state) {
    (void)state;
    step_options options = options_of(STEP_COMPILED, PRECISION_BF16, STEP_FULL);
    trainer *t = make(&options);
    model_parameter stranger = {.name = "model.stranger.weight", .shape = SHAPE(1)};
    float number = 1;
    assert_int_equal(weight_read(trainer_storage(t), &stranger, &number), DYNO_INVALID);
    assert_non_null(strstr(dyno_error_message(), "'model.stranger.weight'"));
    assert_int_equal(weight_write(trainer_storage(t), &stranger, &number), DYNO_INVALID);
    trainer_destroy(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_in_halves_train_as_whole_ones_do),
        cmocka_unit_test(a_split_weight_is_not_there_a_second_time),
        cmocka_unit_test(updates_by_block_train_as_one_at_the_end_does),
        cmocka_unit_test(eager_updates_give_the_same_in_one_launch_or_many),
        cmocka_unit_test(weights_go_from_plan_to_plan_without_losing_a_bit),
        cmocka_unit_test(halves_are_saved_and_loaded_as_whole_weights),
        cmocka_unit_test(a_weight_that_is_not_there_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
