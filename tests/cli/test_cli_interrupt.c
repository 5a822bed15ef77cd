/* test_cli_interrupt.c - the first Ctrl-C is obeyed wherever an experiment is, and grids say how large
 * they are. Processes are watched until they are where they are wanted, and ended there; the limits
 * of time are only there to end a test that hangs. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "support/command.h"
#include "support/scratch.h"
#include "support/skip.h"

#define MODEL "--d-model 32 --d-ff 64 --layers 1 --heads 2 --vocab 50 --threads 1 --warmup 0 "

enum { MOST_SECONDS = 60 };

typedef struct running {
    pid_t process;
    scratch made;
} running;

/* Starts `ENVIRONMENT dyno ARGUMENTS` with its streams in the files "out" and "said". */
static running start(const char *environment, const char *arguments) {
    running r = {.made = scratch_create()};
    char command[2048];
    snprintf(command, sizeof command, "cd '%s' && exec env %s '%s' %s > out 2> said", r.made.path,
             environment, DYNO_BINARY, arguments);
    r.process = fork();
    assert_true(r.process >= 0);
    if (r.process == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return r;
}

/* False when the time is over. */
static bool wait_a_little(int64_t since_ns) {
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    return clock_now_ns() - since_ns < (int64_t)MOST_SECONDS * 1000000000;
}

static bool has_said(const running *r, const char *name, const char *part) {
    char *bytes;
    size_t size;
    if (file_read_all(scratch_join(&r->made, name).text, 1 << 24, &bytes, &size) != DYNO_OK)
        return false;
    bool found = strstr(bytes, part) != NULL;
    free(bytes);
    return found;
}

static void wait_until_said(const running *r, const char *name, const char *part) {
    int status;
    for (int64_t since = clock_now_ns(); !has_said(r, name, part);)
        if (waitpid(r->process, &status, WNOHANG) == r->process || !wait_a_little(since))
            fail_msg("it ended or hangs and has not said '%s'", part);
}

/* One Ctrl-C, after which it has to end by itself. */
static void interrupt(running *r) {
    int status;
    assert_int_equal(kill(r->process, SIGINT), 0);
    int64_t since = clock_now_ns();
    while (waitpid(r->process, &status, WNOHANG) != r->process)
        if (!wait_a_little(since)) {
            kill(r->process, SIGKILL);
            waitpid(r->process, &status, 0);
            fail_msg("it went on for %d seconds", MOST_SECONDS);
        }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 130)
        fail_msg("it ended with status %d", status);
    print_message("ended after %.2f s\n", (double)(clock_now_ns() - since) / 1e9);
    assert_true(has_said(r, "said", "interrupted"));
    scratch_remove(&r->made);
}

static void a_grid_that_is_too_large_is_refused(void **state) {
    (void)state;
    dyno_expect(2,
                "--context (9999) x --warmup (10000) x --pass (3) make 299970000 cells, the limit "
                "is 100000",
                "bench --context 1:9999 --warmup 0:9999");
    dyno_expect(
        2, "--context (9999) x --pass (11) make 109989 cells",
        "plan --context 1:9999 --pass step,step,step,step,step,step,step,step,step,step,step");
    dyno_expect(2, "--mode (2) x --seq (9999) x --head-dim (6) make 119988 cells",
                "attention --seq 1:9999 --head-dim 1:6");
    dyno_expect(2, "the grid has 119988 cells, the limit is 100000",
                "attention --seq 1:9999 --head-dim 1:3 --device cpu --mode eager,compiled");
}

static void a_grid_says_its_cells_and_its_time_beside_its_output(void **state) {
    (void)state;
    text output = {0};
    dyno_expect(0, "dyno bench: 4 cells; at this machine's peak rates this takes",
                "bench " MODEL "--context 8,16 --pass forward,step --steps 1 2>&1 >/dev/null");
    dyno_expect(0, "dyno attention: 2 cells; at this machine's peak rates this takes",
                "attention --seq 8,16 --mode eager --pass forward --reps 1 2>&1 >/dev/null");
    assert_int_equal(dyno_run(&output, "bench " MODEL
                                       "--context 8,16 --pass forward --steps 1 --format json "
                                       "2>/dev/null"),
                     0);
    assert_int_equal(text_string(&output)[0], '{');
    text_release(&output);
}

static void planning_a_grid_is_interrupted(void **state) {
    (void)state;
    running r = start("", "bench " MODEL "--context 1:9999 --pass step --mode eager,compiled");
    wait_until_said(&r, "said", "19998 cells are planned before the first is measured");
    interrupt(&r);
    r = start("", "attention --seq 1:9999 --head-dim 8,16 --mode compiled --threads 1");
    wait_until_said(&r, "said", "39996 cells are planned before the first is measured");
    interrupt(&r);
}

static void a_long_plan_is_interrupted_and_shows_what_it_has(void **state) {
    (void)state;
    running r = start("", "plan --layers 100 --mode compiled --device cpu --context 1:9999");
    wait_until_said(&r, "said", "9999 cells; this takes about");
    interrupt(&r);
}

static void more_threads_than_cores_are_interrupted(void **state) {
    (void)state;
    running r =
        start("", "bench --d-model 256 --layers 2 --heads 4 --vocab 4096 --context 512,1024 "
                  "--pass step --steps 1000000 --threads 1024");
    wait_until_said(&r, "said", "2 cells; at this machine's peak rates");
    interrupt(&r);
}

/* 64 GiB of address space are not enough for so many stacks. */
static void threads_that_cannot_be_made_are_an_error(void **state) {
    (void)state;
    static const char *const verbs[] = {"bench --context 8 --pass forward", "attention --seq 8",
                                        "doctor"};
#if defined(__SANITIZE_ADDRESS__)
    SKIP_BECAUSE("the address sanitizer reserves more than the limit of memory that the test sets");
#endif
    for (int i = 0; i < 3; i++)
        command_expect("sh", 2, "4096 threads cannot be made",
                       "-c \"ulimit -s 8192; ulimit -v 8000000; '%s' %s --threads 4096\"",
                       DYNO_BINARY, verbs[i]);
}

/* The compiler says where it is and sleeps; it and what it started are ended. */
static void a_compiler_is_not_waited_for(void **state) {
    (void)state;
    scratch tools = scratch_create();
    static const char compiler[] = "#!/bin/sh\nsleep 1000 &\necho $! > asleep\nwait\n";
    scratch_write(&tools, "slow-cc", compiler, sizeof compiler - 1);
    scratch_path path = scratch_join(&tools, "slow-cc");
    assert_int_equal(chmod(path.text, 0700), 0);
    char environment[1024];
    snprintf(environment, sizeof environment, "CC=%s XDG_CACHE_HOME=%s/cache", path.text,
             tools.path);
    running r = start(environment, "bench " MODEL "--mode compiled --pass step --context 8");
    scratch_path asleep = scratch_join(&r.made, "asleep");
    wait_until_said(&r, "asleep", "\n");
    FILE *file = fopen(asleep.text, "r");
    int sleeper;
    assert_int_equal(fscanf(file, "%d", &sleeper), 1);
    fclose(file);
    interrupt(&r);
    int64_t since = clock_now_ns();
    while (kill(sleeper, 0) == 0 && wait_a_little(since)) {
    }
    char stat_path[64], line[256] = "";
    snprintf(stat_path, sizeof stat_path, "/proc/%d/stat", sleeper);
    FILE *left = fopen(stat_path, "r"); /* one that nobody collects is a zombie at most */
    if (left) {
        assert_non_null(fgets(line, sizeof line, left));
        assert_non_null(strstr(line, ") Z"));
        fclose(left);
    }
    scratch_remove(&tools);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grid_that_is_too_large_is_refused),
        cmocka_unit_test(a_grid_says_its_cells_and_its_time_beside_its_output),
        cmocka_unit_test(planning_a_grid_is_interrupted),
        cmocka_unit_test(a_long_plan_is_interrupted_and_shows_what_it_has),
        cmocka_unit_test(more_threads_than_cores_are_interrupted),
        cmocka_unit_test(threads_that_cannot_be_made_are_an_error),
        cmocka_unit_test(a_compiler_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
