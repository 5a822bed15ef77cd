#include "plan/value_groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static const char *op_of(const plan *p, const plan_buffer *b) {
    bool is_made = b->born >= 0 && b->born < p->launch_count;
    return is_made ? p->launches[b->born].op_name : "";
}

static bool is_of_group(const value_group *g, const plan_buffer *b, const scope_text *name,
                        const char *op) {
    return g->sample->role == b->role && g->sample->type == b->type &&
           shape_equal(&g->sample->shape, &b->shape) && strcmp(g->name.text, name->text) == 0 &&
           (!op || strcmp(g->op, op) == 0);
}

value_group *value_groups_create(const plan *p, const value_group_options *options, int *count) {
    value_group *groups = NULL;
    int capacity = 0;
    *count = 0;
    for (int i = 0; i < p->buffer_count; i++) {
        const plan_buffer *b = &p->buffers[i];
        if (options->takes && !options->takes(options->context, b))
            continue;
        scope_text name = scope_fold_layers(b->name ? b->name : p->scopes[b->scope]);
        const char *op = op_of(p, b);
        int at = 0;
        while (at < *count && !is_of_group(&groups[at], b, &name, options->is_by_op ? op : NULL))
            at++;
        if (at == *count) {
            MEMORY_GROW(groups, *count, capacity);
            groups[(*count)++] = (value_group){.name = name, .op = op, .sample = b};
        }
        groups[at].count++;
        groups[at].bytes += b->bytes;
    }
    return groups;
}

/* The first values' places are those of their groups. */
static int by_place(const value_group *x, const value_group *y) {
    return (x->sample > y->sample) - (x->sample < y->sample);
}

static int by_total(const void *a, const void *b) {
    const value_group *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : by_place(x, y);
}

static int by_size(const void *a, const void *b) {
    const value_group *x = a, *y = b;
    int64_t first = x->sample->bytes, second = y->sample->bytes;
    return first != second ? (first < second) - (first > second) : by_place(x, y);
}

void value_groups_sort_by_total(value_group *groups, int count) {
    if (count)
        qsort(groups, (size_t)count, sizeof *groups, by_total);
}

void value_groups_sort_by_size(value_group *groups, int count) {
    if (count)
        qsort(groups, (size_t)count, sizeof *groups, by_size);
}
