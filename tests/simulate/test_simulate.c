/* test_simulate.c - schedules of small plans, worked out by hand. */
#include "support/expect.h"

#include "simulate/simulate.h"

#include <string.h>

enum { MOST_LAUNCHES = 8, LIST_BYTES = 64 };

static int add_buffer(plan *p, bool is_persistent, int64_t offset) {
    plan_buffer b = {.bytes = LIST_BYTES,
                     .role = is_persistent ? ROLE_PARAMETER : ROLE_GRADIENT,
                     .type = DTYPE_F32,
                     .shape = SHAPE(LIST_BYTES / 4),
                     .born = is_persistent ? -1 : 0,
                     .last_used = MOST_LAUNCHES,
                     .is_persistent = is_persistent,
                     .offset = offset};
    return plan_add_buffer(p, &b);
}

static plan_operand whole(int buffer) {
    plan_operand o = {.buffer = buffer,
                      .layout = {.type = DTYPE_F32, .shape = SHAPE(LIST_BYTES / 4)}};
    o.layout.stride[0] = 1;
    return o;
}

enum { NONE = -1 };

/* A launch that reads one buffer and writes one. */
static void add_launch(plan *p, phase of, int stream, int from, int to) {
    plan_launch *l = plan_add_launch(p, from != NONE, to != NONE);
    l->phase = of;
    l->stream = stream;
    l->workspace = -1;
    if (from != NONE)
        l->inputs[0] = whole(from);
    if (to != NONE)
        l->outputs[0] = whole(to);
}

static void add_transfer(plan *p, int buffer) {
    add_launch(p, PHASE_COMMUNICATION, PLAN_STREAM_COMMUNICATION, buffer, buffer);
}

static plan *create_plan(void) {
    plan *p = plan_create("by hand");
    p->micro_batches = 1;
    return p;
}

static void expect_spans(const simulated_step *step, int count, const double (*spans)[2]) {
    assert_int_equal(step->count, count);
    for (int i = 0; i < count; i++) {
        if (step->schedule[i].begin_ns != spans[i][0] || step->schedule[i].end_ns != spans[i][1])
            fail_msg("launch %d: [%g, %g], not [%g, %g]", i, step->schedule[i].begin_ns,
                     step->schedule[i].end_ns, spans[i][0], spans[i][1]);
    }
}

static simulated_step simulate(const plan *p, const double *launch_ns, simulate_issue issue,
                               simulated_cores cores) {
    simulated_step step;
    simulate_options options = {.launch_ns = launch_ns, .issue = issue, .cores = cores};
    simulate_step(p, &options, &step);
    return step;
}

/* The backward of two layers, an all-reduce behind each, two updates. */
static plan *data_parallel(int stream) {
    plan *p = create_plan();
    int second = add_buffer(p, false, 0), first = add_buffer(p, false, LIST_BYTES);
    add_launch(p, PHASE_BACKWARD, 0, NONE, second);
    add_launch(p, PHASE_COMMUNICATION, stream, second, second);
    add_launch(p, PHASE_BACKWARD, 0, NONE, first);
    add_launch(p, PHASE_COMMUNICATION, stream, first, first);
    add_launch(p, PHASE_OPTIMIZER, 0, second, NONE);
    add_launch(p, PHASE_OPTIMIZER, 0, first, NONE);
    plan_finish(p);
    return p;
}

static const double DATA_PARALLEL_NS[] = {4, 10, 6, 10, 3, 3};
static const simulated_cores OWN_CORES = {0};

static void a_transfer_runs_beside_launches_until_one_needs_its_result(void **state) {
    (void)state;
    plan *p = data_parallel(PLAN_STREAM_COMMUNICATION);
    static const double spans[][2] = {{0, 4}, {4, 14}, {4, 10}, {14, 24}, {14, 17}, {24, 27}};
    for (simulate_issue issue = SIMULATE_HOST; issue <= SIMULATE_STREAMS; issue++) {
        simulated_step step = simulate(p, DATA_PARALLEL_NS, issue, OWN_CORES);
        expect_spans(&step, 6, spans);
        assert_true(step.step_ns == 27 && step.compute_ns == 16 && step.communication_ns == 20);
        assert_true(step.exposed_ns == 11); /* 10 to 14, 17 to 24 */
        simulated_step_release(&step);
    }
    plan_destroy(p);
}

static void a_collective_that_is_not_overlapped_is_waited_for(void **state) {
    (void)state;
    plan *p = data_parallel(0);
    static const double spans[][2] = {{0, 4}, {4, 14}, {14, 20}, {20, 30}, {30, 33}, {33, 36}};
    for (simulate_issue issue = SIMULATE_HOST; issue <= SIMULATE_STREAMS; issue++) {
        simulated_step step = simulate(p, DATA_PARALLEL_NS, issue, OWN_CORES);
        expect_spans(&step, 6, spans);
        assert_true(step.step_ns == 36 && step.exposed_ns == 20);
        simulated_step_release(&step);
    }
    plan_destroy(p);
}

/* Two ranks of one thread on two cores: beside a transfer both sides have half a core, so that the step takes
 * as long as if nothing overlapped. */
static void transfers_take_cores_from_launches(void **state) {
    (void)state;
    plan *p = data_parallel(PLAN_STREAM_COMMUNICATION);
    simulated_cores cores = {.cores = 2, .ranks = 2, .threads = 1};
    static const double spans[][2] = {{0, 4}, {4, 20}, {4, 16}, {20, 33}, {20, 26}, {33, 36}};
    simulated_step step = simulate(p, DATA_PARALLEL_NS, SIMULATE_HOST, cores);
    expect_spans(&step, 6, spans);
    assert_true(step.step_ns == 36 && step.exposed_ns == 11);
    simulated_step_release(&step);
    plan_destroy(p);
}

/* Four ranks on two cores: launches alone have half a core each, a quarter beside transfers. Transfers were
 * timed with four ranks on two cores, so that they go at full speed alone. */
static void more_ranks_than_cores_take_turns(void **state) {
    (void)state;
    plan *p = data_parallel(PLAN_STREAM_COMMUNICATION);
    simulated_cores cores = {.cores = 2, .ranks = 4, .threads = 1};
    static const double spans[][2] = {{0, 8}, {8, 28}, {8, 30}, {30, 46}, {30, 42}, {46, 52}};
    simulated_step step = simulate(p, DATA_PARALLEL_NS, SIMULATE_HOST, cores);
    expect_spans(&step, 6, spans);
    assert_true(step.step_ns == 52 && step.exposed_ns == 4);
    simulated_step_release(&step);
    plan_destroy(p);
}

static void a_rank_alone_on_its_cores_is_as_fast_as_it_was_timed(void **state) {
    (void)state;
    plan *p = data_parallel(0);
    static const double launch_ns[] = {4, 0, 6, 0, 3, 3};
    simulated_cores cores = {.cores = 2, .ranks = 1, .threads = 2};
    simulated_step step = simulate(p, launch_ns, SIMULATE_HOST, cores);
    assert_true(step.step_ns == 16 && step.exposed_ns == 0);
    simulated_step_release(&step);
    plan_destroy(p);
}

/* Something else is computed, a weight is gathered, and used. */
static plan *gather_ahead(int64_t gathered_at) {
    plan *p = create_plan();
    p->memory_mode = PLAN_MEMORY_STATIC;
    p->arena_bytes = 4 * LIST_BYTES;
    int before = add_buffer(p, false, 0), part = add_buffer(p, true, 0);
    int gathered = add_buffer(p, false, gathered_at);
    int result = add_buffer(p, false, 2 * LIST_BYTES);
    add_launch(p, PHASE_FORWARD, 0, before, result);
    add_launch(p, PHASE_COMMUNICATION, PLAN_STREAM_COMMUNICATION, part, gathered);
    add_launch(p, PHASE_FORWARD, 0, gathered, result);
    plan_finish(p);
    return p;
}

static const double GATHER_NS[] = {5, 4, 5};

static void a_stream_starts_a_transfer_as_soon_as_nothing_is_in_its_way(void **state) {
    (void)state;
    static const double apart[][2] = {{0, 5}, {0, 4}, {5, 10}};
    static const double behind[][2] = {{0, 5}, {5, 9}, {9, 14}};
    plan *p = gather_ahead(LIST_BYTES);
    simulated_step step = simulate(p, GATHER_NS, SIMULATE_STREAMS, OWN_CORES);
    expect_spans(&step, 3, apart);
    assert_true(step.exposed_ns == 0);
    simulated_step_release(&step);
    step = simulate(p, GATHER_NS, SIMULATE_HOST, OWN_CORES); /* begins when the host comes to it */
    expect_spans(&step, 3, behind);
    simulated_step_release(&step);
    plan_destroy(p);

    p = gather_ahead(0); /* in the memory of what the first launch reads */
    step = simulate(p, GATHER_NS, SIMULATE_STREAMS, OWN_CORES);
    expect_spans(&step, 3, behind);
    assert_true(step.exposed_ns == 4);
    simulated_step_release(&step);
    plan_destroy(p);
}

static void a_micro_batch_ends_with_its_transfers(void **state) {
    (void)state;
    plan *p = create_plan();
    int gradient = add_buffer(p, false, 0);
    add_launch(p, PHASE_BACKWARD, 0, NONE, gradient);
    add_transfer(p, gradient);
    add_launch(p, PHASE_OPTIMIZER, 0, gradient, NONE);
    p->micro_batches = 2;
    p->repeated_launches = 2;
    plan_finish(p);
    static const double launch_ns[] = {4, 10, 3};
    static const double spans[][2] = {{0, 4}, {4, 14}, {14, 18}, {18, 28}, {28, 31}};
    for (simulate_issue issue = SIMULATE_HOST; issue <= SIMULATE_STREAMS; issue++) {
        simulated_step step = simulate(p, launch_ns, issue, OWN_CORES);
        expect_spans(&step, 5, spans);
        assert_int_equal(step.schedule[2].repetition, 1);
        assert_true(step.compute_ns == 11 && step.communication_ns == 20 && step.exposed_ns == 20);
        simulated_step_release(&step);
    }
    plan_destroy(p);
}

static void a_launch_that_runs_once_is_replayed_once(void **state) {
    (void)state;
    plan *p = create_plan();
    int gradient = add_buffer(p, false, 0);
    add_launch(p, PHASE_BACKWARD, 0, NONE, gradient);
    add_transfer(p, gradient);
    p->launches[1].runs_once = true;
    p->micro_batches = 3;
    p->repeated_launches = 2;
    plan_finish(p);
    static const double launch_ns[] = {4, 10};
    simulated_step step = simulate(p, launch_ns, SIMULATE_HOST, OWN_CORES);
    assert_true(step.step_ns == 22 && step.count == 4);
    simulated_step_release(&step);
    plan_destroy(p);
}

static void a_plan_without_launches_takes_no_time(void **state) {
    (void)state;
    plan *p = create_plan();
    plan_finish(p);
    for (simulate_issue issue = SIMULATE_HOST; issue <= SIMULATE_STREAMS; issue++) {
        simulated_step step = simulate(p, NULL, issue, OWN_CORES);
        assert_true(step.step_ns == 0 && step.count == 0);
        simulated_step_release(&step);
    }
    plan_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transfer_runs_beside_launches_until_one_needs_its_result),
        cmocka_unit_test(a_collective_that_is_not_overlapped_is_waited_for),
        cmocka_unit_test(transfers_take_cores_from_launches),
        cmocka_unit_test(more_ranks_than_cores_take_turns),
        cmocka_unit_test(a_rank_alone_on_its_cores_is_as_fast_as_it_was_timed),
        cmocka_unit_test(a_stream_starts_a_transfer_as_soon_as_nothing_is_in_its_way),
        cmocka_unit_test(a_micro_batch_ends_with_its_transfers),
        cmocka_unit_test(a_launch_that_runs_once_is_replayed_once),
        cmocka_unit_test(a_plan_without_launches_takes_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
