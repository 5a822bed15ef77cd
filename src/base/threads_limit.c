/* threads_limit.c - whether as many threads can exist as are asked for.
 *
 * OpenMP ends the process when the system refuses a thread. So where more are asked for than there are
 * cores, they are made once here, all at the same time, and what the system says is an error with a
 * number. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/threads.h"

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    int is_open;
} gate;

static void *wait_for_gate(void *context) {
    gate *g = context;
    pthread_mutex_lock(&g->lock);
    while (!g->is_open)
        pthread_cond_wait(&g->opened, &g->lock);
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* How many of them exist beside this one at the same time; *error is what the next one met. */
static int make_threads(int count, int *error) {
    gate g = {.lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER};
    pthread_t *all = memory_allocate((size_t)count, sizeof *all);
    int made = 0;
    *error = 0;
    while (made < count && (*error = pthread_create(&all[made], NULL, wait_for_gate, &g)) == 0)
        made++;
    pthread_mutex_lock(&g.lock);
    g.is_open = 1;
    pthread_cond_broadcast(&g.opened);
    pthread_mutex_unlock(&g.lock);
    for (int i = 0; i < made; i++)
        pthread_join(all[i], NULL);
    free(all);
    return made;
}

dyno_status threads_check(int count) {
    enum { SPARE = 16 }; /* for a driver, a library, and signals */
    int error;
    if (count <= threads_available())
        return DYNO_OK;
    int made = make_threads(count - 1 + SPARE, &error);
    if (made == count - 1 + SPARE)
        return DYNO_OK;
    int most = made + 1 - SPARE > 1 ? made + 1 - SPARE : 1;
    return dyno_fail(DYNO_INVALID,
                     "%d threads cannot be made: after %d the system says \"%s\"; use --threads %d "
                     "or fewer (there are %d cores), or raise the limits (ulimit -u, ulimit -v)",
                     count, made, strerror(error), most, threads_available());
}
