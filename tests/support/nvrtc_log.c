#include "support/nvrtc_log.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/cuda_library.h"

typedef struct library {
    int (*create)(void **program, const char *source, const char *name, int headers,
                  const char *const *contents, const char *const *names);
    int (*compile)(void *program, int count, const char *const *options);
    int (*log_size)(void *program, size_t *bytes);
    int (*log)(void *program, char *to);
    int (*destroy)(void **program);
} library;

static bool open_library(library *l) {
    void *handle;
    if (cuda_library_open("nvrtc", 13, &handle) != DYNO_OK)
        return false;
    return cuda_library_find(handle, "nvrtcCreateProgram", &l->create) == DYNO_OK &&
           cuda_library_find(handle, "nvrtcCompileProgram", &l->compile) == DYNO_OK &&
           cuda_library_find(handle, "nvrtcGetProgramLogSize", &l->log_size) == DYNO_OK &&
           cuda_library_find(handle, "nvrtcGetProgramLog", &l->log) == DYNO_OK &&
           cuda_library_find(handle, "nvrtcDestroyProgram", &l->destroy) == DYNO_OK;
}

bool nvrtc_log(const char *source, const char *chip, text *log) {
    library l;
    if (!open_library(&l))
        return false;
    char architecture[64];
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s", chip);
    const char *options[] = {architecture, "--std=c++17", "--fmad=false", "--ptxas-options=-v"};
    void *program;
    assert_int_equal(l.create(&program, source, "kernels.cu", 0, NULL, NULL), 0);
    int error = l.compile(program, sizeof options / sizeof *options, options);
    size_t bytes = 0;
    assert_int_equal(l.log_size(program, &bytes), 0);
    char *said = memory_allocate(bytes + 1, 1);
    assert_int_equal(l.log(program, said), 0);
    if (error)
        fail_msg("NVRTC: %s", said);
    text_append(log, said);
    free(said);
    l.destroy(&program);
    return true;
}

void expect_quiet_log(const char *log) {
    const char *function = strstr(log, "Compiling entry function");
    assert_non_null(function);
    for (const char *line = log; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        int length = (int)strcspn(line, "\n");
        if (length && strncmp(line, "ptxas", 5) != 0)
            fail_msg("a warning: %.*s", length, line);
        const char *found = strstr(line, "Compiling entry function");
        function = found && found < line + length ? found : function;
        const char *stack = strstr(line, " bytes stack frame");
        if (stack && stack < line + length &&
            !strstr(line, " 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"))
            fail_msg("%.*s: %.*s", (int)strcspn(function, "\n"), function, length, line);
    }
}
