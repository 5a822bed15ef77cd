#include "support/findings.h"

#include <string.h>

#include "measure/keys.h"
#include "report/finding.h"
#include "support/expect.h"

results_cell *findings_add_cell(results *run, const char *const *settings, double ms) {
    results_cell *cell = results_add_cell(run);
    for (; *settings; settings += 2)
        cell_set_text(cell, settings[0], settings[1]);
    cell_set_status(cell, RESULTS_OK, NULL);
    if (ms > 0)
        cell_add_sample_real(cell, SERIES_STEP, "ms", ms);
    return cell;
}

void expect_said(const results *run, const char *wanted) {
    text out = {0};
    finding_append(run, &out);
    if (!strstr(text_string(&out), wanted))
        fail_msg("'%s' is not in\n'%s'", wanted, text_string(&out));
    text_release(&out);
}

void expect_not_said(const results *run, const char *word) {
    text out = {0};
    finding_append(run, &out);
    if (strstr(text_string(&out), word))
        fail_msg("'%s' is in\n'%s'", word, text_string(&out));
    text_release(&out);
}

void expect_finding(const results *run, const char *wanted) {
    text out = {0};
    finding_append(run, &out);
    assert_string_equal(text_string(&out), wanted);
    text_release(&out);
}
