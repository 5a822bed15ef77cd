/* test_nested_ranges.c - ranges that are rebuilt from the phases and scopes of work. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "profile/nested_ranges.h"

static void add(nested_ranges *to, int step, const char *phase, const char *scope, int64_t begin,
                int64_t end) {
    nested_ranges_add(to,
                      &(ranged_work){step, phase, scope, scope ? strlen(scope) : 0, begin, end});
}

/* "0 forward 0-4" and so on, a line each. */
static void expect(nested_ranges *ranges, const char *lines) {
    char told[1024] = "";
    size_t length = 0;
    for (int i = 0; i < ranges->count; i++) {
        const nested_range *r = &ranges->ranges[i];
        length += (size_t)snprintf(told + length, sizeof told - length, "%d %.*s %d-%d\n", r->depth,
                                   r->length, r->name, (int)r->begin_ns, (int)r->end_ns);
    }
    assert_string_equal(told, lines);
    nested_ranges_release(ranges);
}

static void work_that_follows_shares_the_ranges_it_has_in_common(void **state) {
    (void)state;
    nested_ranges ranges = {0};
    add(&ranges, 0, "forward", "layers.0.attn.q", 0, 2);
    add(&ranges, 0, "forward", "layers.0.attn.q", 3, 4);
    add(&ranges, 0, "forward", "layers.0.attn", 4, 6);
    add(&ranges, 0, "forward", "layers.1", 7, 8);
    add(&ranges, 0, "backward", "layers.1", 8, 9);
    expect(&ranges, "0 forward 0-8\n1 layers 0-8\n2 0 0-6\n3 attn 0-6\n4 q 0-4\n2 1 7-8\n"
                    "0 backward 8-9\n1 layers 8-9\n2 1 8-9\n");
}

static void a_part_that_begins_alike_is_another(void **state) {
    (void)state;
    nested_ranges ranges = {0};
    add(&ranges, 0, "forward", "layers.1", 0, 1);
    add(&ranges, 0, "forward", "layers.10", 1, 2);
    add(&ranges, 0, "forward", "layers", 2, 3);
    expect(&ranges, "0 forward 0-3\n1 layers 0-3\n2 1 0-1\n2 10 1-2\n");
}

static void steps_and_work_without_a_phase_end_all_ranges(void **state) {
    (void)state;
    nested_ranges ranges = {0};
    add(&ranges, 0, "forward", "embed", 0, 1);
    add(&ranges, 1, "forward", "embed", 5, 6);
    add(&ranges, 1, NULL, "embed", 6, 7);
    add(&ranges, 1, "forward", "", 7, 8);
    add(&ranges, 1, "forward", NULL, 8, 9);
    expect(&ranges, "0 forward 0-1\n1 embed 0-1\n0 forward 5-6\n1 embed 5-6\n0 forward 7-9\n");
}

static void a_scope_counts_as_far_as_it_is_given(void **state) {
    (void)state;
    nested_ranges ranges = {0};
    nested_ranges_add(&ranges, &(ranged_work){0, "forward", "layers.0.attn", 8, 0, 1});
    expect(&ranges, "0 forward 0-1\n1 layers 0-1\n2 0 0-1\n");
}

static void parts_deeper_than_the_limit_have_no_range(void **state) {
    (void)state;
    nested_ranges ranges = {0};
    char scope[256] = "a";
    while (strlen(scope) < 200)
        strcat(scope, ".a");
    add(&ranges, 0, "forward", scope, 0, 1);
    add(&ranges, 0, "forward", scope, 1, 2);
    assert_int_equal(ranges.count, NESTED_RANGES_DEPTH);
    assert_int_equal(ranges.ranges[NESTED_RANGES_DEPTH - 1].end_ns, 2);
    nested_ranges_release(&ranges);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_that_follows_shares_the_ranges_it_has_in_common),
        cmocka_unit_test(a_part_that_begins_alike_is_another),
        cmocka_unit_test(steps_and_work_without_a_phase_end_all_ranges),
        cmocka_unit_test(a_scope_counts_as_far_as_it_is_given),
        cmocka_unit_test(parts_deeper_than_the_limit_have_no_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
