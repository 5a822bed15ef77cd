#include "runtime/executor.h"

#include <stdlib.h>

#include "base/memory.h"
#include "ops/kernel.h"

struct executor {
    const plan *p;
    memory_pool *pool;
    void **address; /* by buffer; NULL while it has no memory */
    block **memory; /* by transient buffer */
    tensor *operands; /* room for the operands of the largest launch */
};

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

dyno_status executor_create(const plan *p, memory_pool *pool, storage *shared, executor **out) {
    *out = NULL;
    RETURN_IF_FAILED(storage_add_plan(shared, p));
    executor *e = memory_allocate(1, sizeof *e);
    e->p = p;
    e->pool = pool;
    e->address = memory_allocate((size_t)p->buffer_count, sizeof *e->address);
    e->memory = memory_allocate((size_t)p->buffer_count, sizeof *e->memory);
    int most = 1;
    for (int i = 0; i < p->launch_count; i++) {
        int count = p->launches[i].input_count + p->launches[i].output_count;
        most = count > most ? count : most;
    }
    e->operands = memory_allocate((size_t)most, sizeof *e->operands);
    for (int i = 0; i < p->buffer_count; i++)
        if (p->buffers[i].is_persistent)
            e->address[i] = storage_find(shared, p->buffers[i].name);
    *out = e;
    return DYNO_OK;
}

void executor_destroy(executor *e) {
    if (!e)
        return;
    release_all(e, e->p->launch_count);
    free(e->address);
    free(e->memory);
    free(e->operands);
    free(e);
}

static tensor resolve(const executor *e, const plan_operand *operand) {
    tensor t = operand->layout;
    char *base = e->address[operand->buffer];
    t.data = base ? base + operand->offset : NULL;
    return t;
}

static void run_launch(executor *e, const plan_launch *l) {
    tensor *inputs = e->operands, *outputs = e->operands + l->input_count;
    for (int i = 0; i < l->input_count; i++)
        inputs[i] = resolve(e, &l->inputs[i]);
    for (int i = 0; i < l->output_count; i++)
        outputs[i] = resolve(e, &l->outputs[i]);
    kernel_args args = {.input_count = l->input_count,
                        .output_count = l->output_count,
                        .inputs = inputs,
                        .outputs = outputs,
                        .attributes = &l->attributes,
                        .workspace = l->workspace < 0 ? NULL : e->address[l->workspace]};
    l->kernel->run(&args);
}

static dyno_status allocate_births(executor *e, int launch) {
    const plan *p = e->p;
    for (int i = p->birth_start[launch]; i < p->birth_start[launch + 1]; i++) {
        int buffer = p->births[i];
        RETURN_IF_FAILED(memory_pool_allocate(e->pool, p, &p->buffers[buffer], launch,
                                              &e->memory[buffer]));
        e->address[buffer] = memory_pool_address(e->pool, e->memory[buffer]);
    }
    return DYNO_OK;
}

dyno_status executor_run(executor *e, trace *recorder, step_times *times) {
    const plan *p = e->p;
    release_all(e, -1); /* outputs of the step before */
    step_times spent = {0};
    int64_t begin = clock_now_ns(), mark = begin;
    phase current = p->launch_count ? p->launches[0].phase : PHASE_FORWARD;
    trace_begin_step(recorder);
    for (int i = 0; i < p->launch_count; i++) {
        const plan_launch *l = &p->launches[i];
        if (l->phase != current) {
            int64_t now = clock_now_ns();
            spent.phase_ns[current] += now - mark;
            mark = now;
            current = l->phase;
        }
        trace_begin_launch(recorder, i);
        dyno_status status = allocate_births(e, i);
        if (status != DYNO_OK) {
            release_all(e, i);
            return status;
        }
        run_launch(e, l);
        for (int j = p->death_start[i]; j < p->death_start[i + 1]; j++)
            release(e, p->deaths[j], i);
        trace_end_launch(recorder, i);
    }
    trace_end_step(recorder);
    int64_t end = clock_now_ns();
    spent.phase_ns[current] += end - mark;
    spent.total_ns = end - begin;
    if (times)
        *times = spent;
    return DYNO_OK;
}

tensor executor_find(const executor *e, const char *name) {
    const plan_operand *operand = plan_find_name(e->p, name);
    return operand ? resolve(e, operand) : (tensor){0};
}
