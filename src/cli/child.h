/* child.h - another program, started and waited for: its stdout is dropped, its stderr kept in a file. */
#ifndef CLI_CHILD_H
#define CLI_CHILD_H

#include <stdbool.h>

#include "base/text.h"

typedef struct child_options {
    char *const *argv; /* argv[0] is looked up in PATH; ends with NULL */
    const char *log;
    double seconds; /* after which it is asked to stop (SIGINT); 0: never */
    /* Called ten times a second while it runs; may be NULL. */
    void (*on_wait)(void *caller);
    void *caller;
} child_options;

typedef struct child_end {
    int exit_code; /* -1: it died of a signal, or was not started */
    int signal;
    bool was_stopped; /* its time was up */
    double seconds;
} child_end;

/* DYNO_INTERRUPTED when the user asked to stop, which the child has been asked as well, and DYNO_IO when
 * there can be no child; else DYNO_OK, whatever its exit code is. */
NODISCARD dyno_status child_run(const child_options *options, child_end *out);

/* Appends the last lines of a log, with ": " before them if there are any. */
void child_append_tail(text *out, const char *log);
/* Removes a directory and all that is in it. */
void child_remove_tree(const char *path);

#endif
