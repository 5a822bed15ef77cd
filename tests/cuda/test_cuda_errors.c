/* test_cuda_errors.c - what goes wrong before a GPU is open: names, no module, no driver, no GPU.
 * None of this needs a GPU. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/device.h"
#include "support/device_bench.h"
#include "support/skip.h"
#include "support/small_model.h"

static void names_of_no_device_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"",       "gpu",     "CUDA",    "cuda:",     "cuda:-1",
                                        "cuda:x", "cuda:1x", "cuda: 1", "cuda:+1",   "cuda0",
                                        "cpu:0",  "cpu ",    "auto:1",  "cuda:99999"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        device *d = device_cpu();
        if (device_open(names[i], &d) != DYNO_INVALID)
            fail_msg("'%s' was taken for a device", names[i]);
        assert_null(d);
        assert_non_null(strstr(dyno_error_message(), names[i]));
        assert_non_null(strstr(dyno_error_message(), "cuda:N")); /* the way out */
    }
}

static void a_name_tells_the_backend_without_a_gpu(void **state) {
    (void)state;
    static const struct {
        const char *name;
        target_kind on;
        int ordinal;
    } cases[] = {{"cpu", TARGET_CPU, 0},
                 {"auto", TARGET_CPU, 0},
                 {"cuda", TARGET_CUDA, 0},
                 {"cuda:0", TARGET_CUDA, 0},
                 {"cuda:17", TARGET_CUDA, 17}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        target_kind on;
        int ordinal;
        assert_int_equal(device_parse(cases[i].name, &on, &ordinal), DYNO_OK);
        assert_int_equal(on, cases[i].on);
        assert_int_equal(ordinal, cases[i].ordinal);
    }
}

/* Opens the device in a process of its own, since the module is loaded once: 0 when the status is
 * `wanted` and the message has `part` in it. */
static int open_apart(const char *variable, const char *setting, const char *name,
                      dyno_status wanted, const char *part) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv(variable, setting, 1);
        device *d = NULL;
        dyno_status status = device_open(name, &d);
        bool is_right = status == wanted && (status == DYNO_OK) == (d != NULL) &&
                        (status == DYNO_OK || strstr(dyno_error_message(), part));
        if (!is_right)
            fprintf(stderr, "%s=%s, '%s': status %d, %s\n", variable, setting, name, (int)status,
                    dyno_error_message());
        else if (status != DYNO_OK)
            fprintf(stderr, "  %s\n", dyno_error_message());
        _exit(is_right ? 0 : 1);
    }
    int status;
    assert_true(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static void a_module_that_is_not_there_is_said_with_its_path(void **state) {
    (void)state;
    const char *gone = "/no/such/place/libdyno_cuda.so";
    assert_int_equal(open_apart("DYNO_CUDA_MODULE", gone, "cuda", DYNO_UNSUPPORTED, gone), 0);
    assert_int_equal(open_apart("DYNO_CUDA_MODULE", gone, "cuda:1", DYNO_UNSUPPORTED, gone), 0);
}

static void a_library_that_is_no_module_is_refused(void **state) {
    (void)state;
    const char *other = "libm.so.6";
    assert_int_equal(
        open_apart("DYNO_CUDA_MODULE", other, "cuda", DYNO_UNSUPPORTED, "is no CUDA module"), 0);
}

static void auto_falls_back_to_the_cpu(void **state) {
    (void)state;
    const char *gone = "/no/such/place/libdyno_cuda.so";
    assert_int_equal(open_apart("DYNO_CUDA_MODULE", gone, "auto", DYNO_OK, ""), 0);
}

/* A machine without a driver, or without the module, says so instead. */
static void expect_refusal(const char *variable, const char *setting, const char *name,
                           const char *part) {
    if (open_apart(variable, setting, name, DYNO_UNSUPPORTED, "there is no CUDA") != 0)
        assert_int_equal(open_apart(variable, setting, name, DYNO_UNSUPPORTED, part), 0);
}

/* Hiding all GPUs is as good as having none. What hides them is named: it is the way out. */
static void no_gpu_is_said_and_not_a_crash(void **state) {
    (void)state;
    expect_refusal("CUDA_VISIBLE_DEVICES", "-1", "cuda", "CUDA_VISIBLE_DEVICES is '-1'");
    expect_refusal("CUDA_VISIBLE_DEVICES", "", "cuda", "CUDA_VISIBLE_DEVICES is ''");
    assert_int_equal(open_apart("CUDA_VISIBLE_DEVICES", "-1", "auto", DYNO_OK, ""), 0);
}

static void a_number_past_the_last_gpu_is_refused(void **state) {
    (void)state;
    expect_refusal("DYNO_TEST_NOTHING", "1", "cuda:9999", "no GPU 9999");
}

/* The cause, not what came of it. */
static bool is_said(void) {
    const char *message = dyno_error_message();
    fprintf(stderr, "  %s\n", message);
    return strstr(message, "illegal memory access") || strstr(message, "device-side assert");
}

/* A step with ids far outside of any table. Whether it failed, and for the right reason. */
static bool run_astray(device *d, const plan *p) {
    memory_pool *pool;
    executor *e = NULL;
    if (memory_pool_create(d, (int64_t)1 << 28, &pool) != DYNO_OK)
        return is_said();
    storage *shared = storage_create(pool);
    dyno_status status = executor_create(p, pool, shared, &e);
    if (status == DYNO_OK) {
        int32_t ids[16];
        for (int i = 0; i < 16; i++)
            ids[i] = i % 2 ? INT32_MIN + i : INT32_MAX - i;
        small_model_fill(e, shared, &small_model_fixed, 1);
        status = executor_write(e, "tokens", ids, sizeof ids);
    }
    if (status == DYNO_OK)
        status = executor_run(e, NULL, NULL);
    bool is_right = status == DYNO_DEVICE_FAILED && is_said();
    executor_destroy(e);
    storage_destroy(shared);
    memory_pool_destroy(pool);
    return is_right;
}

/* What a kernel reads there breaks the whole process's use of the GPU: a process of its own. From
 * then on everything fails, for that reason and not for want of memory. */
static int break_the_gpu(void) {
    device *d;
    if (device_open("cuda", &d) != DYNO_OK)
        return 0;
    step_options options = small_model_step(&small_model_fixed, 1, 16, STEP_FORWARD);
    options.pipeline.target = target_usual(TARGET_CUDA);
    plan *p;
    int wrong = step_plan_create(&options, &p) != DYNO_OK;
    for (int round = 0; round < 3 && !wrong; round++)
        wrong = run_astray(d, p) ? 0 : 2 + round;
    plan_destroy(p);
    device_close(d);
    return wrong;
}

static void a_gpu_that_broke_down_says_so_and_not_that_it_is_full(void **state) {
    (void)state;
    if (device_bench_rounds(false, true))
        SKIP_BECAUSE("a tool that looks for such accesses would find this one");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(break_the_gpu());
    int status;
    assert_true(waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Planning for a GPU needs none: memory, launches and the generated source are known. */
static void plans_for_a_gpu_are_made_without_one(void **state) {
    (void)state;
    draw d = draw_create(3, 1);
    model_config config = small_model_draw(&d);
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++)
        for (int p = 0; p < PRECISION_COUNT; p++) {
            step_options options = small_model_step(&config, 2, 17, STEP_FULL);
            options.pipeline.target = target_usual(TARGET_CUDA);
            options.pipeline.mode = (step_mode)mode;
            options.pipeline.precision = (precision)p;
            plan *made;
            if (step_plan_create(&options, &made) != DYNO_OK)
                fail_msg("%s, %s: %s", step_mode_name((step_mode)mode),
                         precision_name((precision)p), dyno_error_message());
            assert_int_equal(made->target.kind, TARGET_CUDA);
            assert_non_null(made->source);
            assert_non_null(strstr(made->source, "__global__"));
            for (int i = 0; i < made->launch_count; i++) {
                const plan_launch *l = &made->launches[i];
                assert_true(l->generated >= 0 || l->kernel->target == TARGET_CUDA);
            }
            plan_destroy(made);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_no_device_are_refused),
        cmocka_unit_test(a_name_tells_the_backend_without_a_gpu),
        cmocka_unit_test(a_module_that_is_not_there_is_said_with_its_path),
        cmocka_unit_test(a_library_that_is_no_module_is_refused),
        cmocka_unit_test(auto_falls_back_to_the_cpu),
        cmocka_unit_test(no_gpu_is_said_and_not_a_crash),
        cmocka_unit_test(a_number_past_the_last_gpu_is_refused),
        cmocka_unit_test(a_gpu_that_broke_down_says_so_and_not_that_it_is_full),
        cmocka_unit_test(plans_for_a_gpu_are_made_without_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
