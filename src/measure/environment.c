/* environment.c - /proc, /sys and a few library calls.
 *
 * Nothing here fails: what the system does not tell is absent from the record, or 0. */
#define _GNU_SOURCE
#include "measure/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file.h"
#include "base/isa.h"
#include "base/system_memory.h"
#include "base/threads.h"
#include "measure/keys.h"
#include "measure/optional.h"

environment_cpu environment_read_cpu(void) {
    environment_cpu cpu = {.info = cpu_info_read("")};
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    cpu.logical_cores = online > 0 ? (int)online : 1;
    cpu.available_cores = threads_available();
    if (!cpu.info.physical_cores)
        cpu.info.physical_cores = cpu.logical_cores;
    if (!cpu.info.model[0])
        snprintf(cpu.info.model, sizeof cpu.info.model, "unknown");
    return cpu;
}

void environment_read_governor(char *out, size_t bytes) {
    if (!file_read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", out, bytes))
        snprintf(out, bytes, "none visible");
}

static void capture_cpu(results *run) {
    environment_cpu cpu = environment_read_cpu();
    char governor[64];
    environment_read_governor(governor, sizeof governor);
    results_set_environment_text(run, ENV_CPU, cpu.info.model);
    results_set_environment_integer(run, ENV_CORES_PHYSICAL, cpu.info.physical_cores);
    results_set_environment_integer(run, ENV_CORES_LOGICAL, cpu.logical_cores);
    results_set_environment_integer(run, ENV_CORES_AVAILABLE, cpu.available_cores);
    results_set_environment_text(run, ENV_CPU_FLAGS, cpu.info.flags);
    static const char *const isa_key[ISA_COUNT] = {ENV_ISA_AVX2,        ENV_ISA_AVX512,
                                                   ENV_ISA_AVX512_BF16, ENV_ISA_AMX_BF16,
                                                   ENV_ISA_NEON,        ENV_ISA_SVE};
    results_set_environment_text(run, ENV_ARCHITECTURE, isa_this_architecture());
    for (isa which = 0; which < ISA_COUNT; which++) {
        if (!isa_is_of_this_architecture(which))
            continue;
        isa_answer answer = isa_check(which);
        results_set_environment_text(run, isa_key[which],
                                     answer.is_usable ? "usable" : answer.why_not);
    }
    results_set_environment_integer(run, ENV_L1_DATA_BYTES, cpu.info.l1_data_bytes);
    results_set_environment_integer(run, ENV_L2_BYTES, cpu.info.l2_bytes);
    results_set_environment_integer(run, ENV_L3_BYTES, cpu.info.l3_bytes);
    results_set_environment_text(run, ENV_FREQUENCY_GOVERNOR, governor);
}

static void capture_system(results *run) {
    system_memory memory = system_memory_read();
    results_set_environment_integer(run, ENV_MEMORY_TOTAL_BYTES, memory.total_bytes);
    results_set_environment_integer(run, ENV_MEMORY_AVAILABLE_BYTES, memory.available_bytes);
    double load[3];
    if (getloadavg(load, 3) == 3) {
        results_set_environment_real(run, ENV_LOAD_AVERAGE_1MIN, load[0]);
        results_set_environment_real(run, ENV_LOAD_AVERAGE_5MIN, load[1]);
        results_set_environment_real(run, ENV_LOAD_AVERAGE_15MIN, load[2]);
    }
    struct utsname kernel;
    if (uname(&kernel) == 0) {
        char line[256];
        snprintf(line, sizeof line, "%.64s %.128s %.32s", kernel.sysname, kernel.release,
                 kernel.machine);
        results_set_environment_text(run, ENV_KERNEL, line);
    }
}

static void capture_build(results *run) {
#ifdef __clang__
    results_set_environment_text(run, ENV_COMPILER, __VERSION__);
#else
    results_set_environment_text(run, ENV_COMPILER, "gcc " __VERSION__);
#endif
    results_set_environment_text(run, ENV_DYNO_VERSION, dyno_version());
#ifdef DYNO_GIT
    results_set_environment_text(run, ENV_DYNO_REVISION, DYNO_GIT);
#endif
    results_set_environment_integer(run, ENV_THREADS, threads_count());
    optional_answer onednn = optional_find(OPTIONAL_ONEDNN);
    results_set_environment_text(run, ENV_ONEDNN, onednn.is_found ? onednn.version : "absent");
}

void environment_capture(results *run) {
    results_set_environment_text(run, ENV_DATE, run->started);
    capture_cpu(run);
    capture_system(run);
    capture_build(run);
}
