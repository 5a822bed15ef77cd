/* findings.h - what a run says in sentences, for tests: cells in, words out. */
#ifndef TESTS_SUPPORT_FINDINGS_H
#define TESTS_SUPPORT_FINDINGS_H

#include "measure/results.h"

/* A finished cell. `settings` are pairs of parameter and text, ending with NULL; 0 ms: no samples. */
results_cell *findings_add_cell(results *run, const char *const *settings, double ms);

void expect_said(const results *run, const char *wanted);
void expect_not_said(const results *run, const char *word);
/* All that is said. */
void expect_finding(const results *run, const char *wanted);

#endif
