/* cpu_counters.h - cycles, instructions and cache misses of all threads of this process, where the
 * system permits to count them (perf_event_open). */
#ifndef MEASURE_CPU_COUNTERS_H
#define MEASURE_CPU_COUNTERS_H

#include "base/status.h"
#include "profile/launch_record.h"

typedef struct cpu_counters cpu_counters;

/* Counts the threads that there are now, in user code. DYNO_UNSUPPORTED, with the reason and what
 * would permit it, where the system does not; *out is NULL then. */
NODISCARD dyno_status cpu_counters_open(cpu_counters **out);
/* Since they were opened. Counters that shared the processor's registers with others are scaled to
 * the whole time. */
launch_counters cpu_counters_read(const cpu_counters *counters);
void cpu_counters_close(cpu_counters *counters);

#endif
