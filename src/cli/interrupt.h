/* interrupt.h - the first Ctrl-C asks, the second one kills.
 *
 * Asked to stop, a sweep ends after the step it is in and keeps what it measured. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

/* From now on SIGINT and SIGTERM only ask; a second one kills. Called once, before any other
 * thread is made: those inherit that they take no signals. */
void interrupt_install(void);
bool interrupt_requested(void);

#endif
