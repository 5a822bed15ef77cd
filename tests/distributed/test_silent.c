/* test_silent.c - collectives of many ranks in one process, all of which have what this one has. */
#include "support/expect.h"

#include <string.h>

#include "distributed/silent.h"
#include "distributed/world.h"

static communicator *create(struct world **w, int ranks) {
    expect_ok(world_open(&(world_options){.timeout_s = 5}, w));
    return silent_create(*w, ranks);
}

static void an_all_gather_repeats_the_rank_s_part(void **state) {
    (void)state;
    struct world *w;
    communicator *c = create(&w, 3);
    float part[2] = {1, 2}, whole[6] = {0};
    expect_ok(communicator_all_gather(c, part, whole, 2, DTYPE_F32));
    static const float expected[6] = {1, 2, 1, 2, 1, 2};
    assert_memory_equal(whole, expected, sizeof whole);
    communicator_destroy(c);
    world_close(w);
}

static void sums_are_this_rank_s_operand(void **state) {
    (void)state;
    struct world *w;
    communicator *c = create(&w, 2);
    float operand[4] = {1, 2, 3, 4}, result[2] = {0};
    expect_ok(communicator_all_reduce(c, operand, operand, 4, DTYPE_F32));
    assert_true(operand[3] == 4);
    expect_ok(communicator_reduce_scatter(c, operand, result, 2, DTYPE_F32));
    assert_true(result[0] == 1 && result[1] == 2);
    communicator_destroy(c);
    world_close(w);
}

static void what_is_started_is_done_at_once(void **state) {
    (void)state;
    struct world *w;
    communicator *c = create(&w, 4);
    float part = 7, whole[4] = {0};
    collective what = {
        .op = COLLECTIVE_ALL_GATHER, .type = DTYPE_F32, .from = &part, .to = whole, .count = 1};
    collective_handle handle = -1;
    expect_ok(communicator_start(c, &what, &handle));
    assert_true(communicator_is_complete(c, handle) && whole[3] == 7);
    expect_ok(communicator_wait(c, handle));
    communicator_destroy(c);
    world_close(w);
}

static void memory_of_ranks_is_zeroed(void **state) {
    (void)state;
    struct world *w;
    communicator *c = create(&w, 4);
    void *base;
    expect_ok(communicator_memory_create(c, 4096, &base));
    static const char zeros[4096];
    assert_memory_equal(base, zeros, sizeof zeros);
    communicator_memory_destroy(c, base);
    communicator_destroy(c);
    world_close(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_all_gather_repeats_the_rank_s_part),
        cmocka_unit_test(sums_are_this_rank_s_operand),
        cmocka_unit_test(what_is_started_is_done_at_once),
        cmocka_unit_test(memory_of_ranks_is_zeroed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
