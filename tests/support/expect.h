/* expect.h - what a call must return, with its message when it does not. */
#ifndef TESTS_SUPPORT_EXPECT_H
#define TESTS_SUPPORT_EXPECT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/status.h"

static inline void expect_ok(dyno_status status) {
    if (status != DYNO_OK)
        fail_msg("%s", dyno_error_message());
}

#endif
