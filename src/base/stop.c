#define _GNU_SOURCE
#include "base/stop.h"

#include <time.h>

static const int64_t PAUSE_NS = 20 * 1000 * 1000;

static _Thread_local stop_question *asked;

stop_question *stop_ask(stop_question *question) {
    stop_question *before = asked;
    asked = question;
    return before;
}

bool stop_is_asked(void) { return asked && asked->should_stop; }

/* Some milliseconds coarse, and a few nanoseconds to read. */
static int64_t coarse_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool stop_is_requested(void) {
    if (!stop_is_asked() || asked->has_said_yes)
        return stop_is_asked();
    int64_t now = coarse_now_ns();
    if (now < asked->next_ns)
        return false;
    asked->next_ns = now + PAUSE_NS;
    asked->has_said_yes = asked->should_stop(asked->context);
    return asked->has_said_yes;
}

dyno_status stop_check(const char *doing) {
    return stop_is_requested() ? dyno_fail(DYNO_INTERRUPTED, "interrupted while %s", doing)
                               : DYNO_OK;
}
