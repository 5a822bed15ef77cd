#define _GNU_SOURCE
#include "cli/child.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/interrupt.h"

/* Our signals are blocked, because one thread waits for them; the child takes its own. */
static pid_t start(const child_options *options) {
    fflush(stdout);
    fflush(stderr);
    pid_t parent = getpid(), child = fork();
    if (child != 0)
        return child;
    /* Whoever kills us with kill -9 wants the measuring to end, too. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(126);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (!freopen("/dev/null", "r", stdin) || !freopen("/dev/null", "w", stdout) ||
        !freopen(options->log, "w", stderr))
        _exit(126);
    execvp(options->argv[0], options->argv);
    fprintf(stderr, "%s: %s\n", options->argv[0], strerror(errno));
    fflush(stderr);
    _exit(127);
}

dyno_status child_run(const child_options *options, child_end *out) {
    const struct timespec moment = {.tv_nsec = 20000000};
    enum { POLLS_A_CALL = 5 };
    int64_t begin = clock_now_ns();
    *out = (child_end){.exit_code = -1};
    pid_t child = start(options);
    if (child < 0)
        return dyno_fail(DYNO_IO, "starting '%s': %s", options->argv[0], strerror(errno));
    int code = 0;
    bool was_told = false;
    for (int polls = 0;; polls++) {
        pid_t ended = waitpid(child, &code, WNOHANG);
        if (ended == child || (ended < 0 && errno != EINTR))
            break;
        out->seconds = (double)(clock_now_ns() - begin) / 1e9;
        bool is_late = options->seconds > 0 && out->seconds > options->seconds;
        if (!was_told && (is_late || interrupt_requested())) {
            out->was_stopped = is_late && !interrupt_requested();
            kill(child,
                 SIGINT); /* a terminal's Ctrl-C has reached it already: once more is one request */
            was_told = true;
        }
        if (options->on_wait && polls % POLLS_A_CALL == 0)
            options->on_wait(options->caller);
        nanosleep(&moment, NULL);
    }
    out->seconds = (double)(clock_now_ns() - begin) / 1e9;
    out->exit_code = WIFEXITED(code) ? WEXITSTATUS(code) : -1;
    out->signal = WIFSIGNALED(code) ? WTERMSIG(code) : 0;
    return interrupt_requested() ? dyno_fail(DYNO_INTERRUPTED, "interrupted") : DYNO_OK;
}

void child_append_tail(text *out, const char *log) {
    enum { LOG_LIMIT = 16 << 20, TAIL_BYTES = 600 };
    char *said;
    size_t size;
    if (file_read_all(log, LOG_LIMIT, &said, &size) != DYNO_OK)
        return;
    while (size && said[size - 1] == '\n')
        said[--size] = '\0';
    if (size)
        text_format(out, ": %s", said + (size > TAIL_BYTES ? size - TAIL_BYTES : 0));
    free(said);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

void child_remove_tree(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }
