/* kernel_groups.c - a hash table of groups for each grouping, and a set of intervals for each step of
 * a device and of each of its phases. */
#include "profile/kernel_groups.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/memory.h"
#include "base/ordered_set.h"
#include "plan/scope.h"

/* Beyond it a time is no time, and sums could overflow. */
#define MOST_NS ((int64_t)1 << 61)

/* What groups may take: names are the file's, and a program may give every launch another one. A group
 * has two tables of counts, of 256 bytes each at first, and its places in the arrays. What is made of the
 * groups for a report takes about as much again. */
enum { MOST_GROUP_BYTES = 256 << 20, GROUP_TABLE_BYTES = 2 * 256 + 32 };

/* The groups of one grouping: `slots` holds 1 + their index, 0 where it is free. */
typedef struct group_table {
    kernel_group **groups;
    int count, capacity;
    int *slots;
    size_t slot_count; /* a power of two */
    const kernel_group **sorted;
} group_table;

/* One step of a device, or of one of its phases. */
typedef struct busy_step {
    ordered_item place; /* first: among the steps of its device_sums, by step */
    interval_set busy;
    struct busy_step *next; /* of the same device_sums */
} busy_step;

/* What is summed over all steps of a device, or of one of its phases. */
typedef struct device_sums {
    device_time time;
    value_counts behind;
    ordered_set by_step;
    busy_step *steps; /* the last that was begun */
    busy_step *recent;
    int64_t last_call; /* correlation id of the call that was counted last; -1: none */
} device_sums;

struct kernel_groups {
    const grouping *groupings;
    int grouping_count;
    group_table *tables;
    group_table devices; /* keys: the device, the phase or "" for all; parallel to sums */
    device_sums *sums;
    int sum_capacity;
    device_time *times; /* as last asked for */
    value_counts steps;
    int64_t record_count;
    int64_t group_count, group_bytes; /* of all groupings */
    arena *strings;
};

const char *group_key_name(group_key key) {
    static const char *const NAMES[] = {
        [GROUP_KERNEL] = "kernel", [GROUP_PLANNED] = "planned", [GROUP_OP] = "op",
        [GROUP_CLASS] = "class",   [GROUP_SCOPE] = "scope",     [GROUP_FOLDED_SCOPE] = "scope",
        [GROUP_PHASE] = "phase",   [GROUP_LAUNCH] = "launch",   [GROUP_GRID] = "grid",
        [GROUP_BLOCK] = "block",   [GROUP_COST] = "cost"};
    return NAMES[key];
}

kernel_groups *kernel_groups_create(const grouping *groupings, int count) {
    kernel_groups *g = memory_allocate(1, sizeof *g);
    g->groupings = groupings;
    g->grouping_count = count;
    g->tables = memory_allocate((size_t)count, sizeof *g->tables);
    g->strings = arena_create();
    return g;
}

static void release_table(group_table *table) {
    for (int i = 0; i < table->count; i++) {
        value_counts_release(&table->groups[i]->durations);
        value_counts_release(&table->groups[i]->steps);
        free(table->groups[i]);
    }
    free(table->groups);
    free(table->slots);
    free(table->sorted);
}

void kernel_groups_destroy(kernel_groups *g) {
    if (!g)
        return;
    for (int i = 0; i < g->grouping_count; i++)
        release_table(&g->tables[i]);
    for (int i = 0; i < g->devices.count; i++) {
        value_counts_release(&g->sums[i].behind);
        for (busy_step *step = g->sums[i].steps, *next; step; step = next) {
            next = step->next;
            interval_set_release(&step->busy);
            free(step);
        }
    }
    release_table(&g->devices);
    free(g->tables);
    free(g->sums);
    free(g->times);
    value_counts_release(&g->steps);
    arena_destroy(g->strings);
    free(g);
}

/* ---- groups ---- */

/* The texts of a record's keys that are made and not borrowed. */
typedef struct key_texts {
    scope_text folded;
    char launch[16], grid[48], block[48], cost[64];
} key_texts;

static void format_extent(const int *extent, char *to, size_t bytes) {
    to[0] = 0;
    if (extent[0] > 0)
        snprintf(to, bytes, "%dx%dx%d", extent[0], extent[1], extent[2]);
}

static key_texts make_texts(const launch_record *r) {
    key_texts made = {.folded = scope_fold_layers(r->scope ? r->scope : "")};
    if (r->launch != LAUNCH_UNKNOWN)
        snprintf(made.launch, sizeof made.launch, "%d", r->launch);
    format_extent(r->grid, made.grid, sizeof made.grid);
    format_extent(r->block, made.block, sizeof made.block);
    if (r->has_cost)
        snprintf(made.cost, sizeof made.cost, "%.17g FLOP, %.17g B", r->flops, r->bytes);
    return made;
}

static const char *or_unattributed(const char *text) {
    return text && *text ? text : ROW_UNATTRIBUTED;
}

static const char *name_of(const launch_record *r) { return r->recorded ? r->recorded : r->kernel; }

static const char *key_of(const launch_record *r, const key_texts *made, group_key key) {
    switch (key) {
    case GROUP_KERNEL:
        return or_unattributed(name_of(r));
    case GROUP_PLANNED:
        return r->kernel ? r->kernel : "";
    case GROUP_OP:
        return or_unattributed(r->op);
    case GROUP_CLASS:
        return or_unattributed(r->class_name);
    case GROUP_SCOPE: /* that of the whole model is "" */
        return r->scope ? (*r->scope ? r->scope : made->folded.text) : ROW_UNATTRIBUTED;
    case GROUP_FOLDED_SCOPE:
        return r->scope ? made->folded.text : ROW_UNATTRIBUTED;
    case GROUP_PHASE:
        return or_unattributed(r->phase);
    case GROUP_LAUNCH:
        return made->launch;
    case GROUP_GRID:
        return made->grid;
    case GROUP_BLOCK:
        return made->block;
    case GROUP_COST:
    case GROUP_KEY_COUNT:
        break;
    }
    return made->cost;
}

static uint64_t hash_keys(const char *const *keys, int count) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, with the zeros between the texts */
    for (int i = 0; i < count; i++)
        for (const char *c = keys[i];; c++) {
            hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
            if (!*c)
                break;
        }
    return hash;
}

static bool has_keys(const kernel_group *group, const char *const *keys, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(group->keys[i], keys[i]) != 0)
            return false;
    return true;
}

/* The slot of these keys, or the free one where they belong. */
static int *find_slot(const group_table *table, const char *const *keys, int count, uint64_t hash) {
    size_t at = (size_t)hash & (table->slot_count - 1);
    for (;; at = (at + 1) & (table->slot_count - 1)) {
        int *slot = &table->slots[at];
        if (!*slot)
            return slot;
        const kernel_group *group = table->groups[*slot - 1];
        if (group->hash == hash && has_keys(group, keys, count))
            return slot;
    }
}

static void grow_slots(group_table *table, int key_count) {
    free(table->slots);
    table->slot_count = table->slot_count ? 2 * table->slot_count : 64;
    table->slots = memory_allocate(table->slot_count, sizeof *table->slots);
    for (int i = 0; i < table->count; i++)
        *find_slot(table, table->groups[i]->keys, key_count, table->groups[i]->hash) = i + 1;
}

static dyno_status check_room(kernel_groups *g, const char *const *keys, int key_count) {
    g->group_bytes += (int64_t)sizeof(kernel_group) + GROUP_TABLE_BYTES;
    for (int i = 0; i < key_count; i++)
        g->group_bytes += (int64_t)strlen(keys[i]) + 1;
    if (g->group_bytes <= MOST_GROUP_BYTES)
        return DYNO_OK;
    return dyno_fail(DYNO_OUT_OF_MEMORY,
                     "the launches have so many different names, scopes and extents that they are "
                     "more than %" PRId64
                     " groups, and the limit is %d MiB of them; record fewer steps, and leave out "
                     "of the names what differs in every launch, as numbers of requests",
                     g->group_count, MOST_GROUP_BYTES >> 20);
}

/* *index is that of the group with these keys. */
static dyno_status find_or_add(kernel_groups *g, group_table *table, const char *const *keys,
                               int key_count, int *index) {
    if (2 * ((size_t)table->count + 1) > table->slot_count)
        grow_slots(table, key_count);
    uint64_t hash = hash_keys(keys, key_count);
    int *slot = find_slot(table, keys, key_count, hash);
    if (!*slot) {
        RETURN_IF_FAILED(check_room(g, keys, key_count));
        MEMORY_GROW(table->groups, table->count, table->capacity);
        kernel_group *made = memory_allocate(1, sizeof *made);
        for (int i = 0; i < key_count; i++)
            made->keys[i] = arena_copy_string(g->strings, keys[i]);
        made->hash = hash;
        table->groups[table->count++] = made;
        g->group_count++;
        *slot = table->count;
    }
    *index = *slot - 1;
    return DYNO_OK;
}

/* Adds `part`, from 0 to 1, of what a launch took and cost. */
static void add_part(kernel_group *to, const launch_record *r, double part) {
    to->running_ns += part * (double)(r->end_ns - r->begin_ns);
    to->share_ns += part * r->share_ns;
    to->flops += r->has_cost ? part * r->flops : 0;
    to->bytes += r->has_cost ? part * r->bytes : 0;
}

static void count_record(kernel_group *to, const launch_record *r) {
    to->count++;
    to->launches += !r->is_further;
    value_counts_add(&to->durations, r->end_ns - r->begin_ns);
    value_counts_add(&to->steps, r->step);
    to->without_cost += !r->has_cost;
    to->registers = r->registers > to->registers ? r->registers : to->registers;
    to->shared_bytes = r->shared_bytes > to->shared_bytes ? r->shared_bytes : to->shared_bytes;
    if (r->has_counters) {
        to->with_counters++;
        to->cycles += (double)r->counters.cycles;
        to->instructions += (double)r->counters.instructions;
        to->cache_misses += (double)r->counters.cache_misses;
    }
}

/* A launch of two phases is one record of its own phase; where groups are told apart by phase, its
 * time and cost are divided. */
static dyno_status add_to_grouping(kernel_groups *g, int index, const launch_record *r,
                                   const key_texts *made) {
    const grouping *by = &g->groupings[index];
    const char *keys[GROUPING_MOST_KEYS];
    int phase_at = -1;
    for (int i = 0; i < by->key_count; i++) {
        keys[i] = key_of(r, made, by->keys[i]);
        phase_at = by->keys[i] == GROUP_PHASE ? i : phase_at;
    }
    double backward = phase_at >= 0 ? r->backward_part : 0;
    group_table *table = &g->tables[index];
    int own, other;
    RETURN_IF_FAILED(find_or_add(g, table, keys, by->key_count, &own));
    count_record(table->groups[own], r);
    add_part(table->groups[own], r, 1 - backward);
    if (backward > 0) {
        keys[phase_at] = "backward";
        RETURN_IF_FAILED(find_or_add(g, table, keys, by->key_count, &other));
        add_part(table->groups[other], r, backward);
    }
    return DYNO_OK;
}

/* ---- devices ---- */

/* `phase` is NULL for all. */
static dyno_status find_sums(kernel_groups *g, int device, const char *phase, device_sums **out) {
    char name[16];
    snprintf(name, sizeof name, "%d", device);
    const char *keys[] = {name, phase ? phase : ""};
    int before = g->devices.count, index;
    RETURN_IF_FAILED(find_or_add(g, &g->devices, keys, 2, &index));
    if (g->devices.count > before) {
        if (index == g->sum_capacity) {
            g->sum_capacity = g->devices.capacity;
            g->sums = memory_resize(g->sums, (size_t)g->sum_capacity, sizeof *g->sums);
        }
        g->sums[index] = (device_sums){
            .last_call = -1,
            .time = {.device = device, .phase = phase ? g->devices.groups[index]->keys[1] : NULL}};
    }
    *out = &g->sums[index];
    return DYNO_OK;
}

static busy_step *find_busy(device_sums *sums, int step) {
    if (sums->recent && sums->recent->place.key == step)
        return sums->recent;
    busy_step *found = (busy_step *)ordered_set_first_from(&sums->by_step, step, 0);
    if (!found || found->place.key != step) {
        found = memory_allocate(1, sizeof *found);
        found->place.key = step;
        found->next = sums->steps;
        sums->steps = found;
        sums->time.steps++;
        ordered_set_add(&sums->by_step, &found->place);
    }
    return sums->recent = found;
}

static dyno_status add_to_device(kernel_groups *g, const launch_record *r, const char *phase) {
    device_sums *sums;
    RETURN_IF_FAILED(find_sums(g, r->device, phase, &sums));
    interval_set_add(&find_busy(sums, r->step)->busy, r->begin_ns, r->end_ns);
    double ns = (double)(r->end_ns - r->begin_ns);
    sums->time.launches++;
    sums->time.running_ns += ns;
    if (r->host_begin_ns || r->host_end_ns) {
        /* One call launches all of a captured graph. */
        bool is_new = !r->correlation || r->correlation != sums->last_call;
        sums->last_call = r->correlation;
        sums->time.host_calls += is_new;
        sums->time.host_calls_ns += is_new ? (double)(r->host_end_ns - r->host_begin_ns) : 0;
        value_counts_add(&sums->behind, r->begin_ns - r->host_begin_ns);
    }
    bool is_known = r->phase && *r->phase;
    sums->time.unattributed += !is_known;
    sums->time.unattributed_ns += is_known ? 0 : ns;
    return DYNO_OK;
}

static bool is_time(int64_t ns) { return ns >= 0 && ns <= MOST_NS; }

dyno_status kernel_groups_add(kernel_groups *g, const launch_record *given) {
    launch_record r = *given;
    if (!is_time(r.begin_ns) || !is_time(r.end_ns) || r.end_ns < r.begin_ns ||
        !is_time(r.host_begin_ns) || !is_time(r.host_end_ns) || r.host_end_ns < r.host_begin_ns)
        return dyno_fail(DYNO_CORRUPT,
                         "a record of '%s' is from %" PRId64 " to %" PRId64 " ns, launched from "
                         "%" PRId64 " to %" PRId64 " ns",
                         or_unattributed(name_of(&r)), r.begin_ns, r.end_ns, r.host_begin_ns,
                         r.host_end_ns);
    key_texts made = make_texts(&r);
    for (int i = 0; i < g->grouping_count; i++)
        RETURN_IF_FAILED(add_to_grouping(g, i, &r, &made));
    RETURN_IF_FAILED(add_to_device(g, &r, NULL));
    RETURN_IF_FAILED(add_to_device(g, &r, or_unattributed(r.phase)));
    value_counts_add(&g->steps, r.step);
    g->record_count++;
    return DYNO_OK;
}

/* ---- what came out ---- */

int kernel_groups_grouping_count(const kernel_groups *g) { return g->grouping_count; }

const grouping *kernel_groups_grouping(const kernel_groups *g, int index) {
    return &g->groupings[index];
}

/* Equal times in the order of their keys, so that the same records give the same table. */
static int longest_first(const void *a, const void *b) {
    const kernel_group *x = *(const kernel_group *const *)a, *y = *(const kernel_group *const *)b;
    if (x->running_ns < y->running_ns || x->running_ns > y->running_ns)
        return x->running_ns < y->running_ns ? 1 : -1;
    int order = 0;
    for (int i = 0; i < GROUPING_MOST_KEYS && x->keys[i] && !order; i++)
        order = strcmp(x->keys[i], y->keys[i]);
    return order;
}

const kernel_group *const *kernel_groups_sorted(kernel_groups *g, int index, int *count) {
    group_table *table = &g->tables[index];
    *count = table->count;
    free(table->sorted);
    table->sorted = memory_allocate((size_t)table->count, sizeof *table->sorted);
    for (int i = 0; i < table->count; i++)
        table->sorted[i] = table->groups[i];
    qsort(table->sorted, (size_t)table->count, sizeof *table->sorted, longest_first);
    return table->sorted;
}

const kernel_group *kernel_groups_find(const kernel_groups *g, int index, const char *const *keys) {
    const group_table *table = &g->tables[index];
    int key_count = g->groupings[index].key_count;
    if (!table->count)
        return NULL;
    const int *slot = find_slot(table, keys, key_count, hash_keys(keys, key_count));
    return *slot ? table->groups[*slot - 1] : NULL;
}

bool kernel_group_is_even(const kernel_group *group, int64_t steps) {
    if (group->count == 0) /* the other phase of launches that are counted in their own */
        return true;
    if (group->steps.used != (size_t)steps)
        return false;
    for (size_t i = 0; i < group->steps.capacity; i++)
        if (group->steps.entries[i].count && group->steps.entries[i].count * steps != group->count)
            return false;
    return true;
}

/* All that ran on a device, over all steps. */
static void unite_steps(device_sums *all, interval_set *out) {
    for (busy_step *step = all->steps; step; step = step->next)
        interval_set_add_all(out, &step->busy);
}

/* A gap is a time in which nothing ran on the device: neither of another phase nor of another step. Where steps
 * overlap, as one whose data come while the last one computes, their common time counts once. */
static device_time sum_steps(device_sums *sums, interval_set *whole) {
    value_counts gaps = {0}, spans = {0};
    interval_set extents = {0};
    device_time t = sums->time;
    for (busy_step *step = sums->steps; step; step = step->next) {
        interval_sums own = interval_set_sum(&step->busy, NULL);
        interval_set_add(&extents, own.begin, own.end);
        value_counts_add(&spans, own.end - own.begin);
    }
    t.span_ns = (double)interval_set_sum(&extents, NULL).busy;
    for (int64_t i = 0; i < extents.merged_count; i++) {
        const interval *extent = &extents.merged[i];
        t.busy_ns += (double)interval_set_sum_within(whole, extent->begin, extent->end, &gaps).busy;
    }
    t.span_median_ns = value_counts_summarize(&spans).median;
    t.gaps = value_counts_summarize(&gaps);
    t.behind = value_counts_summarize(&sums->behind);
    interval_set_release(&extents);
    value_counts_release(&gaps);
    value_counts_release(&spans);
    return t;
}

static int by_device(const void *a, const void *b) {
    const device_time *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

int kernel_groups_device_times(kernel_groups *g, const device_time **out) {
    interval_set whole = {0};
    free(g->times);
    g->times = memory_allocate((size_t)g->devices.count, sizeof *g->times);
    for (int i = 0; i < g->devices.count; i++)
        g->times[i] = (device_time){.device = g->sums[i].time.device, .place = i};
    qsort(g->times, (size_t)g->devices.count, sizeof *g->times, by_device);
    for (int i = 0; i < g->devices.count; i++) {
        int place = g->times[i].place;
        /* All phases of a device are added to before any of them, so they come first here, too. */
        if (i == 0 || g->times[i].device != g->times[i - 1].device) {
            interval_set_release(&whole);
            unite_steps(&g->sums[place], &whole);
        }
        g->times[i] = sum_steps(&g->sums[place], &whole);
        g->times[i].place = place;
    }
    interval_set_release(&whole);
    *out = g->times;
    return g->devices.count;
}

int64_t kernel_groups_step_count(const kernel_groups *g) { return (int64_t)g->steps.used; }

int64_t kernel_groups_record_count(const kernel_groups *g) { return g->record_count; }
