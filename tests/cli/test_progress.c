#include "cli/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void expect(double done, double total, double elapsed, int width, const char *wanted) {
    text out = {0};
    progress_format(&out, done, total, elapsed, "small 128", width);
    assert_string_equal(text_string(&out), wanted);
    text_release(&out);
}

static void the_time_left_follows_from_the_time_taken(void **state) {
    (void)state;
    expect(25, 100, 2, 80, " 25 %  6.0 s left  small 128");
    expect(100, 100, 2, 80, "100 %  0.0 s left  small 128");
}

static void no_work_done_predicts_nothing(void **state) {
    (void)state;
    expect(0, 100, 2, 80, "  0 %  small 128");
    expect(0, 0, 0, 80, "  0 %  small 128");
}

static void more_work_than_planned_is_all_of_it(void **state) {
    (void)state;
    expect(300, 100, 2, 80, "100 %  0.0 s left  small 128");
}

static void the_line_never_wraps(void **state) {
    (void)state;
    expect(25, 100, 2, 20, " 25 %  6.0 s left  s");
}

static void a_label_is_fit_for_a_terminal(void **state) {
    (void)state;
    text out = {0};
    progress_format(&out, 0, 100, 2, "a\033[2J", 80);
    assert_string_equal(text_string(&out), "  0 %  a\\x1b[2J");
    text_release(&out);
    progress_format(&out, 0, 100, 2, "a\033[2J", 10); /* an escape is cut off whole */
    assert_string_equal(text_string(&out), "  0 %  a");
    text_release(&out);
}

static void a_progress_nobody_watches_is_harmless(void **state) {
    (void)state;
    progress *line = progress_create(10);
    progress_update(line, 5, "x");
    progress_clear(line);
    progress_destroy(line);
    progress_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_time_left_follows_from_the_time_taken),
        cmocka_unit_test(no_work_done_predicts_nothing),
        cmocka_unit_test(more_work_than_planned_is_all_of_it),
        cmocka_unit_test(the_line_never_wraps),
        cmocka_unit_test(a_label_is_fit_for_a_terminal),
        cmocka_unit_test(a_progress_nobody_watches_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
