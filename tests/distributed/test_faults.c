/* A rank dies, is stopped, runs out of memory or fails, wherever it is: every other rank ends in time,
 * one message names the rank, its host and what it was doing, and nothing is left behind. */
#define _GNU_SOURCE
#include <dirent.h>
#include <string.h>

#include "base/clock.h"
#include "support/expect.h"
#include "support/rank_faults.h"

enum { RANKS = RANK_FAULT_RANKS, VICTIM = RANK_FAULT_VICTIM };

typedef enum place {
    AT_START_UP,
    IN_ALL_REDUCE,
    IN_REDUCE_SCATTER,
    IN_ALL_GATHER,
    IN_BROADCAST,
    IN_BARRIER,
    IN_ASYNCHRONOUS,
    IN_MEMORY_CREATE,
    IN_EXCHANGE,
    WRITING_RESULTS,
    PLACE_COUNT
} place;

typedef struct fault {
    rank_fault base; /* first */
    place where;
} fault;

static void die(world *w, const fault *f) { rank_fault_die(w, &f->base); }

static void prove(world *w, const fault *f, dyno_status status) {
    rank_fault_prove(w, &f->base, status);
}

/* Collectives again and again; the victim dies in the middle. */
static void run_collectives(world *w, const fault *f, communicator *c, collective_op op) {
    enum { COUNT = 30000 };
    static float data[RANKS * COUNT];
    for (int repetition = 0;; repetition++) {
        collective what = {
            .op = op, .type = DTYPE_F32, .from = data, .to = data, .count = COUNT, .root = 0};
        if (op == COLLECTIVE_REDUCE_SCATTER)
            what.to = data + world_rank(w) * COUNT;
        if (op == COLLECTIVE_ALL_GATHER)
            what.from = data + world_rank(w) * COUNT;
        if (repetition == 5 && world_rank(w) == VICTIM) {
            world_set_collective(w, (int)op); /* as from inside of it */
            die(w, f);
        }
        collective_handle handle = 0;
        if (f->where == IN_ASYNCHRONOUS) {
            prove(w, f, communicator_start(c, &what, &handle));
            prove(w, f, communicator_wait(c, handle));
        } else {
            prove(w, f, communicator_run(c, &what));
        }
    }
}

static int suffer(world *w, void *context) {
    const fault *f = context;
    communicator_options options = {.kind = COMMUNICATOR_SHARED};
    communicator *c;
    bool is_victim = world_rank(w) == VICTIM;
    void *memory;
    int number = 0, all[RANKS];
    world_set_phase(w, "testing");
    prove(w, f, communicator_create(w, &options, &c));
    switch (f->where) {
    case AT_START_UP: /* it has died before */
        break;
    case IN_ALL_REDUCE:
    case IN_ASYNCHRONOUS:
        run_collectives(w, f, c, COLLECTIVE_ALL_REDUCE);
        break;
    case IN_REDUCE_SCATTER:
        run_collectives(w, f, c, COLLECTIVE_REDUCE_SCATTER);
        break;
    case IN_ALL_GATHER:
        run_collectives(w, f, c, COLLECTIVE_ALL_GATHER);
        break;
    case IN_BROADCAST:
        run_collectives(w, f, c, COLLECTIVE_BROADCAST);
        break;
    case IN_BARRIER:
        run_collectives(w, f, c, COLLECTIVE_BARRIER);
        break;
    case IN_MEMORY_CREATE:
        if (is_victim)
            die(w, f);
        prove(w, f, communicator_memory_create(c, 1 << 20, &memory));
        break;
    case IN_EXCHANGE:
        if (is_victim)
            die(w, f);
        prove(w, f, world_exchange(w, &number, all, sizeof number));
        break;
    case WRITING_RESULTS:
        world_set_phase(w, "writing results");
        if (is_victim)
            die(w, f);
        prove(w, f, communicator_barrier(c));
        break;
    case PLACE_COUNT:
        break;
    }
    return 0;
}

/* Before the ranks have met. */
static int start_and_suffer(void *context) {
    const fault *f = context;
    world_place at;
    if (world_find_place(&at) != DYNO_OK)
        return 3;
    if (f->where == AT_START_UP && at.rank == VICTIM) {
        if (f->base.how != DEATH_KILLED && f->base.how != DEATH_STOPPED)
            return 1; /* it has said so itself */
        die(NULL, f);
    }
    world *w = rank_fault_join(&f->base);
    int code = suffer(w, context);
    world_close(w);
    return code;
}

static void run_fault(rank_death how, place where) {
    static const char *const phases[PLACE_COUNT] = {"start-up",
                                                    "all-reduce (testing)",
                                                    "reduce-scatter (testing)",
                                                    "all-gather (testing)",
                                                    "broadcast (testing)",
                                                    "barrier (testing)",
                                                    "(testing)",
                                                    "testing",
                                                    "testing",
                                                    "writing results"};
    fault f = {.base = {.how = how, .phase = phases[where], .is_early = where == AT_START_UP},
               .where = where};
    rank_fault_run(&f.base, start_and_suffer, &f);
}

static void run_all_places(rank_death how) {
    for (place where = 0; where < PLACE_COUNT; where++)
        run_fault(how, where);
}

static void a_rank_that_is_killed_ends_all_wherever_it_is(void **state) {
    (void)state;
    run_all_places(DEATH_KILLED);
}

static void a_rank_that_is_stopped_ends_all_wherever_it_is(void **state) {
    (void)state;
    run_all_places(DEATH_STOPPED);
}

static void a_rank_without_memory_ends_all_wherever_it_is(void **state) {
    (void)state;
    run_all_places(DEATH_OUT_OF_MEMORY);
}

static void a_rank_whose_kernel_fails_ends_all_wherever_it_is(void **state) {
    (void)state;
    run_all_places(DEATH_FAILED);
}

static void a_rank_that_leaves_early_ends_all_that_wait_for_it(void **state) {
    (void)state;
    run_fault(DEATH_LEFT, IN_ALL_REDUCE);
    run_fault(DEATH_LEFT, IN_EXCHANGE);
}

static void shared_memory_has_no_name_to_be_left_behind(void **state) {
    (void)state;
    DIR *directory = opendir("/dev/shm");
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory));)
        assert_null(strstr(entry->d_name, "dyno-ranks"));
    closedir(directory);
}

/* ---- ranks that are slow are no fault ---- */

static int compute_long(world *w, void *context) {
    (void)context;
    if (world_rank(w) == VICTIM) {
        int64_t end = clock_now_ns() + (int64_t)(2.5 * RANK_FAULT_TIMEOUT_S * 1e9);
        while (clock_now_ns() < end) {
        }
    }
    int number = world_rank(w), all[RANKS];
    RANK_OK(world_exchange(w, &number, all, sizeof number));
    RANK_CHECK(all[VICTIM] == VICTIM);
    return 0;
}

static void a_rank_that_computes_is_waited_for(void **state) {
    (void)state;
    dyno_status status;
    int code = ranks_run(RANKS, RANK_FAULT_TIMEOUT_S, compute_long, NULL, &status);
    expect_ok(status);
    assert_int_equal(code, 0);
}

/* ---- what ranks were started with ---- */

static int compare_facts(world *w, void *context) {
    (void)context;
    const world_fact same[] = {{"version", "1"}, {"seed", "5"}};
    const world_fact other[] = {{"version", "1"}, {"seed", world_rank(w) == 2 ? "6" : "5"}};
    RANK_OK(world_compare(w, same, 2));
    RANK_CHECK(world_compare(w, other, 2) == DYNO_INVALID);
    RANK_CHECK(strstr(dyno_error_message(), "seed is '6' on rank 2"));
    RANK_CHECK(strstr(dyno_error_message(), "'5' on rank 0"));
    return 0;
}

static void ranks_that_were_started_differently_are_named(void **state) {
    (void)state;
    ranks_expect_ok(RANKS, compare_facts, NULL);
}

static int agree_on_failure(world *w, void *context) {
    (void)context;
    RANK_OK(world_agree(w, DYNO_OK));
    dyno_status mine = world_rank(w) == 2 ? dyno_fail(DYNO_OUT_OF_MEMORY, "no memory") : DYNO_OK;
    RANK_CHECK(world_agree(w, mine) == DYNO_OUT_OF_MEMORY);
    RANK_CHECK(strstr(dyno_error_message(), "rank 2 on host"));
    RANK_CHECK(strstr(dyno_error_message(), "no memory"));
    return 0;
}

static void a_failure_of_one_rank_becomes_that_of_all(void **state) {
    (void)state;
    ranks_expect_ok(RANKS, agree_on_failure, NULL);
}

static int exchange_much(world *w, void *context) {
    (void)context;
    enum { BYTES = 5000 }; /* more than one mail */
    static char mine[BYTES], all[RANKS * BYTES];
    memset(mine, 'a' + world_rank(w), sizeof mine);
    RANK_OK(world_exchange(w, mine, all, sizeof mine));
    for (int i = 0; i < RANKS * BYTES; i++)
        RANK_CHECK(all[i] == 'a' + i / BYTES);
    return 0;
}

static void small_messages_may_be_longer_than_a_mail(void **state) {
    (void)state;
    ranks_expect_ok(RANKS, exchange_much, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_is_killed_ends_all_wherever_it_is),
        cmocka_unit_test(a_rank_that_is_stopped_ends_all_wherever_it_is),
        cmocka_unit_test(a_rank_without_memory_ends_all_wherever_it_is),
        cmocka_unit_test(a_rank_whose_kernel_fails_ends_all_wherever_it_is),
        cmocka_unit_test(a_rank_that_leaves_early_ends_all_that_wait_for_it),
        cmocka_unit_test(shared_memory_has_no_name_to_be_left_behind),
        cmocka_unit_test(a_rank_that_computes_is_waited_for),
        cmocka_unit_test(ranks_that_were_started_differently_are_named),
        cmocka_unit_test(a_failure_of_one_rank_becomes_that_of_all),
        cmocka_unit_test(small_messages_may_be_longer_than_a_mail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
