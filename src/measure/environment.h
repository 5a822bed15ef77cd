/* environment.h - what a measurement was made on, as far as the system tells. */
#ifndef MEASURE_ENVIRONMENT_H
#define MEASURE_ENVIRONMENT_H

#include "base/cpu_info.h"
#include "measure/results.h"

typedef struct environment_cpu {
    cpu_info info;
    int logical_cores;   /* online */
    int available_cores; /* that this process may run on */
} environment_cpu;

environment_cpu environment_read_cpu(void);

/* "performance", ... or "none visible" (virtual machines have none). */
void environment_read_governor(char *out, size_t bytes);

/* Fills the run's environment with all of this, and with the kernel, load average, compiler,
 * versions and thread count. Loads oneDNN to ask for its version. */
void environment_capture(results *run);

#endif
