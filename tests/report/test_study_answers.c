/* test_study_answers.c - what a report says first is of this machine. */
#include "report/study_answers.h"

#include <string.h>

#include "measure/keys.h"
#include "support/expect.h"

/* A part of a suite that is computed for another chip comes before one that is measured. */
static void the_machine_is_told_by_runs_on_it_and_not_by_a_target(void **state) {
    (void)state;
    results *on_paper = results_create("scale", 0, NULL),
            *measured = results_create("bench", 0, NULL);
    results_set_environment_real(on_paper, ENV_PEAK_GFLOPS, 989000);
    results_set_environment_real(on_paper, ENV_COPY_GBS, 4800);
    results_set_environment_text(measured, ENV_CPU, "A CPU");
    results_set_environment_real(measured, ENV_COPY_GBS, 40);
    study_section sections[] = {{.run = on_paper}, {.run = measured}};
    study s = {.sections = sections, .count = 2};
    text out = {0};
    study_append_machine(&s, &out);
    assert_non_null(strstr(text_string(&out), "A CPU"));
    assert_non_null(strstr(text_string(&out), "copies at 40.0 GB/s"));
    assert_null(strstr(text_string(&out), "989000"));
    text_release(&out);

    s.count = 1;
    study_append_machine(&s, &out);
    assert_string_equal(text_string(&out), "No run of this study names it.");
    text_release(&out);
    results_destroy(on_paper);
    results_destroy(measured);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_machine_is_told_by_runs_on_it_and_not_by_a_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
