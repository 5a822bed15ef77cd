/* nvrtc.c - the few functions of NVRTC that are needed are declared by hand: its headers are absent
 * where dyno is built without CUDA. They are part of its stable interface. */
#include "runtime/nvrtc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cache.h"
#include "base/file.h"
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

/* ---- the cache: a line that says what the file is, then the code ---- */

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

static void write_head(text *out, const hash_string *hash, const nvrtc_code *code) {
    text_format(out, "dyno-gpu-code %s %zu %s\n", hash->text, code->size,
                hash_text(code->bytes, code->size).text);
}

static bool read_cached(const char *path, const hash_string *hash, nvrtc_code *out) {
    enum { MOST_BYTES = 1 << 30 };
    char *data;
    size_t size;
    if (file_read_all(path, MOST_BYTES, &data, &size) != DYNO_OK)
        return false;
    const char *newline = memchr(data, '\n', size < 256 ? size : 256);
    bool is_good = false;
    if (newline) {
        size_t head_bytes = (size_t)(newline + 1 - data);
        nvrtc_code code = {.bytes = data + head_bytes, .size = size - head_bytes};
        text head = {0};
        write_head(&head, hash, &code);
        is_good = head.length == head_bytes && memcmp(head.data, data, head_bytes) == 0;
        text_release(&head);
        if (is_good) {
            out->bytes = memory_allocate(code.size + 1, 1); /* ends in NUL, as PTX must */
            memcpy(out->bytes, code.bytes, code.size);
            out->size = code.size;
        }
    }
    free(data);
    return is_good;
}

/* A full disk costs the next run a compilation; this one does not fail. */
static void write_cached(const char *path, const hash_string *hash, const nvrtc_code *code) {
    text all = {0}, directory = {0};
    bool is_writable = cache_prepare(&directory, "compiled kernels");
    text_release(&directory);
    if (!is_writable)
        return;
    write_head(&all, hash, code);
    text_append_bytes(&all, code->bytes, code->size);
    if (file_write_all(path, all.data, all.length) != DYNO_OK)
        fprintf(stderr, "dyno: compiled kernels are not kept: %s\n", dyno_error_message());
    text_release(&all);
}

dyno_status nvrtc_compile(const char *source, const nvrtc_target *target, nvrtc_code *out) {
    *out = (nvrtc_code){0};
    library l;
    RETURN_IF_FAILED(load(target->toolkit, &l));
    options *o = memory_allocate(1, sizeof *o);
    dyno_status status = choose_options(&l, source, target, o);
    if (status == DYNO_OK) {
        hash_string hash = code_hash(&l, source, o);
        text path = {0};
        bool has_place = cache_directory(&path); /* the cache may be read-only */
        text_format(&path, "/%s.cubin", hash.text);
        if (!has_place || !read_cached(path.data, &hash, out)) {
            status = compile(&l, source, o, out);
            if (status == DYNO_OK)
                write_cached(path.data, &hash, out);
        }
        text_release(&path);
    }
    free(o);
    return status;
}

void nvrtc_code_release(nvrtc_code *code) {
    free(code->bytes);
    *code = (nvrtc_code){0};
}
