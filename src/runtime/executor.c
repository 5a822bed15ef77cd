/* executor.c - one loop over the launches for both memory modes, on any device.
 *
 * What differs is when a buffer gets its address: eager plans ask the pool at each launch and fill
 * in the operands then; static plans know all addresses beforehand, so that the arguments of every
 * launch are bound once and a step only calls kernels. A device that can capture launches does so
 * in the first step that is not traced, and replays them from then on.
 *
 * Time is measured by events of the device: around every launch in a traced step, else between runs
 * of consecutive launches of one phase. */
#include "runtime/executor.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/stop.h"
#include "ops/kernel.h"
#include "runtime/step_memory.h"
#include "runtime/step_order.h"
#include "runtime/transfers.h"

/* In a replayed step an event takes as long as a small kernel. Phases that alternate more often
 * than this (updates inside the backward, gathers inside the forward) are not timed separately there. */
enum { MOST_REPLAYED_CHANGES = 7, MOST_REPLAYED_RUNS = 16 };

struct executor {
    const plan *p;
    device *d;
    program *code;
    step_memory memory;
    step_order order;
    transfers *transfers; /* NULL: the plan has no collectives */
    tensor *operands;     /* eager: room for those of the largest launch; static: of all launches */
    /* Static, by position of the order: arguments, which share operands wherever these do not move
     * from one micro-batch to the next. */
    kernel_args *args;
    device_launch *steps;
    launch_context *contexts; /* by position */
    bool is_captured;
    bool is_connected; /* collectives have run: their library has made its connections */
    bool has_run;      /* static: what is in the arena was computed */

    /* The step under way. */
    bool is_running;
    bool was_replayed;
    launch_log *recorder;
    int64_t first_record; /* of this step, in the recorder */
    int64_t begin_ns, enqueued_ns;

    bool is_observed;
    launch_log observed;  /* only the steps; the device has the records */
    scope_ranges *ranges; /* NULL: none are emitted */
};

static bool is_static(const executor *e) { return e->p->memory_mode == PLAN_MEMORY_STATIC; }

/* ---- arguments ---- */

static tensor resolve(const executor *e, const plan_operand *operand, int repetition) {
    tensor t = operand->layout;
    char *base = e->memory.address[operand->buffer];
    t.data = base ? base + operand->offset + repetition * operand->repeat_bytes : NULL;
    return t;
}

/* Binds a launch's operands into `room`, which the arguments point to. */
static kernel_args bind(const executor *e, int position, tensor *room) {
    const step_position *at = &e->order.at[position];
    const plan_launch *l = &e->p->launches[at->launch];
    tensor *outputs = room + l->input_count;
    for (int i = 0; i < l->input_count; i++)
        room[i] = resolve(e, &l->inputs[i], at->repetition);
    for (int i = 0; i < l->output_count; i++)
        outputs[i] = resolve(e, &l->outputs[i], at->repetition);
    return (kernel_args){.input_count = l->input_count,
                         .output_count = l->output_count,
                         .inputs = room,
                         .outputs = outputs,
                         .attributes = &l->attributes,
                         .variant = l->variant,
                         .target = &e->p->target,
                         .workspace = l->workspace < 0 ? NULL : e->memory.address[l->workspace],
                         .context = &e->contexts[position]};
}

static int operand_count(const plan_launch *l) { return l->input_count + l->output_count; }

static bool moves(const plan_launch *l) {
    for (int i = 0; i < l->input_count; i++)
        if (l->inputs[i].repeat_bytes)
            return true;
    return false;
}

/* Positions of later micro-batches share the operands of the first, unless one of them moves. */
static bool has_own_operands(const executor *e, int position) {
    int launch = e->order.at[position].launch;
    return e->order.first_of[launch] == position || moves(&e->p->launches[launch]);
}

static void bind_all(executor *e) {
    const plan *p = e->p;
    size_t operands = 0, positions = (size_t)e->order.count;
    for (int i = 0; i < e->order.count; i++)
        if (has_own_operands(e, i))
            operands += (size_t)operand_count(&p->launches[e->order.at[i].launch]);
    e->operands = memory_allocate(operands, sizeof *e->operands);
    e->args = memory_allocate(positions, sizeof *e->args);
    e->steps = memory_allocate(positions, sizeof *e->steps);
    tensor *room = e->operands;
    for (int i = 0; i < e->order.count; i++) {
        int launch = e->order.at[i].launch;
        if (has_own_operands(e, i)) {
            e->args[i] = bind(e, i, room);
            room += operand_count(&p->launches[launch]);
        } else {
            e->args[i] = e->args[e->order.first_of[launch]];
            e->args[i].context = &e->contexts[i];
        }
        e->steps[i] = (device_launch){launch, &e->args[i]};
    }
}

/* A device that captures has streams, on which collectives are enqueued like any launch. */
static void make_contexts(executor *e) {
    bool has_streams = e->d->functions->capture;
    e->contexts = memory_allocate((size_t)e->order.count, sizeof *e->contexts);
    for (int i = 0; i < e->order.count; i++)
        e->contexts[i] = (launch_context){
            .begins_step = i == 0,
            .repetition = e->order.at[i].repetition,
            .repetitions = e->p->micro_batches,
            .handle = has_streams ? NULL : transfers_handle(e->transfers, e->order.at[i].launch)};
}

void executor_set_communicator(executor *e, communicator *c) {
    transfers_set_communicator(e->transfers, c);
    for (int i = 0; i < e->order.count; i++)
        e->contexts[i].communicator = c;
}

static void make_room_for_largest(executor *e) {
    int most = 1;
    for (int i = 0; i < e->p->launch_count; i++) {
        int count = operand_count(&e->p->launches[i]);
        most = count > most ? count : most;
    }
    e->operands = memory_allocate((size_t)most, sizeof *e->operands);
}

static dyno_status check_target(const plan *p, const device *d) {
    if (p->target.kind == d->target.kind)
        return target_is_cuda(&p->target) ? DYNO_OK : target_check_is_runnable(&p->target);
    return dyno_fail(DYNO_INVALID, "'%s' is planned for %s and cannot run on device %s", p->name,
                     target_kind_name(p->target.kind), d->name);
}

dyno_status executor_create(const plan *p, memory_pool *pool, storage *shared, executor **out) {
    *out = NULL;
    device *d = memory_pool_device(pool);
    RETURN_IF_FAILED(check_target(p, d));
    int before = storage_count(shared);
    RETURN_IF_FAILED(storage_add_plan(shared, p));
    executor *e = memory_allocate(1, sizeof *e);
    e->p = p;
    e->d = d;
    dyno_status status = d->functions->program_create(d, p, &e->code);
    if (status == DYNO_OK)
        status = step_memory_create(p, pool, shared, &e->memory);
    if (status != DYNO_OK) {
        storage_shrink(shared, before);
        executor_destroy(e);
        return status;
    }
    e->order = step_order_create(p);
    e->transfers = transfers_create(p);
    make_contexts(e);
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
    if (e->is_running && executor_finish(e, NULL) != DYNO_OK) {
        /* The caller did not ask for the result of that step. */
    }
    step_memory_destroy(&e->memory);
    if (e->code)
        e->d->functions->program_destroy(e->code);
    launch_log_release(&e->observed);
    scope_ranges_destroy(e->ranges);
    step_order_release(&e->order);
    transfers_destroy(e->transfers);
    free(e->contexts);
    free(e->steps);
    free(e->operands);
    free(e->args);
    free(e);
}

/* ---- a step ---- */

/* In a traced step the events around position i are 2i and 2i + 1; in any other event 0 is the
 * beginning and event j + 1 the end of run j. */
static int begin_of(int position) { return 2 * position; }
static int end_of(int position) { return 2 * position + 1; }

/* How many runs have an event at their end in a replayed step: all, or where there are too many those before the
 * first change of phase; none if that phase comes back, since they would be a part of it alone. */
static int replayed_events(const executor *e) {
    const step_order *order = &e->order;
    if (order->phase_changes <= MOST_REPLAYED_CHANGES && order->run_count <= MOST_REPLAYED_RUNS)
        return order->run_count;
    int timed = 1;
    while (timed < MOST_REPLAYED_RUNS && order->runs[timed].phase == order->runs[0].phase)
        timed++;
    for (int i = timed; i < order->run_count; i++)
        if (order->runs[i].phase == order->runs[0].phase)
            return 0;
    return timed;
}

static dyno_status capture(executor *e) {
    int events = replayed_events(e), last[MOST_REPLAYED_RUNS] = {0};
    for (int i = 0; i < events; i++)
        last[i] = e->order.runs[i].last;
    RETURN_IF_FAILED(e->d->functions->capture(e->code, e->steps, e->order.count, last, events));
    e->is_captured = true;
    return DYNO_OK;
}

static dyno_status run_launch(executor *e, int position) {
    int launch = e->order.at[position].launch;
    int64_t begin_ns = e->recorder ? clock_now_ns() : 0;
    kernel_args bound, *args = e->args ? &e->args[position] : &bound;
    if (!e->args)
        bound = bind(e, position, e->operands);
    RETURN_IF_FAILED(e->d->functions->launch(e->code, launch, args));
    if (e->recorder)
        launch_log_add(e->recorder, &(launch_record){.step = e->recorder->step_count,
                                                     .launch = launch,
                                                     .stream = e->p->launches[launch].stream,
                                                     .host_begin_ns = begin_ns,
                                                     .host_end_ns = clock_now_ns()});
    return DYNO_OK;
}

/* With the collectives that it has to wait for. Time counts where one is not overlapped. */
static dyno_status run_position(executor *e, int position) {
    int launch = e->order.at[position].launch;
    if (!e->transfers)
        return run_launch(e, position);
    RETURN_IF_FAILED(transfers_wait_for(e->transfers, launch));
    int64_t begin = clock_now_ns();
    RETURN_IF_FAILED(run_launch(e, position));
    transfers_note(e->transfers, launch, clock_now_ns() - begin);
    return DYNO_OK;
}

/* Before the next micro-batch, and at the end. */
static dyno_status end_repetition(executor *e, int position) {
    RETURN_IF_FAILED(transfers_wait_for_all(e->transfers));
    if (position + 1 < e->order.count) /* what the step ends with stays */
        step_memory_release_all(&e->memory, e->order.at[position].launch);
    return DYNO_OK;
}

static dyno_status run_launches(executor *e) {
    void (*record_event)(device *, int) = e->d->functions->record_event;
    const launch_log *recorder = e->recorder;
    int ends = 0; /* of runs, so far */
    if (!recorder)
        record_event(e->d, 0);
    for (int i = 0; i < e->order.count; i++) {
        int launch = e->order.at[i].launch;
        if (recorder)
            record_event(e->d, begin_of(i));
        scope_ranges_enter(e->ranges, launch);
        RETURN_IF_FAILED(step_memory_begin_launch(&e->memory, launch));
        RETURN_IF_FAILED(run_position(e, i));
        RETURN_IF_FAILED(stop_check("running a step")); /* the launch may be cut short then */
        step_memory_end_launch(&e->memory, launch);
        if (i + 1 == e->order.count || step_order_ends_repetition(&e->order, i))
            RETURN_IF_FAILED(end_repetition(e, i));
        if (recorder)
            record_event(e->d, end_of(i));
        else if (i == e->order.runs[ends].last)
            record_event(e->d, ++ends);
    }
    step_memory_end_step(&e->memory);
    return DYNO_OK;
}

/* Those of a step that failed. */
static void forget_records(executor *e) {
    if (e->recorder)
        e->recorder->count = e->first_record;
    e->recorder = NULL;
}

/* Captures the launches where that is to be done, and replays them, or runs one after the other. Ranks
 * first run them, because collectives make connections where they are first used, which a capture may
 * not contain. */
static dyno_status enqueue_step(executor *e) {
    e->begin_ns = clock_now_ns();
    bool is_replayable = is_static(e) && !e->recorder &&
                         !memory_pool_is_recording(e->memory.pool) && e->d->functions->capture &&
                         e->p->launch_count > 0;
    e->was_replayed = is_replayable && (!e->transfers || e->is_connected);
    e->has_run = false;
    if (e->was_replayed && !e->is_captured)
        RETURN_IF_FAILED(capture(e));
    if (e->was_replayed)
        return e->d->functions->replay(e->code);
    dyno_status status = run_launches(e);
    if (status != DYNO_OK) { /* nothing may still use memory that was released */
        forget_records(e);
        dyno_status before = e->d->functions->finish(e->d);
        return before != DYNO_OK ? before : status;
    }
    e->is_connected = true;
    return is_replayable ? capture(e) : DYNO_OK; /* now, so that no later step takes longer */
}

dyno_status executor_start(executor *e, launch_log *recorder) {
    if (e->is_running)
        RETURN_IF_FAILED(executor_finish(e, NULL));
    step_memory_begin_step(&e->memory);
    e->recorder = recorder;
    e->first_record = recorder ? recorder->count : 0;
    if (recorder)
        launch_log_reserve(recorder, e->order.count);
    scope_ranges_begin_step(e->ranges);
    dyno_status status = enqueue_step(e);
    scope_ranges_end_launches(e->ranges);
    if (status != DYNO_OK) {
        scope_ranges_end_step(e->ranges);
        return status;
    }
    e->enqueued_ns = clock_now_ns();
    e->is_running = true;
    e->has_run = true;
    return DYNO_OK;
}

/* From the beginning of run i to that of the next one, or to its own end where there is none. */
static int64_t phase_run_ns(const executor *e, int i) {
    bool is_last = i == e->order.run_count - 1;
    if (!e->recorder)
        return e->d->functions->elapsed_ns(e->d, i, i + 1);
    int end = is_last ? end_of(e->order.runs[i].last) : begin_of(e->order.runs[i + 1].first);
    return e->d->functions->elapsed_ns(e->d, begin_of(e->order.runs[i].first), end);
}

/* Time that no event covers (the host before the first launch and after the last) is attributed to
 * the phase that ends the step. */
static step_times read_times(const executor *e, int64_t total_ns) {
    step_times times = {.total_ns = total_ns};
    int64_t rest = total_ns;
    int timed = e->was_replayed ? replayed_events(e) : e->order.run_count;
    for (int i = 0; i < timed; i++) {
        const phase_run *run = &e->order.runs[i];
        int64_t ns = phase_run_ns(e, i), backward_ns = 0;
        if (run->backward_flops > 0)
            backward_ns = (int64_t)((double)ns * (run->backward_flops / run->flops));
        times.phase_ns[PHASE_BACKWARD] += backward_ns;
        times.phase_ns[run->phase] += ns - backward_ns;
        rest -= ns;
    }
    if (timed < e->order.run_count) {
        int64_t first_ns = times.phase_ns[e->order.runs[0].phase];
        times = (step_times){.total_ns = total_ns, .together_ns = total_ns - first_ns};
        times.phase_ns[e->order.runs[0].phase] = first_ns;
    } else {
        times.phase_ns[timed ? e->order.runs[timed - 1].phase : PHASE_FORWARD] += rest;
    }
    if (timed == e->order.run_count)
        times.outside_ns = rest;
    return times;
}

/* The device's times of the step's launches, as if the first began with the step. */
static void fill_records(const executor *e) {
    for (int i = 0; i < e->order.count; i++) {
        launch_record *r = &e->recorder->records[e->first_record + i];
        r->begin_ns = e->begin_ns + e->d->functions->elapsed_ns(e->d, begin_of(0), begin_of(i));
        r->end_ns = e->begin_ns + e->d->functions->elapsed_ns(e->d, begin_of(0), end_of(i));
    }
}

dyno_status executor_finish(executor *e, step_times *times) {
    if (times)
        *times = (step_times){0};
    if (!e->is_running)
        return DYNO_OK;
    e->is_running = false;
    dyno_status status = e->d->functions->finish(e->d);
    int64_t total_ns = clock_now_ns() - e->begin_ns;
    scope_ranges_end_step(e->ranges);
    if (status != DYNO_OK) {
        e->has_run = false;
        forget_records(e);
        step_memory_release_all(&e->memory, e->p->launch_count);
        return status;
    }
    if (times) {
        *times = read_times(e, total_ns);
        transfers_take_times(e->transfers, &times->exposed_ns, &times->communication_ns);
        times->enqueue_ns = e->enqueued_ns - e->begin_ns;
    }
    if (e->recorder)
        fill_records(e);
    launch_log *steps = e->recorder ? e->recorder : e->is_observed ? &e->observed : NULL;
    if (steps)
        launch_log_add_step(steps,
                            (logged_step){e->begin_ns, e->enqueued_ns, e->begin_ns + total_ns});
    return DYNO_OK;
}

dyno_status executor_run(executor *e, launch_log *recorder, step_times *times) {
    RETURN_IF_FAILED(executor_start(e, recorder));
    return executor_finish(e, times);
}

/* ---- inspected steps ---- */

static dyno_status inspect_launch(executor *e, int position, executor_look *look, void *context,
                                  bool *goes_on) {
    int launch = e->order.at[position].launch;
    const plan_launch *l = &e->p->launches[launch];
    RETURN_IF_FAILED(run_position(e, position));
    RETURN_IF_FAILED(transfers_wait_for_all(e->transfers));
    RETURN_IF_FAILED(e->d->functions->finish(e->d));
    *goes_on =
        look(context, launch, e->args ? e->args[position].outputs : e->operands + l->input_count);
    return DYNO_OK;
}

dyno_status executor_inspect(executor *e, executor_look *look, void *context) {
    RETURN_IF_FAILED(executor_finish(e, NULL));
    bool goes_on = true;
    dyno_status status = DYNO_OK;
    e->recorder = NULL;
    step_memory_begin_step(&e->memory);
    e->has_run = false;
    for (int i = 0; i < e->order.count && goes_on && status == DYNO_OK; i++) {
        int launch = e->order.at[i].launch;
        status = step_memory_begin_launch(&e->memory, launch);
        if (status == DYNO_OK)
            status = inspect_launch(e, i, look, context, &goes_on);
        step_memory_end_launch(&e->memory, launch);
        if (step_order_ends_repetition(&e->order, i))
            step_memory_release_all(&e->memory, launch);
    }
    if (goes_on && status == DYNO_OK)
        step_memory_end_step(&e->memory);
    step_memory_release_all(&e->memory, e->p->launch_count);
    return status;
}

/* ---- observed steps ---- */

dyno_status executor_observe_begin(executor *e) {
    RETURN_IF_FAILED(executor_finish(e, NULL));
    if (!e->d->functions->observe_begin)
        return dyno_fail(DYNO_UNSUPPORTED, "%s has no activity records", e->d->name);
    if (is_static(e) && e->transfers && !e->is_connected) /* observed steps are all replayed */
        RETURN_IF_FAILED(executor_run(e, NULL, NULL));
    RETURN_IF_FAILED(e->d->functions->observe_begin(e->code));
    e->is_observed = true;
    e->is_captured = false; /* captured anew, so that each graph node is attributed to its launch */
    return DYNO_OK;
}

dyno_status executor_observe_end(executor *e, launch_log *out) {
    *out = (launch_log){0};
    dyno_status finished = executor_finish(e, NULL);
    if (finished == DYNO_OK) /* what was enqueued besides steps */
        finished = e->d->functions->finish(e->d);
    e->is_captured = false; /* captured anew, without observation */
    e->is_observed = false;
    dyno_status status = e->d->functions->observe_end(e->code, out);
    for (int i = 0; i < e->observed.step_count; i++)
        launch_log_add_step(out, e->observed.steps[i]);
    launch_log_release(&e->observed);
    if (finished == DYNO_OK)
        return status;
    launch_log_release(out);
    return finished;
}

void executor_emit_ranges(executor *e, const range_listener *to) {
    assert(!e->is_running);
    scope_ranges_destroy(e->ranges);
    e->ranges = to ? scope_ranges_create(to, e->p) : NULL;
}

/* ---- access to values ---- */

tensor executor_find(const executor *e, const char *name) {
    const plan_operand *operand = plan_find_name(e->p, name);
    if (!operand)
        return (tensor){0};
    tensor t = resolve(e, operand, 0);
    if (is_static(e) && !e->has_run && !e->p->buffers[operand->buffer].is_persistent)
        t.data = NULL;
    return t;
}

static dyno_status check_access(const executor *e, const char *name, int64_t bytes, tensor *t) {
    *t = executor_find(e, name);
    if (!t->data)
        return dyno_fail(DYNO_NOT_FOUND, "plan '%s' has no value '%s', or did not compute it",
                         e->p->name, name);
    if (!tensor_is_contiguous(t) || tensor_bytes(t) != bytes)
        return dyno_fail(
            DYNO_INVALID, "'%s' is %lld bytes%s, not %lld", name, (long long)tensor_bytes(t),
            tensor_is_contiguous(t) ? "" : " with gaps between them", (long long)bytes);
    return DYNO_OK;
}

dyno_status executor_read(const executor *e, const char *name, void *to, int64_t bytes) {
    tensor t;
    RETURN_IF_FAILED(check_access(e, name, bytes, &t));
    e->d->functions->read(e->d, to, t.data, bytes);
    /* A failure of the step under way is reported by its executor_finish. */
    return e->is_running ? DYNO_OK : e->d->functions->finish(e->d);
}

dyno_status executor_write(executor *e, const char *name, const void *from, int64_t bytes) {
    tensor t;
    RETURN_IF_FAILED(check_access(e, name, bytes, &t));
    e->d->functions->write(e->d, t.data, from, bytes);
    return DYNO_OK;
}

void *executor_place(executor *e, const char *name) {
    tensor t = executor_find(e, name);
    return !t.data || device_is_host(e->d) ? t.data : memory_try_allocate((size_t)tensor_bytes(&t));
}

void executor_put(executor *e, const char *name, void *room) {
    if (device_is_host(e->d))
        return;
    tensor t = executor_find(e, name);
    e->d->functions->write(e->d, t.data, room, tensor_bytes(&t));
    free(room);
}

device *executor_device(const executor *e) { return e->d; }
