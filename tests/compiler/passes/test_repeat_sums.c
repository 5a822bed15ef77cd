/* test_repeat_sums.c - sums that are added again where they are read. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "compiler/passes/repeat_sums.h"
#include "graph/graph_text.h"
#include "support/graph_pass.h"

#define LEAVES                                                                                     \
    "graph g\n"                                                                                    \
    "input %0 f32[2,3] \"x\"\n"                                                                    \
    "input %1 bf16[3,3] \"w\"\n"                                                                   \
    "input %2 bf16[2,3] \"y\"\n"
/* h = x + o in group 1, of the role given and read by a second group. */
#define FIRST(o_role, h_role)                                                                      \
    LEAVES "%3 bf16[2,3] " o_role " = matmul %2 %1 {transpose_a=0, transpose_b=1} @forward a\n"    \
           "%4 f32[2,3] activation = cast %3 {type=1} @forward a #1\n"                             \
           "%5 f32[2,3] " h_role " = add %0 %4 @forward a #1\n"                                    \
           "%6 f32[2,3] activation = exp %5 @forward a #1\n"                                       \
           "%7 bf16[2,3] activation = matmul %2 %1 {transpose_a=0, transpose_b=1} @forward b\n"
#define SECOND                                                                                     \
    "%8 f32[2,3] activation = cast %7 {type=1} @forward b #2\n"                                    \
    "%9 f32[2,3] activation = add %5 %8 @forward b #2\n"                                           \
    "%10 f32[2,3] activation = add %9 %6 @forward b #2\n"                                          \
    "%11 f32[2,3] activation = cast %3 {type=1} @backward b #3\n"                                  \
    "output %10 \"z\"\n"                                                                           \
    "output %11 \"again\"\n"

static void a_sum_is_added_again_where_it_is_read(void **state) {
    (void)state;
    graph *g = graph_from_text(FIRST("saved", "activation") SECOND);
    repeat_sums(g);
    expect_graph_text(
        g,
        FIRST("saved", "activation") "%8 f32[2,3] activation = cast %7 {type=1} @forward b #2\n"
                                     "%9 f32[2,3] activation = cast %3 {type=1} @forward a #2\n"
                                     "%10 f32[2,3] activation = add %0 %9 @forward a #2\n"
                                     "%11 f32[2,3] activation = add %10 %8 @forward b #2\n"
                                     "%12 f32[2,3] activation = add %11 %6 @forward b #2\n"
                                     "%13 f32[2,3] activation = cast %3 {type=1} @backward b #3\n"
                                     "output %12 \"z\"\n"
                                     "output %13 \"again\"\n");
    graph_destroy(g);
}

static void expect_no_change(const char *source) {
    graph *g = graph_from_text(source);
    text before = {0};
    graph_print(g, &before);
    repeat_sums(g);
    expect_graph_text(g, text_string(&before));
    text_release(&before);
    graph_destroy(g);
}

/* What is in memory anyway is read; what is not saved would have to stay for the second reader;
 * with a third reader the sum is written once and costs less. */
static void other_sums_stay_as_they_are(void **state) {
    (void)state;
    expect_no_change(FIRST("saved", "activation") SECOND "output %5 \"h\"\n");
    expect_no_change(FIRST("saved", "saved") SECOND
                     "%12 f32[2,3] activation = exp %5 @backward b #4\noutput %12 \"e\"\n");
    expect_no_change(
        FIRST("saved", "activation") "%8 f32[2,3] activation = add %5 %6 @forward b #2\n"
                                     "%9 f32[2,3] activation = multiply %5 %6 @forward c #3\n"
                                     "%10 f32[2,3] activation = cast %3 {type=1} @backward b #4\n"
                                     "output %8 \"z\"\n"
                                     "output %9 \"zz\"\n"
                                     "output %10 \"again\"\n");
    expect_no_change(
        FIRST("activation", "activation") "%8 f32[2,3] activation = add %5 %6 @forward b #2\n"
                                          "output %8 \"z\"\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sum_is_added_again_where_it_is_read),
        cmocka_unit_test(other_sums_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
