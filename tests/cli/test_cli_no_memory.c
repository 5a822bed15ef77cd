/* test_cli_no_memory.c - a system that refuses memory: one message, an exit code, and no file that is
 * torn or left over. scripts/attack refuses every allocation; this is a sample. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdbool.h>

#include "support/command.h"
#include "support/own_cache.h"

#define TINY "--layers 1 --d-model 16 --heads 2 --d-ff 32 --vocab 32"

static void refuse(long number) {
    char written[32];
    snprintf(written, sizeof written, "%ld", number);
    setenv("DYNO_FAIL_ALLOCATION", written, 1);
}

/* The allocations of `dyno ARGUMENTS`, which succeeds. */
static long count_allocations(const char *arguments) {
    text said = {0};
    setenv("DYNO_FAIL_ALLOCATION", "count", 1);
    assert_int_equal(dyno_run(&said, "%s", arguments), 0);
    const char *end = strstr(text_string(&said), " allocations\n");
    assert_non_null(end);
    while (end > said.data && end[-1] != ' ')
        end--;
    long count = strtol(end, NULL, 10);
    text_release(&said);
    return count;
}

/* The number of allocations differs a little from run to run (numbers of processes, what is in
 * directories), so that the last ones may not be reached. */
static long nth_part(long count, int i) { return 1 + (count - 1) * i / 22; }

static void expect_refusal(long number, const char *arguments) {
    text said = {0};
    refuse(number);
    int code = dyno_run(&said, "%s", arguments);
    if (code != 1 || !strstr(text_string(&said), "memory"))
        fail_msg("allocation %ld of `dyno %s`: exit code %d, says '%s'", number, arguments, code,
                 text_string(&said));
    text_release(&said);
}

static void a_refused_allocation_ends_with_a_message(void **state) {
    (void)state;
    static const char PLAN[] = "plan --device cpu --batch 1 --context 8 " TINY;
    long count = count_allocations(PLAN);
    assert_true(count > 1000);
    for (int i = 0; i <= 20; i++)
        expect_refusal(nth_part(count, i), PLAN);
    unsetenv("DYNO_FAIL_ALLOCATION");
}

static void a_refused_allocation_leaves_no_temporary_file(void **state) {
    char arguments[600];
    snprintf(arguments, sizeof arguments, "init " TINY " --out %s/model",
             ((const scratch *)*state)->path);
    long count = count_allocations(arguments);
    scratch_path model = scratch_join(*state, "model");
    assert_int_equal(scratch_count(model.text), 2);
    for (int i = 0; i <= 20; i++) {
        unlink(scratch_join(*state, "model/config.json").text);
        unlink(scratch_join(*state, "model/model.safetensors").text);
        expect_refusal(nth_part(count, i), arguments);
        int left = scratch_count(model.text);
        assert_true(left <= 0 || left == 2); /* both, when only freeing was left to do */
    }
    unsetenv("DYNO_FAIL_ALLOCATION");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_refused_allocation_ends_with_a_message, own_cache_set_up,
                                        own_cache_tear_down),
        cmocka_unit_test_setup_teardown(a_refused_allocation_leaves_no_temporary_file,
                                        own_cache_set_up, own_cache_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
