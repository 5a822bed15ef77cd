/* nvrtc_log.h - what NVRTC and ptxas say of a source, warnings and registers included. */
#ifndef TESTS_SUPPORT_NVRTC_LOG_H
#define TESTS_SUPPORT_NVRTC_LOG_H

#include <stdbool.h>

#include "base/text.h"

/* Compiles for a chip, "sm_90", with the options that generated kernels are compiled with. False
 * when there is no NVRTC; fails the test when the source does not compile. */
bool nvrtc_log(const char *source, const char *chip, text *log);

/* Fails the test unless the log has nothing but ptxas' figures in it, and those show no spills and
 * no memory of a thread's own. */
void expect_quiet_log(const char *log);

#endif
