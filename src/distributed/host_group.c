#include "distributed/host_group.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "distributed/world.h"

struct host_block {
    meeting meeting;
    /* What the first rank found out, for all. */
    int status;
    int64_t offset;
    char message[SEGMENT_FAILURE_BYTES];
};

static int64_t align_to(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

static int64_t offers_at(void) { return align_to((int64_t)sizeof(host_block), 64); }

static int64_t slots_at(int members) {
    return align_to(offers_at() + 2 * members * (int64_t)sizeof(host_offer), 4096);
}

static int64_t block_bytes(int members) {
    return slots_at(members) + 2 * (members + 1) * (int64_t)HOST_GROUP_SLOT_BYTES;
}

/* Of this host's ranks, how many are among the first `ranks` of the world. */
static int members_among(const struct world *w, int ranks) {
    int members = ranks - world_first_of_host(w);
    return members < 0 ? 0 : members < world_host_count(w) ? members : world_host_count(w);
}

/* The first rank of each host makes room for its block; everybody learns where. */
static dyno_status make_room(struct world *w, int members, int64_t *offset) {
    dyno_status status = DYNO_OK;
    int64_t own = 0;
    segment *s = world_segment(w);
    if (members > 0 && world_host_rank(w) == 0)
        status = segment_extend(s, block_bytes(members), &own);
    RETURN_IF_FAILED(world_agree(w, status));
    int64_t *all = memory_allocate((size_t)world_count(w), sizeof *all);
    status = world_exchange(w, &own, all, sizeof own);
    *offset = all[world_first_of_host(w)];
    free(all);
    return status;
}

static dyno_status map_block(host_group *g, const struct world *w, int members, int64_t offset) {
    g->block_offset = offset;
    g->block_bytes = block_bytes(members);
    void *base;
    RETURN_IF_FAILED(segment_map(world_segment(w), offset, g->block_bytes, &base));
    g->block = base;
    for (int set = 0; set < 2; set++)
        g->offers[set] = (host_offer *)((char *)base + offers_at()) + set * members;
    g->slots = (char *)base + slots_at(members);
    g->meeting = (meeting_place){.shared = &g->block->meeting,
                                 .segment = world_segment(w),
                                 .index = world_host_rank(w),
                                 .count = members,
                                 .timeout_s = world_host_timeout_s(w),
                                 .spins = world_has_core_for(w, members)};
    return DYNO_OK;
}

dyno_status host_group_create(struct world *w, int ranks, host_group **out) {
    int members = members_among(w, ranks);
    int64_t offset = 0;
    *out = NULL;
    RETURN_IF_FAILED(make_room(w, members, &offset));
    dyno_status status = DYNO_OK;
    if (world_host_rank(w) < members) {
        *out = memory_allocate(1, sizeof **out);
        status = map_block(*out, w, members, offset);
    }
    status = world_agree(w, status);
    if (status != DYNO_OK) {
        host_group_destroy(*out);
        *out = NULL;
    }
    return status;
}

static void unmap_region(host_group *g, const host_region *r) {
    segment_unmap(g->meeting.segment, r->base, r->stride * g->meeting.count,
                  r->offset + r->stride * g->meeting.index, r->stride);
}

void host_group_destroy(host_group *g) {
    if (!g)
        return;
    for (int i = 0; i < g->region_count; i++)
        unmap_region(g, &g->regions[i]);
    if (g->block)
        segment_unmap(g->meeting.segment, g->block, g->block_bytes, 0, 0);
    free(g->regions);
    free(g);
}

dyno_status host_group_meet(host_group *g) { return meeting_wait(&g->meeting); }

dyno_status host_group_add_region(host_group *g, int64_t bytes, void **base) {
    host_block *b = g->block;
    int64_t stride = align_to(bytes, 2 * 1024 * 1024); /* a huge page is one rank's */
    *base = NULL;
    if (g->meeting.index == 0) {
        b->status = (int)segment_extend(g->meeting.segment, stride * g->meeting.count, &b->offset);
        if (b->status != DYNO_OK)
            strncpy(b->message, dyno_error_message(), sizeof b->message - 1);
    }
    RETURN_IF_FAILED(host_group_meet(g));
    dyno_status status = (dyno_status)b->status;
    int64_t offset = b->offset;
    if (status != DYNO_OK)
        status = dyno_fail(status, "%.*s", (int)sizeof b->message - 1, b->message);
    RETURN_IF_FAILED(host_group_meet(g)); /* before the block is written again */
    RETURN_IF_FAILED(status);
    void *mapped;
    RETURN_IF_FAILED(segment_map(g->meeting.segment, offset, stride * g->meeting.count, &mapped));
    MEMORY_GROW(g->regions, g->region_count, g->region_capacity);
    g->regions[g->region_count++] = (host_region){g->next_region++, mapped, offset, stride};
    *base = (char *)mapped + stride * g->meeting.index;
    return DYNO_OK;
}

void host_group_remove_region(host_group *g, void *base) {
    for (int i = 0; i < g->region_count; i++) {
        const host_region *r = &g->regions[i];
        if (r->base + r->stride * g->meeting.index != base)
            continue;
        unmap_region(g, r);
        g->regions[i] = g->regions[--g->region_count];
        return;
    }
}

host_place host_group_find(const host_group *g, const void *data, int64_t bytes) {
    const char *at = data;
    for (int i = 0; i < g->region_count; i++) {
        const host_region *r = &g->regions[i];
        const char *own = r->base + r->stride * g->meeting.index;
        if (at >= own && at - own <= r->stride - bytes)
            return (host_place){r->id, at - own};
    }
    return (host_place){-1, 0};
}

char *host_group_at(const host_group *g, host_place place, int index) {
    for (int i = 0; i < g->region_count; i++)
        if (g->regions[i].id == place.region)
            return g->regions[i].base + g->regions[i].stride * index + place.offset;
    return NULL;
}

char *host_group_staging(const host_group *g, int64_t chunk, int index) {
    return g->slots + (2 * index + (chunk & 1)) * (int64_t)HOST_GROUP_SLOT_BYTES;
}

char *host_group_result(const host_group *g, int64_t chunk) {
    return host_group_staging(g, chunk, g->meeting.count);
}
