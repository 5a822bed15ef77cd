/* load.c - finds and loads libdyno_cuda.so. The only file of this directory that is part of the
 * main library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "base/trust.h"
#include "runtime/cuda/module.h"

static const char FILE_NAME[] = "libdyno_cuda.so";

static dyno_status host_fail(dyno_status code, const char *message) {
    return dyno_fail(code, "%s", message);
}

/* Tries one path, or a name that the loader searches for; what is wrong goes to `tried`. `owner` is
 * trusted as we are. */
static void *try_place(const char *path, uid_t owner, text *tried) {
    text_format(tried, "%s%s: ", tried->length ? "; " : "", path);
    if (strchr(path, '/'))
        return trust_open_library(path, owner, tried);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *reason = handle ? NULL : dlerror();
    text_append(tried, reason ? reason : "the loader gives no reason");
    return handle;
}

/* Beside `file`, then in the lib/ beside its directory. */
static void *try_around(const char *file, text *tried) {
    static const char *const BETWEEN[] = {"", "../lib/"};
    const char *slash = strrchr(file, '/');
    struct stat status;
    if (!slash || stat(file, &status) != 0)
        return NULL;
    void *handle = NULL;
    for (int i = 0; i < 2 && !handle; i++) {
        text path = {0};
        text_append_bytes(&path, file, (size_t)(slash + 1 - file));
        text_format(&path, "%s%s", BETWEEN[i], FILE_NAME);
        handle = try_place(path.data, status.st_uid, tried);
        text_release(&path);
    }
    return handle;
}

static void *search(text *tried) {
    const char *chosen = getenv("DYNO_CUDA_MODULE");
    if (chosen && chosen[0])
        return try_place(chosen, geteuid(), tried);
    char executable[PATH_MAX] = "";
    ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);
    void *handle = length > 0 ? try_around(executable, tried) : NULL;
    /* The program may be another one (Python) that loaded our shared library. */
    Dl_info here;
    char library[PATH_MAX];
    if (!handle && dladdr(FILE_NAME, &here) && here.dli_fname &&
        realpath(here.dli_fname, library) && strcmp(library, executable) != 0)
        handle = try_around(library, tried);
    return handle ? handle : try_place(FILE_NAME, geteuid(), tried);
}

static dyno_status load(const cuda_module **out) {
    text tried = {0};
    void *handle = search(&tried);
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
