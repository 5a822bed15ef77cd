/* run_set.h - the runs below a directory, in the order of their names. */
#ifndef REPORT_RUN_SET_H
#define REPORT_RUN_SET_H

#include "measure/results.h"

/* Directories with more runs were not made by dyno. */
enum { RUN_SET_MOST = 1000 };

typedef struct run_set {
    results **runs;
    char **names; /* of the directories they are in, without the path to it; "" for `path` itself */
    int count, capacity;
} run_set;

/* A run.json, the directory of one, or a directory whose subdirectories have one each; with both,
 * `path` itself comes first. A subdirectory without a record is passed over. DYNO_NOT_FOUND where there
 * is none at all; a record that cannot be read is an error. The caller releases `out` in any case. */
NODISCARD dyno_status run_set_read(const char *path, run_set *out);
void run_set_release(run_set *set);

/* The cells of all of them in one run, which has the arguments of the first; of the environment it has what the
 * first run that says it says. Each cell keeps the peak that its own run measured. DYNO_INVALID where they are of different verbs. The set is not changed. */
NODISCARD dyno_status run_set_merge(const run_set *set, const char *path, results **out);

#endif
