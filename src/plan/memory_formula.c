#include "plan/memory_formula.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "plan/memory_account.h"
#include "plan/scope.h"

void memory_formula_append(const plan_buffer *b, text *out) {
    for (int i = 0; i < b->shape.rank; i++)
        text_format(out, "%lld x ", (long long)b->shape.dim[i]);
    text_format(out, "%d B", dtype_bytes(b->type));
}

/* Values of one size, whatever they are called. */
typedef struct size_group {
    plan_buffer sample; /* its shape without dimensions of 1 */
    int64_t count, bytes;
} size_group;

static plan_buffer without_ones(const plan_buffer *b) {
    plan_buffer narrow = *b;
    narrow.shape.rank = 0;
    for (int i = 0; i < b->shape.rank; i++)
        if (b->shape.dim[i] != 1)
            narrow.shape.dim[narrow.shape.rank++] = b->shape.dim[i];
    return narrow;
}

static bool is_of_size(const plan_buffer *b, const plan_buffer *sample) {
    plan_buffer narrow = without_ones(b);
    return b->type == sample->type && shape_equal(&narrow.shape, &sample->shape);
}

static int largest_first(const void *a, const void *b) {
    int64_t x = ((const size_group *)a)->bytes, y = ((const size_group *)b)->bytes;
    return (x < y) - (x > y);
}

static size_group *group_alive(const plan *p, int launch, int *count, int64_t *total) {
    size_group *groups = NULL;
    int capacity = 0;
    *count = 0;
    *total = 0;
    for (int i = 0; i < p->buffer_count; i++) {
        const plan_buffer *b = &p->buffers[i];
        if (!memory_account_is_alive(b, launch))
            continue;
        int at = 0;
        while (at < *count && !is_of_size(b, &groups[at].sample))
            at++;
        if (at == *count) {
            MEMORY_GROW(groups, *count, capacity);
            groups[(*count)++] = (size_group){.sample = without_ones(b)};
        }
        groups[at].count++;
        groups[at].bytes += b->bytes;
        *total += b->bytes;
    }
    qsort(groups, (size_t)*count, sizeof *groups, largest_first);
    return groups;
}

/* A value's name, else the scope that made it; scratch is no value of that scope and says so. */
static scope_text name_of(const plan *p, const plan_buffer *b) {
    scope_text name = scope_fold_layers(b->name ? b->name : p->scopes[b->scope]);
    if (b->role != ROLE_WORKSPACE)
        return name;
    scope_text workspace;
    snprintf(workspace.text, sizeof workspace.text, "workspace of %.*s", SCOPE_TEXT_BYTES - 16,
             name.text);
    return workspace;
}

/* "attn.scale, attn.softmax x 2": each name once, where it first occurs. */
static void append_names(const plan *p, int launch, const plan_buffer *sample, text *out) {
    bool is_first = true;
    for (int i = 0; i < p->buffer_count; i++) {
        const plan_buffer *b = &p->buffers[i];
        if (!memory_account_is_alive(b, launch) || !is_of_size(b, sample))
            continue;
        scope_text name = name_of(p, b);
        int before = 0, count = 0;
        for (int j = 0; j < p->buffer_count; j++) {
            const plan_buffer *other = &p->buffers[j];
            bool is_same = memory_account_is_alive(other, launch) && is_of_size(other, sample) &&
                           strcmp(name_of(p, other).text, name.text) == 0;
            count += is_same;
            before += is_same && j < i;
        }
        if (before)
            continue;
        text_format(out, "%s%s", is_first ? "" : ", ", name.text);
        if (count > 1)
            text_format(out, " x %d", count);
        is_first = false;
    }
}

int64_t memory_formula_explain(const plan *p, int launch, text *out) {
    int count;
    int64_t total, told = 0;
    size_group *groups = group_alive(p, launch, &count, &total);
    for (int i = 0; i < count && (double)told < 0.9 * (double)total; i++) {
        const size_group *each = &groups[i];
        text_append(out, i ? ", " : "");
        memory_formula_append(&each->sample, out);
        if (each->count > 1)
            text_format(out, " x %lld", (long long)each->count);
        text_format(out, " = %s (", units_bytes(each->bytes).text);
        append_names(p, launch, &each->sample, out);
        text_append(out, ")");
        told += each->bytes;
    }
    if (told < total)
        text_format(out, ", rest %s", units_bytes(total - told).text);
    free(groups);
    return total;
}
