/* executor.c - one loop over the launches for both ways to have memory.
 *
 * What differs is when a buffer gets its address: eager plans ask the pool at each launch and
 * fill in the operands then; static plans know all addresses beforehand, so the arguments of every
 * launch are laid out once and a step only calls kernels. */
#include "runtime/executor.h"

#include <stdlib.h>

#include "base/memory.h"
#include "ops/kernel.h"
#include "runtime/generated.h"

struct executor {
    const plan *p;
    memory_pool *pool;
    void **address;    /* by buffer; NULL while it has no memory */
    tensor *operands;  /* eager: room for those of the largest launch; static: of all launches */
    block **memory;    /* eager, by transient buffer */
    block *arena;      /* static */
    kernel_args *args; /* static, by launch */
    generated_kernels *generated; /* NULL when the plan has none */
    bool has_run;                 /* static: what is in the arena was computed */
    bool has_records; /* static: that outputs came to life was recorded, not yet that they died */
};

static bool is_static(const executor *e) { return e->p->memory_mode == PLAN_MEMORY_STATIC; }

/* ---- eager ---- */

static void release(executor *e, int buffer, int launch) {
    if (!e->memory[buffer])
        return;
    memory_pool_release(e->pool, e->p, &e->p->buffers[buffer], launch, e->memory[buffer]);
    e->memory[buffer] = NULL;
    e->address[buffer] = NULL;
}

static void release_all(executor *e, int launch) {
    for (int i = 0; i < e->p->buffer_count; i++)
        release(e, i, launch);
}

static dyno_status allocate_births(executor *e, int launch) {
    const plan *p = e->p;
    for (int i = p->birth_start[launch]; i < p->birth_start[launch + 1]; i++) {
        int buffer = p->births[i];
        dyno_status status =
            memory_pool_allocate(e->pool, p, &p->buffers[buffer], launch, &e->memory[buffer]);
        if (status != DYNO_OK) {
            release_all(e, launch);
            return status;
        }
        e->address[buffer] = memory_pool_address(e->pool, e->memory[buffer]);
    }
    return DYNO_OK;
}

static void release_deaths(executor *e, int launch) {
    for (int i = e->p->death_start[launch]; i < e->p->death_start[launch + 1]; i++)
        release(e, e->p->deaths[i], launch);
}

/* ---- static ---- */

static void record_lives(executor *e, const int *buffers, int count, int launch, bool is_birth) {
    for (int i = 0; i < count; i++)
        memory_pool_record(e->pool, e->p, &e->p->buffers[buffers[i]], launch, e->arena, is_birth);
}

static void record_births(executor *e, int launch) {
    const int *start = e->p->birth_start + launch;
    record_lives(e, e->p->births + start[0], start[1] - start[0], launch, true);
}

static void record_deaths(executor *e, int launch) {
    const int *start = e->p->death_start + launch;
    record_lives(e, e->p->deaths + start[0], start[1] - start[0], launch, false);
}

/* Outputs, which outlive the launches, die when the next step begins or the executor ends. */
static void record_death_of_outputs(executor *e, int launch) {
    for (int i = 0; e->has_records && i < e->p->buffer_count; i++)
        if (!e->p->buffers[i].is_persistent && e->p->buffers[i].last_used >= e->p->launch_count)
            record_lives(e, &i, 1, launch, false);
    e->has_records = false;
}

/* ---- both ---- */

static tensor resolve(const executor *e, const plan_operand *operand) {
    tensor t = operand->layout;
    char *base = e->address[operand->buffer];
    t.data = base ? base + operand->offset : NULL;
    return t;
}

/* Lays a launch's operands out at `room`, which the arguments point to. */
static kernel_args bind(const executor *e, const plan_launch *l, tensor *room) {
    tensor *outputs = room + l->input_count;
    for (int i = 0; i < l->input_count; i++)
        room[i] = resolve(e, &l->inputs[i]);
    for (int i = 0; i < l->output_count; i++)
        outputs[i] = resolve(e, &l->outputs[i]);
    return (kernel_args){.input_count = l->input_count,
                         .output_count = l->output_count,
                         .inputs = room,
                         .outputs = outputs,
                         .attributes = &l->attributes,
                         .workspace = l->workspace < 0 ? NULL : e->address[l->workspace]};
}

static void bind_all(executor *e) {
    const plan *p = e->p;
    size_t operands = 0;
    for (int i = 0; i < p->launch_count; i++)
        operands += (size_t)(p->launches[i].input_count + p->launches[i].output_count);
    e->operands = memory_allocate(operands, sizeof *e->operands);
    e->args = memory_allocate((size_t)p->launch_count, sizeof *e->args);
    tensor *room = e->operands;
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        e->args[i] = bind(e, l, room);
        room += l->input_count + l->output_count;
    }
}

static void make_room_for_largest(executor *e) {
    int most = 1;
    for (int i = 0; i < e->p->launch_count; i++) {
        int count = e->p->launches[i].input_count + e->p->launches[i].output_count;
        most = count > most ? count : most;
    }
    e->operands = memory_allocate((size_t)most, sizeof *e->operands);
    e->memory = memory_allocate((size_t)e->p->buffer_count, sizeof *e->memory);
}

static dyno_status take_arena(executor *e) {
    const plan *p = e->p;
    if (p->arena_bytes == 0)
        return DYNO_OK;
    RETURN_IF_FAILED(memory_pool_allocate_arena(e->pool, p, &e->arena));
    char *base = memory_pool_address(e->pool, e->arena);
    for (int i = 0; i < p->buffer_count; i++)
        if (!p->buffers[i].is_persistent)
            e->address[i] = base + p->buffers[i].offset;
    return DYNO_OK;
}

dyno_status executor_create(const plan *p, memory_pool *pool, storage *shared, executor **out) {
    *out = NULL;
    int before = storage_count(shared);
    RETURN_IF_FAILED(storage_add_plan(shared, p));
    executor *e = memory_allocate(1, sizeof *e);
    e->p = p;
    e->pool = pool;
    e->address = memory_allocate((size_t)p->buffer_count, sizeof *e->address);
    for (int i = 0; i < p->buffer_count; i++)
        if (p->buffers[i].is_persistent)
            e->address[i] = storage_find(shared, p->buffers[i].name);
    dyno_status status = p->generated_count ? generated_load(p, &e->generated) : DYNO_OK;
    if (status == DYNO_OK && is_static(e))
        status = take_arena(e);
    if (status != DYNO_OK) {
        storage_shrink(shared, before);
        executor_destroy(e);
        return status;
    }
    if (is_static(e))
        bind_all(e);
    else
        make_room_for_largest(e);
    *out = e;
    return DYNO_OK;
}

void executor_destroy(executor *e) {
    if (!e)
        return;
    if (e->memory) {
        release_all(e, e->p->launch_count);
    } else if (e->arena) {
        record_death_of_outputs(e, e->p->launch_count);
        memory_pool_release_arena(e->pool, e->arena);
    }
    free(e->address);
    free(e->memory);
    free(e->operands);
    free(e->args);
    generated_destroy(e->generated);
    free(e);
}

static void run_launch(executor *e, int launch) {
    const plan_launch *l = &e->p->launches[launch];
    kernel_args bound, *args = e->args ? &e->args[launch] : &bound;
    if (!e->args)
        bound = bind(e, l, e->operands);
    if (l->generated >= 0)
        generated_run(e->generated, l, args);
    else
        l->kernel->run(args);
}

dyno_status executor_run(executor *e, trace *recorder, step_times *times) {
    const plan *p = e->p;
    bool is_eager = !is_static(e), is_recording = memory_pool_is_recording(e->pool) && e->arena;
    if (is_eager)
        release_all(e, -1); /* outputs of the step before */
    else
        record_death_of_outputs(e, -1);
    step_times spent = {0};
    int64_t begin = clock_now_ns(), mark = begin;
    phase current = p->launch_count ? p->launches[0].phase : PHASE_FORWARD;
    trace_begin_step(recorder);
    for (int i = 0; i < p->launch_count; i++) {
        if (p->launches[i].phase != current) {
            int64_t now = clock_now_ns();
            spent.phase_ns[current] += now - mark;
            mark = now;
            current = p->launches[i].phase;
        }
        trace_begin_launch(recorder, i);
        if (is_eager)
            RETURN_IF_FAILED(allocate_births(e, i));
        else if (is_recording)
            record_births(e, i);
        run_launch(e, i);
        if (is_eager)
            release_deaths(e, i);
        else if (is_recording)
            record_deaths(e, i);
        trace_end_launch(recorder, i);
    }
    trace_end_step(recorder);
    int64_t end = clock_now_ns();
    spent.phase_ns[current] += end - mark;
    spent.total_ns = end - begin;
    e->has_run = true;
    e->has_records = is_recording;
    if (times)
        *times = spent;
    return DYNO_OK;
}

tensor executor_find(const executor *e, const char *name) {
    const plan_operand *operand = plan_find_name(e->p, name);
    if (!operand)
        return (tensor){0};
    tensor t = resolve(e, operand);
    if (is_static(e) && !e->has_run && !e->p->buffers[operand->buffer].is_persistent)
        t.data = NULL;
    return t;
}
