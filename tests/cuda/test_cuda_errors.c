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
        backend target;
        int ordinal;
    } cases[] = {{"cpu", BACKEND_CPU, 0},
                 {"auto", BACKEND_CPU, 0},
                 {"cuda", BACKEND_CUDA, 0},
                 {"cuda:0", BACKEND_CUDA, 0},
                 {"cuda:17", BACKEND_CUDA, 17}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        backend target;
        int ordinal;
        assert_int_equal(device_parse(cases[i].name, &target, &ordinal), DYNO_OK);
        assert_int_equal(target, cases[i].target);
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

/* Hiding all GPUs is as good as having none; a machine without a driver says so instead. */
static void no_gpu_is_said_and_not_a_crash(void **state) {
    (void)state;
    assert_int_equal(open_apart("CUDA_VISIBLE_DEVICES", "-1", "cuda", DYNO_UNSUPPORTED, ""), 0);
    assert_int_equal(open_apart("CUDA_VISIBLE_DEVICES", "-1", "auto", DYNO_OK, ""), 0);
}

static void a_number_past_the_last_gpu_is_refused(void **state) {
    (void)state;
    assert_int_equal(open_apart("DYNO_TEST_NOTHING", "1", "cuda:9999", DYNO_UNSUPPORTED, ""), 0);
}

/* Planning for a GPU needs none: memory, launches and the generated source are known. */
static void plans_for_a_gpu_are_made_without_one(void **state) {
    (void)state;
    draw d = draw_create(3, 1);
    model_config config = small_model_draw(&d);
    for (int mode = 0; mode < STEP_MODE_COUNT; mode++)
        for (int p = 0; p < PRECISION_COUNT; p++) {
            step_options options = small_model_step(&config, 2, 17, STEP_FULL);
            options.pipeline.target = BACKEND_CUDA;
            options.pipeline.mode = (step_mode)mode;
            options.pipeline.precision = (precision)p;
            plan *made;
            if (step_plan_create(&options, &made) != DYNO_OK)
                fail_msg("%s, %s: %s", step_mode_name((step_mode)mode),
                         precision_name((precision)p), dyno_error_message());
            assert_int_equal(made->backend, BACKEND_CUDA);
            assert_non_null(made->source);
            assert_non_null(strstr(made->source, "__global__"));
            for (int i = 0; i < made->launch_count; i++) {
                const plan_launch *l = &made->launches[i];
                assert_true(l->generated >= 0 || l->kernel->backend == BACKEND_CUDA);
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
        cmocka_unit_test(plans_for_a_gpu_are_made_without_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
