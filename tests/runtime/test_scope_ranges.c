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

/* What was pushed and popped, as "step 0(forward(embed()" and so on. */
typedef struct told {
    char text[4096];
} told;

static void push(void *context, const char *name) {
    told *t = context;
    assert_true(strlen(t->text) + strlen(name) + 2 < sizeof t->text);
    strcat(strcat(t->text, name), "(");
}

static void pop(void *context) {
    told *t = context;
    assert_true(strlen(t->text) + 2 < sizeof t->text);
    strcat(t->text, ")");
}

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
    told all = {0};
    range_listener listener = {push, pop, &all};
    scope_ranges *ranges = scope_ranges_create(&listener, p);
    scope_ranges_begin_step(ranges);
    for (int i = 0; i < 8; i++)
        scope_ranges_enter(ranges, i);
    scope_ranges_end_launches(ranges);
    scope_ranges_end_step(ranges);
    assert_string_equal(all.text, "step 0(forward(embed()layers(0(attn(q())mlp())))"
                                  "backward(layers(0(mlp()))layers(0(attn(q())))))");
    scope_ranges_destroy(ranges);
    plan_destroy(p);
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
        told all = {0};
        range_listener listener = {push, pop, &all};
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
        assert_string_equal(all.text, "");
        executor_emit_ranges(e, &listener);
        expect_ok(executor_run(e, NULL, NULL));
        int deepest;
        assert_int_equal(depth_of(all.text, &deepest), 0);
        assert_ptr_equal(strstr(all.text, "step 0("), all.text);
        if (mode == STEP_COMPILED) { /* the host makes one call for all of it */
            assert_string_equal(all.text, "step 0()");
        } else {
            assert_non_null(strstr(all.text, "(forward("));
            assert_non_null(strstr(all.text, "softmax("));
            assert_int_equal(deepest, 6); /* step, phase, layers, 0, attn, softmax */
        }
        all.text[0] = 0;
        f->fails_next_finish = true;
        assert_int_equal(executor_run(e, NULL, NULL), DYNO_UNSUPPORTED);
        assert_int_equal(depth_of(all.text, &deepest), 0);
        all.text[0] = 0;
        executor_emit_ranges(e, NULL);
        expect_ok(executor_run(e, NULL, NULL));
        assert_string_equal(all.text, "");
        executor_destroy(e);
        storage_destroy(shared);
        memory_pool_destroy(pool);
        plan_destroy(p);
        device_close(fake_device_base(f));
    }
}

static void without_ranges_nothing_happens(void **state) {
    (void)state;
    scope_ranges_begin_step(NULL);
    scope_ranges_enter(NULL, 0);
    scope_ranges_end_launches(NULL);
    scope_ranges_end_step(NULL);
    scope_ranges_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_are_inside_their_phase_and_every_part_of_their_scope),
        cmocka_unit_test(steps_are_ranges_where_they_are_asked_for),
        cmocka_unit_test(without_ranges_nothing_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
