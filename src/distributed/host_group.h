/* host_group.h - the ranks of a communicator that are on one host, and the memory they share.
 *
 *   meeting      where they wait for each other
 *   offers       what each brings to the collective that is under way
 *   staging      for each rank two slots, through which operands in ordinary memory are copied
 *   results      two slots for sums of staged operands
 *   regions      communicator_memory_create's: a part for each rank, which all have mapped
 *
 * Slots are used by turns, one chunk after the other and on into the next collective, so that one
 * meeting for each chunk suffices: a slot is written again only after a meeting that its last readers
 * have come to. */
#ifndef DISTRIBUTED_HOST_GROUP_H
#define DISTRIBUTED_HOST_GROUP_H

#include <stdint.h>

#include "base/status.h"
#include "distributed/communicator.h"
#include "distributed/segment.h"

enum { HOST_GROUP_SLOT_BYTES = 1024 * 1024 };

/* A region and an offset in the rank's part of it; region -1: ordinary memory. */
typedef struct host_place {
    int64_t region, offset;
} host_place;

/* In shared memory. */
typedef struct host_offer {
    _Alignas(64) int op;
    int type, root;
    int64_t count;
    host_place from, to;
} host_offer;

typedef struct host_region {
    int64_t id;
    char *base;
    int64_t offset, stride; /* in the segment; of one rank's part */
} host_region;

typedef struct host_block host_block; /* the shared part */

typedef struct host_group {
    meeting_place meeting;
    host_block *block;
    int64_t block_offset, block_bytes;
    host_offer *offers[2]; /* one set is read while the next is being written */
    char *slots;
    host_region *regions;
    int region_count, region_capacity;
    int64_t next_region;
    int64_t chunks; /* that went through the slots so far */
    int64_t calls;
} host_group;

/* Collective over the world: the first `ranks` of it, of which this host has some. On ranks that are
 * not among them *out is NULL. */
NODISCARD dyno_status host_group_create(struct world *w, int ranks, host_group **out);
void host_group_destroy(host_group *g);

NODISCARD dyno_status host_group_meet(host_group *g);

/* Collective in the group. *base is this rank's part of a new region. */
NODISCARD dyno_status host_group_add_region(host_group *g, int64_t bytes, void **base);
void host_group_remove_region(host_group *g, void *base);

/* Where `data` lies, for the others; and where they find what rank `index` of the host offers. */
host_place host_group_find(const host_group *g, const void *data, int64_t bytes);
char *host_group_at(const host_group *g, host_place place, int index);

/* The slots of the chunk that `chunk` counts: a rank's staging, and the results. */
char *host_group_staging(const host_group *g, int64_t chunk, int index);
char *host_group_result(const host_group *g, int64_t chunk);

#endif
