/* test_plan_text.c - a lowered plan as people read it. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/text.h"
#include "compiler/lower/lower.h"
#include "plan/memory_plan.h"
#include "plan/plan_text.h"
#include "support/expect.h"
#include "support/graph_pass.h"

static const char source[] = "graph g\n"
                             "parameter %0 f32[4,8] \"w\"\n"
                             "%1 f32[4,8] activation = exp %0 @forward block\n"
                             "%2 f32[8,4] activation = transpose %1 {order=[1,0]} @forward block\n"
                             "%3 f32[8,1] activation = sum %2 {axes=[1]} @forward loss\n"
                             "output %3 \"y\"\n";

static void expect_text(bool is_static, const char *wanted) {
    graph *g = graph_from_text(source);
    plan *p;
    expect_ok(lower_graph(g, target_usual(TARGET_CPU), &p));
    graph_destroy(g);
    if (is_static)
        memory_plan_apply(p);
    p->launches[1].stream = 1;
    p->names[0].operand.offset = 32;
    p->buffers[0].name = "weights";
    text printed = {0};
    plan_print(p, &printed);
    assert_string_equal(text_string(&printed), wanted);
    text_release(&printed);
    plan_destroy(p);
}

#define LAUNCHES                                                                                   \
    "0: b1 = exp (exp_f32) b0 @forward block\n"                                                    \
    "1: b2 = sum (sum_f32) b1+0:f32[8,4]:[1,8] {axes=[1]} @forward loss stream 1\n"                \
    "name \"w\" b0+32:f32[4,8]\n"

static void buffers_launches_and_names_are_printed(void **state) {
    (void)state;
    expect_text(false, "plan g\n"
                       "parameter b0 f32[4,8] \"weights\"\n"
                       "activation b1 f32[4,8] 0..1\n"
                       "activation b2 f32[8,1] 1..2 \"y\"\n" LAUNCHES);
}

static void a_static_plan_says_where_in_the_arena_buffers_lie(void **state) {
    (void)state;
    expect_text(true, "plan g, static, arena 512 B\n"
                      "parameter b0 f32[4,8] \"weights\"\n"
                      "activation b1 f32[4,8] 0..1 at 0\n"
                      "activation b2 f32[8,1] 1..2 at 256 \"y\"\n" LAUNCHES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_launches_and_names_are_printed),
        cmocka_unit_test(a_static_plan_says_where_in_the_arena_buffers_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
