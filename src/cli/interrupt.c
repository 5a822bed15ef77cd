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

#include "base/file.h"

static atomic_bool is_patient; /* the first signal asks */
static atomic_int requested;   /* the signal that asked, 0 before */

/* Dies of the signal, as whoever waits for the process expects. Files are whole or absent by then;
 * what was on its way is removed. */
static void end_by(int number, const sigset_t *signals) {
    file_remove_unfinished();
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, signals, NULL);
    raise(number);
}

/* timeout(1) and batch systems signal a process and then its group, a closing terminal the group and
 * its leader: what comes at the same moment is one request. */
static void take_echoes(const sigset_t *signals) {
    const struct timespec moment = {.tv_nsec = 200000000};
    while (sigtimedwait(signals, NULL, &moment) > 0) {
    }
}

static void *wait_for_signals(void *context) {
    static const char note[] = "\ndyno: stopping after this step; once more stops at once\n";
    const sigset_t *signals = context;
    int number;
    if (sigwait(signals, &number) != 0)
        return NULL;
    if (!atomic_load(&is_patient))
        end_by(number, signals);
    atomic_store(&requested, number);
    if (write(STDERR_FILENO, note, sizeof note - 1) < 0) {
        /* Nobody to tell. */
    }
    take_echoes(signals);
    if (sigwait(signals, &number) == 0)
        end_by(number, signals);
    return NULL;
}

/* nohup asks for a process that outlives its terminal. */
static bool is_ignored(int number) {
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static void install(bool asks) {
    static sigset_t signals;
    pthread_t waiter;
    atomic_store(&is_patient, asks);
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    if (!is_ignored(SIGHUP))
        sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (pthread_create(&waiter, NULL, wait_for_signals, &signals) == 0)
        pthread_detach(waiter);
    else
        pthread_sigmask(SIG_UNBLOCK, &signals, NULL); /* the first one kills then, as ever */
}

void interrupt_install(void) { install(true); }

void interrupt_install_at_once(void) { install(false); }

void interrupt_ask(void) { atomic_store(&is_patient, true); }

bool interrupt_requested(void) { return atomic_load(&requested) != 0; }

int interrupt_exit_code(void) {
    int number = atomic_load(&requested);
    return 128 + (number ? number : SIGINT);
}
