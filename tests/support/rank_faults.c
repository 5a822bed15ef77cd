#define _GNU_SOURCE
#include "support/rank_faults.h"

#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/expect.h"

enum { MESSAGE_BYTES = 4096 };

/* ---- in a rank ---- */

static void report(const rank_fault *f) {
    char line[1024];
    int length = snprintf(line, sizeof line, "%s\n", dyno_error_message());
    if (world_may_report() && write(f->messages, line, (size_t)length) < 0)
        exit(4);
}

static void end_with(world *w, const rank_fault *f, dyno_status status) {
    status = world_conclude(w, status);
    if (status != DYNO_OK)
        report(f);
    world_close(w);
    _exit(status == DYNO_OK ? 0 : 1); /* what it holds is not looked for by a leak detector */
}

dyno_status rank_fault_status(const rank_fault *f) {
    if (f->how == DEATH_OUT_OF_MEMORY)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "the system refuses 7.00 GiB");
    return dyno_fail(DYNO_DEVICE_FAILED, "kernel matmul: misaligned address");
}

void rank_fault_die(world *w, const rank_fault *f) {
    switch (f->how) {
    case DEATH_KILLED:
        kill(getpid(), SIGKILL);
        break;
    case DEATH_STOPPED:
        kill(getpid(), SIGSTOP);
        break;
    case DEATH_OUT_OF_MEMORY:
    case DEATH_FAILED:
        end_with(w, f, rank_fault_status(f));
        break;
    case DEATH_LEFT:
        world_close(w);
        _exit(0);
    case DEATH_COUNT:
        break;
    }
}

void rank_fault_prove(world *w, const rank_fault *f, dyno_status status) {
    if (status != DYNO_OK)
        end_with(w, f, status);
}

static double timeout_of(const rank_fault *f) {
    return f->timeout_s > 0 ? f->timeout_s : RANK_FAULT_TIMEOUT_S;
}

world *rank_fault_join(const rank_fault *f) {
    world_options options = {.timeout_s = timeout_of(f)};
    world *w;
    if (world_open(&options, &w) == DYNO_OK)
        return w;
    report(f);
    _exit(1);
}

/* ---- in the test ---- */

static int count_entries(const char *path) {
    DIR *directory = opendir(path);
    int count = 0;
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory));)
        count++;
    closedir(directory);
    return count;
}

static void expect_message(const rank_fault *f, const char *messages) {
    static const char *const deaths[DEATH_COUNT] = {
        "was killed by signal 9", "is stopped (SIGSTOP)", "the system refuses 7.00 GiB",
        "misaligned address", "has ended"};
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    const char *line_end = strchr(messages, '\n');
    if (!line_end || line_end[1])
        fail_msg("there must be one message, there is: %s", messages);
    if (!strstr(messages, "rank 1"))
        fail_msg("the rank is not named: %s", messages);
    if (!f->is_early && !strstr(messages, host))
        fail_msg("the host is not named: %s", messages);
    if (!strstr(messages, f->phase))
        fail_msg("the phase '%s' is not named: %s", f->phase, messages);
    bool is_of_own = f->is_early && f->how != DEATH_KILLED && f->how != DEATH_STOPPED;
    if (!strstr(messages, is_of_own ? "exit code 1" : deaths[f->how]))
        fail_msg("what happened is not told: %s", messages);
}

void rank_fault_run(rank_fault *f, int (*run)(void *context), void *context) {
    char messages[MESSAGE_BYTES] = "";
    int code, files_before = count_entries("/proc/self/fd");
    f->messages = memfd_create("messages", MFD_CLOEXEC);
    assert_true(f->messages >= 0);
    launch_options options = {
        .ranks = RANK_FAULT_RANKS, .run = run, .context = context, .timeout_s = timeout_of(f)};
    int64_t begin = clock_now_ns();
    dyno_status status = launch_ranks(&options, &code);
    double seconds = (double)(clock_now_ns() - begin) * 1e-9;
    if (status != DYNO_OK) {
        assert_int_equal(status, DYNO_RANK_FAILED);
        dprintf(f->messages, "%s\n", dyno_error_message());
    }
    assert_true(pread(f->messages, messages, sizeof messages - 1, 0) >= 0);
    close(f->messages);
    expect_message(f, messages);
    assert_int_equal(code, 1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* ECHILD: all were waited for */
    assert_int_equal(count_entries("/proc/self/fd"), files_before);
    if (seconds > 30)
        fail_msg("death %d during %s: %g s", f->how, f->phase, seconds);
}
