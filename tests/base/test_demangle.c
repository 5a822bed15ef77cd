/* test_demangle.c - names of C++ functions as people write them, all others as they are. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/demangle.h"

static void expect_name(const char *given, const char *wanted) {
    char *shown = demangle(given);
    assert_string_equal(shown, wanted);
    free(shown);
}

static void a_name_that_is_not_mangled_stays(void **state) {
    (void)state;
    expect_name("dyno_d61f8371", "dyno_d61f8371");
    expect_name("", "");
    expect_name("memcpy", "memcpy");
    expect_name("_Z", "_Z");
    expect_name("_Znonsense", "_Znonsense");
}

static void a_mangled_name_is_written_out_where_there_is_a_cpp_library(void **state) {
    (void)state;
    char *shown = demangle("_ZN5flash7forwardEi");
    if (strcmp(shown, "_ZN5flash7forwardEi") != 0)
        assert_string_equal(shown, "flash::forward(int)");
    free(shown);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_that_is_not_mangled_stays),
        cmocka_unit_test(a_mangled_name_is_written_out_where_there_is_a_cpp_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
