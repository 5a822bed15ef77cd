#define _GNU_SOURCE
#include "runtime/cuda_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *root(int i) {
    const char *home = getenv("CUDA_HOME");
    return i == 0 ? (home && home[0] ? home : NULL) : "/usr/local/cuda";
}

dyno_status cuda_library_open(const char *stem, int major, void **handle) {
    char name[64], path[1024];
    snprintf(name, sizeof name, "lib%s.so.%d", stem, major);
    *handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    static const char *const FOLDERS[] = {"lib64", "extras/CUPTI/lib64", "lib"};
    enum { FOLDER_COUNT = sizeof FOLDERS / sizeof *FOLDERS };
    for (int i = 0; i < 2 * FOLDER_COUNT && !*handle; i++) {
        const char *from = root(i / FOLDER_COUNT);
        if (!from)
            continue;
        int length = snprintf(path, sizeof path, "%s/%s/%s", from, FOLDERS[i % FOLDER_COUNT], name);
        if (length > 0 && (size_t)length < sizeof path && access(path, R_OK) == 0)
            *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    }
    if (*handle)
        return DYNO_OK;
    const char *reason = dlerror();
    return dyno_fail(DYNO_UNSUPPORTED,
                     "cannot load %s (%s); it is part of the CUDA toolkit %d: install that, or set "
                     "CUDA_HOME to where it is",
                     name, reason ? reason : "no reason given", major);
}

dyno_status cuda_library_find(void *handle, const char *symbol, void *function) {
    void *found = dlsym(handle, symbol);
    if (!found)
        return dyno_fail(DYNO_UNSUPPORTED, "a library of the CUDA toolkit lacks '%s': %s", symbol,
                         dlerror());
    memcpy(function, &found, sizeof found);
    return DYNO_OK;
}

bool cuda_include_directory(char *path, size_t bytes) {
    for (int i = 0; i < 2; i++) {
        char probe[1200];
        if (!root(i))
            continue;
        snprintf(path, bytes, "%s/include", root(i));
        snprintf(probe, sizeof probe, "%s/cuda_bf16.h", path);
        if (access(probe, R_OK) == 0)
            return true;
    }
    return false;
}
