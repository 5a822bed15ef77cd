/* meeting.h - where processes of one host wait for each other.
 *
 * Whoever comes last wakes the others. A wait spins for about as long as a sleep and a wake-up would
 * take, unless there are more ranks than cores: then it sleeps at once, because whoever is waited for
 * needs the core. A wait ends in a failure when a rank that is missing has died, has left, or has not
 * used its processor for as long as the timeout says; one that computes is waited for. */
#ifndef DISTRIBUTED_MEETING_H
#define DISTRIBUTED_MEETING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct segment;

enum { MEETING_MOST_MEMBERS = 1024 };

/* In shared memory, zeroed at first. */
typedef struct meeting {
    _Atomic uint32_t arrived; /* members that are there */
    _Atomic uint32_t sleepers;
    _Alignas(64) _Atomic uint32_t epoch; /* meetings that have taken place */
    /* For naming who is missing: the epoch that each member came for. */
    _Alignas(64) _Atomic uint32_t came_for[MEETING_MOST_MEMBERS];
} meeting;

/* A member's own view of a meeting. Members are the first `count` of the segment. */
typedef struct meeting_place {
    meeting *shared;
    struct segment *segment;
    int index, count;
    double timeout_s;
    bool spins;
} meeting_place;

/* Returns when all members have called it. */
NODISCARD dyno_status meeting_wait(const meeting_place *place);

/* Whether SIGSTOP holds the process. What a tracer holds, such as a sanitizer that looks for leaks while
 * the process ends, goes on by itself. */
bool meeting_process_is_stopped(int process);

#endif
