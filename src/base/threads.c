/* threads.c - a pool of workers that wait for work, first awake and soon asleep.
 *
 * A job is cut into pieces. The calling thread and the workers each begin with a piece of their own
 * and then take what is left, so that nobody waits for a worker that has no core yet: the caller
 * does its piece as well. Only a piece that has begun is waited for.
 *
 * Waiting costs others a core: a thread that spins while another process wants its core has used up
 * its share of time when its work comes, and everybody waits for it. So a wait spins for as long as
 * a sleep and a wake-up would take, and then sleeps. Then the core is free, too, for whoever is
 * waited for.
 *
 * Some kernels wake a thread on the core of the one that wakes it, although another core is idle: it
 * takes turns with the caller there until it is moved, some milliseconds later. So the caller keeps its
 * own core from workers that it wakes, and each gives itself all cores back when it runs.
 *
 *   state   bit 31: the job takes workers; below: how many are at it. 0 when there is none
 *   epoch   counts jobs; workers sleep on it
 *
 * Invariant: the job's fields change only while state is 0, and workers read them only while they
 * are counted in it. */
#define _GNU_SOURCE
#include "base/threads.h"

#include <linux/futex.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/stop.h"

/* A wait for the next job, which often comes at once, and for the last piece of this one. */
enum { IDLE_SPIN_NS = 50000, END_SPIN_NS = 20000 };

static const uint32_t OPEN = 1u << 31;

/* Of many tasks, those that a thread begins with. Whoever has done its own helps the others; while
 * nobody is late, a thread does the same tasks each time, and finds what it wrote the last time in its
 * own cache. */
typedef struct task_share {
    _Atomic int64_t next;
    int64_t end;
    char apart[48]; /* from the next thread's cache line */
} task_share;

typedef struct worker {
    pthread_t thread;
    int number; /* from 1; the caller is 0 */
    cpu_set_t cores;
    _Atomic pid_t id;      /* 0 until it and the cores are known */
    atomic_bool is_asleep; /* or about to be */
    atomic_bool is_kept_away;
    int kept_from; /* this core; read and written by the thread whose job it is */
} worker;

typedef struct pool {
    pthread_mutex_t owner; /* of the thread whose job it is */
    _Atomic uint32_t state, epoch;
    atomic_int sleeping; /* workers */
    atomic_bool is_caller_asleep, is_stopping;
    worker **workers; /* each stays where it is, for its thread */
    int worker_count;
    /* The job. */
    threads_range *run;
    void *context;
    int64_t count, grain;
    int pieces;
    /* One for the caller and one for each worker: its piece, or its share of many tasks. */
    atomic_bool *is_taken;
    task_share *shares;
    bool has_tasks;
    /* The question whether to stop belongs to the caller; the others learn the answer from it. */
    bool asks_to_stop;
    atomic_bool is_stopped;
} pool;

static pool the_pool = {.owner = PTHREAD_MUTEX_INITIALIZER};
static int chosen_count;
static int sharing_processes = 1;
/* A job within a job runs on its thread alone. */
static _Thread_local bool is_inside;

int threads_available(void) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return omp_get_num_procs();
    int count = CPU_COUNT(&allowed);
    return count > 0 ? count : 1;
}

/* Asked of the system once for each setting: every launch wants to know. */
static _Atomic int available_count;

void threads_unbind(void) {
    cpu_set_t all;
    CPU_ZERO(&all);
    int places = omp_get_proc_bind() == omp_proc_bind_false ? 0 : omp_get_num_places();
    for (int i = 0; i < places; i++) {
        int count = omp_get_place_num_procs(i);
        int *cores = memory_allocate((size_t)count, sizeof *cores);
        omp_get_place_proc_ids(i, cores);
        for (int j = 0; j < count; j++)
            CPU_SET((size_t)cores[j], &all);
        free(cores);
    }
    if (CPU_COUNT(&all) > 0 && sched_setaffinity(0, sizeof all, &all) == 0)
        available_count = 0;
}

void threads_set_count(int count) {
    chosen_count = count;
    available_count = 0;
}

void threads_share_cores(int processes) {
    sharing_processes = processes > 1 ? processes : 1;
    available_count = 0;
}

static int own_part(void) {
    int part = threads_available() / sharing_processes;
    return part > 0 ? part : 1;
}

int threads_count(void) {
    if (chosen_count > 0)
        return chosen_count;
    int count = available_count;
    if (count == 0)
        available_count = count = own_part();
    return count;
}

/* ---- waiting ---- */

static void sleep_while(_Atomic uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* `yield` does nothing on most cores */
#endif
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void threads_wait(int turn) {
    enum { SHORT_TURNS = 1000 };
    relax();
    if (turn >= SHORT_TURNS)
        sched_yield();
}

/* Whether the word became another one than `value` within that time. */
static bool spin_while(const _Atomic uint32_t *word, uint32_t value, int64_t nanoseconds) {
    enum { LOOKS = 32 }; /* between two looks at the clock */
    int64_t end = 0;
    for (;;) {
        for (int i = 0; i < LOOKS; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != value)
                return true;
            relax();
        }
        int64_t now = now_ns();
        if (!end)
            end = now + nanoseconds;
        else if (now >= end)
            return false;
    }
}

/* ---- working ---- */

static void run_piece(const pool *p, int64_t piece) {
    int64_t grains = (p->count + p->grain - 1) / p->grain;
    int64_t begin = grains * piece / p->pieces * p->grain;
    int64_t end = grains * (piece + 1) / p->pieces * p->grain;
    if (end > p->count)
        end = p->count;
    if (begin < end)
        p->run(p->context, begin, end);
}

static bool is_to_stop(pool *p, int self) {
    if (!p->asks_to_stop)
        return false;
    if (self == 0 && stop_is_requested())
        atomic_store_explicit(&p->is_stopped, true, memory_order_relaxed);
    return atomic_load_explicit(&p->is_stopped, memory_order_relaxed);
}

static void take_tasks(pool *p, task_share *share, int self) {
    int64_t i;
    while ((i = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed)) < share->end)
        if (!is_to_stop(p, self))
            p->run(p->context, i, i + 1);
}

/* `self` is 0 for the caller; a thread has the same piece of every job that has as many. */
static void work(pool *p, int self) {
    for (int i = 0; i < p->pieces; i++) {
        int piece = (self + i) % p->pieces;
        if (p->has_tasks)
            take_tasks(p, &p->shares[piece], self);
        else if (!atomic_load_explicit(&p->is_taken[piece], memory_order_relaxed) &&
                 !atomic_exchange(&p->is_taken[piece], true))
            run_piece(p, piece);
    }
}

static bool join(pool *p) {
    uint32_t state = atomic_load(&p->state);
    while (state & OPEN)
        if (atomic_compare_exchange_weak(&p->state, &state, state + 1))
            return true;
    return false;
}

static void leave(pool *p) {
    if (atomic_fetch_sub(&p->state, 1) == 1 && atomic_load(&p->is_caller_asleep))
        wake(&p->state, 1);
}

static void wait_for_job(pool *p, worker *self, uint32_t seen) {
    if (spin_while(&p->epoch, seen, IDLE_SPIN_NS))
        return;
    atomic_store(&self->is_asleep, true);
    atomic_fetch_add(&p->sleeping, 1);
    while (atomic_load(&p->epoch) == seen)
        sleep_while(&p->epoch, seen);
    atomic_fetch_sub(&p->sleeping, 1);
    atomic_store(&self->is_asleep, false);
}

static void take_all_cores(worker *self) {
    if (atomic_load_explicit(&self->is_kept_away, memory_order_relaxed) &&
        atomic_exchange(&self->is_kept_away, false))
        sched_setaffinity(0, sizeof self->cores, &self->cores);
}

static void *run_worker(void *context) {
    pool *p = &the_pool;
    worker *self = context;
    uint32_t seen = 0;
    is_inside = true;
    omp_set_num_threads(1); /* a library that uses OpenMP runs on this thread alone */
    if (sched_getaffinity(0, sizeof self->cores, &self->cores) == 0)
        atomic_store(&self->id, (pid_t)syscall(SYS_gettid));
    for (;;) {
        wait_for_job(p, self, seen);
        take_all_cores(self);
        seen = atomic_load(&p->epoch);
        if (atomic_load(&p->is_stopping))
            return NULL;
        if (join(p)) {
            work(p, self->number);
            leave(p);
        }
    }
}

/* Takes the caller's core from the workers that sleep. Where there are fewer cores than threads, the
 * scheduler places them better. */
static void keep_away_from(pool *p, int core, int threads) {
    for (int i = 0; core >= 0 && i < p->worker_count; i++) {
        worker *w = p->workers[i];
        pid_t id = atomic_load(&w->id);
        if (!id || !atomic_load(&w->is_asleep) ||
            (atomic_load(&w->is_kept_away) && w->kept_from == core))
            continue;
        cpu_set_t others = w->cores;
        CPU_CLR((size_t)core, &others);
        if (CPU_COUNT(&others) >= threads - 1 &&
            sched_setaffinity(id, sizeof others, &others) == 0) {
            w->kept_from = core;
            atomic_store(&w->is_kept_away, true);
        }
    }
}

/* ---- the pool ---- */

/* The child of a fork has none of the threads. */
static void forget_workers(void) {
    for (int i = 0; i < the_pool.worker_count; i++)
        free(the_pool.workers[i]);
    free(the_pool.workers);
    free(the_pool.is_taken);
    free(the_pool.shares);
    the_pool = (pool){.owner = PTHREAD_MUTEX_INITIALIZER};
}

/* Before the code of the workers goes away. Not while a job runs: then the process is ending. */
__attribute__((destructor)) static void stop_workers(void) {
    pool *p = &the_pool;
    if (pthread_mutex_trylock(&p->owner) != 0)
        return;
    atomic_store(&p->is_stopping, true);
    atomic_fetch_add(&p->epoch, 1);
    wake(&p->epoch, p->worker_count);
    for (int i = 0; i < p->worker_count; i++)
        pthread_join(p->workers[i]->thread, NULL);
    forget_workers();
}

static bool start_worker(pool *p) {
    worker *made = memory_allocate(1, sizeof *made);
    made->number = p->worker_count + 1;
    if (pthread_create(&made->thread, NULL, run_worker, made) != 0) {
        free(made);
        return false;
    }
    p->workers[p->worker_count] = made;
    return true;
}

/* As many workers as wanted, or as there can be. Signals are for the threads of the program. */
static void start_workers(pool *p, int wanted) {
    static bool is_fork_known;
    if (!is_fork_known)
        pthread_atfork(NULL, NULL, forget_workers);
    is_fork_known = true;
    p->workers = memory_resize(p->workers, (size_t)wanted, sizeof *p->workers);
    p->is_taken = memory_resize(p->is_taken, (size_t)wanted + 1, sizeof *p->is_taken);
    p->shares = memory_resize(p->shares, (size_t)wanted + 1, sizeof *p->shares);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (p->worker_count < wanted && start_worker(p))
        p->worker_count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void wait_for_workers(pool *p) {
    uint32_t state = atomic_fetch_and(&p->state, ~OPEN) & ~OPEN; /* nobody else joins */
    while (state != 0) {
        if (!spin_while(&p->state, state, END_SPIN_NS)) {
            atomic_store(&p->is_caller_asleep, true);
            while ((state = atomic_load(&p->state)) != 0)
                sleep_while(&p->state, state);
            atomic_store(&p->is_caller_asleep, false);
        }
        state = atomic_load(&p->state);
    }
}

/* The job's fields are set. */
static void run_job(pool *p, int threads) {
    if (p->worker_count < threads - 1)
        start_workers(p, threads - 1);
    for (int i = 0; i < p->pieces; i++) {
        atomic_store_explicit(&p->is_taken[i], false, memory_order_relaxed);
        atomic_store_explicit(&p->shares[i].next, p->count * i / p->pieces, memory_order_relaxed);
        p->shares[i].end = p->count * (i + 1) / p->pieces;
    }
    p->asks_to_stop = p->has_tasks && stop_is_asked();
    atomic_store_explicit(&p->is_stopped, false, memory_order_relaxed);
    if (atomic_load(&p->sleeping) > 0)
        keep_away_from(p, sched_getcpu(), threads);
    atomic_store(&p->state, OPEN);
    atomic_fetch_add(&p->epoch, 1);
    if (atomic_load(&p->sleeping) > 0)
        wake(&p->epoch, threads - 1);
    work(p, 0);
    wait_for_workers(p);
}

/* Whether the job ran; not so when this thread is at one, or another thread's runs. */
static bool try_job(int threads, threads_range *run, void *context, int64_t count, int64_t grain,
                    bool has_tasks) {
    pool *p = &the_pool;
    if (is_inside || pthread_mutex_trylock(&p->owner) != 0)
        return false;
    int outside = omp_get_max_threads();
    omp_set_num_threads(1);
    is_inside = true;
    p->run = run;
    p->context = context;
    p->count = count;
    p->grain = grain;
    p->pieces = threads;
    p->has_tasks = has_tasks;
    run_job(p, threads);
    is_inside = false;
    omp_set_num_threads(outside);
    pthread_mutex_unlock(&p->owner);
    return true;
}

void threads_for(int64_t count, int64_t grain, threads_range *run, void *context) {
    if (count <= 0)
        return;
    int64_t grains = (count + grain - 1) / grain;
    int threads = threads_count();
    if (threads > grains)
        threads = (int)grains;
    if (threads <= 1 || !try_job(threads, run, context, count, grain, false))
        run(context, 0, count);
}

void threads_for_each(int64_t count, threads_range *run, void *context) {
    int threads = threads_count();
    if (threads > count)
        threads = (int)count;
    if (threads > 1 && try_job(threads, run, context, count, 1, true))
        return;
    /* The library must be limited here as well, or its results would depend on the number of
     * cores. */
    int outside = omp_get_max_threads();
    omp_set_num_threads(1);
    for (int64_t i = 0; i < count && !stop_is_requested(); i++)
        run(context, i, i + 1);
    omp_set_num_threads(outside);
}
