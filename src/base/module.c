#define _GNU_SOURCE
#include "base/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/trust.h"

static const char HERE[] = "an address of this library";

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

/* `name` beside `file`, then in the lib/ beside its directory. */
static void *try_around(const char *file, const char *name, text *tried) {
    static const char *const BETWEEN[] = {"", "../lib/"};
    const char *slash = strrchr(file, '/');
    struct stat status;
    if (!slash || stat(file, &status) != 0)
        return NULL;
    void *handle = NULL;
    for (int i = 0; i < 2 && !handle; i++) {
        text path = {0};
        text_append_bytes(&path, file, (size_t)(slash + 1 - file));
        text_format(&path, "%s%s", BETWEEN[i], name);
        handle = try_place(path.data, status.st_uid, tried);
        text_release(&path);
    }
    return handle;
}

void *module_open(const char *file, const char *variable, text *tried) {
    const char *chosen = getenv(variable);
    if (chosen && chosen[0])
        return try_place(chosen, geteuid(), tried);
    char executable[PATH_MAX] = "";
    ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);
    void *handle = length > 0 ? try_around(executable, file, tried) : NULL;
    /* The program may be another one (Python) that loaded our shared library. */
    Dl_info here;
    char library[PATH_MAX];
    if (!handle && dladdr(HERE, &here) && here.dli_fname && realpath(here.dli_fname, library) &&
        strcmp(library, executable) != 0)
        handle = try_around(library, file, tried);
    return handle ? handle : try_place(file, geteuid(), tried);
}
