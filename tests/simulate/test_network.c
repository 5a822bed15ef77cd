/* test_network.c - times of collectives, worked out by hand. */
#include "support/expect.h"

#include "simulate/network.h"

#include <math.h>

static void expect_ns(double found, double expected) {
    if (fabs(found - expected) > 1e-9 * fabs(expected))
        fail_msg("%.12g, not %.12g", found, expected);
}

/* 100 bytes a ns inside a node of 8, 10 across, 2 ns a hop. */
static const network FAST = {.inside = 1e11, .across = 1e10, .per_node = 8, .latency_ns = 2};

static void a_ring_sends_its_bytes_and_a_tree_has_its_latency(void **state) {
    (void)state;
    /* 2 x 3/4 x 400 bytes at 100, 2 x 2 hops */
    expect_ns(network_collective_ns(&FAST, COLLECTIVE_ALL_REDUCE, 400, 4), 6 + 8);
    expect_ns(network_collective_ns(&FAST, COLLECTIVE_REDUCE_SCATTER, 400, 4), 3 + 4);
    expect_ns(network_collective_ns(&FAST, COLLECTIVE_ALL_GATHER, 400, 4), 3 + 4);
    /* 2 x 15/16 x 1600 bytes at 8 links x 10, 2 x 4 hops */
    expect_ns(network_collective_ns(&FAST, COLLECTIVE_ALL_REDUCE, 1600, 16), 37.5 + 16);
    /* 9 ranks: the fourth hop is begun */
    expect_ns(network_collective_ns(&FAST, COLLECTIVE_ALL_GATHER, 0, 9), 8);
}

static void one_rank_sends_nothing(void **state) {
    (void)state;
    assert_true(network_collective_ns(&FAST, COLLECTIVE_ALL_REDUCE, 1e9, 1) == 0);
}

static void links_between_nodes_are_no_faster_than_those_inside(void **state) {
    (void)state;
    network n = {.inside = 5, .across = 50, .per_node = 8};
    assert_true(network_bandwidth(&n, 8) == 5 && network_bandwidth(&n, 9) == 5);
    assert_true(network_bandwidth(&FAST, 8) == 1e11 && network_bandwidth(&FAST, 9) == 8e10);
}

static void ranks_of_other_groups_have_fewer_links_of_a_node(void **state) {
    (void)state;
    network pairs = network_between_groups(&FAST, 2), nodes = network_between_groups(&FAST, 8);
    network wide = network_between_groups(&FAST, 16);
    assert_true(network_bandwidth(&pairs, 4) == 1e11 && network_bandwidth(&pairs, 5) == 4e10);
    assert_true(network_bandwidth(&nodes, 1) == 1e11 && network_bandwidth(&nodes, 2) == 1e10);
    assert_true(network_bandwidth(&wide, 2) == 1e10);
}

static void measured_times_are_interpolated(void **state) {
    (void)state;
    network n = FAST;
    network_curve two = {.op = COLLECTIVE_ALL_REDUCE, .ranks = 2};
    network_add_point(&n, &two, 3000, 70); /* in any order */
    network_add_point(&n, &two, 1000, 50);
    network_add_point(&n, &two, 1000, 30); /* the shorter counts */
    network_add_point(&n, &two, 1000, 40);
    expect_ns(network_collective_ns(&n, COLLECTIVE_ALL_REDUCE, 10, 2), 30);
    expect_ns(network_collective_ns(&n, COLLECTIVE_ALL_REDUCE, 1000, 2), 30);
    expect_ns(network_collective_ns(&n, COLLECTIVE_ALL_REDUCE, 2000, 2), 50);
    expect_ns(network_collective_ns(&n, COLLECTIVE_ALL_REDUCE, 6000, 2), 140);
    /* Half of the bytes on the wire, half of the time. */
    expect_ns(network_collective_ns(&n, COLLECTIVE_ALL_GATHER, 2000, 2), 25);
    /* Four ranks were not timed. */
    expect_ns(network_collective_ns(&n, COLLECTIVE_ALL_REDUCE, 400, 4), 14);
    network_release(&n);
}

static plan_operand list(int buffer, int64_t offset, int64_t elements) {
    plan_operand o = {.buffer = buffer,
                      .offset = offset,
                      .layout = {.type = DTYPE_F32, .shape = SHAPE(elements)}};
    o.layout.stride[0] = 1;
    return o;
}

static plan_launch *add_collective(plan *p, const char *op, int inputs, int outputs,
                                   attribute *ranks) {
    plan_launch *l = plan_add_launch(p, inputs, outputs);
    l->op_name = op;
    l->attributes = (attributes){1, ranks};
    return l;
}

static void operands_that_are_copied_have_their_own_times(void **state) {
    (void)state;
    network n = FAST;
    network_curve shared = {.op = COLLECTIVE_ALL_REDUCE, .ranks = 2};
    network_curve copied = {.op = COLLECTIVE_ALL_REDUCE, .ranks = 2, .is_private = true};
    network_add_point(&n, &shared, 400, 10);
    network_add_point(&n, &copied, 400, 20);
    plan *p = plan_create("by hand");
    plan_add_buffer(p, &(plan_buffer){.role = ROLE_GRADIENT, .is_persistent = true});
    plan_add_buffer(p, &(plan_buffer){.role = ROLE_GRADIENT});
    attribute ranks = ATTR_INTEGER("ranks", 2);
    for (int buffer = 0; buffer < 2; buffer++)
        add_collective(p, "all_reduce", 0, 1, &ranks)->outputs[0] = list(buffer, 0, 100);
    expect_ns(network_launch_ns(&n, p, 0, 1), 10);
    expect_ns(network_launch_ns(&n, p, 1, 1), 20);
    plan_destroy(p);
    network_release(&n);
}

static void operands_one_behind_the_other_are_one_collective(void **state) {
    (void)state;
    plan *p = plan_create("by hand");
    attribute ranks = ATTR_INTEGER("ranks", 4);
    plan_launch *l = add_collective(p, "all_reduce", 0, 3, &ranks);
    l->outputs[0] = list(0, 0, 50);
    l->outputs[1] = list(0, 200, 50);
    l->outputs[2] = list(1, 400, 100); /* elsewhere */
    l = add_collective(p, "all_gather", 1, 1, &ranks);
    l->inputs[0] = list(0, 0, 25);
    l->outputs[0] = list(1, 0, 100);
    l = add_collective(p, "reduce_scatter", 1, 1, &ranks);
    l->inputs[0] = list(1, 0, 100);
    l->outputs[0] = list(0, 0, 25);
    plan_add_launch(p, 0, 0)->op_name = "matmul";
    expect_ns(network_launch_ns(&FAST, p, 0, 1), 2 * 14);
    expect_ns(network_launch_ns(&FAST, p, 0, 0.5), 2 * (3 + 8));
    expect_ns(network_launch_ns(&FAST, p, 1, 1), 7);
    expect_ns(network_launch_ns(&FAST, p, 2, 1), 7);
    assert_true(network_launch_ns(&FAST, p, 3, 1) == 0);
    plan_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_sends_its_bytes_and_a_tree_has_its_latency),
        cmocka_unit_test(one_rank_sends_nothing),
        cmocka_unit_test(links_between_nodes_are_no_faster_than_those_inside),
        cmocka_unit_test(ranks_of_other_groups_have_fewer_links_of_a_node),
        cmocka_unit_test(measured_times_are_interpolated),
        cmocka_unit_test(operands_that_are_copied_have_their_own_times),
        cmocka_unit_test(operands_one_behind_the_other_are_one_collective),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
