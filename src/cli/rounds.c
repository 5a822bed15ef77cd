#define _GNU_SOURCE
#include "cli/rounds.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/progress.h"

/* What was said last before it failed. */
enum { TAIL_BYTES = 600 };

static char *join(const char *directory, const char *name) {
    text path = {0};
    text_format(&path, "%s/%s", directory, name);
    return path.data;
}

static dyno_status make_directories(const rounds_options *options, rounds *out) {
    if (options->directory) {
        out->root = memory_copy_string(options->directory);
    } else {
        const char *base = getenv("TMPDIR");
        out->root = join(base && *base ? base : "/tmp", "dyno-compare-XXXXXX");
        if (!mkdtemp(out->root))
            return dyno_fail(DYNO_IO,
                             "making a temporary directory '%s': %s; --out DIR names another",
                             out->root, strerror(errno));
        out->is_temporary = true;
    }
    for (int side = 0; side < 2; side++) {
        out->paths[side] = join(out->root, side ? "b" : "a");
        if (file_exists(out->paths[side]))
            return dyno_fail(DYNO_INVALID,
                             "'%s' is there already; rounds of two comparisons do not mix: use "
                             "another --out",
                             out->paths[side]);
    }
    for (int side = 0; side < 2; side++)
        RETURN_IF_FAILED(file_make_output_directory(out->paths[side]));
    return DYNO_OK;
}

/* In single quotes, for a shell. */
static void append_quoted(text *out, const char *word) {
    text_append(out, "'");
    for (; *word; word++)
        text_append_bytes(out, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    text_append(out, "'");
}

/* stdout is dropped; stderr goes to the file `log`. */
static pid_t start(const char *line, const char *log) {
    pid_t child = fork();
    if (child != 0)
        return child;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (!freopen("/dev/null", "r", stdin) || !freopen("/dev/null", "w", stdout) ||
        !freopen(log, "w", stderr))
        _exit(126);
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    _exit(127);
}

static void append_tail(text *out, const char *log) {
    char *said;
    size_t size;
    enum { LOG_LIMIT = 16 << 20 };
    if (file_read_all(log, LOG_LIMIT, &said, &size) != DYNO_OK)
        return;
    while (size && said[size - 1] == '\n')
        said[--size] = '\0';
    if (size)
        text_format(out, ": %s", said + (size > TAIL_BYTES ? size - TAIL_BYTES : 0));
    free(said);
}

static dyno_status run_one(const char *command, const char *directory) {
    text line = {0}, why = {0};
    char *log = join(directory, "log.txt"), *record = join(directory, "run.json");
    text_format(&line, "%s --out ", command);
    append_quoted(&line, directory);
    int code = -1;
    dyno_status status = file_make_output_directory(directory);
    if (status == DYNO_OK) {
        pid_t child = start(text_string(&line), log);
        while (child > 0 && waitpid(child, &code, 0) < 0 && errno == EINTR) {
        }
        if (interrupt_requested())
            status = dyno_fail(DYNO_INTERRUPTED, "interrupted");
        else if (child < 0)
            status = dyno_fail(DYNO_IO, "starting a shell: %s", strerror(errno));
        else if (!WIFEXITED(code) || WEXITSTATUS(code) != 0 || !file_exists(record)) {
            append_tail(&why, log);
            if (WIFEXITED(code) && WEXITSTATUS(code) == 0)
                status =
                    dyno_fail(DYNO_INVALID,
                              "the command \"%s\" wrote no run.json; it must be a dyno verb that "
                              "takes --out DIR%s",
                              command, text_string(&why));
            else
                status = dyno_fail(DYNO_IO, "the command \"%s\" failed with %s %d%s", command,
                                   WIFEXITED(code) ? "exit code" : "signal",
                                   WIFEXITED(code) ? WEXITSTATUS(code) : WTERMSIG(code),
                                   text_string(&why));
        }
    }
    text_release(&line);
    text_release(&why);
    free(log);
    free(record);
    return status;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

static void remove_tree(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

/* A round that only one of the two has finished is no round. */
static dyno_status run_round(const rounds_options *options, rounds *out, int number) {
    char name[32];
    char *paths[2];
    dyno_status status = DYNO_OK;
    snprintf(name, sizeof name, "round-%04d", number + 1);
    for (int side = 0; side < 2; side++)
        paths[side] = join(out->paths[side], name);
    for (int turn = 0; turn < 2 && status == DYNO_OK; turn++) {
        int side = (number + turn) % 2;
        status = run_one(options->commands[side], paths[side]);
    }
    for (int side = 0; side < 2; side++) {
        if (status != DYNO_OK)
            remove_tree(paths[side]);
        free(paths[side]);
    }
    out->finished += status == DYNO_OK;
    return status;
}

dyno_status rounds_run(const rounds_options *options, rounds *out) {
    *out = (rounds){0};
    RETURN_IF_FAILED(make_directories(options, out));
    progress *line = progress_create(options->count);
    dyno_status status = DYNO_OK;
    for (int i = 0; i < options->count && status == DYNO_OK; i++) {
        char label[64];
        snprintf(label, sizeof label, "round %d of %d", i + 1, options->count);
        progress_update(line, i, label);
        status = run_round(options, out, i);
    }
    progress_destroy(line);
    return status;
}

void rounds_release(rounds *made) {
    if (made->is_temporary)
        remove_tree(made->root);
    free(made->root);
    free(made->paths[0]);
    free(made->paths[1]);
    *made = (rounds){0};
}
