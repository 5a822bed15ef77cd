/* interrupt.h - the first Ctrl-C asks, the second one kills. SIGTERM and, unless it is ignored (nohup),
 * SIGHUP are treated alike.
 *
 * Asked to stop, a sweep or a training run ends after the step it is in and keeps what it has. A
 * process that is killed removes the temporary files that it was writing. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

/* From now on the signals only ask; a second one kills. Called once, before any other thread is
 * made: those inherit that they take no signals. */
void interrupt_install(void);
/* The same, but the first one kills as well, until interrupt_ask: there is nothing to keep yet. */
void interrupt_install_at_once(void);
void interrupt_ask(void);
bool interrupt_requested(void);
/* 128 and the number of the signal that asked: 130 after Ctrl-C. */
int interrupt_exit_code(void);

#endif
