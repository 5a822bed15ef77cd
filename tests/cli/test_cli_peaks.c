/* test_cli_peaks.c - runs with --peaks none: nothing is a share of a peak, and all that reads records
 * takes them. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "measure/keys.h"
#include "measure/results_json.h"
#include "support/command.h"
#include "support/expect.h"
#include "support/scratch.h"

#define TINY "--layers 1 --d-model 16 --d-ff 32 --heads 2 --vocab 64 --context 4 --steps 2"
#define POINT "attention --batch 1 --seq 16 --head-dim 8 --mode eager --pass forward"

static results *read_run(const scratch *made, const char *name) {
    results *run;
    expect_ok(results_read(scratch_join(made, name).text, &run));
    return run;
}

static bool has_peaks(const results *run) {
    static const char *const KEYS[] = {ENV_PEAK_GFLOPS, ENV_PEAK_BF16_GFLOPS, ENV_READ_GBS,
                                       ENV_COPY_GBS, ENV_GPU_COPY_GBS};
    bool found = false;
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        found = found || results_find_environment(run, KEYS[i]);
    return found;
}

static void a_record_has_peaks_unless_they_are_left_out(void **state) {
    (void)state;
    static const char *const VERBS[] = {"bench " TINY " --precision fp32,bf16 --pass forward",
                                        "profile " TINY " --pass forward", POINT " --reps 3"};
    for (size_t i = 0; i < sizeof VERBS / sizeof *VERBS; i++) {
        scratch made = scratch_create();
        dyno_expect(0, "no peak was measured (--peaks none)", "%s --peaks none --out %s/none",
                    VERBS[i], made.path);
        dyno_expect(0, "", "%s --peaks measure --out %s/measured", VERBS[i], made.path);
        results *none = read_run(&made, "none"), *measured = read_run(&made, "measured");
        assert_true(none->is_complete);
        assert_int_equal(none->cell_count, measured->cell_count);
        assert_false(has_peaks(none));
        assert_true(has_peaks(measured));
        results_destroy(none);
        results_destroy(measured);
        scratch_remove(&made);
    }
}

/* What it says of two times depends on the machine. */
static void expect_comparable(const scratch *made, const char *a, const char *b) {
    text output = {0};
    int code = dyno_run(&output, "compare %s/%s %s/%s", made->path, a, made->path, b);
    assert_true(code == 0 || code == 1);
    assert_non_null(strstr(text_string(&output), "B/A: typical step of B / of A"));
    assert_null(strstr(text_string(&output), "BROKEN"));
    assert_null(strstr(text_string(&output), "ONLY ONE"));
    text_release(&output);
}

static void everything_that_reads_records_takes_one_without_peaks(void **state) {
    (void)state;
    scratch made = scratch_create();
    const char *in = made.path;
    dyno_expect(0, "", "bench " TINY " --pass step --breakdown --peaks none --out %s/a", in);
    dyno_expect(0, "", "bench " TINY " --pass step --breakdown --peaks measure --out %s/b", in);
    dyno_expect(0, "no MFU and no HFU", "show %s/a", in);
    dyno_expect(0, "MFU %", "show %s/a --format csv", in);
    expect_comparable(&made, "a", "b");
    expect_comparable(&made, "b", "a");
    expect_comparable(&made, "a", "a");
    dyno_expect(0, "", "report %s/a --out %s/report.html", in, in);
    dyno_expect(0, "", "report %s/a --out %s/report.md", in, in);
    assert_int_equal(scratch_count(in), 4);
    scratch_remove(&made);
}

/* Nothing is known of the first row; the second is longer in proportion to what the first took. */
static void without_peaks_rows_are_skipped_by_what_was_measured(void **state) {
    (void)state;
    dyno_expect(0, "as the first one showed",
                POINT " --reps 1000000 --seconds-per-cell 0.5 --peaks none");
    dyno_expect(0, "as its operations and the rows before tell",
                "attention --impl naive --batch 1 --seq 16,4096 --head-dim 8 --mode eager "
                "--pass forward --reps 100 --warmup 3 --seconds-per-cell 1 --peaks none");
}

static void what_peaks_can_be_is_said(void **state) {
    (void)state;
    dyno_expect(2, "'all' is not one of measure|none", "bench --peaks all");
    dyno_expect(0, "--peaks measure|none", "attention --help");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_has_peaks_unless_they_are_left_out),
        cmocka_unit_test(everything_that_reads_records_takes_one_without_peaks),
        cmocka_unit_test(without_peaks_rows_are_skipped_by_what_was_measured),
        cmocka_unit_test(what_peaks_can_be_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
