/* A rank dies, is stopped, runs out of memory or fails, wherever it is: every other rank ends in time,
 * one message names the rank, its host and what it was doing, and nothing is left behind. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/expect.h"
#include "support/ranks.h"

enum { RANKS = 3, VICTIM = 1, MESSAGE_BYTES = 4096 };
static const double TIMEOUT_S = 0.6;

typedef enum death { KILLED, STOPPED, OUT_OF_MEMORY, FAILED, LEFT, DEATH_COUNT } death;

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
    death how;
    place where;
    int messages; /* a file that all ranks append to */
} fault;

static void report(const fault *f) {
    char line[1024];
    int length = snprintf(line, sizeof line, "%s\n", dyno_error_message());
    if (world_may_report() && write(f->messages, line, (size_t)length) < 0)
        exit(4);
}

/* Ends a rank as a verb does. */
static void end_with(world *w, const fault *f, dyno_status status) {
    status = world_conclude(w, status);
    if (status != DYNO_OK)
        report(f);
    world_close(w);
    _exit(status == DYNO_OK ? 0 : 1); /* what it holds is not looked for by a leak detector */
}

static void die(world *w, const fault *f) {
    switch (f->how) {
    case KILLED:
        kill(getpid(), SIGKILL);
        break;
    case STOPPED:
        kill(getpid(), SIGSTOP);
        break;
    case OUT_OF_MEMORY:
        end_with(w, f, dyno_fail(DYNO_OUT_OF_MEMORY, "the system refuses 7.00 GiB"));
        break;
    case FAILED:
        end_with(w, f, dyno_fail(DYNO_DEVICE_FAILED, "kernel matmul: misaligned address"));
        break;
    case LEFT:
        world_close(w);
        _exit(0);
    case DEATH_COUNT:
        break;
    }
}

static void prove(world *w, const fault *f, dyno_status status) {
    if (status != DYNO_OK)
        end_with(w, f, status);
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
    world_options options = {.timeout_s = TIMEOUT_S};
    world_place at;
    world *w;
    if (world_find_place(&at) != DYNO_OK)
        return 3;
    if (f->where == AT_START_UP && at.rank == VICTIM) {
        if (f->how == OUT_OF_MEMORY || f->how == FAILED || f->how == LEFT)
            return 1; /* it has said so itself */
        die(NULL, f);
    }
    if (world_open(&options, &w) != DYNO_OK) {
        report(f);
        return 1;
    }
    int code = suffer(w, context);
    world_close(w);
    return code;
}

static int count_entries(const char *path) {
    DIR *directory = opendir(path);
    int count = 0;
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory));)
        count++;
    closedir(directory);
    return count;
}

static const char *expected_phase(const fault *f) {
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
    return phases[f->where];
}

static void expect_message(const fault *f, const char *messages) {
    static const char *const deaths[DEATH_COUNT] = {
        "was killed by signal 9", "is stopped (SIGSTOP)", "the system refuses 7.00 GiB",
        "misaligned address", "has ended"};
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    const char *line_end = strchr(messages, '\n');
    if (!line_end || line_end[1])
        fail_msg("there must be one message, there is: %s", messages);
    if (!strstr(messages, "rank 1"))
        fail_msg("the rank is not named: %s", messages);
    if (f->where != AT_START_UP && !strstr(messages, host))
        fail_msg("the host is not named: %s", messages);
    if (!strstr(messages, expected_phase(f)))
        fail_msg("the phase '%s' is not named: %s", expected_phase(f), messages);
    bool is_of_own = f->where == AT_START_UP && f->how != KILLED && f->how != STOPPED;
    if (!strstr(messages, is_of_own ? "exit code 1" : deaths[f->how]))
        fail_msg("what happened is not told: %s", messages);
}

static void expect_no_children(void) {
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* ECHILD: all were waited for */
}

static void run_fault(death how, place where) {
    fault f = {.how = how, .where = where};
    char messages[MESSAGE_BYTES] = "";
    int code, files_before = count_entries("/proc/self/fd");
    f.messages = memfd_create("messages", MFD_CLOEXEC);
    assert_true(f.messages >= 0);
    launch_options options = {
        .ranks = RANKS, .run = start_and_suffer, .context = &f, .timeout_s = TIMEOUT_S};
    int64_t begin = clock_now_ns();
    dyno_status status = launch_ranks(&options, &code);
    double seconds = (double)(clock_now_ns() - begin) * 1e-9;
    if (status != DYNO_OK) {
        assert_int_equal(status, DYNO_RANK_FAILED);
        dprintf(f.messages, "%s\n", dyno_error_message());
    }
    assert_true(pread(f.messages, messages, sizeof messages - 1, 0) >= 0);
    close(f.messages);
    expect_message(&f, messages);
    assert_int_equal(code, 1);
    expect_no_children();
    assert_int_equal(count_entries("/proc/self/fd"), files_before);
    if (seconds > 30)
        fail_msg("death %d at %d: %g s", how, where, seconds);
}

static void run_all_places(death how) {
    for (place where = 0; where < PLACE_COUNT; where++)
        run_fault(how, where);
}

static void a_rank_that_is_killed_ends_all_wherever_it_is(void **state) {
    (void)state;
    run_all_places(KILLED);
}

static void a_rank_that_is_stopped_ends_all_wherever_it_is(void **state) {
    (void)state;
    run_all_places(STOPPED);
}

static void a_rank_without_memory_ends_all_wherever_it_is(void **state) {
    (void)state;
    run_all_places(OUT_OF_MEMORY);
}

static void a_rank_whose_kernel_fails_ends_all_wherever_it_is(void **state) {
    (void)state;
    run_all_places(FAILED);
}

static void a_rank_that_leaves_early_ends_all_that_wait_for_it(void **state) {
    (void)state;
    run_fault(LEFT, IN_ALL_REDUCE);
    run_fault(LEFT, IN_EXCHANGE);
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
        int64_t end = clock_now_ns() + (int64_t)(2.5 * TIMEOUT_S * 1e9);
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
    int code = ranks_run(RANKS, TIMEOUT_S, compute_long, NULL, &status);
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
