/* test_contention.c - what others took is read right from a /proc made up here; of the machine's
 * own it is only asked that it answers. */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/text.h"
#include "measure/contention.h"
#include "support/scratch.h"

static void write_text(const scratch *made, const char *name, const text *content) {
    scratch_write(made, name, text_string(content), content->length);
}

/* Every core of the machine, those of this process and others, with `ticks` of user and as many of
 * stolen time; idle and waiting for disks is not work. */
static void write_stat(const scratch *made, int ticks) {
    text stat = {0};
    text_append(&stat, "cpu  1 1 1 1 1 1 1 1 0 0\n");
    for (int core = 0; core < CPU_SETSIZE; core++)
        text_format(&stat, "cpu%d %d 0 0 999 %d 0 0 %d 0 0\n", core, ticks, 7 * ticks, ticks);
    text_append(&stat, "intr 1 2 3\n");
    write_text(made, "stat", &stat);
    text_release(&stat);
}

static void write_wait(const scratch *made, int thread, long long ns) {
    char name[64];
    text line = {0};
    snprintf(name, sizeof name, "self/task/%d", thread);
    mkdir(scratch_join(made, name).text, 0777);
    snprintf(name, sizeof name, "self/task/%d/schedstat", thread);
    text_format(&line, "123456789 %lld 5\n", ns);
    write_text(made, name, &line);
    text_release(&line);
}

static int own_cores(void) {
    cpu_set_t allowed;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    return CPU_COUNT(&allowed);
}

static void what_others_took_is_told_by_cores_and_threads(void **state) {
    (void)state;
    scratch proc = scratch_create();
    mkdir(scratch_join(&proc, "self").text, 0777);
    mkdir(scratch_join(&proc, "self/task").text, 0777);
    write_stat(&proc, 100);
    write_wait(&proc, 10, 5000);
    write_wait(&proc, 11, 100000);
    contention_watch *watch = contention_begin(proc.path);
    write_stat(&proc, 103);
    write_wait(&proc, 10, 9000);
    write_wait(&proc, 11, 101000);
    write_wait(&proc, 12, 3000); /* began meanwhile */
    contention seen = contention_end(watch);
    assert_int_equal(seen.waited_ns, 4000);
    assert_int_equal(seen.all_cpu_ns, own_cores() * 6 * (1000000000 / sysconf(_SC_CLK_TCK)));
    assert_true(seen.watched_ns > 0 && seen.own_cpu_ns > 0 && seen.preemptions >= 0);
    scratch_remove(&proc);
}

static void what_the_system_does_not_tell_is_not_recorded(void **state) {
    (void)state;
    contention seen = contention_end(contention_begin("/nowhere"));
    assert_int_equal(seen.all_cpu_ns, -1);
    assert_int_equal(seen.waited_ns, -1);
    results *run = results_create("bench", 0, NULL);
    results_cell *cell = results_add_cell(run);
    contention_record(&seen, cell);
    assert_non_null(cell_find_metric(cell, "watched_ns"));
    assert_non_null(cell_find_metric(cell, "own_cpu_ns"));
    assert_non_null(cell_find_metric(cell, "preemptions"));
    assert_null(cell_find_metric(cell, "all_cpu_ns"));
    assert_null(cell_find_metric(cell, "waited_ns"));
    results_destroy(run);
}

static void this_machine_answers(void **state) {
    (void)state;
    contention seen = contention_end(contention_begin("/proc"));
    assert_true(seen.watched_ns >= 0 && seen.own_cpu_ns >= 0 && seen.preemptions >= 0);
    assert_true(seen.all_cpu_ns >= -1 && seen.waited_ns >= -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_others_took_is_told_by_cores_and_threads),
        cmocka_unit_test(what_the_system_does_not_tell_is_not_recorded),
        cmocka_unit_test(this_machine_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
