/* interrupt.c - one thread waits for the signals; all others have them blocked.
 *
 * A handler would run on the stack of whichever thread it interrupts, and oneDNN's f32 products
 * point the stack register into their heap buffer while they run (uxlfoundation/oneDNN#4845): the
 * handler's frame would overwrite the heap. */
#define _POSIX_C_SOURCE 200809L
#include "cli/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_bool requested;

static void *wait_for_signals(void *context) {
    static const char note[] = "\ndyno: stopping after this step; once more stops at once\n";
    const sigset_t *signals = context;
    int number;
    if (sigwait(signals, &number) != 0)
        return NULL;
    atomic_store(&requested, true);
    if (write(STDERR_FILENO, note, sizeof note - 1) < 0) {
        /* Nobody to tell. */
    }
    if (sigwait(signals, &number) != 0)
        return NULL;
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, signals, NULL);
    raise(number);
    return NULL;
}

void interrupt_install(void) {
    static sigset_t signals;
    pthread_t waiter;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (pthread_create(&waiter, NULL, wait_for_signals, &signals) == 0)
        pthread_detach(waiter);
    else
        pthread_sigmask(SIG_UNBLOCK, &signals, NULL); /* the first one kills then, as ever */
}

bool interrupt_requested(void) { return atomic_load(&requested); }
