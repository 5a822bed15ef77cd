/* status.c - one message buffer per thread; a failure overwrites the one before it. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"

enum { MESSAGE_BYTES = 2048 };

static _Thread_local char message[MESSAGE_BYTES];
static dyno_status (*listener)(dyno_status code, const char *message);

const char *dyno_version(void) { return DYNO_VERSION; }

void status_tell(dyno_status (*told)(dyno_status code, const char *message)) { listener = told; }

const char *dyno_error_message(void) { return message; }

const char *dyno_status_name(dyno_status status) {
    static const char *const names[] = {
        [DYNO_OK] = "ok",
        [DYNO_INVALID] = "invalid",
        [DYNO_UNSUPPORTED] = "unsupported",
        [DYNO_NOT_FOUND] = "not found",
        [DYNO_CORRUPT] = "corrupt",
        [DYNO_IO] = "input or output failed",
        [DYNO_OUT_OF_MEMORY] = "out of memory",
        [DYNO_INTERRUPTED] = "interrupted",
        [DYNO_DEVICE_FAILED] = "device failed",
        [DYNO_NOT_FINITE] = "not finite",
        [DYNO_RANK_FAILED] = "rank failed",
    };
    bool is_known = (size_t)status < sizeof names / sizeof *names;
    return is_known ? names[status] : "unknown status";
}

dyno_status status_conclude(dyno_status status) {
    if (status == DYNO_OK)
        message[0] = '\0';
    return status;
}

/* Messages name files and quote them: what is in those must not reach a terminal as it is. Lines of a
 * compiler's log stay lines. Nothing is allocated, as memory may be what is lacking. */
static void record(const char *formatted) {
    size_t length = 0;
    while (*formatted) {
        printable_piece piece = printable_take(&formatted, "\n\t");
        if (length + (size_t)piece.length >= MESSAGE_BYTES)
            break;
        memcpy(message + length, piece.text, (size_t)piece.length);
        length += (size_t)piece.length;
    }
    message[length] = '\0';
}

dyno_status dyno_fail(dyno_status code, const char *format, ...) {
    /* Formatted aside first: an argument may point into `message`. */
    char formatted[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(formatted, sizeof formatted, format, arguments);
    va_end(arguments);
    record(formatted);
    return listener ? listener(code, message) : code;
}

dyno_status dyno_fail_within(dyno_status code, const char *format, ...) {
    char context[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context, sizeof context, format, arguments);
    va_end(arguments);
    char inner[MESSAGE_BYTES];
    memcpy(inner, message, sizeof inner);
    inner[MESSAGE_BYTES - sizeof context - 4] = '\0';
    return dyno_fail(code, "%s: %s", context, inner);
}

dyno_status status_check_pointers(const char *function, const char *names,
                                  const void *const *pointers, int count) {
    for (int i = 0; i < count; i++) {
        size_t length = strcspn(names, ",");
        if (!pointers[i])
            return dyno_fail(DYNO_INVALID, "%s: %.*s is NULL", function, (int)length, names);
        names += length + strspn(names + length, ", ");
    }
    return DYNO_OK;
}
