/* activity.h - what a device recorded of steps: when each piece of its work began and ended.
 *
 * A record is of the launch that made it, which is known by ids that the device gives back, never
 * by its time or its name. Records come in any order. What is derived from them is derived from all
 * of them: a record that was lost makes everything that would have been too small a failure. */
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
    int64_t dropped; /* records that were made and could not be taken */
    char **names;    /* distinct, as the device has them: mangled; "memcpy" and "memset" */
    int name_count, name_capacity;
} activity;

void activity_add(activity *a, activity_record record);
/* Into names; it is added where it is new. */
int activity_add_name(activity *a, const char *name);
void activity_release(activity *a);

/* What is known of the launches: stream[i] is that of launch i, on which it begins when the one
 * before it has ended. Steps before first_step (a warm-up) are not looked at. */
typedef struct activity_question {
    int launch_count;
    const int *stream;
    int first_step, step_count;
} activity_question;

/* Sums over the steps. */
typedef struct activity_times {
    int64_t *running_ns; /* by launch: while it ran */
    double *share_ns;    /* by launch: the same, each moment divided among all that ran in it */
    int64_t *pieces;     /* by launch: records */
    int64_t span_ns;     /* from the first begin of a step to its last end */
    int64_t busy_ns;     /* of that, while anything ran. Shares add up to it */
    int64_t between_ns;  /* from the last end of a step to the first begin of the next */
    double unknown_ns;   /* of busy_ns, while what belongs to no known launch ran (its share) */
    int unseen;          /* launches without a record */
} activity_times;

/* A launch may be on the device before the one before it has ended, and wait there; that is not
 * counted as running. Fails, with *out empty, when records were dropped, when a step has none or
 * other launches than the first, and when more than 1 % of the busy time is nobody's. */
NODISCARD dyno_status activity_analyse(const activity *a, const activity_question *asked,
                                       activity_times *out);
void activity_times_release(activity_times *times);

#endif
