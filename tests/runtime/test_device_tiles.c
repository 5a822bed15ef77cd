/* test_device_tiles.c - tiles: wanted, found in the cache, taken into plans. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "experiments/attention_plan.h"
#include "plan/memory_account.h"
#include "runtime/device_tiles.h"
#include "support/expect.h"
#include "support/graph_pass.h"
#include "support/own_cache.h"
#include "train/step_plan.h"

static const attention_plan_options PROBLEM = {
    .shape = {1, 300, 1, 1, 16}, .extent = STEP_BACKWARD, .is_causal = true, .mode = STEP_COMPILED};

/* The tile of that launch, and its plan's; `of` the source. */
static plan *plan_with(const device_tiles *of, attention_plan_options options) {
    plan *p;
    options.tiles.source = of ? device_tiles_source(of) : NULL;
    expect_ok(attention_plan_flash(&options, &p));
    return p;
}

static kernel_tile tile_of(const plan *p, bool is_gradient) {
    tiled_launch at;
    assert_true(find_tiled_launch(p, is_gradient, &at));
    return at.tile;
}

static kernel_tile last_tile(const plan *p, bool is_gradient) {
    kernel_tile tiles[KERNEL_MOST_TILES];
    tiled_launch at;
    assert_true(find_tiled_launch(p, is_gradient, &at));
    int count = at.kernel->tiles(&at.args, tiles);
    assert_true(count > 1);
    return tiles[count - 1];
}

static void keep(device_tiles *to, const plan *p, bool is_gradient, kernel_tile tile) {
    tiled_launch at;
    assert_true(find_tiled_launch(p, is_gradient, &at));
    device_tiles_keep(to, at.kernel, &at.args, tile);
}

static void a_tile_that_was_kept_is_planned_with(void **state) {
    (void)state;
    device_tiles *tiles = device_tiles_create(device_cpu());
    plan *own = plan_with(tiles, PROBLEM);
    for (int i = 0; i < 2; i++)
        assert_true(kernel_tile_is_open(tile_of(own, i)));
    kernel_tile forward = last_tile(own, false), backward = last_tile(own, true);
    keep(tiles, own, false, forward);
    keep(tiles, own, true, backward);
    device_tiles_destroy(tiles);
    tiles = device_tiles_create(device_cpu()); /* as another process would */
    plan *tuned = plan_with(tiles, PROBLEM), *again = plan_with(tiles, PROBLEM);
    assert_true(kernel_tile_equal(tile_of(tuned, false), forward));
    assert_true(kernel_tile_equal(tile_of(tuned, true), backward));
    assert_true(kernel_tile_equal(tile_of(again, true), backward));
    assert_int_equal(memory_account_plan(tuned).reserved_bytes,
                     memory_account_plan(again).reserved_bytes);
    plan_destroy(again);
    plan_destroy(tuned);
    /* Lengths are rounded up to powers of two; a longer one is another problem. */
    attention_plan_options other = PROBLEM;
    other.shape.context = 512;
    tuned = plan_with(tiles, other);
    assert_true(kernel_tile_equal(tile_of(tuned, false), forward));
    plan_destroy(tuned);
    other.shape.context = 513;
    tuned = plan_with(tiles, other);
    assert_true(kernel_tile_is_open(tile_of(tuned, false)));
    plan_destroy(tuned);
    other = PROBLEM;
    other.is_causal = false;
    tuned = plan_with(tiles, other);
    assert_true(kernel_tile_is_open(tile_of(tuned, false)));
    plan_destroy(tuned);
    /* What the user wants comes first. */
    other = PROBLEM;
    other.tiles.forward = (kernel_tile){32, 32};
    tuned = plan_with(tiles, other);
    assert_true(kernel_tile_equal(tile_of(tuned, false), (kernel_tile){32, 32}));
    plan_destroy(tuned);
    plan_destroy(own);
    device_tiles_destroy(tiles);
}

static void a_model_is_planned_with_it_too(void **state) {
    (void)state;
    step_options options = {.batch = 1,
                            .context = 300,
                            .pipeline = {.extent = STEP_FULL,
                                         .mode = STEP_COMPILED,
                                         .optimizer = step_default_optimizer()}};
    expect_ok(model_config_from_preset("small", &options.config));
    device_tiles *tiles = device_tiles_create(device_cpu());
    options.pipeline.tiles.source = device_tiles_source(tiles);
    plan *before, *after;
    expect_ok(step_plan_create(&options, &before));
    kernel_tile backward = last_tile(before, true);
    keep(tiles, before, true, backward);
    expect_ok(step_plan_create(&options, &after));
    assert_true(kernel_tile_is_open(tile_of(after, false)));
    int found = 0;
    for (int i = 0; i < after->launch_count; i++)
        found += kernel_tile_equal(kernel_tile_asked(&after->launches[i].attributes), backward);
    assert_int_equal(found, options.config.layers);
    plan_destroy(before);
    plan_destroy(after);
    device_tiles_destroy(tiles);
}

static void what_is_kept_but_is_no_tile_of_the_kernel_is_passed_over(void **state) {
    (void)state;
    device_tiles *tiles = device_tiles_create(device_cpu());
    plan *own = plan_with(tiles, PROBLEM);
    keep(tiles, own, false, (kernel_tile){7, 9});
    plan *again = plan_with(tiles, PROBLEM);
    assert_true(kernel_tile_is_open(tile_of(again, false)));
    plan_destroy(again);
    plan_destroy(own);
    device_tiles_destroy(tiles);
}

static void what_is_best_for_one_head_on_a_gpu_is_not_taken_for_many(void **state) {
    (void)state;
    device_tiles *tiles = device_tiles_create(device_cpu());
    const tile_source *source = device_tiles_source(tiles);
    attention_plan_options one = PROBLEM, many = PROBLEM;
    one.target = many.target = BACKEND_CUDA;
    one.shape.context = many.shape.context = 1024;
    many.shape.heads = many.shape.kv_heads = 64;
    plan *of_one = plan_with(NULL, one), *of_many = plan_with(NULL, many);
    for (int is_gradient = 0; is_gradient < 2; is_gradient++) {
        tiled_launch at, other;
        kernel_tile best = {64, 32};
        keep(tiles, of_one, is_gradient, best);
        assert_true(find_tiled_launch(of_one, is_gradient, &at));
        assert_true(find_tiled_launch(of_many, is_gradient, &other));
        assert_true(kernel_tile_equal(source->find(source, at.kernel, &at.args), best));
        assert_true(kernel_tile_is_open(source->find(source, other.kernel, &other.args)));
    }
    plan_destroy(of_one);
    plan_destroy(of_many);
    device_tiles_destroy(tiles);
}

static void a_tile_that_is_wanted_and_not_there_is_refused(void **state) {
    (void)state;
    attention_plan_options options = PROBLEM;
    options.tiles.backward = (kernel_tile){7, 9};
    plan *p;
    expect_failure(attention_plan_flash(&options, &p), DYNO_UNSUPPORTED, "has no tiles of 7x9");
    assert_null(p);
    expect_failure(attention_plan_flash(&options, &p), DYNO_UNSUPPORTED, "32x32");
    /* Without a device nothing is known of a GPU's; naive attention has none to want. */
    options.target = BACKEND_CUDA;
    expect_failure(attention_plan_flash(&options, &p), DYNO_UNSUPPORTED, "those of its own");
    options.target = BACKEND_CPU;
    expect_ok(attention_plan_naive(&options, &p));
    plan_destroy(p);
}

static void tiles_are_written_and_read_as_queries_x_keys(void **state) {
    (void)state;
    kernel_tile tile;
    assert_true(kernel_tile_parse("64x128", &tile));
    assert_true(kernel_tile_equal(tile, (kernel_tile){64, 128}));
    assert_string_equal(kernel_tile_format(tile).text, "64x128");
    static const char *const none[] = {"",    "x",     "64",      "64x",   "x64",         "0x64",
                                       "1x0", "1x2x3", "64 x128", "-1x64", "65537x1",     "1x65537",
                                       "a",   "64x1a", "64X64",   "+1x1",  "9999999999x1"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_false(kernel_tile_parse(none[i], &tile));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_tile_that_was_kept_is_planned_with, own_cache_set_up,
                                        own_cache_tear_down),
        cmocka_unit_test_setup_teardown(a_model_is_planned_with_it_too, own_cache_set_up,
                                        own_cache_tear_down),
        cmocka_unit_test_setup_teardown(what_is_kept_but_is_no_tile_of_the_kernel_is_passed_over,
                                        own_cache_set_up, own_cache_tear_down),
        cmocka_unit_test_setup_teardown(what_is_best_for_one_head_on_a_gpu_is_not_taken_for_many,
                                        own_cache_set_up, own_cache_tear_down),
        cmocka_unit_test_setup_teardown(a_tile_that_is_wanted_and_not_there_is_refused,
                                        own_cache_set_up, own_cache_tear_down),
        cmocka_unit_test(tiles_are_written_and_read_as_queries_x_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
