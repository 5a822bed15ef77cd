/* activity.h - activity records of a device: when each piece of work of a step began and ended.
 *
 * A record belongs to the launch that caused it, which is known by ids that the device reports,
 * never by its time or its name. Records come in any order. All derived numbers need all records:
 * a lost one makes the derivation fail, because every sum would be too small. */
#ifndef PROFILE_ACTIVITY_H
#define PROFILE_ACTIVITY_H

#include <stdint.h>

#include "base/status.h"

typedef struct activity_record {
    int step;                 /* from 0 */
    int launch;               /* of the plan; ACTIVITY_NOBODY: of no launch that is known */
    int64_t begin_ns, end_ns; /* by the device's clock */
    int name;                 /* of the device's own function: into activity.names */
} activity_record;

enum { ACTIVITY_NOBODY = -1 };

typedef struct activity {
    activity_record *records;
    int64_t count, capacity;
    int64_t dropped; /* records that were dropped for lack of a buffer */
    char **names;    /* distinct, as the device has them: mangled; "memcpy" and "memset" */
    int name_count, name_capacity;
} activity;

void activity_add(activity *a, activity_record record);
/* Into names; it is added where it is new. */
int activity_add_name(activity *a, const char *name);
void activity_release(activity *a);

/* The launches of the plan: stream[i] is that of launch i, which begins when the previous one on
 * the stream has ended. Steps before first_step (warm-up) are ignored. */
typedef struct activity_question {
    int launch_count;
    const int *stream;
    int first_step, step_count;
} activity_question;

/* Sums over the steps. */
typedef struct activity_times {
    int64_t *running_ns; /* by launch: while it ran */
    double *share_ns;    /* by launch: the same, overlapping time divided among those that ran */
    int64_t *pieces;     /* by launch: records */
    int64_t span_ns;     /* from the first begin of a step to its last end */
    int64_t busy_ns;     /* of that, while anything ran. Shares add up to it */
    int64_t between_ns;  /* from the last end of a step to the first begin of the next */
    double unknown_ns;   /* of busy_ns, the share of records that belong to no known launch */
    int unseen;          /* launches without a record */
} activity_times;

/* With programmatic dependent launch a launch may be resident before the previous one has ended;
 * that wait is not counted as running. Fails, with *out empty, when records were dropped, when a
 * step has none or other launches than the first, and when more than 1 % of the busy time is
 * attributed to no launch. */
NODISCARD dyno_status activity_analyse(const activity *a, const activity_question *asked,
                                       activity_times *out);
void activity_times_release(activity_times *times);

#endif
