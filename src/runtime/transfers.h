/* transfers.h - the collectives of a step that run beside its launches: which launch has to wait for
 * which, and how long the host waited. */
#ifndef RUNTIME_TRANSFERS_H
#define RUNTIME_TRANSFERS_H

#include "distributed/communicator.h"
#include "plan/plan.h"

typedef struct transfers transfers;

/* Borrows the plan. NULL where the plan has no collectives. */
transfers *transfers_create(const plan *p);
void transfers_destroy(transfers *t);

/* The communicator of the collectives, borrowed. */
void transfers_set_communicator(transfers *t, communicator *c);
communicator *transfers_communicator(const transfers *t);

/* Where the kernel of a launch stores the handle of the collective that it starts; NULL for launches
 * that start none. */
int64_t *transfers_handle(transfers *t, int launch);

/* Before a launch: waits for the collectives under way that share memory with it. */
NODISCARD dyno_status transfers_wait_for(transfers *t, int launch);
/* After a launch that has run, `ns` being its time: one on PLAN_STREAM_COMMUNICATION is under way from
 * now on, any other collective made the host wait so long. */
void transfers_note(transfers *t, int launch, int64_t ns);
/* At the end of a micro-batch and of the step: waits for all. */
NODISCARD dyno_status transfers_wait_for_all(transfers *t);

/* Since the last call: how long the host waited for collectives, and how long they took altogether,
 * overlapped with launches or not. 0 and 0 with NCCL, whose times the host does not see. */
void transfers_take_times(transfers *t, int64_t *exposed_ns, int64_t *busy_ns);

#endif
