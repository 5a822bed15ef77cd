/* test_cuda_module.c - finding and loading libdyno_cuda.so, and what it says where there is no GPU.
 * What needs the module is skipped where it was not built; what needs there to be no driver, where
 * there is one. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ops/op_list.h"
#include "runtime/cuda/kernel_list.h"
#include "runtime/cuda/module.h"
#include "support/scratch.h"
#include "support/skip.h"

static const cuda_module *load_or_skip(void) {
#ifdef DYNO_CUDA_MODULE_FILE
    setenv("DYNO_CUDA_MODULE", DYNO_CUDA_MODULE_FILE, 1);
    const cuda_module *module;
    if (cuda_module_load(&module) != DYNO_OK)
        fail_msg("%s", dyno_error_message());
    return module;
#else
    SKIP_BECAUSE("the CUDA module is not built");
    return NULL;
#endif
}

/* First: once it is loaded, it stays. */
static void a_module_that_is_not_there_is_said_to_be_missing(void **state) {
    (void)state;
    const cuda_module *module;
    setenv("DYNO_CUDA_MODULE", "/nowhere/libdyno_cuda.so", 1);
    assert_int_equal(cuda_module_load(&module), DYNO_UNSUPPORTED);
    assert_null(module);
    assert_non_null(strstr(dyno_error_message(), "/nowhere/libdyno_cuda.so: not there"));
    unsetenv("DYNO_CUDA_MODULE");
    setenv("LD_LIBRARY_PATH", "", 1);
    if (cuda_module_load(&module) != DYNO_OK) /* unless it is installed */
        assert_non_null(strstr(dyno_error_message(), "../lib/libdyno_cuda.so"));
}

static void a_file_that_is_no_module_is_refused(void **state) {
    (void)state;
    const cuda_module *module;
    scratch made = scratch_create();
    scratch_write(&made, "libdyno_cuda.so", "text", 4);
    setenv("DYNO_CUDA_MODULE", scratch_join(&made, "libdyno_cuda.so").text, 1);
    if (cuda_module_load(&module) != DYNO_OK)
        assert_non_null(strstr(dyno_error_message(), "libdyno_cuda.so"));
    setenv("DYNO_CUDA_MODULE", "libm.so.6", 1);
    if (cuda_module_load(&module) != DYNO_OK)
        assert_non_null(strstr(dyno_error_message(), "is no CUDA module"));
    scratch_remove(&made);
}

static void expect_refused(const scratch *made, const char *reason) {
    const cuda_module *module;
    setenv("DYNO_CUDA_MODULE", scratch_join(made, "libdyno_cuda.so").text, 1);
    assert_int_equal(cuda_module_load(&module), DYNO_UNSUPPORTED);
    if (!strstr(dyno_error_message(), reason))
        fail_msg("'%s' says nothing of '%s'", dyno_error_message(), reason);
}

static void a_module_that_others_may_have_written_is_not_loaded(void **state) {
    (void)state;
    enum { NOBODY = 65534 };
    scratch made = scratch_create();
    scratch_path module = scratch_join(&made, "libdyno_cuda.so");
    scratch_write(&made, "libdyno_cuda.so", "text", 4);
    expect_refused(&made, "too short"); /* the loader read it */
    assert_int_equal(chmod(module.text, 0666), 0);
    expect_refused(&made, "others may write to it (mode 666)");
    assert_int_equal(chmod(module.text, 0644), 0);
    assert_int_equal(chmod(made.path, 0777), 0);
    expect_refused(&made, "its directory is not safe: others may write to it (mode 777)");
    assert_int_equal(chmod(made.path, 01777), 0); /* as /tmp is: nobody else can exchange it */
    expect_refused(&made, "too short");
    if (geteuid() == 0) { /* only root can give files away */
        assert_int_equal(chown(module.text, NOBODY, NOBODY), 0);
        expect_refused(&made, "it belongs to user 65534");
    }
    scratch_remove(&made);
}

static void the_module_loads_and_is_of_this_version(void **state) {
    (void)state;
    const cuda_module *module = load_or_skip(), *again;
    assert_int_equal(module->abi, CUDA_MODULE_ABI);
    assert_string_equal(module->version, DYNO_VERSION);
    assert_int_equal(cuda_module_load(&again), DYNO_OK);
    assert_ptr_equal(module, again);
}

static dyno_status fail_silently(dyno_status code, const char *message) {
    (void)message;
    return code;
}

static void a_host_of_another_version_gets_nothing(void **state) {
    (void)state;
    load_or_skip();
    void *handle = dlopen(getenv("DYNO_CUDA_MODULE"), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(handle);
    cuda_module_function *enter;
    *(void **)&enter = dlsym(handle, "dyno_cuda_module");
    assert_non_null(enter);
    assert_null(enter(&(cuda_host){CUDA_MODULE_ABI + 1, DYNO_VERSION, fail_silently}));
    assert_null(enter(&(cuda_host){CUDA_MODULE_ABI, "0.0.0", fail_silently}));
    assert_null(dlsym(handle, "dyno_fail")); /* one name is seen, ours are not */
    assert_null(dlsym(handle, "cudaSetDevice"));
    dlclose(handle);
}

static bool has_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver)
        dlclose(driver);
    return driver != NULL;
}

static void without_a_driver_every_way_in_says_so(void **state) {
    (void)state;
    const cuda_module *module = load_or_skip();
    if (has_driver())
        SKIP_BECAUSE("there is a CUDA driver");
    int devices = -1;
    cuda_device_info info;
    device *opened;
    assert_int_equal(module->count(&devices), DYNO_UNSUPPORTED);
    assert_int_equal(devices, 0);
    assert_non_null(strstr(dyno_error_message(), "no CUDA driver"));
    assert_int_equal(module->describe(0, &info), DYNO_UNSUPPORTED);
    assert_non_null(strstr(dyno_error_message(), "no CUDA driver"));
    assert_int_equal(module->open(0, &opened), DYNO_UNSUPPORTED);
    assert_null(opened);
    assert_non_null(strstr(dyno_error_message(), "--device cpu"));
}

static void a_gpu_that_is_not_there_is_refused_by_number(void **state) {
    (void)state;
    const cuda_module *module = load_or_skip();
    int devices = 0;
    if (module->count(&devices) != DYNO_OK || devices == 0)
        SKIP_BECAUSE("there is no GPU");
    device *opened;
    assert_int_equal(module->open(devices, &opened), DYNO_UNSUPPORTED);
    assert_null(opened);
    assert_non_null(strstr(dyno_error_message(), "numbered 0 to"));
}

/* A plan names its kernels; the module must have each of them. */
static void the_module_has_the_kernels_of_every_op_and_no_others(void **state) {
    (void)state;
#define NAME(name) #name,
    static const char *const names[] = {FOR_EACH_CUDA_KERNEL(NAME)};
#undef NAME
    enum { COUNT = sizeof names / sizeof *names };
    bool is_used[COUNT] = {false};
    for (int i = 0; i < op_list_count(); i++)
        for (const kernel *const *k = op_list_at(i)->kernels; k && *k; k++) {
            if ((*k)->target != TARGET_CUDA)
                continue;
            bool is_found = false;
            for (int j = 0; j < COUNT; j++)
                if (strcmp(names[j], (*k)->name) == 0)
                    is_found = is_used[j] = true;
            if (!is_found)
                fail_msg("op %s has the kernel %s, kernel_list.h has not", op_list_at(i)->name,
                         (*k)->name);
        }
    for (int j = 0; j < COUNT; j++)
        if (!is_used[j])
            fail_msg("kernel_list.h has %s, no op has", names[j]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_module_that_is_not_there_is_said_to_be_missing),
        cmocka_unit_test(a_file_that_is_no_module_is_refused),
        cmocka_unit_test(a_module_that_others_may_have_written_is_not_loaded),
        cmocka_unit_test(the_module_loads_and_is_of_this_version),
        cmocka_unit_test(a_host_of_another_version_gets_nothing),
        cmocka_unit_test(without_a_driver_every_way_in_says_so),
        cmocka_unit_test(a_gpu_that_is_not_there_is_refused_by_number),
        cmocka_unit_test(the_module_has_the_kernels_of_every_op_and_no_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
