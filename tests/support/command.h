/* command.h - the dyno binary as a user runs it: a shell line in, exit code and output back. */
#ifndef TESTS_SUPPORT_COMMAND_H
#define TESTS_SUPPORT_COMMAND_H

#include "base/text.h"

/* Runs `dyno ARGUMENTS` in a shell, the arguments given as a format, redirections included; both
 * streams are read unless redirected. Returns the exit code; a death by signal fails the test.
 * `output` is emptied first. */
#define dyno_run(output, ...) command_run(DYNO_BINARY, output, __VA_ARGS__)

/* Fails the test unless the exit code is `code` and `part` is in what was printed. */
#define dyno_expect(code, part, ...) command_expect(DYNO_BINARY, code, part, __VA_ARGS__)

int command_run(const char *binary, text *output, const char *format, ...) PRINTF_LIKE(3, 4);
void command_expect(const char *binary, int code, const char *part, const char *format, ...)
    PRINTF_LIKE(4, 5);

#endif
