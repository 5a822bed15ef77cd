/* chrome_events.h - the events of a trace in Chrome's format, as JSON, one at a time into a file.
 *
 * An event is begun, gets its times and arguments, and is ended. A failure to write is remembered: what
 * follows does nothing, and chrome_finish returns it. */
#ifndef PROFILE_CHROME_EVENTS_H
#define PROFILE_CHROME_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/byte_sink.h"
#include "base/text.h"

typedef struct chrome_events {
    byte_sink *sink;
    int64_t base_ns; /* times are written relative to it, in microseconds with three digits */
    int64_t count;
    text buffer;
    bool has_arguments;
    dyno_status status;
} chrome_events;

typedef struct chrome_thread {
    int64_t process, thread;
} chrome_thread;

/* `kind` is Chrome's letter: X, M, C, s, f. `category` may be NULL. Names may be any text. */
void chrome_begin(chrome_events *to, char kind, const char *name, const char *category,
                  chrome_thread at);
void chrome_time(chrome_events *to, int64_t at_ns);
void chrome_duration(chrome_events *to, int64_t ns);
void chrome_id(chrome_events *to, int64_t id); /* of a flow; one that ends has "bp":"e" as well */
void chrome_flow_end(chrome_events *to);
/* Keys are written as they are. A NULL or NAN is left out. */
void chrome_text(chrome_events *to, const char *key, const char *value);
void chrome_number(chrome_events *to, const char *key, double value);
void chrome_integer(chrome_events *to, const char *key, int64_t value);
void chrome_extent(chrome_events *to, const char *key, const int *extent);
void chrome_end(chrome_events *to);

/* What stands before the events, and behind them: any text of the caller. */
void chrome_raw(chrome_events *to, const char *json);
/* Writes what is left; then it is empty. The sink remains the caller's. */
NODISCARD dyno_status chrome_finish(chrome_events *to);

#endif
