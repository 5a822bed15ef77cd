/* test_markup.c - texts of records in HTML and in TeX: they stay what they are. */
#include "support/expect.h"

#include "report/markup.h"

static void expect(void (*append)(text *out, const char *string), const char *string,
                   const char *wanted) {
    text out = {0};
    append(&out, string);
    assert_string_equal(text_string(&out), wanted);
    text_release(&out);
}

static void html_has_no_markup_of_a_text(void **state) {
    (void)state;
    expect(html_append_text, "<b a=\"1\" b='2'>&amp;",
           "&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;amp;");
    expect(html_append_text, "", "");
}

static void tex_has_no_commands_of_a_text(void **state) {
    (void)state;
    expect(tex_append_text, "\\x{50 %}_a^b~#$&",
           "\\textbackslash{}x\\{50 \\%\\}\\_a\\textasciicircum{}b\\textasciitilde{}\\#\\$\\&");
}

/* TeX would make one dash of them, and a command could not be typed again. */
static void two_hyphens_stay_two_in_tex(void **state) {
    (void)state;
    expect(tex_append_text, "--out a-b", "-{}-out a-b");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(html_has_no_markup_of_a_text),
        cmocka_unit_test(tex_has_no_commands_of_a_text),
        cmocka_unit_test(two_hyphens_stay_two_in_tex),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
