/* host_attribution.h - which phase, scope and operation of a program caused a piece of a device's work.
 *
 * It is what the launching thread was in when it made the call, never what the host is in while the
 * work runs: a device runs behind. The phase is the program's outermost range around the call; a step
 * is none. PyTorch launches the backward from a thread of its own, on which the program has no ranges:
 * there it is the range that is open in the process, if all of its threads that have one agree. Outside of
 * ranges PyTorch's sequence numbers tell the forward from the backward. Work of the backward has the
 * scope of the operation of the forward that it belongs to. */
#ifndef PROFILE_HOST_ATTRIBUTION_H
#define PROFILE_HOST_ATTRIBUTION_H

#include "profile/host_timeline.h"

typedef enum host_join {
    JOINED_NOT,         /* the call that launched it is not in the trace */
    JOINED_TO_NOTHING,  /* the call is outside of everything that has a name */
    JOINED_BY_THREAD,   /* to a range around the call */
    JOINED_BY_PROCESS,  /* to the range that was open in the process */
    JOINED_BY_SEQUENCE, /* by what PyTorch says of its operations */
    JOINED_BY_RECORD,   /* by what the trace says of the work itself, as those of dyno do */
    JOIN_COUNT
} host_join;

typedef struct host_attribution {
    host_join join;
    const char *phase; /* NULL: none, as the following */
    const char *scope; /* "" where the phase has nothing inside; holds until the next call */
    const char *op;
    int op_span; /* HOST_NONE */
    int step;    /* from 0; outside of all, the last that began before the call */
    bool is_in_step;
    bool is_backward; /* of the forward of a sequence number */
    int64_t host_begin_ns, host_end_ns;
} host_attribution;

typedef struct host_attributor host_attributor;

/* `t` is sealed and outlives it. */
host_attributor *host_attributor_create(const host_timeline *t);
void host_attributor_destroy(host_attributor *a);

/* Of work with this correlation id; where no call has it, of the operation with that id (0: none). */
host_attribution host_attribute(host_attributor *a, int64_t process, int64_t correlation,
                                int64_t id);
/* Of what the host itself does in a span. */
host_attribution host_attribute_span(host_attributor *a, int span);

#endif
