/* cpu_info.c - /proc/cpuinfo, whose lines differ by architecture, and the caches in /sys.
 *
 * x86-64 gives the model as text and the instruction sets as "flags"; aarch64 gives numbers of the
 * maker and of the part, and "Features". */
#include "base/cpu_info.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

static const char *after_colon(const char *line) {
    const char *colon = strchr(line, ':');
    if (!colon)
        return "";
    colon++;
    while (isspace((unsigned char)*colon))
        colon++;
    return colon;
}

static bool starts_with(const char *line, const char *name) {
    return strncmp(line, name, strlen(name)) == 0;
}

static void keep_flags_that_matter(const char *line, cpu_info *cpu) {
    static const char *const wanted[] = {
        "sse4_2",      "avx",      "avx2",     "fma",      "f16c",        "avx_vnni",
        "avx512f",     "avx512bw", "avx512vl", "avx512dq", "avx512_vnni", "avx512_bf16",
        "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8", "amx_fp16",    "asimd",
        "asimdhp",     "bf16",     "sve",      "sve2",     "svebf16"};
    size_t used = 0;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        size_t length = strlen(wanted[i]);
        for (const char *p = line; (p = strstr(p, wanted[i])) != NULL; p += length)
            if (p > line && p[-1] == ' ' && (p[length] == ' ' || p[length] == '\0')) {
                used += (size_t)snprintf(cpu->flags + used, sizeof cpu->flags - used, "%s%s",
                                         used ? " " : "", wanted[i]);
                break;
            }
    }
}

/* The cores that servers and small boards are made of. */
static void name_arm_core(long maker, long part, cpu_info *cpu) {
    enum { ARM = 0x41 };
    static const struct {
        long part;
        const char *name;
    } cores[] = {{0xd03, "Cortex-A53"},  {0xd08, "Cortex-A72"},  {0xd0b, "Cortex-A76"},
                 {0xd0c, "Neoverse N1"}, {0xd40, "Neoverse V1"}, {0xd49, "Neoverse N2"},
                 {0xd4f, "Neoverse V2"}, {0xd84, "Neoverse V3"}, {0xd8e, "Neoverse N3"}};
    for (size_t i = 0; maker == ARM && i < sizeof cores / sizeof *cores; i++)
        if (cores[i].part == part)
            snprintf(cpu->model, sizeof cpu->model, "Arm %s", cores[i].name);
    if (!cpu->model[0])
        snprintf(cpu->model, sizeof cpu->model, "aarch64, maker 0x%02lx, part 0x%03lx", maker,
                 part);
}

/* Each logical core says its socket and core; the distinct pairs are the physical cores. Where none
 * says so, as on aarch64, all are. */
static void read_cpuinfo(const char *path, cpu_info *cpu) {
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    int64_t *seen = NULL;
    int count = 0, capacity = 0, logical = 0;
    long socket = 0, maker = 0, part = 0;
    char *line = NULL;
    size_t bytes = 0;
    while (getline(&line, &bytes, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (starts_with(line, "processor"))
            logical++;
        else if (starts_with(line, "model name") && !cpu->model[0])
            snprintf(cpu->model, sizeof cpu->model, "%s", after_colon(line));
        else if ((starts_with(line, "flags") || starts_with(line, "Features")) && !cpu->flags[0])
            keep_flags_that_matter(line, cpu);
        else if (starts_with(line, "CPU implementer"))
            maker = strtol(after_colon(line), NULL, 0);
        else if (starts_with(line, "CPU part"))
            part = strtol(after_colon(line), NULL, 0);
        else if (starts_with(line, "physical id"))
            socket = strtol(after_colon(line), NULL, 10);
        else if (starts_with(line, "core id")) {
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
    if (!cpu->model[0] && maker)
        name_arm_core(maker, part, cpu);
    cpu->physical_cores = count ? count : logical;
}

static bool read_line(const char *directory, const char *name, char *out, size_t bytes) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return file_read_line(path, out, bytes);
}

/* "1024K", "32M". */
static int64_t parse_cache_size(const char *size) {
    char *end;
    long long value = strtoll(size, &end, 10);
    if (value < 0 || value > INT64_MAX >> 30)
        return 0;
    return value << (*end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0);
}

static void read_caches(const char *root, cpu_info *cpu) {
    for (int i = 0; i < 8; i++) {
        char directory[PATH_MAX / 2], level[32], size[32], type[32];
        snprintf(directory, sizeof directory, "%s/sys/devices/system/cpu/cpu0/cache/index%d", root,
                 i);
        if (!read_line(directory, "level", level, sizeof level))
            break;
        read_line(directory, "type", type, sizeof type);
        read_line(directory, "size", size, sizeof size);
        if (strcmp(type, "Instruction") == 0)
            continue;
        int64_t *at = strcmp(level, "1") == 0   ? &cpu->l1_data_bytes
                      : strcmp(level, "2") == 0 ? &cpu->l2_bytes
                      : strcmp(level, "3") == 0 ? &cpu->l3_bytes
                                                : NULL;
        if (at)
            *at = parse_cache_size(size);
    }
}

cpu_info cpu_info_read(const char *root) {
    cpu_info cpu = {0};
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/cpuinfo", root);
    read_cpuinfo(path, &cpu);
    read_caches(root, &cpu);
    return cpu;
}
