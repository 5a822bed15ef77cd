/* arena_map.c - a binary tree over time, whose nodes know the bytes that are taken in their time.
 *
 *   node          [           |           ]     covering: taken through all of the node's time
 *               /                           \     touching: taken at some time of it
 *   leaf   [ 64 launches ]  ...  [ 64 launches ]  parts: taken through a part of the leaf's time
 *
 * A lifetime is a part of the leaf at either end and whole leaves between them; those are the time
 * of a few nodes, two on a level at the most. What is taken is entered as `covering` there, and as
 * `touching` there and above. A lifetime is free where it meets no `touching` of its nodes, no
 * `covering` of nodes above them, and none of the parts at its ends that are alive with it.
 *
 * Sets of bytes are runs that neither meet nor adjoin. Buffers are placed as low as they fit, so
 * that many of them make few runs: that is why thousands that live from the forward to the backward
 * are passed in a few steps. */
#include "plan/arena_map.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { LEAF_LAUNCHES = 64, MOST_LEVELS = 32 };

typedef struct run {
    int64_t begin, end;
} run;

/* Sorted. */
typedef struct run_set {
    run *runs;
    int count, capacity;
} run_set;

typedef struct part {
    int64_t begin, end;
    int born, last_used;
} part;

/* Sorted by where they begin. */
typedef struct part_list {
    part *parts;
    int count, capacity;
} part_list;

typedef struct time_node {
    run_set covering, touching;
} time_node;

struct arena_map {
    int leaf_count;   /* a power of two, 2 at the least */
    time_node *nodes; /* the root is 1, the children of i are 2 i and 2 i + 1 */
    part_list *leaves;
};

arena_map *arena_map_create(int last_launch) {
    arena_map *map = memory_allocate(1, sizeof *map);
    map->leaf_count = 2;
    while (map->leaf_count <= last_launch / LEAF_LAUNCHES)
        map->leaf_count *= 2;
    map->nodes = memory_allocate((size_t)map->leaf_count * 2, sizeof *map->nodes);
    map->leaves = memory_allocate((size_t)map->leaf_count, sizeof *map->leaves);
    return map;
}

void arena_map_destroy(arena_map *map) {
    if (!map)
        return;
    for (int i = 0; i < 2 * map->leaf_count; i++) {
        free(map->nodes[i].covering.runs);
        free(map->nodes[i].touching.runs);
    }
    for (int i = 0; i < map->leaf_count; i++)
        free(map->leaves[i].parts);
    free(map->nodes);
    free(map->leaves);
    free(map);
}

void arena_map_clear(arena_map *map) {
    for (int i = 0; i < 2 * map->leaf_count; i++)
        map->nodes[i].covering.count = map->nodes[i].touching.count = 0;
    for (int i = 0; i < map->leaf_count; i++)
        map->leaves[i].count = 0;
}

/* ---- lifetimes ---- */

/* A lifetime as leaves: those at its ends, and [first, end) that it covers from their first launch
 * to their last. */
typedef struct leaf_range {
    int born, last; /* the leaves of its first and last launch */
    int first, end;
} leaf_range;

static leaf_range leaves_of(int born, int last_used) {
    leaf_range range = {.born = born / LEAF_LAUNCHES, .last = last_used / LEAF_LAUNCHES};
    range.first = range.born + (born % LEAF_LAUNCHES != 0);
    range.end = range.last + ((last_used + 1) % LEAF_LAUNCHES == 0);
    if (range.end < range.first)
        range.end = range.first; /* within one leaf */
    return range;
}

/* The nodes whose time together is that of the leaves [first, end); how many there are. For all time
 * they are the root's children: the root itself would have to know all that is taken, for nobody. */
static int cover(const arena_map *map, int first, int end, int *nodes) {
    if (end - first == map->leaf_count) {
        nodes[0] = 2;
        nodes[1] = 3;
        return 2;
    }
    int count = 0, left = map->leaf_count + first, right = map->leaf_count + end;
    for (; left < right; left /= 2, right /= 2) {
        if (left % 2)
            nodes[count++] = left++;
        if (right % 2)
            nodes[count++] = --right;
    }
    return count;
}

/* The leaves at the ends that are covered in part; how many there are. */
static int partial_leaves(const leaf_range *range, int *leaves) {
    int count = 0;
    if (range->born < range->first)
        leaves[count++] = range->born;
    if (range->last >= range->end && (range->last != range->born || count == 0))
        leaves[count++] = range->last;
    return count;
}

/* ---- taking ---- */

/* The first run that ends at `offset` or above. */
static int first_ending_from(const run_set *set, int64_t offset) {
    int low = 0, high = set->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (set->runs[middle].end < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Puts the bytes in at `first`, together with the runs from there on that they meet. */
static void insert_run(run_set *set, int first, int64_t begin, int64_t end) {
    int behind = first;
    run joined = {begin, end};
    for (; behind < set->count && set->runs[behind].begin <= end; behind++) {
        const run *other = &set->runs[behind];
        joined.begin = other->begin < joined.begin ? other->begin : joined.begin;
        joined.end = other->end > joined.end ? other->end : joined.end;
    }
    if (behind == first)
        MEMORY_GROW(set->runs, set->count, set->capacity);
    memmove(set->runs + first + 1, set->runs + behind,
            (size_t)(set->count - behind) * sizeof *set->runs);
    set->runs[first] = joined;
    set->count += 1 - (behind - first);
}

/* Whether the set had not all of these bytes yet. */
static bool add_run(run_set *set, int64_t begin, int64_t end) {
    int first = first_ending_from(set, begin);
    bool meets_one = first < set->count && set->runs[first].begin <= end &&
                     (first + 1 == set->count || set->runs[first + 1].begin > end);
    if (!meets_one) {
        insert_run(set, first, begin, end);
        return true;
    }
    run *met = &set->runs[first];
    if (met->begin <= begin && met->end >= end)
        return false;
    met->begin = begin < met->begin ? begin : met->begin;
    met->end = end > met->end ? end : met->end;
    return true;
}

/* In the node and those above it, which have all that it has; but for the root. */
static void touch(arena_map *map, int node, int64_t begin, int64_t end) {
    while (node > 1 && add_run(&map->nodes[node].touching, begin, end))
        node /= 2;
}

static void add_part(part_list *list, part added) {
    MEMORY_GROW(list->parts, list->count, list->capacity);
    int low = 0, high = list->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (list->parts[middle].begin < added.begin)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(list->parts + low + 1, list->parts + low,
            (size_t)(list->count++ - low) * sizeof *list->parts);
    list->parts[low] = added;
}

void arena_map_take(arena_map *map, int born, int last_used, int64_t begin, int64_t end) {
    if (begin >= end)
        return;
    int nodes[2 * MOST_LEVELS], leaves[2];
    leaf_range range = leaves_of(born, last_used);
    int partial = partial_leaves(&range, leaves);
    for (int i = 0; i < partial; i++) {
        add_part(&map->leaves[leaves[i]], (part){begin, end, born, last_used});
        touch(map, map->leaf_count + leaves[i], begin, end);
    }
    int whole = cover(map, range.first, range.end, nodes);
    for (int i = 0; i < whole; i++) {
        add_run(&map->nodes[nodes[i]].covering, begin, end);
        touch(map, nodes[i], begin, end);
    }
}

/* ---- finding ---- */

/* The runs of a set that are not below the offset that is being tried. */
typedef struct cursor {
    const run *next, *end;
} cursor;

typedef struct search {
    int born, last_used;
    int64_t offset, bytes;
    cursor runs[6 * MOST_LEVELS];
    int run_count;
    struct {
        const part *next, *end;
    } parts[2];
    int part_count;
} search;

static void add_cursor(search *s, const run_set *set) {
    if (set->count)
        s->runs[s->run_count++] = (cursor){set->runs, set->runs + set->count};
}

/* Moves the offset above the runs that are in the way; whether there were any. */
static bool pass_runs(search *s, cursor *at) {
    bool is_moved = false;
    for (; at->next < at->end && at->next->begin < s->offset + s->bytes; at->next++)
        if (at->next->end > s->offset) {
            s->offset = at->next->end;
            is_moved = true;
        }
    return is_moved;
}

static bool pass_parts(search *s, int index) {
    bool is_moved = false;
    const part *next = s->parts[index].next, *end = s->parts[index].end;
    for (; next < end && next->begin < s->offset + s->bytes; next++)
        if (next->end > s->offset && next->born <= s->last_used && next->last_used >= s->born) {
            s->offset = next->end;
            is_moved = true;
        }
    s->parts[index].next = next;
    return is_moved;
}

/* What is taken during any of the lifetime is in these sets and lists. */
static void begin_search(const arena_map *map, search *s) {
    int nodes[2 * MOST_LEVELS], leaves[2];
    leaf_range range = leaves_of(s->born, s->last_used);
    int partial = partial_leaves(&range, leaves);
    for (int i = 0; i < partial; i++) {
        const part_list *list = &map->leaves[leaves[i]];
        s->parts[s->part_count].next = list->parts;
        s->parts[s->part_count++].end = list->parts + list->count;
    }
    int whole = cover(map, range.first, range.end, nodes);
    for (int i = 0; i < whole; i++)
        add_cursor(s, &map->nodes[nodes[i]].touching);
    /* Every node above one of those is above one of the ends. */
    int a = map->leaf_count + range.born, b = map->leaf_count + range.last;
    for (; a != b; a /= 2, b /= 2) {
        add_cursor(s, &map->nodes[a].covering);
        add_cursor(s, &map->nodes[b].covering);
    }
    for (; a > 1; a /= 2)
        add_cursor(s, &map->nodes[a].covering);
}

int64_t arena_map_lowest_fit(const arena_map *map, int born, int last_used, int64_t bytes) {
    search s; /* not cleared: its cursors are kilobytes, of which few are used */
    s.born = born;
    s.last_used = last_used;
    s.offset = 0;
    s.bytes = bytes;
    s.run_count = s.part_count = 0;
    begin_search(map, &s);
    for (bool is_moved = bytes > 0; is_moved;) {
        is_moved = false;
        for (int i = 0; i < s.run_count; i++)
            is_moved = pass_runs(&s, &s.runs[i]) || is_moved;
        for (int i = 0; i < s.part_count; i++)
            is_moved = pass_parts(&s, i) || is_moved;
    }
    return s.offset;
}
