#define _GNU_SOURCE
#include "runtime/jit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/stop.h"
#include "base/text.h"
#include "ops/levels.h"

struct jit_module {
    void *handle;
};

static const char *const FLAGS[] = {
    "-std=gnu11",
    "-O3",
#if defined __x86_64__
    "-mprefer-vector-width=512",
#endif
    "-ffp-contract=off", /* an op has the same bits in every kernel */
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-fPIC",
    "-shared"};
enum { FLAG_COUNT = sizeof FLAGS / sizeof *FLAGS };

static text architecture_flag(const target *chip) {
    const char *level = target_is_this_cpu(chip) ? NULL : level_name(chip);
    text flag = {0};
    text_format(&flag, "-march=%s", level ? level : "native");
    return flag;
}

static bool is_on_path(const char *name) {
    if (strchr(name, '/'))
        return access(name, X_OK) == 0;
    const char *path = getenv("PATH");
    for (const char *at = path; at && *at;) {
        size_t length = strcspn(at, ":");
        text candidate = {0};
        text_append_bytes(&candidate, at, length);
        text_format(&candidate, "/%s", name);
        bool found = access(text_string(&candidate), X_OK) == 0;
        text_release(&candidate);
        if (found)
            return true;
        at += length + (at[length] == ':');
    }
    return false;
}

const char *jit_compiler(void) {
    const char *candidates[] = {getenv("CC"), "cc", "gcc", "clang"};
    for (int i = 0; i < 4; i++)
        if (candidates[i] && candidates[i][0] && is_on_path(candidates[i]))
            return candidates[i];
    return NULL;
}

bool jit_is_possible(void) {
    static bool has_said; /* plans are made by one thread */
    if (jit_compiler())
        return true;
    if (!has_said)
        fputs("dyno: there is no C compiler (cc, gcc, clang): compiled mode runs without fused "
              "kernels, slower. Install gcc, or set CC.\n",
              stderr);
    has_said = true;
    return false;
}

/* The object contains its own hash, so that a damaged or wrong file is detected. */
static const char HASH_SYMBOL[] = "dyno_module_hash";

static hash_string module_hash(const char *source, const char *compiler, const char *architecture) {
    text all = {0};
    struct stat status;
    text_format(&all, "%s %s\n", compiler, architecture);
    if (stat(compiler, &status) == 0)
        text_format(&all, "%lld %lld\n", (long long)status.st_mtime, (long long)status.st_size);
    /* -march=native differs between machines that share a home directory. */
    FILE *cpuinfo = fopen("/proc/cpuinfo", "r");
    char line[4096];
    while (cpuinfo && fgets(line, sizeof line, cpuinfo))
        if (strncmp(line, "flags", 5) == 0 || strncmp(line, "model name", 10) == 0) {
            text_append(&all, line);
            if (line[0] == 'f')
                break;
        }
    if (cpuinfo)
        fclose(cpuinfo);
    for (int i = 0; i < FLAG_COUNT; i++)
        text_format(&all, "%s ", FLAGS[i]);
    text_append(&all, source);
    hash_string hash = hash_text(all.data, all.length);
    text_release(&all);
    return hash;
}

static void *open_checked(const char *path, const hash_string *hash) {
    struct stat status;
    if (stat(path, &status) != 0 || status.st_size == 0)
        return NULL;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return NULL;
    const char *inside = dlsym(handle, HASH_SYMBOL);
    if (inside && strcmp(inside, hash->text) == 0)
        return handle;
    dlclose(handle);
    return NULL;
}

/* Waits for the compiler; whoever asked to stop does not, and it is ended with all it started. */
static dyno_status wait_for(pid_t child, int *status) {
    const struct timespec pause = {.tv_nsec = 1000000};
    for (;;) {
        pid_t ended = waitpid(child, status, stop_is_asked() ? WNOHANG : 0);
        if (ended == child)
            return DYNO_OK;
        if (ended < 0 && errno != EINTR)
            return dyno_fail(DYNO_IO, "waiting for the compiler: %s", strerror(errno));
        if (stop_is_requested())
            break;
        nanosleep(&pause, NULL);
    }
    kill(-child, SIGKILL);
    waitpid(child, status, 0);
    return stop_check("compiling kernels");
}

/* In a process group of its own, so that all of it can be ended. */
static void become_compiler(const char *log_path, const char *const *arguments) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    int log = open(log_path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (log >= 0) {
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
    }
    execvp(arguments[0], (char *const *)arguments);
    _exit(127);
}

/* Runs the compiler; on failure the message holds the beginning of its output. */
static dyno_status compile(const char *compiler, const char *architecture, const char *source_path,
                           const char *object_path, const char *log_path) {
    const char *arguments[FLAG_COUNT + 9];
    int count = 0;
    arguments[count++] = compiler;
    arguments[count++] = architecture;
    for (int i = 0; i < FLAG_COUNT; i++)
        arguments[count++] = FLAGS[i];
    arguments[count++] = "-o";
    arguments[count++] = object_path;
    arguments[count++] = source_path;
    arguments[count++] = "-lm";
    arguments[count] = NULL;
    pid_t child = fork();
    if (child < 0)
        return dyno_fail(DYNO_IO, "cannot start the compiler '%s': %s", compiler, strerror(errno));
    if (child == 0)
        become_compiler(log_path, arguments);
    setpgid(child, child); /* whichever of the two comes first */
    int status;
    RETURN_IF_FAILED(wait_for(child, &status));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return DYNO_OK;
    char said[400] = "";
    FILE *log = fopen(log_path, "r");
    if (log) {
        size_t got = fread(said, 1, sizeof said - 1, log);
        said[got] = '\0';
        fclose(log);
    }
    return dyno_fail(DYNO_IO, "the compiler '%s' failed on generated kernels: %s", compiler, said);
}

/* Compiles in `directory` under a temporary name; the object is renamed to `kept`, or loaded from
 * where it is when that is NULL. */
static dyno_status build(const char *compiler, const char *architecture, const char *source,
                         const hash_string *hash, const char *directory, const char *kept,
                         void **handle) {
    text work = {0}, source_path = {0}, object_path = {0}, log_path = {0}, module = {0};
    text_format(&work, "%s/build-XXXXXX", directory);
    dyno_status status = DYNO_OK;
    if (!mkdtemp(work.data)) {
        status = dyno_fail(DYNO_IO, "cannot write in '%s': %s", directory, strerror(errno));
        text_release(&work);
        return status;
    }
    text_format(&source_path, "%s/kernels.c", work.data);
    text_format(&object_path, "%s/kernels.so", work.data);
    text_format(&log_path, "%s/log", work.data);
    text_format(&module, "%sconst char %s[] = \"%s\";\n", source, HASH_SYMBOL, hash->text);
    status = file_write_all(source_path.data, module.data, module.length);
    if (status == DYNO_OK)
        status = compile(compiler, architecture, source_path.data, object_path.data, log_path.data);
    if (status == DYNO_OK) {
        const char *place = object_path.data;
        if (kept && rename(object_path.data, kept) == 0)
            place = kept;
        *handle = open_checked(place, hash);
        if (!*handle)
            status =
                dyno_fail(DYNO_IO, "cannot load the compiled kernels '%s': %s", place, dlerror());
    }
    unlink(source_path.data);
    unlink(object_path.data);
    unlink(log_path.data);
    rmdir(work.data);
    text_release(&work);
    text_release(&source_path);
    text_release(&object_path);
    text_release(&log_path);
    text_release(&module);
    return status;
}

static dyno_status build_or_find(const char *source, const char *compiler, const char *architecture,
                                 void **handle, bool *was_built) {
    hash_string hash = module_hash(source, compiler, architecture);
    text directory = {0}, object = {0};
    bool is_cached = cache_directory(&directory) &&
                     file_make_output_directory(text_string(&directory)) == DYNO_OK;
    dyno_status status = DYNO_OK;
    if (is_cached) {
        text_format(&object, "%s/%s.so", directory.data, hash.text);
        *handle = open_checked(object.data, &hash);
        *was_built = !*handle;
        if (*was_built)
            status =
                build(compiler, architecture, source, &hash, directory.data, object.data, handle);
    } else {
        fprintf(stderr,
                "dyno: the cache for generated kernels cannot be used (%s); compiling anew. Set "
                "XDG_CACHE_HOME to a directory that can be written.\n",
                dyno_error_message());
        *was_built = true;
        const char *temporary = getenv("TMPDIR");
        status = build(compiler, architecture, source, &hash,
                       temporary && *temporary ? temporary : "/tmp", NULL, handle);
    }
    text_release(&directory);
    text_release(&object);
    return status;
}

dyno_status jit_load(const char *source, const target *chip, jit_module **out, jit_times *times) {
    *out = NULL;
    const char *compiler = jit_compiler();
    if (!compiler)
        return dyno_fail(DYNO_UNSUPPORTED,
                         "there is no C compiler (cc, gcc, clang) for generated kernels; install "
                         "gcc, or set CC, or use --mode eager");
    int64_t begin = clock_now_ns();
    void *handle = NULL;
    bool was_built = false;
    text architecture = architecture_flag(chip);
    dyno_status status =
        build_or_find(source, compiler, text_string(&architecture), &handle, &was_built);
    text_release(&architecture);
    if (status != DYNO_OK)
        return status;
    int64_t spent = clock_now_ns() - begin;
    if (times)
        *times = (jit_times){.compile_ns = was_built ? spent : 0, .load_ns = was_built ? 0 : spent};
    *out = memory_allocate(1, sizeof **out);
    (*out)->handle = handle;
    return DYNO_OK;
}

void jit_destroy(jit_module *module) {
    if (!module)
        return;
    dlclose(module->handle);
    free(module);
}

void *jit_find(const jit_module *module, const char *symbol) {
    return dlsym(module->handle, symbol);
}
