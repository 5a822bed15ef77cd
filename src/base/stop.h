/* stop.h - whether the user wants no more, for work that is far from whoever knows.
 *
 * An experiment sets the question for as long as it runs; planning, drawing weights, compiling kernels
 * and running them ask it now and then, so that the first Ctrl-C is obeyed wherever the experiment
 * is. It belongs to the thread: without an experiment on it nobody is asked, and a training step is
 * never cut short. */
#ifndef BASE_STOP_H
#define BASE_STOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct stop_question {
    bool (*should_stop)(void *context); /* NULL: never */
    void *context;
    bool has_said_yes; /* it counts from then on */
    int64_t next_ns;   /* when it may be asked again */
} stop_question;

/* Asks `question` from now on; NULL: nobody. Returns what was asked before, for setting it back. */
stop_question *stop_ask(stop_question *question);

bool stop_is_asked(void);

/* The answer. Cheap enough for every launch: whoever is asked is asked 50 times a second at most. */
bool stop_is_requested(void);

/* DYNO_INTERRUPTED, "interrupted while planning", when it is yes. */
NODISCARD dyno_status stop_check(const char *doing);

#endif
