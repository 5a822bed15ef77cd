#include "compiler/passes/insertions.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"

insertions insertions_begin(const graph *g) { return (insertions){.first = g->node_count}; }

static void note(const graph *g, insertions *made, int behind) {
    while (made->first + made->count < g->node_count) {
        MEMORY_GROW(made->behind, made->count, made->capacity);
        made->behind[made->count++] = behind;
    }
}

void insertions_note(const graph *g, insertions *made, const node *behind) {
    assert(!behind || behind->id < made->first);
    note(g, made, behind ? behind->id : -1);
}

void insertions_note_last(const graph *g, insertions *made) { note(g, made, made->first); }

/* By counting: start[1 + p] is where the new nodes behind position p begin among them. */
void insertions_apply(graph *g, insertions *made) {
    size_t places = (size_t)made->first + 3;
    node **order = memory_allocate((size_t)g->node_count, sizeof *order);
    int *start = memory_allocate(places, sizeof *start);
    int *sorted = memory_allocate((size_t)made->count + 1, sizeof *sorted);
    int count = 0;
    for (int i = 0; i < made->count; i++)
        start[made->behind[i] + 2]++;
    for (size_t i = 1; i < places; i++)
        start[i] += start[i - 1];
    for (int i = 0; i < made->count; i++)
        sorted[start[made->behind[i] + 1]++] = made->first + i; /* start[p] becomes the end */
    for (int at = -1, next = 0; at <= made->first; at++) {
        if (at >= 0 && at < made->first)
            order[count++] = g->nodes[at];
        for (; next < start[at + 1]; next++)
            order[count++] = g->nodes[sorted[next]];
    }
    graph_set_order(g, order, count);
    free(order);
    free(start);
    free(sorted);
    free(made->behind);
    *made = (insertions){0};
}
