/* status.h - how a function says that it failed.
 *
 * A function that can fail returns a dyno_status. The message belongs to the thread, so a
 * caller passes the code up and only src/cli prints it. A message says what was attempted,
 * the value found, the limit, and the way out. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "dyno.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NODISCARD __attribute__((warn_unused_result))
#define PRINTF_LIKE(string, first) __attribute__((format(printf, string, first)))

/* Records the message for this thread, control characters in it as escapes (printable.h), and returns
 * `code`. */
NODISCARD dyno_status dyno_fail(dyno_status code, const char *format, ...) PRINTF_LIKE(2, 3);

/* Puts "`context`: " before the recorded message and returns `code`, for callers that know
 * what the failing call was for. */
NODISCARD dyno_status dyno_fail_within(dyno_status code, const char *format, ...) PRINTF_LIKE(2, 3);

/* What a public function ends with: after a success there is no message. Returns `status`. */
NODISCARD dyno_status status_conclude(dyno_status status);

/* From now on every failure in this copy of the code is also forwarded to `told`, which returns the
 * code. The CUDA module has its own copy and forwards to that of the program that loaded it. */
void status_tell(dyno_status (*told)(dyno_status code, const char *message));

#define RETURN_IF_FAILED(call)                                                                     \
    do {                                                                                           \
        dyno_status return_if_failed_status = (call);                                              \
        if (return_if_failed_status != DYNO_OK)                                                    \
            return return_if_failed_status;                                                        \
    } while (0)

/* For public functions: the first of these pointers that is NULL is an error that names it. */
#define RETURN_IF_NULL(...)                                                                        \
    RETURN_IF_FAILED(                                                                              \
        status_check_pointers(__func__, #__VA_ARGS__, (const void *const[]){__VA_ARGS__},          \
                              (int)(sizeof((const void *const[]){__VA_ARGS__}) / sizeof(void *))))
NODISCARD dyno_status status_check_pointers(const char *function, const char *names,
                                            const void *const *pointers, int count);

#ifdef __cplusplus
}
#endif

#endif
