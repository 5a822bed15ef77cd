/* environment.c - /proc, /sys and a few library calls.
 *
 * Nothing here fails: what the system does not tell is absent from the record, or 0. */
#define _GNU_SOURCE
#include "measure/environment.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/system_memory.h"
#include "base/threads.h"
#include "measure/keys.h"
#include "measure/optional.h"

/* The first line of a small file without its newline; false when there is none. */
static bool read_line(const char *path, char *out, size_t bytes) {
    out[0] = '\0';
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    bool good = fgets(out, (int)bytes, file) != NULL;
    fclose(file);
    out[strcspn(out, "\n")] = '\0';
    return good && out[0];
}

/* A whole number at the start of a file; false for "max", which means no limit. */
static bool read_integer(const char *path, int64_t *out) {
    char line[64], *end;
    if (!read_line(path, line, sizeof line))
        return false;
    long long value = strtoll(line, &end, 10);
    if (end == line)
        return false;
    *out = value;
    return true;
}

static const char *after_colon(const char *line) {
    const char *colon = strchr(line, ':');
    if (!colon)
        return "";
    colon++;
    while (isspace((unsigned char)*colon))
        colon++;
    return colon;
}

static void keep_flags_that_matter(const char *line, environment_cpu *cpu) {
    static const char *const wanted[] = {
        "sse4_2",      "avx",      "avx2",     "fma",      "f16c",        "avx_vnni",
        "avx512f",     "avx512bw", "avx512vl", "avx512dq", "avx512_vnni", "avx512_bf16",
        "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8", "amx_fp16"};
    size_t used = 0;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        size_t length = strlen(wanted[i]);
        for (const char *p = line; (p = strstr(p, wanted[i])) != NULL; p += length)
            if (p[-1] == ' ' && (p[length] == ' ' || p[length] == '\0')) {
                used += (size_t)snprintf(cpu->flags + used, sizeof cpu->flags - used, "%s%s",
                                         used ? " " : "", wanted[i]);
                break;
            }
    }
}

/* Each logical core says its socket and core; the distinct pairs are the physical cores. */
static void read_cpuinfo(environment_cpu *cpu) {
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file)
        return;
    int64_t *seen = NULL;
    int count = 0, capacity = 0;
    long socket = 0;
    char *line = NULL;
    size_t bytes = 0;
    while (getline(&line, &bytes, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "model name", 10) == 0 && !cpu->model[0])
            snprintf(cpu->model, sizeof cpu->model, "%s", after_colon(line));
        else if (strncmp(line, "flags", 5) == 0 && !cpu->flags[0])
            keep_flags_that_matter(line, cpu);
        else if (strncmp(line, "physical id", 11) == 0)
            socket = strtol(after_colon(line), NULL, 10);
        else if (strncmp(line, "core id", 7) == 0) {
            int64_t core = (int64_t)socket << 32 | strtol(after_colon(line), NULL, 10);
            int i = 0;
            while (i < count && seen[i] != core)
                i++;
            if (i == count) {
                MEMORY_GROW(seen, count, capacity);
                seen[count++] = core;
            }
        }
    }
    free(line);
    free(seen);
    fclose(file);
    cpu->physical_cores = count;
}

/* "1024K", "32M". */
static int64_t parse_cache_size(const char *size) {
    char *end;
    long long value = strtoll(size, &end, 10);
    if (value < 0 || value > INT64_MAX >> 30)
        return 0;
    return value << (*end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0);
}

static void read_caches(environment_cpu *cpu) {
    for (int i = 0; i < 8; i++) {
        char path[96], size[32], type[32];
        int64_t level;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        if (!read_integer(path, &level))
            break;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        read_line(path, type, sizeof type);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        read_line(path, size, sizeof size);
        if (strcmp(type, "Instruction") == 0)
            continue;
        int64_t *target = level == 1   ? &cpu->l1_data_bytes
                          : level == 2 ? &cpu->l2_bytes
                          : level == 3 ? &cpu->l3_bytes
                                       : NULL;
        if (target)
            *target = parse_cache_size(size);
    }
}

environment_cpu environment_read_cpu(void) {
    environment_cpu cpu = {0};
    read_cpuinfo(&cpu);
    read_caches(&cpu);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    cpu.logical_cores = online > 0 ? (int)online : 1;
    cpu.available_cores = threads_available();
    if (!cpu.physical_cores)
        cpu.physical_cores = cpu.logical_cores;
    if (!cpu.model[0])
        snprintf(cpu.model, sizeof cpu.model, "unknown");
    return cpu;
}

void environment_read_governor(char *out, size_t bytes) {
    if (!read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", out, bytes))
        snprintf(out, bytes, "none visible");
}

static void capture_cpu(results *run) {
    environment_cpu cpu = environment_read_cpu();
    char governor[64];
    environment_read_governor(governor, sizeof governor);
    results_set_environment_text(run, ENV_CPU, cpu.model);
    results_set_environment_integer(run, ENV_CORES_PHYSICAL, cpu.physical_cores);
    results_set_environment_integer(run, ENV_CORES_LOGICAL, cpu.logical_cores);
    results_set_environment_integer(run, ENV_CORES_AVAILABLE, cpu.available_cores);
    results_set_environment_text(run, ENV_CPU_FLAGS, cpu.flags);
    static const char *const isa_key[ISA_COUNT] = {ENV_ISA_AVX2, ENV_ISA_AVX512,
                                                   ENV_ISA_AVX512_BF16, ENV_ISA_AMX_BF16};
    for (isa which = 0; which < ISA_COUNT; which++) {
        isa_answer answer = isa_check(which);
        results_set_environment_text(run, isa_key[which],
                                     answer.is_usable ? "usable" : answer.why_not);
    }
    results_set_environment_integer(run, ENV_L1_DATA_BYTES, cpu.l1_data_bytes);
    results_set_environment_integer(run, ENV_L2_BYTES, cpu.l2_bytes);
    results_set_environment_integer(run, ENV_L3_BYTES, cpu.l3_bytes);
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
