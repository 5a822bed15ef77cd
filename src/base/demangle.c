/* demangle.c - asks the C++ library, which is loaded only when a name is mangled: nothing else here
 * needs one. */
#include "base/demangle.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

typedef char *demangle_function(const char *name, char *buffer, size_t *bytes, int *status);

static demangle_function *ask;

static void load(void) {
    void *handle = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
    void *found = handle ? dlsym(handle, "__cxa_demangle") : NULL;
    memcpy(&ask, &found, sizeof ask); /* POSIX: the bytes of a pointer to the function */
}

char *demangle(const char *name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (strncmp(name, "_Z", 2) != 0)
        return memory_copy_string(name);
    pthread_once(&once, load);
    int failed = 1;
    char *shown = ask ? ask(name, NULL, NULL, &failed) : NULL;
    return shown && !failed ? shown : memory_copy_string(name);
}
