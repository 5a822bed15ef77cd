/* test_memory_walk.c - the allocations of a small plan, in their order and with their offsets. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "plan/memory_walk.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "plan/block_allocator.h"
#include "plan/memory_account.h"
#include "plan/memory_plan.h"
#include "support/expect.h"
#include "support/small_model.h"

enum { LAUNCHES = 3, BLOCK = BLOCK_ALIGNMENT };

/* Weight 300 B all the time; saved 100 B from launch 0 to 2; activation 600 B at launch 1. */
static plan *three_launches(void) {
    plan *p = plan_create("by hand");
    plan_buffer weight = {.bytes = 300,
                          .role = ROLE_PARAMETER,
                          .born = -1,
                          .last_used = LAUNCHES,
                          .is_persistent = true};
    plan_buffer saved = {.bytes = 100, .role = ROLE_SAVED, .born = 0, .last_used = 2};
    plan_buffer wide = {.bytes = 600, .role = ROLE_ACTIVATION, .born = 1, .last_used = 1};
    plan_add_buffer(p, &weight);
    plan_add_buffer(p, &saved);
    plan_add_buffer(p, &wide);
    for (int i = 0; i < LAUNCHES; i++)
        plan_add_launch(p, 0, 0);
    plan_finish(p);
    return p;
}

typedef struct walk_log {
    text events;
    memory_moment moments[LAUNCHES + 1];
    int count;
} walk_log;

static void birth(void *to, int buffer, int launch, int64_t offset, int64_t bytes) {
    text_format(&((walk_log *)to)->events, "+%d@%d:%lld+%lld ", buffer, launch,
                (long long)(offset / BLOCK), (long long)(bytes / BLOCK));
}

static void death(void *to, int buffer, int launch, int64_t offset, int64_t bytes) {
    text_format(&((walk_log *)to)->events, "-%d@%d:%lld+%lld ", buffer, launch,
                (long long)(offset / BLOCK), (long long)(bytes / BLOCK));
}

static void moment(void *to, const memory_moment *now) {
    walk_log *l = to;
    assert_true(l->count <= LAUNCHES);
    l->moments[l->count++] = *now;
}

static walk_log walk_of(const plan *p) {
    walk_log l = {0};
    memory_walk(p, &(memory_visitor){&l, birth, death, moment});
    return l;
}

static void an_eager_plan_takes_and_releases_blocks(void **state) {
    (void)state;
    plan *p = three_launches();
    walk_log l = walk_of(p);
    assert_string_equal(text_string(&l.events), "+0@-1:0+2 +1@0:2+1 +2@1:3+3 -2@1:3+3 -1@2:2+1 ");
    static const int64_t alive[] = {300, 400, 1000, 400}, blocks[] = {2, 3, 6, 3},
                         reserved[] = {2, 3, 6, 6};
    assert_int_equal(l.count, LAUNCHES + 1);
    for (int i = 0; i <= LAUNCHES; i++) {
        assert_int_equal(l.moments[i].launch, i - 1);
        assert_int_equal(l.moments[i].alive_bytes, alive[i]);
        assert_int_equal(l.moments[i].block_bytes, blocks[i] * BLOCK);
        assert_int_equal(l.moments[i].reserved_bytes, reserved[i] * BLOCK);
    }
    assert_int_equal(l.moments[2].alive[ROLE_ACTIVATION], 600);
    assert_int_equal(l.moments[3].alive[ROLE_ACTIVATION], 0);
    text_release(&l.events);
    plan_destroy(p);
}

static void a_static_plan_has_its_arena_from_the_beginning(void **state) {
    (void)state;
    plan *p = three_launches();
    memory_plan_apply(p);
    walk_log l = walk_of(p);
    memory_account account = memory_account_plan(p);
    for (int i = 0; i <= LAUNCHES; i++)
        assert_int_equal(l.moments[i].reserved_bytes, account.reserved_bytes);
    assert_int_equal(account.peak_bytes, account.reserved_bytes);
    assert_int_equal(account.alive_bytes, 1000);
    assert_non_null(strstr(text_string(&l.events), "+0@-1:0+2 "));
    text_release(&l.events);
    plan_destroy(p);
}

/* ---- plans of a model ---- */

/* Bytes that two living values would share. */
typedef struct ground {
    const plan *p;
    int64_t *begin, *end; /* by buffer; both 0: not alive */
} ground;

static void settle(void *to, int buffer, int launch, int64_t offset, int64_t bytes) {
    (void)launch;
    ground *g = to;
    for (int i = 0; i < g->p->buffer_count; i++)
        assert_true(g->end[i] == 0 || g->end[i] <= offset || offset + bytes <= g->begin[i]);
    g->begin[buffer] = offset;
    g->end[buffer] = offset + bytes;
}

static void leave(void *to, int buffer, int launch, int64_t offset, int64_t bytes) {
    (void)launch;
    ground *g = to;
    assert_int_equal(g->begin[buffer], offset);
    assert_int_equal(g->end[buffer], offset + bytes);
    g->begin[buffer] = g->end[buffer] = 0;
}

static void no_two_living_values_share_bytes(void **state) {
    (void)state;
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++) {
        step_options options = small_model_step(&small_model_fixed, 2, 5, STEP_FULL);
        options.pipeline.mode = (step_mode)mode;
        plan *p;
        expect_ok(step_plan_create(&options, &p));
        ground g = {p, memory_allocate((size_t)p->buffer_count, sizeof *g.begin),
                    memory_allocate((size_t)p->buffer_count, sizeof *g.end)};
        memory_walk(p, &(memory_visitor){.context = &g, .on_birth = settle, .on_death = leave});
        free(g.begin);
        free(g.end);
        plan_destroy(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_eager_plan_takes_and_releases_blocks),
        cmocka_unit_test(a_static_plan_has_its_arena_from_the_beginning),
        cmocka_unit_test(no_two_living_values_share_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
