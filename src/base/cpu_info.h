/* cpu_info.h - what the operating system tells of the CPU.
 *
 * Nothing here fails: what the system does not tell is empty, or 0. */
#ifndef BASE_CPU_INFO_H
#define BASE_CPU_INFO_H

#include <stdint.h>

typedef struct cpu_info {
    char model[128];    /* "AMD EPYC"; of an Arm core "Arm Neoverse V1" */
    char flags[512];    /* those of the kernel's flags that matter here: "avx2 fma avx512f" */
    int physical_cores; /* in the machine */
    int64_t l1_data_bytes, l2_bytes, l3_bytes; /* of one instance */
} cpu_info;

/* Reads /proc/cpuinfo and /sys/devices/system/cpu below `root`, which is "" for this machine. */
cpu_info cpu_info_read(const char *root);

#endif
