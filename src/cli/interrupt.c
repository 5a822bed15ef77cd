#define _POSIX_C_SOURCE 200809L
#include "cli/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t requested;

static void on_signal(int number) {
    (void)number;
    static const char note[] = "\ndyno: stopping after this step; once more stops at once\n";
    int saved = errno;
    requested = 1;
    if (write(STDERR_FILENO, note, sizeof note - 1) < 0) {
        /* Nobody to tell. */
    }
    errno = saved;
}

void interrupt_install(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool interrupt_requested(void) { return requested != 0; }
