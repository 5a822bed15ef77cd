/* test_gather_sums.c - sums over blocks that wait for one another. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "compiler/passes/gather_sums.h"
#include "support/graph_pass.h"

static void expect_gathered(const char *source, const char *wanted) {
    graph *g = graph_from_text(source);
    gather_sums(g);
    expect_graph_text(g, wanted);
    graph_destroy(g);
}

#define INPUTS                                                                                     \
    "graph g\n"                                                                                    \
    "input %0 f32[3,2,5] \"a\"\n"                                                                  \
    "input %1 f32[3,2,5] \"b\"\n"

static void two_sums_become_one(void **state) {
    (void)state;
    expect_gathered(INPUTS "%2 f32[3,1,5] activation = sum %0 {axes=[1]} @backward one\n"
                           "%3 f32[3,5] activation = reshape %2 {shape=[3,5]} @backward one\n"
                           "%4 f32[1,5] activation = sum %3 {axes=[0]} @backward one\n"
                           "%5 f32[5] gradient = reshape %4 {shape=[5]} @backward one\n"
                           "%6 f32[3,1,5] activation = sum %1 {axes=[1]} @backward two\n"
                           "%7 f32[3,5] activation = reshape %6 {shape=[3,5]} @backward two\n"
                           "%8 f32[1,5] activation = sum %7 {axes=[0]} @backward two\n"
                           "%9 f32[5] gradient = reshape %8 {shape=[5]} @backward two\n"
                           "%10 f32[5] activation = add %5 %9 @optimizer\n"
                           "output %10 \"y\"\n",
                    INPUTS "%2 f32[3,1,5] activation = sum %0 {axes=[1]} @backward one\n"
                           "%3 f32[3,5] activation = reshape %2 {shape=[3,5]} @backward one\n"
                           "%4 f32[3,1,5] activation = sum %1 {axes=[1]} @backward two\n"
                           "%5 f32[3,5] activation = reshape %4 {shape=[3,5]} @backward two\n"
                           "%6 f32[6,5] activation = concat %3 %5 {axis=0} @backward two\n"
                           "%7 f32[2,1,3,5] activation = reshape %6 {shape=[2,1,3,5]} @backward "
                           "two\n"
                           "%8 f32[2,1,1,5] activation = sum %7 {axes=[2]} @backward two\n"
                           "%9 f32[1,1,1,5] activation, %10 f32[1,1,1,5] activation = split %8 "
                           "{axis=0, parts=2} @backward two\n"
                           "%11 f32[1,5] activation = reshape %9 {shape=[1,5]} @backward two\n"
                           "%12 f32[1,5] activation = reshape %10 {shape=[1,5]} @backward two\n"
                           "%13 f32[5] gradient = reshape %11 {shape=[5]} @backward one\n"
                           "%14 f32[5] gradient = reshape %12 {shape=[5]} @backward two\n"
                           "%15 f32[5] activation = add %13 %14 @optimizer\n"
                           "output %15 \"y\"\n");
}

/* Somebody reads the first result before the second is there. */
static void a_result_that_is_read_waits_for_nobody(void **state) {
    (void)state;
    static const char source[] =
        INPUTS "%2 f32[3,1,5] activation = sum %0 {axes=[1]} @backward\n"
               "%3 f32[3,5] activation = reshape %2 {shape=[3,5]} @backward\n"
               "%4 f32[1,5] activation = sum %3 {axes=[0]} @backward\n"
               "%5 f32[5] activation = reshape %4 {shape=[5]} @backward\n"
               "%6 f32[5] activation = exp %5 @backward\n"
               "%7 f32[3,1,5] activation = sum %1 {axes=[1]} @backward\n"
               "%8 f32[3,5] activation = reshape %7 {shape=[3,5]} @backward\n"
               "%9 f32[1,5] activation = sum %8 {axes=[0]} @backward\n"
               "output %6 \"y\"\n"
               "output %9 \"z\"\n";
    expect_gathered(source, source);
}

static void sums_that_are_not_over_blocks_are_left_alone(void **state) {
    (void)state;
    static const char source[] = "graph g\n"
                                 "input %0 f32[3,5] \"a\"\n"
                                 "input %1 f32[3,5] \"b\"\n"
                                 "%2 f32[1,5] activation = sum %0 {axes=[0]} @backward\n"
                                 "%3 f32[1,5] activation = sum %1 {axes=[0]} @backward\n"
                                 "output %2 \"y\"\n"
                                 "output %3 \"z\"\n";
    expect_gathered(source, source);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_sums_become_one),
        cmocka_unit_test(a_result_that_is_read_waits_for_nobody),
        cmocka_unit_test(sums_that_are_not_over_blocks_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
