#include "runtime/step_memory.h"

#include <stdlib.h>

#include "base/memory.h"

static bool is_static(const plan *p) { return p->memory_mode == PLAN_MEMORY_STATIC; }

/* ---- eager ---- */

static void release(step_memory *m, int buffer, int launch) {
    if (!m->memory[buffer])
        return;
    memory_pool_release(m->pool, m->p, &m->p->buffers[buffer], launch, m->memory[buffer]);
    m->memory[buffer] = NULL;
    m->address[buffer] = NULL;
}

void step_memory_release_all(step_memory *m, int launch) {
    for (int i = 0; m->memory && i < m->p->buffer_count; i++)
        release(m, i, launch);
}

static dyno_status allocate_births(step_memory *m, int launch) {
    const plan *p = m->p;
    for (int i = p->birth_start[launch]; i < p->birth_start[launch + 1]; i++) {
        int buffer = p->births[i];
        dyno_status status =
            memory_pool_allocate(m->pool, p, &p->buffers[buffer], launch, &m->memory[buffer]);
        if (status != DYNO_OK) {
            step_memory_release_all(m, launch);
            return status;
        }
        m->address[buffer] = memory_pool_address(m->pool, m->memory[buffer]);
    }
    return DYNO_OK;
}

static void release_deaths(step_memory *m, int launch) {
    for (int i = m->p->death_start[launch]; i < m->p->death_start[launch + 1]; i++)
        release(m, m->p->deaths[i], launch);
}

/* ---- static ---- */

static void record_lives(step_memory *m, const int *buffers, int count, int launch, bool is_birth) {
    for (int i = 0; i < count; i++)
        memory_pool_record(m->pool, m->p, &m->p->buffers[buffers[i]], launch, m->arena, is_birth);
}

static void record_births(step_memory *m, int launch) {
    const int *start = m->p->birth_start + launch;
    record_lives(m, m->p->births + start[0], start[1] - start[0], launch, true);
}

static void record_deaths(step_memory *m, int launch) {
    const int *start = m->p->death_start + launch;
    record_lives(m, m->p->deaths + start[0], start[1] - start[0], launch, false);
}

static void record_death_of_outputs(step_memory *m, int launch) {
    for (int i = 0; m->has_records && i < m->p->buffer_count; i++)
        if (!m->p->buffers[i].is_persistent && m->p->buffers[i].last_used >= m->p->launch_count)
            record_lives(m, &i, 1, launch, false);
    m->has_records = false;
}

static dyno_status allocate_arena(step_memory *m) {
    const plan *p = m->p;
    if (p->arena_bytes == 0)
        return DYNO_OK;
    RETURN_IF_FAILED(memory_pool_allocate_arena(m->pool, p, &m->arena));
    char *base = memory_pool_address(m->pool, m->arena);
    for (int i = 0; i < p->buffer_count; i++)
        if (!p->buffers[i].is_persistent)
            m->address[i] = base + p->buffers[i].offset;
    return DYNO_OK;
}

/* ---- both ---- */

dyno_status step_memory_create(const plan *p, memory_pool *pool, const storage *shared,
                               step_memory *out) {
    size_t buffers = (size_t)p->buffer_count;
    *out = (step_memory){.p = p, .pool = pool};
    out->address = memory_allocate(buffers, sizeof *out->address);
    for (int i = 0; i < p->buffer_count; i++)
        if (p->buffers[i].is_persistent)
            out->address[i] = storage_find(shared, p->buffers[i].name);
    if (!is_static(p)) {
        out->memory = memory_allocate(buffers, sizeof *out->memory);
        return DYNO_OK;
    }
    dyno_status status = allocate_arena(out);
    if (status != DYNO_OK)
        step_memory_destroy(out);
    return status;
}

void step_memory_destroy(step_memory *m) {
    if (!m->p)
        return;
    step_memory_release_all(m, m->p->launch_count);
    if (m->arena) {
        record_death_of_outputs(m, m->p->launch_count);
        memory_pool_release_arena(m->pool, m->arena);
    }
    free(m->address);
    free(m->memory);
    *m = (step_memory){0};
}

void step_memory_begin_step(step_memory *m) {
    step_memory_release_all(m, -1);
    record_death_of_outputs(m, -1);
    m->is_recording = m->arena && memory_pool_is_recording(m->pool);
}

dyno_status step_memory_begin_launch(step_memory *m, int launch) {
    if (m->memory)
        return allocate_births(m, launch);
    if (m->is_recording)
        record_births(m, launch);
    return DYNO_OK;
}

void step_memory_end_launch(step_memory *m, int launch) {
    if (m->memory)
        release_deaths(m, launch);
    else if (m->is_recording)
        record_deaths(m, launch);
}

void step_memory_end_step(step_memory *m) { m->has_records = m->is_recording; }
