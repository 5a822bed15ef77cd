/* dyno.h - the public interface of libdyno: builds, plans, trains and measures
 * decoder-only Transformers.
 *
 * Functions that can fail return a dyno_status; dyno_error_message() then says what was
 * attempted, the value found, the limit and the way out. Types are opaque. */
#ifndef DYNO_H
#define DYNO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum dyno_status {
    DYNO_OK = 0,
    DYNO_INVALID,       /* a value the caller gave is wrong: usage */
    DYNO_UNSUPPORTED,   /* well-formed, but nothing here can do it */
    DYNO_NOT_FOUND,     /* a file, tensor or name that is not there */
    DYNO_CORRUPT,       /* a file that contradicts its own format */
    DYNO_IO,            /* the operating system refused to read or write */
    DYNO_OUT_OF_MEMORY, /* needs more memory than there is */
    DYNO_INTERRUPTED    /* the user asked to stop; what was done so far is kept */
} dyno_status;

/* "0.1.0". */
const char *dyno_version(void);

/* The message of the last failure on this thread; "" if there was none. */
const char *dyno_error_message(void);

#ifdef __cplusplus
}
#endif
#endif
