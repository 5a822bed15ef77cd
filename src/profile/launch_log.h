/* launch_log.h - the records of traced steps, and when the host began and ended these.
 *
 * A device's records come in any order. Nothing may be derived before they are settled, because a
 * lost one would make every sum too small. */
#ifndef PROFILE_LAUNCH_LOG_H
#define PROFILE_LAUNCH_LOG_H

#include "base/name_table.h"
#include "base/status.h"
#include "profile/launch_record.h"

/* By the host's clock (base/clock.h). */
typedef struct logged_step {
    int64_t begin_ns;
    int64_t enqueued_ns; /* all launches were handed to the device */
    int64_t end_ns;      /* and were complete */
} logged_step;

/* Zero is an empty log. Open for reading. */
typedef struct launch_log {
    launch_record *records;
    int64_t count, capacity;
    int64_t dropped; /* records that were lost for lack of a buffer */
    logged_step *steps;
    int step_count, step_capacity;
    name_table names; /* of the device's functions, which records point to */
    char **texts;
    int text_count, text_capacity;
} launch_log;

void launch_log_add(launch_log *log, const launch_record *record);
/* Room for so many more, so that adding them takes no time. */
void launch_log_reserve(launch_log *log, int64_t more);
void launch_log_add_step(launch_log *log, logged_step step);
/* The log's own copy of a name, one for all that are alike. */
const char *launch_log_name(launch_log *log, const char *name);
void launch_log_release(launch_log *log);

/* Appends the steps of another log from `first_step` on. */
void launch_log_append(launch_log *to, const launch_log *from, int first_step);

/* The launches of the plan: stream[i] is that of launch i, which begins when the previous one on
 * the stream has ended. Steps before first_step (warm-up) are left out. */
typedef struct launch_log_question {
    int launch_count;
    const int *stream;
    /* By launch: how often it runs in a step, 1 or `repetitions`; NULL: once. One that runs once does
     * so in the last repetition. */
    const int *times;
    int repetitions; /* 0 counts as 1 */
    int first_step, step_count;
} launch_log_question;

/* Over the steps that were asked for. */
typedef struct launch_log_sums {
    int64_t span_ns;    /* from the first begin of a step to its last end */
    int64_t busy_ns;    /* of that, while anything ran. Shares add up to it */
    int64_t between_ns; /* from the last end of a step to the first begin of the next */
    double unknown_ns;  /* of busy_ns, the share of records that belong to no known launch */
    int unseen;         /* launches without a record */
} launch_log_sums;

/* Keeps the steps that were asked for, numbered from 0, with their records in order of step,
 * repetition, launch and time, and sets each record's repetition and share. With programmatic dependent
 * launch a launch may be resident before the previous one has ended; that wait is cut off its record.
 *
 * DYNO_CORRUPT when records were dropped, when a step has none or others than the first, and when
 * more than 1 % of the busy time belongs to no launch. */
NODISCARD dyno_status launch_log_settle(launch_log *log, const launch_log_question *asked,
                                        launch_log_sums *out);

#endif
