/* host_phases.h - how long the host of a traced program was in each of its phases, and in its steps.
 *
 * Where several ranges of a phase are open at once, in threads that work side by side, that time counts
 * once. Of several processes, which run the same phases at the same time, the one that was longest in
 * it stands for all. */
#ifndef PROFILE_HOST_PHASES_H
#define PROFILE_HOST_PHASES_H

#include <stdint.h>

typedef struct host_phase {
    const char *name;
    int64_t count, ns; /* ranges and time of that process */
} host_phase;

typedef struct host_phases host_phases;

host_phases *host_phases_create(void);
void host_phases_destroy(host_phases *phases);

/* `name` is copied; NULL is a step. */
void host_phases_add(host_phases *phases, const char *name, int64_t process, int64_t begin_ns,
                     int64_t end_ns);

/* Lists the phases in the order of their first ranges, without the steps; the list holds until the next
 * call. */
int host_phases_list(host_phases *phases, const host_phase **out);
/* What the steps take together; its count is 0 where there are none. */
host_phase host_phases_steps(host_phases *phases);

#endif
