/* hazards.h - which launches must wait for which when launches run on several streams.
 *
 * Launches of one stream run in order. Across streams a launch waits for every earlier one with
 * which it has a read-after-write, write-after-read or write-after-write hazard. Addresses are
 * compared, not names, so that memory which the memory plan reuses is ordered as well. */
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
