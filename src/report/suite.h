/* suite.h - a study: which experiments it consists of, and what became of each.
 *
 * A suite is a file (docs/suite.md): experiments with a verb, flags, a title and the question it answers.
 * A flag whose value is an array makes a part of the experiment for each of its items, and for each
 * combination of several. A part is one run of dyno in a directory of its own; what became of it is kept
 * in DIR/suite.json, written whole after every part. */
#ifndef REPORT_SUITE_H
#define REPORT_SUITE_H

#include <stdbool.h>

#include "base/arena.h"
#include "report/document.h"

typedef enum suite_status {
    SUITE_PENDING, /* not yet begun, or not finished: to be run */
    SUITE_OK,
    SUITE_SKIP, /* not run, for the reason given */
    SUITE_FAILED
} suite_status;

typedef struct suite_part {
    const char *experiment; /* the experiment's name, a directory of the study */
    const char *number;     /* of EXPERIMENTS, as "13"; "" if it has none */
    const char *title, *question, *verb;
    const char **arguments; /* after the verb, without --out */
    int argument_count;
    const char *directory; /* below that of the study: "naive-attention/part-03" */
    const char *needs;     /* "", "gpu" or "cpu" */
    int priority;          /* lower ones first */
    int part, parts;       /* which of the experiment's parts, from 0 */
    suite_status status;
    const char *reason;
    double seconds; /* that it took */
} suite_part;

typedef struct suite {
    const char *name, *title;
    suite_part *parts; /* in the order in which they are to be run */
    int count, capacity;
    arena *memory;
} suite;

/* A suite that is compiled in, by its name, or a file. `device` is "cpu" or "cuda": what decides between
 * the two sets of flags that an experiment may have. On failure *out is NULL. */
NODISCARD dyno_status suite_read(const char *name, const char *device, suite **out);
void suite_destroy(suite *s);

/* What DIRECTORY/suite.json says of parts with the same arguments is taken over, where their run.json is
 * there; a directory without suite.json must have none. DYNO_INVALID otherwise, and where it is the record
 * of another suite; a run.json that cannot be read is a failure. */
NODISCARD dyno_status suite_resume(suite *s, const char *directory);
/* Writes DIRECTORY/suite.json in one step. */
NODISCARD dyno_status suite_write(const suite *s, const char *directory);
/* DIRECTORY/suite.json as it is, for a report. DYNO_NOT_FOUND: there is none. */
NODISCARD dyno_status suite_read_record(const char *directory, suite **out);

/* Whether what the part measured is there. */
bool suite_has_record(const suite_part *part, const char *directory);
#define SUITE_RECORD_IS_GONE "its run.json is gone; the same command measures it again"

/* Copied. */
void suite_add_argument(suite *s, int part, const char *argument);
void suite_settle(suite *s, int part, suite_status status, const char *reason, double seconds);
const char *suite_status_name(suite_status status);

/* A row for each part. */
report_document *suite_create_document(const suite *s);
/* The suites that are compiled in: their names, NULL behind the last, and a row for each. */
const char *suite_name_at(int index);
report_table *suite_create_list(void);

#endif
