/* compare.h - whether two sides, each a run or several rounds of it, differ cell by cell.
 *
 * With several rounds a side, what is resampled are rounds, each with the fastest tenth of its steps:
 * two programs that run in turns see the same machine. With one run a side it is the steps, and nothing in
 * the samples says how much two runs of one program differ, so that the interval is widened by an
 * allowance for it.
 *
 *   SLOWER      the ratio is at least 1 + threshold, and the interval excludes 1
 *   FASTER      the same the other way round
 *   SAME        the whole interval is within the threshold
 *   UNDECIDED   neither: more rounds, or an idle machine, would tell */
#ifndef REPORT_COMPARE_H
#define REPORT_COMPARE_H

#include <stdbool.h>

#include "measure/bootstrap.h"
#include "report/document.h"
#include "report/run_set.h"

typedef struct compare_options {
    double threshold;    /* 0.02: what differs by less is the same */
    double confidence;   /* 0.95: of all intervals together */
    double between_runs; /* 0.02: the allowance */
} compare_options;

/* With fewer rounds a side the allowance is added. */
enum { COMPARE_ENOUGH_ROUNDS = 5 };

typedef enum compare_verdict {
    COMPARE_NONE, /* there is nothing to compare: no samples, or a cell that did not finish */
    COMPARE_UNDECIDED,
    COMPARE_SAME,
    COMPARE_BETTER, /* faster, less */
    COMPARE_WORSE
} compare_verdict;

typedef struct compare_row {
    const results_cell *a, *b; /* of the first round; one of them may be NULL */
    double a_ms, b_ms;         /* of a step; of rounds the median of what stands for each */
    bootstrap_ratio time;
    int a_rounds, b_rounds;
    compare_verdict of_time, of_memory, of_launches;
    bool is_broken; /* it was OK in A and is not in B */
} compare_row;

typedef struct comparison {
    const run_set *a, *b;
    compare_options options;
    compare_row *rows;
    int64_t count, capacity;
    bool is_paired;
} comparison;

/* Borrows both sides. DYNO_INVALID where they are of different verbs or have no cell in common. */
NODISCARD dyno_status compare_runs(const run_set *a, const run_set *b, compare_options options,
                                   comparison *out);
void comparison_release(comparison *of);

compare_verdict compare_decide(bootstrap_ratio ratio, double threshold);
/* Rows that are slower, take more memory, or do not run any more. */
int64_t comparison_regressions(const comparison *of);
/* Parameters that are one thing in all of A and another in all of B are what is compared: they do not
 * keep cells apart. */
bool comparison_is_between(const comparison *of, const char *parameter);

/* A table with a row for each cell, and notes on what else differs; `a_name` and `b_name` are what the
 * user called the two. */
report_document *comparison_create_document(const comparison *of, const char *a_name,
                                            const char *b_name, bool is_full);

#endif
