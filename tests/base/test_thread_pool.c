/* test_thread_pool.c - jobs within jobs, of several threads at once, and behind a fork. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/threads.h"
#include "support/skip.h"

static void count_range(void *context, int64_t begin, int64_t end) {
    atomic_fetch_add((_Atomic int64_t *)context, end - begin);
}

static void count_within(void *context, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        threads_for(10, 1, count_range, context);
        threads_for_each(5, count_range, context);
    }
}

static void a_job_within_a_job_is_done(void **state) {
    (void)state;
    threads_set_count(4);
    _Atomic int64_t done = 0;
    threads_for(100, 1, count_within, (void *)&done);
    threads_for_each(100, count_within, (void *)&done);
    assert_int_equal(done, 2 * 100 * 15);
    threads_set_count(0);
}

static void *run_jobs(void *context) {
    for (int i = 0; i < 300; i++)
        threads_for(1000, 10, count_range, context);
    return NULL;
}

static void jobs_of_several_threads_are_all_done(void **state) {
    (void)state;
    enum { CALLERS = 4 };
    threads_set_count(3);
    _Atomic int64_t done = 0;
    pthread_t callers[CALLERS];
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&callers[i], NULL, run_jobs, (void *)&done), 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i], NULL);
    assert_int_equal(done, CALLERS * 300 * 1000);
    threads_set_count(0);
}

static void the_child_of_a_fork_has_threads_of_its_own(void **state) {
    (void)state;
    threads_set_count(3);
    _Atomic int64_t done = 0;
    run_jobs((void *)&done);
    pid_t child = fork();
    if (child == 0) {
        done = 0;
        run_jobs((void *)&done);
        _exit(done == 300 * 1000 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    threads_set_count(0);
}

static double process_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Between jobs that come every two milliseconds, three workers that do nothing but wait would use
 * 1.2 s of the processor; those that sleep use a few hundredths of it. */
static void workers_without_work_sleep(void **state) {
    (void)state;
    threads_set_count(4);
    _Atomic int64_t done = 0;
    double before = process_seconds();
    for (int i = 0; i < 200; i++) {
        threads_for(4, 1, count_range, (void *)&done);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    assert_true(process_seconds() - before < 0.2);
    assert_int_equal(done, 800);
    threads_set_count(0);
}

typedef struct meeting {
    _Atomic int arrived, cores[2], allowed[2];
} meeting;

/* Both tasks run at once, each in a thread of its own, if the worker comes within a second. */
static void meet(void *context, int64_t begin, int64_t end) {
    meeting *m = context;
    cpu_set_t allowed;
    for (int64_t i = begin; i < end; i++) {
        int place = atomic_fetch_add(&m->arrived, 1);
        m->cores[place] = sched_getcpu();
        sched_getaffinity(0, sizeof allowed, &allowed);
        m->allowed[place] = CPU_COUNT(&allowed);
        for (int turn = 0; m->arrived < 2 && turn < 10000; turn++)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

/* Where a kernel wakes it beside its waker it took turns with the caller, while another core was idle. */
static void a_woken_worker_has_another_core_than_the_caller(void **state) {
    (void)state;
    enum { TRIES = 40 };
    if (threads_available() < 2)
        SKIP_BECAUSE("there is one core");
    threads_set_count(2);
    int together = 0;
    for (int i = 0; i < TRIES; i++) {
        meeting m = {0};
        nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL); /* the worker sleeps by then */
        int core = sched_getcpu();
        threads_for_each(2, meet, &m);
        assert_int_equal(m.arrived, 2);
        together += m.cores[0] == core && m.cores[1] == core;
        assert_int_equal(m.allowed[0], threads_available()); /* it may go everywhere again */
        assert_int_equal(m.allowed[1], threads_available());
    }
    assert_true(together < TRIES / 4);
    threads_set_count(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_within_a_job_is_done),
        cmocka_unit_test(jobs_of_several_threads_are_all_done),
        cmocka_unit_test(the_child_of_a_fork_has_threads_of_its_own),
        cmocka_unit_test(workers_without_work_sleep),
        cmocka_unit_test(a_woken_worker_has_another_core_than_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
