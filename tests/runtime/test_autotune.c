/* test_autotune.c - kernels and variants: wanted, found in the cache, taken into plans; and how the
 * fastest of several candidates is found. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "experiments/attention_sweep.h"
#include "ops/attention/attention.h"
#include "ops/op_list.h"
#include "plan/memory_account.h"
#include "runtime/autotune.h"
#include "support/expect.h"
#include "support/graph_pass.h"
#include "support/own_cache.h"
#include "train/step_plan.h"

static const attention_plan_options PROBLEM = {
    .shape = {1, 300, 1, 1, 16}, .extent = STEP_BACKWARD, .is_causal = true, .mode = STEP_COMPILED};

static autotune *open_cpu(void) { return autotune_create(target_this_cpu()); }

static plan *plan_with(const autotune *of, attention_plan_options options) {
    plan *p;
    options.tuning = of ? autotune_kernels(of) : NULL;
    expect_ok(attention_plan_flash(&options, &p));
    return p;
}

static const plan_launch *launch_of(const plan *p, bool is_gradient) {
    const plan_launch *l = attention_find_launch(p, is_gradient);
    assert_non_null(l);
    return l;
}

/* Of that launch; NULL: the kernel's own. */
static const char *variant_of(const plan *p, bool is_gradient) {
    return launch_of(p, is_gradient)->variant;
}

/* "kernel:variant", the last of the kernel's. */
static void name_last(const plan *p, bool is_gradient, char out[64]) {
    const plan_launch *l = launch_of(p, is_gradient);
    kernel_variant all[KERNEL_MOST_VARIANTS];
    launch_layouts at;
    choose_kernel_describe(p, l, &at);
    int count = l->kernel->variants(&at.args, all);
    assert_true(count > 1);
    snprintf(out, 64, "%s:%s", l->kernel_name, all[count - 1].name);
}

static void key_of(const plan *p, bool is_gradient, text *out) {
    launch_layouts at;
    choose_kernel_describe(p, launch_of(p, is_gradient), &at);
    choose_kernel_key(is_gradient ? &op_attention_gradient : &op_attention, &at.args, out);
}

static void keep(autotune *to, const plan *p, bool is_gradient, const char *choice) {
    text key = {0};
    key_of(p, is_gradient, &key);
    autotune_keep(to, text_string(&key), choice);
    text_release(&key);
}

/* Whether the launch is of "kernel:variant". */
static bool is_of(const plan_launch *l, const char *choice) {
    char name[64];
    snprintf(name, sizeof name, "%s:%s", l->kernel_name, l->variant ? l->variant : "");
    return strcmp(name, choice) == 0;
}

static void a_choice_that_was_kept_is_planned_with(void **state) {
    (void)state;
    autotune *kept = open_cpu();
    plan *own = plan_with(kept, PROBLEM);
    char forward[64], backward[64];
    for (int i = 0; i < 2; i++)
        assert_null(variant_of(own, i));
    name_last(own, false, forward);
    name_last(own, true, backward);
    keep(kept, own, false, forward);
    keep(kept, own, true, backward);
    autotune_destroy(kept);
    kept = open_cpu(); /* as another process would */
    plan *tuned = plan_with(kept, PROBLEM), *again = plan_with(kept, PROBLEM);
    assert_true(is_of(launch_of(tuned, false), forward));
    assert_true(is_of(launch_of(tuned, true), backward));
    assert_true(is_of(launch_of(again, true), backward));
    assert_int_equal(memory_account_plan(tuned).reserved_bytes,
                     memory_account_plan(again).reserved_bytes);
    plan_destroy(again);
    plan_destroy(tuned);
    /* Lengths are rounded up to powers of two; a longer one is another problem. */
    attention_plan_options other = PROBLEM;
    other.shape.context = 512;
    tuned = plan_with(kept, other);
    assert_true(is_of(launch_of(tuned, false), forward));
    plan_destroy(tuned);
    other.shape.context = 513;
    tuned = plan_with(kept, other);
    assert_null(variant_of(tuned, false));
    plan_destroy(tuned);
    other = PROBLEM;
    other.is_causal = false;
    tuned = plan_with(kept, other);
    assert_null(variant_of(tuned, false));
    plan_destroy(tuned);
    /* What the user wants comes first. */
    other = PROBLEM;
    other.forward = "32x32";
    tuned = plan_with(kept, other);
    assert_string_equal(variant_of(tuned, false), "32x32");
    plan_destroy(tuned);
    plan_destroy(own);
    autotune_destroy(kept);
}

static void a_kernel_further_down_the_list_can_be_kept_and_wanted(void **state) {
    (void)state;
    autotune *kept = open_cpu();
    attention_plan_options options = PROBLEM;
    plan *own = plan_with(kept, options);
    keep(kept, own, false, "attention_tiled:16x16");
    keep(kept, own, true, "attention_gradient_tiled");
    plan *tuned = plan_with(kept, options);
    assert_true(is_of(launch_of(tuned, false), "attention_tiled:16x16"));
    assert_true(is_of(launch_of(tuned, true), "attention_gradient_tiled:"));
    plan_destroy(tuned);
    options.forward = "attention_tiled";
    options.backward = "attention_gradient_tiled:32x32";
    plan *wanted = plan_with(NULL, options);
    assert_true(is_of(launch_of(wanted, false), "attention_tiled:"));
    assert_true(is_of(launch_of(wanted, true), options.backward));
    plan_destroy(wanted);
    plan_destroy(own);
    autotune_destroy(kept);
}

static void a_model_is_planned_with_it_too(void **state) {
    (void)state;
    step_options options = {.batch = 1,
                            .context = 300,
                            .pipeline = {.extent = STEP_FULL,
                                         .mode = STEP_COMPILED,
                                         .optimizer = step_default_optimizer()}};
    expect_ok(model_config_from_preset("small", &options.config));
    autotune *kept = open_cpu();
    options.pipeline.kernels.tuning = autotune_kernels(kept);
    plan *before, *after;
    expect_ok(step_plan_create(&options, &before));
    char backward[64];
    name_last(before, true, backward);
    keep(kept, before, true, backward);
    expect_ok(step_plan_create(&options, &after));
    assert_null(variant_of(after, false));
    int found = 0;
    for (int i = 0; i < after->launch_count; i++)
        found += is_of(&after->launches[i], backward);
    assert_int_equal(found, options.config.layers);
    plan_destroy(before);
    plan_destroy(after);
    autotune_destroy(kept);
}

static void what_is_kept_but_no_kernel_has_is_passed_over(void **state) {
    (void)state;
    autotune *kept = open_cpu();
    plan *own = plan_with(kept, PROBLEM);
    static const char *const choices[] = {
        "7x9", "attention_tiled:7x9", "attention_hopper:128x128", "attention_none:32x32",
        ":",   "attention_tiled:"};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        keep(kept, own, false, choices[i]);
        plan *again = plan_with(kept, PROBLEM);
        assert_null(variant_of(again, false));
        assert_ptr_equal(launch_of(again, false)->kernel, launch_of(own, false)->kernel);
        plan_destroy(again);
    }
    plan_destroy(own);
    autotune_destroy(kept);
}

static void what_is_best_for_one_head_on_a_gpu_is_not_taken_for_many(void **state) {
    (void)state;
    autotune *kept = open_cpu();
    attention_plan_options one = PROBLEM, many = PROBLEM;
    one.target = many.target = target_usual(TARGET_CUDA);
    one.shape.context = many.shape.context = 1024;
    many.shape.heads = many.shape.kv_heads = 64;
    plan *of_one = plan_with(NULL, one), *of_many = plan_with(NULL, many);
    for (int is_gradient = 0; is_gradient < 2; is_gradient++) {
        text key = {0}, other = {0};
        keep(kept, of_one, is_gradient, "64x32");
        key_of(of_one, is_gradient, &key);
        key_of(of_many, is_gradient, &other);
        assert_string_equal(autotune_find(kept, text_string(&key)), "64x32");
        assert_null(autotune_find(kept, text_string(&other)));
        text_release(&key);
        text_release(&other);
    }
    plan_destroy(of_one);
    plan_destroy(of_many);
    autotune_destroy(kept);
}

static void a_variant_that_is_wanted_and_not_there_is_refused(void **state) {
    (void)state;
    attention_plan_options options = PROBLEM;
    options.backward = "7x9";
    plan *p;
    expect_failure(attention_plan_flash(&options, &p), DYNO_UNSUPPORTED,
                   "attention_gradient has no variant 7x9 for f32[1,1,300,16]; it has ");
    assert_null(p);
    expect_failure(attention_plan_flash(&options, &p), DYNO_UNSUPPORTED, "32x32");
    /* A GPU's are known without one; naive attention has none to want. */
    options.target = target_usual(TARGET_CUDA);
    options.forward = "7x9";
    expect_failure(attention_plan_flash(&options, &p), DYNO_UNSUPPORTED,
                   "attention has no variant 7x9 for f32[1,1,300,16]; it has attention_tf32: "
                   "64x64, 64x32");
    options.target = target_usual(TARGET_CPU);
    expect_ok(attention_plan_naive(&options, &p));
    plan_destroy(p);
}

static void tiles_are_read_as_queries_x_keys(void **state) {
    (void)state;
    attention_tile tile;
    assert_true(attention_tile_parse("64x128", &tile));
    assert_int_equal(tile.queries, 64);
    assert_int_equal(tile.keys, 128);
    kernel_variant name;
    assert_int_equal(attention_name_tiles(&tile, 1, &name), 1);
    assert_string_equal(name.name, "64x128");
    static const char *const none[] = {"",    "x",     "64",      "64x",   "x64",         "0x64",
                                       "1x0", "1x2x3", "64 x128", "-1x64", "65537x1",     "1x65537",
                                       "a",   "64x1a", "64X64",   "+1x1",  "9999999999x1"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_false(attention_tile_parse(none[i], &tile));
}

/* ---- finding the fastest ---- */

/* Candidate i takes ns[i] a run, and cannot run where that is 0. */
typedef struct race {
    const double *ns;
    int runs[8];
    int longest; /* repeats that were asked for */
} race;

static bool time_candidate(void *context, int candidate, int repeats, double *ns) {
    race *r = context;
    r->runs[candidate]++;
    r->longest = repeats > r->longest ? repeats : r->longest;
    *ns = r->ns[candidate];
    if (repeats == 1) /* with a launch that takes longer than any of them */
        *ns += candidate == 0 ? 500000 : 400000;
    return *ns >= 1e6;
}

static void the_fastest_of_the_finalists_is_chosen(void **state) {
    (void)state;
    static const double ns[] = {1.1e6, 3e6, 1.2e6, 0, 5e6, 1.3e6, 4e6, 2e6};
    race r = {.ns = ns};
    autotune_candidates from = {.count = 8, .context = &r, .time = time_candidate};
    assert_int_equal(autotune_choose(&from), 0); /* though its first run was slower */
    assert_int_equal(r.runs[3], 1);
    assert_int_equal(r.runs[4], 2); /* no finalist */
    assert_int_equal(r.runs[0], 4);
    assert_int_equal(r.longest, 2);
}

static void none_is_chosen_where_none_runs(void **state) {
    (void)state;
    static const double ns[] = {0, 0};
    race r = {.ns = ns};
    autotune_candidates from = {.count = 2, .context = &r, .time = time_candidate};
    assert_int_equal(autotune_choose(&from), -1);
    from.count = 0;
    assert_int_equal(autotune_choose(&from), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define WITH_CACHE(test)                                                                           \
    cmocka_unit_test_setup_teardown(test, own_cache_set_up, own_cache_tear_down)
        WITH_CACHE(a_choice_that_was_kept_is_planned_with),
        WITH_CACHE(a_kernel_further_down_the_list_can_be_kept_and_wanted),
        WITH_CACHE(a_model_is_planned_with_it_too),
        WITH_CACHE(what_is_kept_but_no_kernel_has_is_passed_over),
        WITH_CACHE(what_is_best_for_one_head_on_a_gpu_is_not_taken_for_many),
        WITH_CACHE(a_variant_that_is_wanted_and_not_there_is_refused),
        cmocka_unit_test(tiles_are_read_as_queries_x_keys),
        cmocka_unit_test(the_fastest_of_the_finalists_is_chosen),
        cmocka_unit_test(none_is_chosen_where_none_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
