#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

plan *plan_create(const char *name) {
    plan *p = memory_allocate(1, sizeof *p);
    p->memory = arena_create();
    p->name = arena_copy_string(p->memory, name);
    p->micro_batches = 1;
    return p;
}

void plan_destroy(plan *p) {
    if (!p)
        return;
    arena_destroy(p->memory);
    free(p->launches);
    free(p->buffers);
    free(p->names);
    free(p->generated);
    free(p);
}

int plan_add_buffer(plan *p, const plan_buffer *buffer) {
    MEMORY_GROW(p->buffers, p->buffer_count, p->buffer_capacity);
    p->buffers[p->buffer_count] = *buffer;
    return p->buffer_count++;
}

plan_launch *plan_add_launch(plan *p, int input_count, int output_count) {
    MEMORY_GROW(p->launches, p->launch_count, p->launch_capacity);
    plan_launch *launch = &p->launches[p->launch_count++];
    *launch = (plan_launch){
        .input_count = input_count, .output_count = output_count, .workspace = -1, .generated = -1};
    launch->inputs = arena_allocate(p->memory, (size_t)input_count, sizeof(plan_operand));
    launch->outputs = arena_allocate(p->memory, (size_t)output_count, sizeof(plan_operand));
    launch->overwrites = arena_allocate(p->memory, (size_t)output_count, sizeof(uint64_t));
    return launch;
}

void plan_add_name(plan *p, const char *name, const plan_operand *operand) {
    MEMORY_GROW(p->names, p->name_count, p->name_capacity);
    p->names[p->name_count++] = (plan_name){arena_copy_string(p->memory, name), *operand};
}

const plan_operand *plan_find_name(const plan *p, const char *name) {
    for (int i = 0; i < p->name_count; i++)
        if (strcmp(p->names[i].name, name) == 0)
            return &p->names[i].operand;
    return NULL;
}

/* Counting sort of transient buffers by launch, stable in buffer order. */
static void sort_by_launch(plan *p, bool by_birth, int **items, int **start) {
    size_t launches = (size_t)p->launch_count;
    *start = arena_allocate(p->memory, launches + 1, sizeof(int));
    *items = arena_allocate(p->memory, (size_t)p->buffer_count, sizeof(int));
    for (int i = 0; i < p->buffer_count; i++) {
        int at = by_birth ? p->buffers[i].born : p->buffers[i].last_used;
        if (!p->buffers[i].is_persistent && at < p->launch_count)
            (*start)[at + 1]++;
    }
    for (size_t i = 0; i < launches; i++)
        (*start)[i + 1] += (*start)[i];
    int *next = memory_allocate(launches + 1, sizeof *next);
    memcpy(next, *start, (launches + 1) * sizeof *next);
    for (int i = 0; i < p->buffer_count; i++) {
        int at = by_birth ? p->buffers[i].born : p->buffers[i].last_used;
        if (!p->buffers[i].is_persistent && at < p->launch_count)
            (*items)[next[at]++] = i;
    }
    free(next);
}

void plan_finish(plan *p) {
    sort_by_launch(p, true, &p->births, &p->birth_start);
    sort_by_launch(p, false, &p->deaths, &p->death_start);
}

bool plan_launch_is_cast(const plan_launch *l) {
    static const char cast[] = "cast";
    for (const char *name = l->op_name;;) { /* a generated kernel's is "cast+multiply" */
        size_t length = strcspn(name, "+");
        if (length != sizeof cast - 1 || strncmp(name, cast, length) != 0)
            return false;
        if (!name[length])
            return true;
        name += length + 1;
    }
}

double plan_launch_flops(const plan_launch *l, phase which) {
    double flops = l->phase == which ? l->flops - l->backward_flops : 0;
    return which == PHASE_BACKWARD ? flops + l->backward_flops : flops;
}

double plan_launch_share(const plan_launch *l, phase which) {
    if (l->backward_flops > 0)
        return plan_launch_flops(l, which) / l->flops;
    return l->phase == which ? 1 : 0;
}

int plan_launch_times(const plan *p, int launch) {
    bool is_repeated = launch < p->repeated_launches && !p->launches[launch].runs_once;
    return is_repeated ? p->micro_batches : 1;
}

plan_cost plan_total_cost(const plan *p, phase which) {
    plan_cost total = {0};
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        int times = plan_launch_times(p, i);
        total.flops += times * (which == PHASE_COUNT ? l->flops : plan_launch_flops(l, which));
        if (which != PHASE_COUNT && l->phase != which)
            continue;
        total.launches += times;
        if (l->backward_flops > 0) {
            total.split_launches += times;
            total.split_flops += times * l->flops;
        }
        total.bytes_read += times * l->bytes_read;
        total.bytes_written += times * l->bytes_written;
        total.bytes_sent += times * l->bytes_sent;
    }
    return total;
}
