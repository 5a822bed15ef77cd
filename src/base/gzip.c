#define _GNU_SOURCE
#include "base/gzip.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static gzip_functions load(void) {
    gzip_functions lib = {0};
    void *handle = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return (gzip_functions){.why = "zlib (libz.so.1) is not installed"};
    const struct {
        const char *name;
        void *function;
    } wanted[] = {{"gzdopen", &lib.gzdopen},
                  {"gzwrite", &lib.gzwrite},
                  {"gzerror", &lib.gzerror},
                  {"gzclose", &lib.gzclose},
                  {"inflateInit2_", &lib.inflateInit2_},
                  {"inflate", &lib.inflate},
                  {"inflateReset", &lib.inflateReset},
                  {"inflateEnd", &lib.inflateEnd}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *found = dlsym(handle, wanted[i].name);
        if (!found)
            return (gzip_functions){.why = "the libz.so.1 found lacks a function of gzip files"};
        memcpy(wanted[i].function, &found, sizeof found);
    }
    return lib;
}

const gzip_functions *gzip_load(void) {
    static gzip_functions lib;
    static bool is_done;
    if (!is_done) {
        lib = load();
        is_done = true;
    }
    return &lib;
}
