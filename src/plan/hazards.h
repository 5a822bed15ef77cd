/* hazards.h - which launches must wait for which when launches run on several streams.
 *
 * Launches of one stream run in their order. Across streams a launch waits for every earlier one
 * that wrote what it reads or writes, and for every earlier one that read what it writes. Memory is
 * compared, not names: whatever shares bytes is ordered, so a memory plan that reuses memory is
 * respected without knowing of it. */
#ifndef PLAN_HAZARDS_H
#define PLAN_HAZARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/tensor.h"

/* Bytes [begin, end). */
typedef struct hazard_range {
    uintptr_t begin, end;
    bool is_written;
} hazard_range;

typedef struct hazard_launch {
    int stream; /* from 0 */
    const hazard_range *ranges;
    int range_count;
} hazard_launch;

/* `launch` waits until `waits_for`, an earlier launch of another stream, is done. */
typedef struct hazard_edge {
    int launch, waits_for;
} hazard_edge;

/* From the first byte of a strided view to its last: everything between counts. */
hazard_range hazard_range_of(const tensor *t, bool is_written);

/* The edges, sorted by launch; none is implied by the others and the streams' own order. The caller
 * frees *edges, which is never NULL. */
int hazards_find(const hazard_launch *launches, int launch_count, hazard_edge **edges);

#endif
