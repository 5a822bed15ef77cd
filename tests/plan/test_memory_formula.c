/* test_memory_formula.c - bytes told as what was multiplied. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "plan/memory_account.h"
#include "plan/memory_formula.h"

static void add(plan *p, const char *name, int scope, shape s, int born, int last_used) {
    plan_buffer buffer = {.bytes = shape_elements(&s) * 4,
                          .type = DTYPE_F32,
                          .shape = s,
                          .name = name,
                          .scope = scope,
                          .born = born,
                          .last_used = last_used,
                          .is_persistent = born < 0};
    plan_add_buffer(p, &buffer);
}

/* Two launches; three squares of 64 x 64 alive at the second, and a weight of 2 x 64. */
static plan *squares(void) {
    static const char *scopes[] = {"", "scores", "softmax"};
    plan *p = plan_create("squares");
    p->scopes = scopes;
    p->scope_count = 3;
    add(p, "weight", 0, SHAPE(2, 64), -1, 2);
    add(p, NULL, 1, SHAPE(64, 64), 0, 1);
    add(p, NULL, 2, SHAPE(1, 64, 1, 64), 0, 1);
    add(p, NULL, 2, SHAPE(64, 64), 1, 1);
    plan_add_launch(p, 0, 0);
    plan_add_launch(p, 0, 0);
    plan_finish(p);
    return p;
}

static void values_of_one_size_are_told_together(void **state) {
    (void)state;
    plan *p = squares();
    text out = {0};
    assert_int_equal(memory_formula_explain(p, 1, &out), 3 * 64 * 64 * 4 + 512);
    assert_string_equal(text_string(&out),
                        "64 x 64 x 4 B x 3 = 48.00 KiB (scores, softmax x 2), rest 512 B");
    text_release(&out);
    plan_destroy(p);
}

/* A kernel's scratch is not what its scope computes. */
static void a_workspace_is_told_as_one(void **state) {
    (void)state;
    static const char *scopes[] = {"", "layers.3.flash"};
    plan *p = plan_create("scratch");
    p->scopes = scopes;
    p->scope_count = 2;
    plan_add_buffer(p, &(plan_buffer){.bytes = 300,
                                      .role = ROLE_WORKSPACE,
                                      .type = DTYPE_U8,
                                      .shape = SHAPE(300),
                                      .scope = 1});
    plan_add_launch(p, 0, 1);
    plan_finish(p);
    text out = {0};
    memory_formula_explain(p, 0, &out);
    assert_string_equal(text_string(&out), "300 x 1 B = 300 B (workspace of layers.*.flash)");
    text_release(&out);
    plan_destroy(p);
}

static void before_the_first_launch_there_is_what_persists(void **state) {
    (void)state;
    plan *p = squares();
    text out = {0};
    assert_int_equal(memory_formula_explain(p, -1, &out), 512);
    assert_string_equal(text_string(&out), "2 x 64 x 4 B = 512 B (weight)");
    text_release(&out);
    plan_destroy(p);
}

static void a_buffer_is_the_product_of_its_sizes(void **state) {
    (void)state;
    text out = {0};
    plan_buffer b = {.type = DTYPE_BF16, .shape = SHAPE(4, 1, 12)};
    memory_formula_append(&b, &out);
    assert_string_equal(text_string(&out), "4 x 1 x 12 x 2 B");
    text_release(&out);
}

/* What a launch makes is not there before it. */
static void bytes_before_a_launch_are_those_made_earlier_and_still_read(void **state) {
    (void)state;
    plan *p = squares();
    assert_int_equal(memory_account_bytes_before(p, 0), 512);
    assert_int_equal(memory_account_bytes_before(p, 1), 512 + 2 * 64 * 64 * 4);
    plan_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_one_size_are_told_together),
        cmocka_unit_test(a_workspace_is_told_as_one),
        cmocka_unit_test(before_the_first_launch_there_is_what_persists),
        cmocka_unit_test(a_buffer_is_the_product_of_its_sizes),
        cmocka_unit_test(bytes_before_a_launch_are_those_made_earlier_and_still_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
