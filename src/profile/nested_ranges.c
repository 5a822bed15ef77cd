#include "profile/nested_ranges.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* The parts of a path, one after the other. */
typedef struct path_part {
    const char *name;
    size_t length;
} path_part;

static path_part next_part(const char **rest, const char *end) {
    path_part part = {*rest, 0};
    while (*rest < end && **rest != '.')
        (*rest)++;
    part.length = (size_t)(*rest - part.name);
    *rest += *rest < end; /* the dot */
    return part;
}

/* Whether the range that is open at this depth is of the same part. */
static bool is_open(const nested_ranges *r, int depth, path_part part) {
    if (depth >= r->open_count)
        return false;
    const nested_range *open = &r->ranges[r->open[depth]];
    return open->length == (int)part.length && memcmp(open->name, part.name, part.length) == 0;
}

static void open_range(nested_ranges *r, int depth, path_part part, int64_t begin_ns) {
    MEMORY_GROW(r->ranges, r->count, r->capacity);
    r->ranges[r->count] = (nested_range){part.name, (int)part.length, depth, begin_ns, begin_ns};
    r->open[depth] = r->count++;
}

void nested_ranges_add(nested_ranges *r, const ranged_work *work) {
    bool is_same = r->step == work->step; /* so far, from the outermost on */
    const char *rest = work->scope ? work->scope : "", *end = rest + work->scope_length;
    path_part part = {work->phase, work->phase ? strlen(work->phase) : 0};
    int depth = 0;
    while (part.length && depth < NESTED_RANGES_DEPTH) {
        is_same = is_same && is_open(r, depth, part);
        if (!is_same)
            open_range(r, depth, part, work->begin_ns);
        r->ranges[r->open[depth++]].end_ns = work->end_ns;
        part = next_part(&rest, end);
    }
    r->open_count = depth;
    r->step = work->step;
}

void nested_ranges_release(nested_ranges *r) {
    free(r->ranges);
    *r = (nested_ranges){0};
}
