#define _GNU_SOURCE
#include "distributed/queue.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

struct communicator_queue {
    communicator *communicator;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t added, finished;
    collective *waiting; /* those with handles from done + 1 on, `count` of them */
    int64_t count, capacity;
    collective_handle done;
    bool is_ending;
    dyno_status status; /* the first failure: nothing is carried out after it */
    char message[1024];
};

/* With the lock held; it is released while the collective runs. */
static void run_next(communicator_queue *q) {
    communicator *c = q->communicator;
    collective next = q->waiting[0];
    bool goes_on = q->status == DYNO_OK;
    pthread_mutex_unlock(&q->lock);
    int64_t begin = clock_now_ns();
    dyno_status status = goes_on ? c->functions->run(c, &next, 1) : DYNO_OK;
    c->busy_ns += clock_now_ns() - begin;
    pthread_mutex_lock(&q->lock);
    if (status != DYNO_OK) {
        q->status = status;
        snprintf(q->message, sizeof q->message, "%s", dyno_error_message());
    }
    q->count--;
    memmove(q->waiting, q->waiting + 1, (size_t)q->count * sizeof *q->waiting);
    q->done++;
    pthread_cond_broadcast(&q->finished);
}

static void *work(void *context) {
    communicator_queue *q = context;
    pthread_mutex_lock(&q->lock);
    while (!q->is_ending || q->count > 0) {
        if (q->count > 0)
            run_next(q);
        else
            pthread_cond_wait(&q->added, &q->lock);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

dyno_status queue_create(communicator *c, communicator_queue **out) {
    communicator_queue *q = memory_allocate(1, sizeof *q);
    q->communicator = c;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->added, NULL);
    pthread_cond_init(&q->finished, NULL);
    sigset_t all, before; /* signals are for the threads of the program */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&q->thread, NULL, work, q);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    *out = q;
    if (!failed)
        return DYNO_OK;
    free(q);
    *out = NULL;
    return dyno_fail(DYNO_OUT_OF_MEMORY, "starting the thread for asynchronous collectives: %s",
                     strerror(failed));
}

void queue_destroy(communicator_queue *q) {
    if (!q)
        return;
    pthread_mutex_lock(&q->lock);
    q->is_ending = true;
    pthread_cond_broadcast(&q->added);
    pthread_mutex_unlock(&q->lock);
    pthread_join(q->thread, NULL);
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->added);
    pthread_cond_destroy(&q->finished);
    free(q->waiting);
    free(q);
}

collective_handle queue_add(communicator_queue *q, const collective *what) {
    pthread_mutex_lock(&q->lock);
    MEMORY_GROW(q->waiting, q->count, q->capacity);
    q->waiting[q->count++] = *what;
    collective_handle handle = q->done + q->count;
    pthread_cond_signal(&q->added);
    pthread_mutex_unlock(&q->lock);
    return handle;
}

dyno_status queue_wait(communicator_queue *q, collective_handle handle) {
    pthread_mutex_lock(&q->lock);
    while (q->count > 0 && q->done < handle)
        pthread_cond_wait(&q->finished, &q->lock);
    dyno_status status = q->status;
    if (status != DYNO_OK)
        status = dyno_fail(status, "%s", q->message);
    pthread_mutex_unlock(&q->lock);
    return status;
}

bool queue_is_complete(communicator_queue *q, collective_handle handle) {
    pthread_mutex_lock(&q->lock);
    bool is_complete = q->done >= handle;
    pthread_mutex_unlock(&q->lock);
    return is_complete;
}
