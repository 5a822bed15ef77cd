/* launch.c - a process for each rank, and a parent that waits for all of them.
 *
 * Each rank is a process group of its own: a terminal's Ctrl-C comes to the launcher alone, which
 * passes it on to rank 0. Rank 0 decides when to stop, so that all stop at the same place. */
#define _GNU_SOURCE
#include "distributed/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "distributed/segment.h"

typedef struct launched_rank {
    pid_t process; /* 0: has ended */
    int exit_code; /* 128 and the signal where one killed it */
} launched_rank;

typedef struct launch_job {
    segment *shared;
    launched_rank *ranks;
    int count, running;
    double timeout_s;
    int exit_code;
    int signal_count;  /* of the user's that were passed on */
    int first_signal;  /* of them */
    int64_t end_by_ns; /* when ranks that still run are killed; 0: they may run */
} launch_job;

/* ---- starting ---- */

/* What a rank finds in its environment, and the environment of this process. Made before the fork: a
 * child of a program with threads may not allocate. */
enum { OWN_VARIABLES = 3, VARIABLE_BYTES = 40 };
typedef struct rank_environment {
    char own[OWN_VARIABLES][VARIABLE_BYTES];
    char **all; /* ends with NULL */
} rank_environment;

static rank_environment *environment_create(int ranks, int file, int rank) {
    rank_environment *e = memory_allocate(1, sizeof *e);
    int count = 0;
    while (environ[count])
        count++;
    e->all = memory_allocate((size_t)count + OWN_VARIABLES + 1, sizeof *e->all);
    snprintf(e->own[0], VARIABLE_BYTES, "%s=%d", LAUNCH_RANK_VARIABLE, rank);
    snprintf(e->own[1], VARIABLE_BYTES, "%s=%d", LAUNCH_COUNT_VARIABLE, ranks);
    snprintf(e->own[2], VARIABLE_BYTES, "%s=%d", LAUNCH_FILE_VARIABLE, file);
    int kept = 0;
    for (; kept < OWN_VARIABLES; kept++) /* the first of a name counts */
        e->all[kept] = e->own[kept];
    for (int i = 0; i < count; i++)
        if (strncmp(environ[i], "DYNO_RANK", strlen("DYNO_RANK")) != 0)
            e->all[kept++] = environ[i];
    return e;
}

static void environment_destroy(rank_environment *e) {
    free(e->all);
    free(e);
}

/* In the child; returns only when the program could not be started. */
static void become_rank(const launch_options *o, const rank_environment *e, pid_t launcher,
                        const sigset_t *signals) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* ranks do not outlive the launcher */
    if (getppid() != launcher)
        _exit(1);
    sigprocmask(SIG_SETMASK, signals, NULL);
    if (o->run) {
        environ = e->all;
        exit(o->run(o->context));
    }
    execve(o->program ? o->program : "/proc/self/exe", (char *const *)o->arguments, e->all);
}

/* The pipe is closed by a successful exec, or brings its errno. */
static dyno_status start_rank(const launch_options *o, launch_job *job, int rank,
                              const sigset_t *signals) {
    int pipe_ends[2], problem = 0;
    pid_t launcher = getpid();
    if (pipe2(pipe_ends, O_CLOEXEC) != 0)
        return dyno_fail(DYNO_IO, "starting rank %d: %s", rank, strerror(errno));
    rank_environment *environment = environment_create(o->ranks, job->shared->file, rank);
    fflush(NULL); /* what is buffered must not be written twice */
    pid_t child = fork();
    if (child == 0) {
        if (o->run)
            close(pipe_ends[1]);
        become_rank(o, environment, launcher, signals);
        problem = errno;
        if (write(pipe_ends[1], &problem, sizeof problem) < 0)
            _exit(126);
        _exit(127);
    }
    if (child < 0)
        problem = errno;
    environment_destroy(environment);
    close(pipe_ends[1]);
    if (child > 0 && file_read(pipe_ends[0], (char *)&problem, sizeof problem) < 0)
        problem = errno;
    close(pipe_ends[0]);
    if (problem) {
        if (child > 0)
            waitpid(child, NULL, 0);
        return dyno_fail(DYNO_IO, "starting rank %d of %d: %s", rank, o->ranks, strerror(problem));
    }
    setpgid(child, child);
    atomic_store(&job->shared->members[rank].process, (int)child);
    job->ranks[rank] = (launched_rank){.process = child};
    job->running++;
    return DYNO_OK;
}

static void signal_all(const launch_job *job, int number) {
    for (int r = 0; r < job->count; r++)
        if (job->ranks[r].process > 0)
            kill(job->ranks[r].process, number);
}

/* ---- watching ---- */

static void end_soon(launch_job *job, double seconds) {
    int64_t end = clock_now_ns() + (int64_t)(seconds * 1e9);
    if (!job->end_by_ns || end < job->end_by_ns)
        job->end_by_ns = end;
}

static const char *signal_name(int number) {
    const char *name = strsignal(number);
    return name ? name : "unknown";
}

/* A rank that has died or failed without a word: its failure is left for the others. */
static void note_failure(launch_job *job, int rank, int status) {
    char message[SEGMENT_FAILURE_BYTES];
    member_text who = segment_describe_member(job->shared, rank);
    member_text phase = segment_member_phase(job->shared, rank);
    if (WIFSIGNALED(status))
        snprintf(message, sizeof message, "%s was killed by signal %d (%s) during %s", who.text,
                 WTERMSIG(status), signal_name(WTERMSIG(status)), phase.text);
    else
        snprintf(message, sizeof message, "%s ended with exit code %d during %s", who.text,
                 WEXITSTATUS(status), phase.text);
    segment_fail(job->shared, DYNO_RANK_FAILED, message);
}

/* What ends by itself within this time after a failure is not killed: it keeps what it has. */
static double grace_s(const launch_job *job) { return job->timeout_s < 5 ? job->timeout_s : 5; }

static void note_end(launch_job *job, int rank, int status) {
    launched_rank *r = &job->ranks[rank];
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    r->process = 0;
    r->exit_code = code;
    job->running--;
    atomic_store(&job->shared->members[rank].state, MEMBER_LEFT);
    if (code == 0)
        return;
    bool is_by_user = job->signal_count > 0 && code > 128;
    if (!is_by_user)
        note_failure(job, rank, status);
    if (job->exit_code == 0)
        job->exit_code = is_by_user ? 128 + job->first_signal : WIFSIGNALED(status) ? 1 : code;
    end_soon(job, is_by_user && WIFSIGNALED(status) ? 0 : grace_s(job));
}

static void reap(launch_job *job) {
    int status;
    pid_t process;
    for (int r = 0; r < job->count; r++) {
        if (job->ranks[r].process <= 0)
            continue;
        do {
            process = waitpid(job->ranks[r].process, &status, WNOHANG);
        } while (process < 0 && errno == EINTR);
        if (process > 0)
            note_end(job, r, status);
    }
}

static void pass_on(launch_job *job, int number) {
    if (number == SIGTSTP) { /* all stop, and go on together */
        signal_all(job, SIGSTOP);
        raise(SIGSTOP);
        signal_all(job, SIGCONT);
        return;
    }
    if (job->signal_count++ == 0)
        job->first_signal = number;
    if (job->ranks[0].process > 0)
        kill(job->ranks[0].process, number);
    if (job->signal_count > 2) /* the first asks, the second kills rank 0 */
        end_soon(job, 0);
}

/* A rank that is stopped ends by nothing else. */
static void kill_stopped(const launch_job *job) {
    for (int r = 0; r < job->count; r++)
        if (job->ranks[r].process > 0 && meeting_process_is_stopped((int)job->ranks[r].process))
            kill(job->ranks[r].process, SIGKILL);
}

static void watch(launch_job *job, const sigset_t *signals) {
    const struct timespec moment = {.tv_nsec = 50000000};
    while (job->running > 0) {
        int number = sigtimedwait(signals, NULL, &moment);
        if (number > 0 && number != SIGCHLD)
            pass_on(job, number);
        reap(job);
        if (!job->end_by_ns && atomic_load(&job->shared->header->failed) == 2)
            end_soon(job, grace_s(job));
        if (job->end_by_ns)
            kill_stopped(job);
        if (job->end_by_ns && clock_now_ns() >= job->end_by_ns)
            signal_all(job, SIGKILL);
    }
}

static dyno_status conclude(const launch_job *job) {
    segment_header *shared = job->shared->header;
    bool has_failed = atomic_load(&shared->failed) == 2;
    if (has_failed && !atomic_exchange(&shared->is_told, true))
        return dyno_fail(DYNO_RANK_FAILED, "%.*s", SEGMENT_FAILURE_BYTES - 1, shared->failure);
    return DYNO_OK;
}

static void block_signals(sigset_t *signals, sigset_t *before) {
    sigemptyset(signals);
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGTSTP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction action;
        bool is_ignored = sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler == SIG_IGN;
        if (!is_ignored || numbers[i] == SIGCHLD)
            sigaddset(signals, numbers[i]);
    }
    sigprocmask(SIG_BLOCK, signals, before);
}

dyno_status launch_ranks(const launch_options *options, int *exit_code) {
    launch_job job = {.count = options->ranks,
                      .timeout_s = options->timeout_s > 0 ? options->timeout_s : 30};
    *exit_code = 1;
    if (options->ranks < 1 || options->ranks > WORLD_MOST_RANKS)
        return dyno_fail(DYNO_INVALID, "%d ranks: there must be 1 to %d", options->ranks,
                         WORLD_MOST_RANKS);
    RETURN_IF_FAILED(segment_create(options->ranks, &job.shared));
    job.shared->header->is_launched = true;
    for (int r = 0; r < options->ranks; r++) {
        segment_member *member = &job.shared->members[r];
        member->rank = r;
        world_find_host(member->host);
    }
    job.ranks = memory_allocate((size_t)options->ranks, sizeof *job.ranks);
    sigset_t signals, before;
    block_signals(&signals, &before);
    dyno_status status = DYNO_OK;
    for (int r = 0; r < options->ranks && status == DYNO_OK; r++)
        status = start_rank(options, &job, r, &before);
    if (status != DYNO_OK)
        signal_all(&job, SIGKILL);
    watch(&job, &signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (status == DYNO_OK)
        status = conclude(&job);
    *exit_code = job.exit_code ? job.exit_code : status == DYNO_OK ? 0 : 1;
    segment_close(job.shared);
    free(job.ranks);
    return status;
}
