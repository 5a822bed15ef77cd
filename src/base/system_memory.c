#include "base/system_memory.h"

#include <stdbool.h>
#include <stdio.h>

/* A whole number at the start of a file; false for "max", which means no limit. */
static bool read_integer(const char *path, int64_t *out) {
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    long long number;
    bool good = fscanf(file, "%lld", &number) == 1;
    fclose(file);
    if (good)
        *out = number;
    return good;
}

static void limit_to_control_group(system_memory *memory, const char *limit_path,
                                   const char *usage_path) {
    int64_t limit, usage;
    if (!read_integer(limit_path, &limit) || limit <= 0 || limit >= memory->total_bytes)
        return;
    memory->total_bytes = limit;
    if (read_integer(usage_path, &usage)) {
        int64_t left = limit > usage ? limit - usage : 0;
        if (left < memory->available_bytes)
            memory->available_bytes = left;
    }
}

system_memory system_memory_read(void) {
    system_memory memory = {0};
    FILE *file = fopen("/proc/meminfo", "r");
    char line[256];
    long long kib;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemTotal: %lld kB", &kib) == 1)
            memory.total_bytes = (int64_t)kib * 1024;
        else if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1)
            memory.available_bytes = (int64_t)kib * 1024;
    }
    if (file)
        fclose(file);
    /* Inside a container the control group's own files are at the root of the mount. */
    limit_to_control_group(&memory, "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current");
    limit_to_control_group(&memory, "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                           "/sys/fs/cgroup/memory/memory.usage_in_bytes");
    return memory;
}
