/* test_scope_ranges.c - ranges for other profilers: steps, in them phases, in them scopes, each closed
 * again. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/scope_ranges.h"
#include "support/expect.h"
#include "support/fake_device.h"
#include "support/small_model.h"

enum { POOL_BYTES = 1 << 26 };

static plan *plan_of(const char *const *scopes, const phase *phases, int count) {
    plan *p = plan_create("ranges");
    p->scopes = arena_allocate(p->memory, (size_t)count, sizeof *p->scopes);
    for (int i = 0; i < count; i++) {
        plan_launch *l = plan_add_launch(p, 0, 0);
        l->scope = i;
        l->phase = phases[i];
        p->scopes[i] = scopes[i];
    }
    p->scope_count = count;
    return p;
}

static void launches_are_inside_their_phase_and_every_part_of_their_scope(void **state) {
    (void)state;
    static const char *const SCOPES[] = {"embed",
                                         "layers.0.attn.q",
                                         "layers.0.attn.q",
                                         "layers.0.attn",
                                         "layers.0.mlp",
                                         "layers.0.mlp",
                                         "",
                                         "layers.0.attn.q"};
    static const phase PHASES[] = {PHASE_FORWARD, PHASE_FORWARD,  PHASE_FORWARD,  PHASE_FORWARD,
                                   PHASE_FORWARD, PHASE_BACKWARD, PHASE_BACKWARD, PHASE_BACKWARD};
    plan *p = plan_of(SCOPES, PHASES, 8);
    fake_device *f = fake_device_create(POOL_BYTES, false);
    scope_ranges *ranges;
    expect_ok(scope_ranges_create(fake_device_base(f), p, &ranges));
    scope_ranges_begin_step(ranges);
    for (int i = 0; i < 8; i++)
        scope_ranges_enter(ranges, i);
    scope_ranges_end_launches(ranges);
    scope_ranges_end_step(ranges);
    assert_string_equal(f->ranges_text, "step 0(forward(embed()layers(0(attn(q())mlp())))"
                                        "backward(layers(0(mlp()))layers(0(attn(q())))))");
    scope_ranges_destroy(ranges);
    plan_destroy(p);
    device_close(fake_device_base(f));
}

/* Every range that was opened is closed, also around a step that fails. */
static int depth_of(const char *ranges, int *deepest) {
    int depth = 0;
    *deepest = 0;
    for (; *ranges; ranges++) {
        depth += (*ranges == '(') - (*ranges == ')');
        *deepest = depth > *deepest ? depth : *deepest;
        assert_true(depth >= 0);
    }
    return depth;
}

static void steps_are_ranges_where_they_are_asked_for(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        fake_device *f = fake_device_create(POOL_BYTES, true);
        step_options options = small_model_step(&small_model_fixed, 1, 4, STEP_FORWARD);
        options.pipeline.mode = (step_mode)mode;
        plan *p;
        expect_ok(step_plan_create(&options, &p));
        memory_pool *pool;
        expect_ok(memory_pool_create(fake_device_base(f), POOL_BYTES, &pool));
        storage *shared = storage_create(pool);
        executor *e;
        expect_ok(executor_create(p, pool, shared, &e));
        small_model_fill(e, shared, &small_model_fixed, 3);
        expect_ok(executor_run(e, NULL, NULL));
        assert_string_equal(f->ranges_text, "");
        expect_ok(executor_emit_ranges(e));
        expect_ok(executor_run(e, NULL, NULL));
        int deepest;
        assert_int_equal(depth_of(f->ranges_text, &deepest), 0);
        assert_ptr_equal(strstr(f->ranges_text, "step 0("), f->ranges_text);
        if (mode == STEP_COMPILED) { /* the host makes one call for all of it */
            assert_string_equal(f->ranges_text, "step 0()");
        } else {
            assert_non_null(strstr(f->ranges_text, "(forward("));
            assert_non_null(strstr(f->ranges_text, "softmax("));
            assert_int_equal(deepest, 6); /* step, phase, layers, 0, attn, softmax */
        }
        f->ranges_text[0] = 0;
        f->fails_next_finish = true;
        assert_int_equal(executor_run(e, NULL, NULL), DYNO_UNSUPPORTED);
        assert_int_equal(depth_of(f->ranges_text, &deepest), 0);
        executor_destroy(e);
        storage_destroy(shared);
        memory_pool_destroy(pool);
        plan_destroy(p);
        device_close(fake_device_base(f));
    }
}

static void on_a_cpu_nobody_watches(void **state) {
    (void)state;
    scope_ranges *ranges;
    plan *p = plan_create("none");
    assert_int_equal(scope_ranges_create(device_cpu(), p, &ranges), DYNO_UNSUPPORTED);
    assert_null(ranges);
    assert_non_null(strstr(dyno_error_message(), "device cpu"));
    scope_ranges_begin_step(NULL); /* nothing happens */
    scope_ranges_enter(NULL, 0);
    scope_ranges_end_step(NULL);
    plan_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_are_inside_their_phase_and_every_part_of_their_scope),
        cmocka_unit_test(steps_are_ranges_where_they_are_asked_for),
        cmocka_unit_test(on_a_cpu_nobody_watches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
