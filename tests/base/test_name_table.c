/* test_name_table.c - numbers by name. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/name_table.h"

static void an_empty_table_has_no_names(void **state) {
    (void)state;
    name_table table = {0};
    assert_int_equal(name_table_find(&table, ""), -1);
    assert_int_equal(name_table_find(&table, "a"), -1);
    name_table_release(&table);
}

static void every_name_keeps_its_number_as_the_table_grows(void **state) {
    (void)state;
    enum { NAMES = 5000 };
    static char names[NAMES][24];
    name_table table = {0};
    for (int i = 0; i < NAMES; i++) {
        snprintf(names[i], sizeof names[i], "layers.%d.attn", i);
        assert_int_equal(name_table_find(&table, names[i]), -1);
        name_table_set(&table, names[i], i);
    }
    assert_int_equal(table.count, NAMES);
    for (int i = 0; i < NAMES; i++) {
        char copy[24];
        snprintf(copy, sizeof copy, "layers.%d.attn", i);
        assert_int_equal(name_table_find(&table, copy), i);
    }
    assert_int_equal(name_table_find(&table, "layers.5000.attn"), -1);
    name_table_release(&table);
}

static void a_name_that_is_set_again_has_the_new_number(void **state) {
    (void)state;
    name_table table = {0};
    name_table_set(&table, "", 3);
    name_table_set(&table, "a", 1);
    name_table_set(&table, "a", 2);
    assert_int_equal(name_table_find(&table, "a"), 2);
    assert_int_equal(name_table_find(&table, ""), 3);
    assert_int_equal(table.count, 2);
    name_table_release(&table);
    assert_int_equal(name_table_find(&table, "a"), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_table_has_no_names),
        cmocka_unit_test(every_name_keeps_its_number_as_the_table_grows),
        cmocka_unit_test(a_name_that_is_set_again_has_the_new_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
