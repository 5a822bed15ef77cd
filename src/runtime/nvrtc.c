/* nvrtc.c - the few functions of NVRTC that are needed are declared by hand: its headers are absent
 * where dyno is built without CUDA. They are part of its stable interface. */
#include "runtime/nvrtc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cache.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/cuda_library.h"

typedef struct nvrtc_program nvrtc_program; /* opaque */

typedef struct library {
    int toolkit; /* 0: not loaded */
    int major, minor;
    const char *(*error_string)(int);
    int (*version)(int *major, int *minor);
    int (*arch_count)(int *count);
    int (*archs)(int *list);
    int (*create)(nvrtc_program **, const char *source, const char *name, int headers,
                  const char *const *header_sources, const char *const *header_names);
    int (*destroy)(nvrtc_program **);
    int (*compile)(nvrtc_program *, int options, const char *const *list);
    int (*log_size)(nvrtc_program *, size_t *);
    int (*log)(nvrtc_program *, char *);
    int (*cubin_size)(nvrtc_program *, size_t *);
    int (*cubin)(nvrtc_program *, char *);
    int (*ptx_size)(nvrtc_program *, size_t *);
    int (*ptx)(nvrtc_program *, char *);
} library;

static dyno_status find_functions(void *handle, library *l) {
    RETURN_IF_FAILED(cuda_library_find(handle, "nvrtcGetErrorString", &l->error_string));
    RETURN_IF_FAILED(cuda_library_find(handle, "nvrtcVersion", &l->version));
    RETURN_IF_FAILED(cuda_library_find(handle, "nvrtcGetNumSupportedArchs", &l->arch_count));
    RETURN_IF_FAILED(cuda_library_find(handle, "nvrtcGetSupportedArchs", &l->archs));
    RETURN_IF_FAILED(cuda_library_find(handle, "nvrtcCreateProgram", &l->create));
    RETURN_IF_FAILED(cuda_library_find(handle, "nvrtcDestroyProgram", &l->destroy));
    RETURN_IF_FAILED(cuda_library_find(handle, "nvrtcCompileProgram", &l->compile));
    RETURN_IF_FAILED(cuda_library_find(handle, "nvrtcGetProgramLogSize", &l->log_size));
    RETURN_IF_FAILED(cuda_library_find(handle, "nvrtcGetProgramLog", &l->log));
    RETURN_IF_FAILED(cuda_library_find(handle, "nvrtcGetCUBINSize", &l->cubin_size));
    RETURN_IF_FAILED(cuda_library_find(handle, "nvrtcGetCUBIN", &l->cubin));
    RETURN_IF_FAILED(cuda_library_find(handle, "nvrtcGetPTXSize", &l->ptx_size));
    return cuda_library_find(handle, "nvrtcGetPTX", &l->ptx);
}

static dyno_status load(int toolkit, library *out) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static library loaded;
    dyno_status status = DYNO_OK;
    pthread_mutex_lock(&lock);
    if (loaded.toolkit != toolkit) {
        void *handle;
        library fresh = {.toolkit = toolkit};
        status = cuda_library_open("nvrtc", toolkit, &handle);
        if (status == DYNO_OK)
            status = find_functions(handle, &fresh);
        if (status == DYNO_OK && fresh.version(&fresh.major, &fresh.minor) != 0)
            status = dyno_fail(DYNO_UNSUPPORTED, "NVRTC does not tell its version");
        if (status == DYNO_OK)
            loaded = fresh;
        else
            status = dyno_fail_within(status, "compiling generated kernels");
    }
    *out = loaded;
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- options ---- */

enum { MOST_OPTIONS = 8, OPTION_BYTES = 1100 };

typedef struct options {
    char text[MOST_OPTIONS][OPTION_BYTES];
    const char *list[MOST_OPTIONS];
    int count;
    bool is_ptx;
} options;

static char *add_option(options *o) {
    o->list[o->count] = o->text[o->count];
    return o->text[o->count++];
}

/* Machine code for this chip if NVRTC supports it; else PTX for the newest architecture it supports
 * that is not newer than the chip, which the driver compiles. */
static dyno_status choose_architecture(const library *l, const nvrtc_target *target, options *o) {
    int count = 0, wanted = target->major * 10 + target->minor, best = 0;
    if (l->arch_count(&count) != 0 || count <= 0)
        return dyno_fail(DYNO_UNSUPPORTED, "NVRTC does not tell which chips it compiles for");
    int *list = memory_allocate((size_t)count, sizeof *list);
    bool is_known = l->archs(list) == 0;
    for (int i = 0; is_known && i < count; i++)
        if (list[i] <= wanted && list[i] > best)
            best = list[i];
    free(list);
    if (best == 0)
        return dyno_fail(DYNO_UNSUPPORTED, "NVRTC %d.%d compiles nothing for a chip of sm_%d",
                         l->major, l->minor, wanted);
    o->is_ptx = best != wanted;
    snprintf(add_option(o), OPTION_BYTES, "--gpu-architecture=%s_%d", o->is_ptx ? "compute" : "sm",
             best);
    return DYNO_OK;
}

static bool first_line_says(const char *source, const char *words) {
    size_t line = strcspn(source, "\n");
    const char *found = strstr(source, words);
    return found && found < source + line;
}

static dyno_status choose_options(const library *l, const char *source, const nvrtc_target *target,
                                  options *o) {
    RETURN_IF_FAILED(choose_architecture(l, target, o));
    snprintf(add_option(o), OPTION_BYTES, "--std=c++17");
    snprintf(add_option(o), OPTION_BYTES, "--fmad=%s",
             first_line_says(source, "fmad=true") ? "true" : "false");
    if (l->major > 12 || (l->major == 12 && l->minor >= 8))
        snprintf(add_option(o), OPTION_BYTES, "--split-compile=0"); /* on all cores */
    char directory[1024];
    if (cuda_include_directory(directory, sizeof directory))
        snprintf(add_option(o), OPTION_BYTES, "--include-path=%s", directory);
    return DYNO_OK;
}

/* ---- compiling ---- */

static dyno_status fail_with_log(const library *l, nvrtc_program *p, int error) {
    size_t bytes = 0;
    char *log = NULL;
    if (l->log_size(p, &bytes) == 0 && bytes > 1) {
        log = memory_allocate(bytes + 1, 1);
        if (l->log(p, log) != 0)
            log[0] = '\0';
    }
    dyno_status status = dyno_fail(DYNO_IO, "NVRTC %d.%d failed on generated kernels (%s): %.1200s",
                                   l->major, l->minor, l->error_string(error), log ? log : "");
    free(log);
    return status;
}

static dyno_status compile(const library *l, const char *source, const options *o,
                           nvrtc_code *out) {
    nvrtc_program *p = NULL;
    int error = l->create(&p, source, "generated.cu", 0, NULL, NULL);
    if (error != 0)
        return dyno_fail(DYNO_IO, "NVRTC takes no source: %s", l->error_string(error));
    dyno_status status = DYNO_OK;
    error = l->compile(p, o->count, o->list);
    if (error != 0)
        status = fail_with_log(l, p, error);
    if (status == DYNO_OK) {
        error = (o->is_ptx ? l->ptx_size : l->cubin_size)(p, &out->size);
        if (error == 0) {
            out->bytes = memory_allocate(out->size + 1, 1);
            error = (o->is_ptx ? l->ptx : l->cubin)(p, out->bytes);
        }
        if (error != 0) {
            nvrtc_code_release(out);
            status = dyno_fail(DYNO_IO, "NVRTC gives no code: %s", l->error_string(error));
        }
    }
    l->destroy(&p);
    out->was_compiled = status == DYNO_OK;
    return status;
}

/* ---- the cache ---- */

static hash_string code_hash(const library *l, const char *source, const options *o) {
    text all = {0};
    text_format(&all, "nvrtc %d.%d\n", l->major, l->minor);
    for (int i = 0; i < o->count; i++)
        text_format(&all, "%s ", o->list[i]);
    text_format(&all, "\n%s", source);
    hash_string hash = hash_text(all.data, all.length);
    text_release(&all);
    return hash;
}

dyno_status nvrtc_compile(const char *source, const nvrtc_target *target, nvrtc_code *out) {
    *out = (nvrtc_code){0};
    library l;
    RETURN_IF_FAILED(load(target->toolkit, &l));
    options *o = memory_allocate(1, sizeof *o);
    dyno_status status = choose_options(&l, source, target, o);
    if (status == DYNO_OK) {
        hash_string hash = code_hash(&l, source, o);
        static const char SUFFIX[] = ".cubin";
        /* A full disk costs the next run a compilation; this one does not fail. */
        if (!cache_read_sealed(&hash, SUFFIX, &out->bytes, &out->size)) {
            status = compile(&l, source, o, out);
            if (status == DYNO_OK)
                cache_write_sealed(&hash, SUFFIX, "compiled kernels", out->bytes, out->size);
        }
    }
    free(o);
    return status;
}

void nvrtc_code_release(nvrtc_code *code) {
    free(code->bytes);
    *code = (nvrtc_code){0};
}
