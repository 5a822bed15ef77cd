/* queue.h - a thread that carries out collectives in the order in which they were started, for kinds
 * whose sums are done by the processor. */
#ifndef DISTRIBUTED_QUEUE_H
#define DISTRIBUTED_QUEUE_H

#include "distributed/communicator.h"

typedef struct communicator_queue communicator_queue;

/* Starts the thread. */
NODISCARD dyno_status queue_create(communicator *c, communicator_queue **out);
/* Waits for what was started. NULL is allowed. */
void queue_destroy(communicator_queue *q);

collective_handle queue_add(communicator_queue *q, const collective *what);
/* Until collective `handle` and all before it are complete; INT64_MAX: all. */
NODISCARD dyno_status queue_wait(communicator_queue *q, collective_handle handle);
bool queue_is_complete(communicator_queue *q, collective_handle handle);

#endif
