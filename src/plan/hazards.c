/* hazards.c - vector clocks over streams.
 *
 * known[s][t] is the last launch of stream t that everything enqueued on stream s from now on comes
 * after. A wait on a launch of t brings all that t knew then. Of the conflicting launches of
 * another stream only the last one needs an edge, and none when it is known already: the search
 * goes backwards from the newest launch and stops at what is known. */
#include "plan/hazards.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

hazard_range hazard_range_of(const tensor *t, bool is_written) {
    int64_t lowest = 0, highest = 0;
    for (int i = 0; i < t->shape.rank; i++) {
        int64_t reach = (t->shape.dim[i] - 1) * t->stride[i];
        if (reach < 0)
            lowest += reach;
        else
            highest += reach;
    }
    int64_t bytes = dtype_bytes(t->type);
    uintptr_t data = (uintptr_t)t->data;
    return (hazard_range){.begin = data + (uintptr_t)(lowest * bytes),
                          .end = data + (uintptr_t)((highest + 1) * bytes),
                          .is_written = is_written};
}

static bool conflict(const hazard_launch *a, const hazard_launch *b) {
    for (int i = 0; i < a->range_count; i++)
        for (int j = 0; j < b->range_count; j++) {
            const hazard_range *x = &a->ranges[i], *y = &b->ranges[j];
            if ((x->is_written || y->is_written) && x->begin < y->end && y->begin < x->end)
                return true;
        }
    return false;
}

typedef struct search {
    const hazard_launch *launches;
    int streams;
    int *known; /* [stream][stream] */
    int *
        snapshot; /* [launch][stream]: what its stream knew when it was enqueued, itself included */
    int *previous; /* the launch before it on its stream, or -1 */
    int *newest;   /* by stream */
    hazard_edge *edges;
    int edge_count, edge_capacity;
} search;

/* The last launch of `stream` before `launch` that conflicts with it and is not known to be
 * complete; -1: none. */
static int find_last(const search *s, int launch, int stream) {
    int known = s->known[s->launches[launch].stream * s->streams + stream];
    for (int j = s->newest[stream]; j > known; j = s->previous[j])
        if (conflict(&s->launches[launch], &s->launches[j]))
            return j;
    return -1;
}

static void learn(int *known, const int *more, int streams) {
    for (int t = 0; t < streams; t++)
        if (more[t] > known[t])
            known[t] = more[t];
}

/* One wait may make another redundant: the newest is added first. */
static void find_waits(search *s, int launch) {
    int mine = s->launches[launch].stream, *known = s->known + mine * s->streams;
    for (;;) {
        int latest = -1;
        for (int t = 0; t < s->streams; t++) {
            int found = t == mine ? -1 : find_last(s, launch, t);
            latest = found > latest ? found : latest;
        }
        if (latest < 0)
            break;
        learn(known, s->snapshot + (size_t)latest * (size_t)s->streams, s->streams);
        MEMORY_GROW(s->edges, s->edge_count, s->edge_capacity);
        s->edges[s->edge_count++] = (hazard_edge){launch, latest};
    }
    s->previous[launch] = s->newest[mine];
    s->newest[mine] = known[mine] = launch;
    memcpy(s->snapshot + (size_t)launch * (size_t)s->streams, known,
           (size_t)s->streams * sizeof *known);
}

int hazards_find(const hazard_launch *launches, int launch_count, hazard_edge **edges) {
    search s = {.launches = launches, .streams = 1};
    for (int i = 0; i < launch_count; i++)
        if (launches[i].stream >= s.streams)
            s.streams = launches[i].stream + 1;
    size_t streams = (size_t)s.streams;
    s.known = memory_allocate(streams * streams, sizeof *s.known);
    s.snapshot = memory_allocate((size_t)launch_count * streams, sizeof *s.snapshot);
    s.previous = memory_allocate((size_t)launch_count, sizeof *s.previous);
    s.newest = memory_allocate(streams, sizeof *s.newest);
    for (size_t i = 0; i < streams * streams; i++)
        s.known[i] = -1;
    for (size_t i = 0; i < streams; i++)
        s.newest[i] = -1;
    s.edge_capacity = 16;
    s.edges = memory_allocate((size_t)s.edge_capacity, sizeof *s.edges);
    for (int i = 0; i < launch_count; i++)
        find_waits(&s, i);
    free(s.known);
    free(s.snapshot);
    free(s.previous);
    free(s.newest);
    *edges = s.edges;
    return s.edge_count;
}
