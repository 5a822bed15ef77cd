/* host_phases.c - a set of intervals for each phase in each process.
 *
 * Ranges of several threads may be open at once, and the host is in the phase as long as one of them is: the sets count
 * such time once. Processes are compared, not added up, when a phase is asked for. */
#include "profile/host_phases.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/memory.h"
#include "base/name_table.h"
#include "profile/interval_set.h"

/* The ranges of one phase in one process. */
typedef struct phase_ranges {
    int phase;
    int64_t process, count;
    interval_set open;
} phase_ranges;

struct host_phases {
    phase_ranges *ranges;
    int range_count, range_capacity;
    name_table range_numbers; /* by process and phase */
    host_phase *phases;       /* STEPS is the first */
    int phase_count, phase_capacity;
    name_table phase_numbers;
    arena *strings;
};

enum { STEPS };

static int add_phase(host_phases *h, const char *name) {
    MEMORY_GROW(h->phases, h->phase_count, h->phase_capacity);
    h->phases[h->phase_count] = (host_phase){.name = arena_copy_string(h->strings, name)};
    return h->phase_count++;
}

host_phases *host_phases_create(void) {
    host_phases *h = memory_allocate(1, sizeof *h);
    h->strings = arena_create();
    add_phase(h, "");
    return h;
}

void host_phases_destroy(host_phases *h) {
    if (!h)
        return;
    for (int i = 0; i < h->range_count; i++)
        interval_set_release(&h->ranges[i].open);
    free(h->ranges);
    free(h->phases);
    name_table_release(&h->range_numbers);
    name_table_release(&h->phase_numbers);
    arena_destroy(h->strings);
    free(h);
}

static int find_phase(host_phases *h, const char *name) {
    int found = name ? name_table_find(&h->phase_numbers, name) : STEPS;
    if (found < 0) {
        found = add_phase(h, name);
        name_table_set(&h->phase_numbers, h->phases[found].name, found);
    }
    return found;
}

static phase_ranges *find_ranges(host_phases *h, int phase, int64_t process) {
    char key[48];
    snprintf(key, sizeof key, "%lld %d", (long long)process, phase);
    int found = name_table_find(&h->range_numbers, key);
    if (found < 0) {
        MEMORY_GROW(h->ranges, h->range_count, h->range_capacity);
        found = h->range_count++;
        h->ranges[found] = (phase_ranges){.phase = phase, .process = process};
        name_table_set(&h->range_numbers, arena_copy_string(h->strings, key), found);
    }
    return &h->ranges[found];
}

void host_phases_add(host_phases *h, const char *name, int64_t process, int64_t begin_ns,
                     int64_t end_ns) {
    phase_ranges *ranges = find_ranges(h, find_phase(h, name), process);
    interval_set_add(&ranges->open, begin_ns, end_ns);
    ranges->count++;
}

static void sum_up(host_phases *h) {
    for (int i = 0; i < h->phase_count; i++)
        h->phases[i].ns = h->phases[i].count = 0;
    for (int i = 0; i < h->range_count; i++) {
        host_phase *phase = &h->phases[h->ranges[i].phase];
        int64_t ns = interval_set_sum(&h->ranges[i].open, NULL).busy;
        if (phase->count && ns <= phase->ns)
            continue;
        phase->ns = ns;
        phase->count = h->ranges[i].count;
    }
}

int host_phases_list(host_phases *h, const host_phase **out) {
    sum_up(h);
    *out = h->phases + STEPS + 1;
    return h->phase_count - STEPS - 1;
}

host_phase host_phases_steps(host_phases *h) {
    sum_up(h);
    return h->phases[STEPS];
}
