#define _GNU_SOURCE
#include "support/command.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static int run(const char *binary, text *output, const char *format, va_list values) {
    char arguments[2048], command[4096];
    vsnprintf(arguments, sizeof arguments, format, values);
    snprintf(command, sizeof command, "exec 2>&1; '%s' %s", binary, arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    text_release(output);
    char piece[4096];
    for (size_t got; (got = fread(piece, 1, sizeof piece, pipe)) > 0;)
        text_append_bytes(output, piece, got);
    int status = pclose(pipe);
    if (!WIFEXITED(status))
        fail_msg("dyno %s: died: %s", arguments, text_string(output));
    return WEXITSTATUS(status);
}

int command_run(const char *binary, text *output, const char *format, ...) {
    va_list values;
    va_start(values, format);
    int code = run(binary, output, format, values);
    va_end(values);
    return code;
}

void command_expect(const char *binary, int code, const char *part, const char *format, ...) {
    text output = {0};
    va_list values;
    va_start(values, format);
    int got = run(binary, &output, format, values);
    va_end(values);
    if (got != code || !strstr(text_string(&output), part)) {
        print_error("wanted exit %d and '%s', got %d:\n%s\n", code, part, got,
                    text_string(&output));
        va_start(values, format);
        vprint_error(format, values);
        va_end(values);
        print_error("\n");
    }
    assert_int_equal(got, code);
    assert_non_null(strstr(text_string(&output), part));
    text_release(&output);
}
