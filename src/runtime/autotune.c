#include "runtime/autotune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "runtime/tuning_cache.h"

struct autotune {
    kernel_tuning kernels; /* first: it is cast back */
    tuning_cache *cache;
};

/* ---- what is kept ---- */

/* "AMD EPYC", with the target behind it where that is less than the CPU has. */
static void find_cpu_model(const target *chip, char *name, size_t size) {
    char line[512];
    FILE *cpuinfo = fopen("/proc/cpuinfo", "r");
    while (cpuinfo && fgets(line, sizeof line, cpuinfo)) {
        const char *model = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !model)
            continue;
        snprintf(name, size, "%.*s%s%s", (int)strcspn(model + 2, "\n"), model + 2,
                 target_is_this_cpu(chip) ? "" : "-", target_is_this_cpu(chip) ? "" : chip->name);
        break;
    }
    if (cpuinfo)
        fclose(cpuinfo);
}

static const char *find_kernel(const kernel_tuning *kernels, const char *key) {
    return autotune_find((const autotune *)(const void *)kernels, key);
}

autotune *autotune_create(const target *chip) {
    char name[128], file[160];
    snprintf(name, sizeof name, "%s", chip->description);
    if (!target_is_cuda(chip))
        find_cpu_model(chip, name, sizeof name);
    for (char *at = name; *at; at++)
        if (*at == ' ' || *at == '/')
            *at = '-';
    snprintf(file, sizeof file, "autotune-%s.txt", name);
    autotune *a = memory_allocate(1, sizeof *a);
    *a = (autotune){.kernels = {.find = find_kernel}, .cache = tuning_cache_create(file)};
    return a;
}

void autotune_destroy(autotune *a) {
    if (!a)
        return;
    tuning_cache_destroy(a->cache);
    free(a);
}

const kernel_tuning *autotune_kernels(const autotune *a) { return &a->kernels; }

const char *autotune_find(const autotune *a, const char *key) {
    return tuning_cache_find(a->cache, key);
}

bool autotune_keep(autotune *a, const char *key, const char *value) {
    return tuning_cache_add(a->cache, key, value);
}

/* ---- choosing ---- */

enum {
    MOST_CANDIDATES = 64,
    FINALISTS = 5,
    FEWEST_TRIED = 3,
    BUDGET_NS = 150000000, /* of the first round */
    ROUND_NS = 2000000,    /* that a finalist's timing takes */
    MOST_REPEATS = 20
};

typedef struct contender {
    int candidate;
    double ns; /* of one run */
} contender;

static int by_time(const void *a, const void *b) {
    double x = ((const contender *)a)->ns, y = ((const contender *)b)->ns;
    return (x > y) - (x < y);
}

static int first_round(const autotune_candidates *from, contender *out) {
    int64_t begin = clock_now_ns();
    int tried = 0;
    for (int i = 0; i < from->count && i < MOST_CANDIDATES; i++) {
        contender c = {.candidate = i};
        if (from->time(from->context, i, 1, &c.ns) && from->time(from->context, i, 1, &c.ns))
            out[tried++] = c;
        if (tried >= FEWEST_TRIED && clock_now_ns() - begin > BUDGET_NS)
            break;
    }
    qsort(out, (size_t)tried, sizeof *out, by_time);
    return tried;
}

static void second_round(const autotune_candidates *from, contender *finalists, int count) {
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < count; i++) {
            double once = finalists[i].ns > 0 ? finalists[i].ns : 1000, ns;
            int repeats = (int)(ROUND_NS / once);
            repeats = repeats < 2 ? 2 : repeats > MOST_REPEATS ? MOST_REPEATS : repeats;
            if (!from->time(from->context, finalists[i].candidate, repeats, &ns))
                continue;
            /* The first round's time holds the launch as well and is replaced. */
            if (pass == 0 || ns < finalists[i].ns)
                finalists[i].ns = ns;
        }
    qsort(finalists, (size_t)count, sizeof *finalists, by_time);
}

int autotune_choose(const autotune_candidates *from) {
    contender tried[MOST_CANDIDATES];
    int count = first_round(from, tried);
    if (count == 0)
        return -1;
    second_round(from, tried, count < FINALISTS ? count : FINALISTS);
    return tried[0].candidate;
}
