#include "profile/trace.h"

#include <stdlib.h>

#include "base/memory.h"

trace *trace_create(int launch_count) {
    trace *t = memory_allocate(1, sizeof *t);
    t->launch_count = launch_count;
    t->begin_ns = memory_allocate((size_t)launch_count, sizeof *t->begin_ns);
    t->end_ns = memory_allocate((size_t)launch_count, sizeof *t->end_ns);
    return t;
}

void trace_destroy(trace *t) {
    if (!t)
        return;
    free(t->begin_ns);
    free(t->end_ns);
    free(t);
}
