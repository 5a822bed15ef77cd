/* load.c - finds and loads libdyno_cuda.so. The only file of this directory that is part of the
 * main library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/module.h"
#include "base/text.h"
#include "runtime/cuda/module.h"

static const char FILE_NAME[] = "libdyno_cuda.so";

static dyno_status host_fail(dyno_status code, const char *message) {
    return dyno_fail(code, "%s", message);
}

static dyno_status load(const cuda_module **out) {
    text tried = {0};
    void *handle = module_open(FILE_NAME, "DYNO_CUDA_MODULE", &tried);
    if (!handle) {
        dyno_status status =
            dyno_fail(DYNO_UNSUPPORTED,
                      "there is no CUDA module (%s); build dyno where nvcc is, or set "
                      "DYNO_CUDA_MODULE to %s",
                      text_string(&tried), FILE_NAME);
        text_release(&tried);
        return status;
    }
    text_release(&tried);
    static const cuda_host HOST = {CUDA_MODULE_ABI, DYNO_VERSION, host_fail};
    void *symbol = dlsym(handle, "dyno_cuda_module");
    cuda_module_function *enter;
    memcpy(&enter, &symbol, sizeof enter);
    const cuda_module *found = symbol ? enter(&HOST) : NULL;
    Dl_info where;
    const char *path = symbol && dladdr(symbol, &where) ? where.dli_fname : FILE_NAME;
    if (found && found->abi == CUDA_MODULE_ABI && strcmp(found->version, DYNO_VERSION) == 0) {
        *out = found;
        return DYNO_OK;
    }
    dyno_status status =
        dyno_fail(DYNO_UNSUPPORTED, "%s %s; build both together", path,
                  symbol ? "is of another version than dyno " DYNO_VERSION : "is no CUDA module");
    dlclose(handle);
    return status;
}

dyno_status cuda_module_load(const cuda_module **out) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const cuda_module *loaded;
    pthread_mutex_lock(&lock);
    dyno_status status = loaded ? DYNO_OK : load(&loaded);
    *out = loaded;
    pthread_mutex_unlock(&lock);
    return status;
}
