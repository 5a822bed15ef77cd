#define _GNU_SOURCE
#include "runtime/jit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
#include "base/trust.h"
#include "ops/levels.h"

struct jit_module {
    void *handle;
    int file; /* that it was loaded from */
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
    text flag = {0};
    text_format(&flag, "-march=%s", level_of_generated(chip));
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

/* ---- loading ---- */

static int create_memory_file(void) {
#ifdef MFD_EXEC /* needed where the system makes such files non-executable by default */
    int file = memfd_create("dyno-kernels", MFD_CLOEXEC | MFD_EXEC);
    if (file >= 0 || errno != EINVAL)
        return file;
#endif
    return memfd_create("dyno-kernels", MFD_CLOEXEC);
}

/* Loads the bytes that were checked, from a file in memory that has no name: nobody can exchange
 * it, and a cache on a disk mounted noexec works too. The descriptor stays open as long as the
 * module, because the loader knows modules by their path. */
static dyno_status load_bytes(const char *bytes, size_t count, jit_module *out) {
    char path[64];
    out->file = create_memory_file();
    if (out->file < 0 || !file_write(out->file, bytes, count)) {
        dyno_status status =
            dyno_fail(DYNO_IO, "cannot load compiled kernels: a file of %zu bytes in memory: %s",
                      count, strerror(errno));
        if (out->file >= 0)
            close(out->file);
        return status;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", out->file);
    out->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (out->handle)
        return DYNO_OK;
    dyno_status status = dyno_fail(DYNO_IO, "cannot load compiled kernels: %s", dlerror());
    close(out->file);
    return status;
}

/* ---- compiling ---- */

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

/* A new directory that only this user can look into; the caller removes it. */
static dyno_status make_work_directory(text *out) {
    const char *temporary = getenv("TMPDIR");
    text reason = {0};
    bool is_usable = temporary && *temporary && strlen(temporary) < PATH_MAX / 2;
    if (!is_usable || !trust_directory(temporary, &reason))
        temporary = "/tmp";
    text_release(&reason);
    text_format(out, "%s/dyno-build-XXXXXX", temporary);
    if (mkdtemp(out->data))
        return DYNO_OK;
    return dyno_fail(DYNO_IO,
                     "cannot compile kernels in '%s': %s; set TMPDIR to a directory that "
                     "can be written",
                     temporary, strerror(errno));
}

static dyno_status write_source(const char *path, const char *source) {
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool is_good = file >= 0 && file_write(file, source, strlen(source));
    int error = errno;
    if (file >= 0 && close(file) != 0 && is_good) {
        error = errno;
        is_good = false;
    }
    return is_good ? DYNO_OK : dyno_fail(DYNO_IO, "writing '%s': %s", path, strerror(error));
}

/* *object belongs to the caller (free). Nothing in here ends the process for want of memory, so that
 * the directory is removed whatever happens. */
static dyno_status build_in(const char *work, const char *compiler, const char *architecture,
                            const char *source, char **object, size_t *size) {
    enum { MOST_BYTES = 1 << 30 };
    char source_path[PATH_MAX], object_path[PATH_MAX], log_path[PATH_MAX];
    snprintf(source_path, sizeof source_path, "%s/kernels.c", work);
    snprintf(object_path, sizeof object_path, "%s/kernels.so", work);
    snprintf(log_path, sizeof log_path, "%s/log", work);
    dyno_status status = write_source(source_path, source);
    if (status == DYNO_OK)
        status = compile(compiler, architecture, source_path, object_path, log_path);
    if (status == DYNO_OK)
        status = file_read_all(object_path, MOST_BYTES, object, size);
    unlink(source_path);
    unlink(object_path);
    unlink(log_path);
    rmdir(work);
    return status;
}

static dyno_status build(const char *compiler, const char *architecture, const char *source,
                         char **object, size_t *size) {
    text work = {0};
    dyno_status status = make_work_directory(&work);
    if (status == DYNO_OK)
        status = build_in(work.data, compiler, architecture, source, object, size);
    text_release(&work);
    return status;
}

static dyno_status build_or_find(const char *source, const char *compiler, const char *architecture,
                                 jit_module *out, bool *was_built) {
    static const char SUFFIX[] = ".so";
    hash_string hash = module_hash(source, compiler, architecture);
    char *object = NULL;
    size_t size;
    *was_built = !cache_read_sealed(&hash, SUFFIX, &object, &size);
    if (*was_built) {
        RETURN_IF_FAILED(build(compiler, architecture, source, &object, &size));
        cache_write_sealed(&hash, SUFFIX, "compiled kernels", object, size);
    }
    dyno_status status = load_bytes(object, size, out);
    free(object);
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
    jit_module loaded;
    bool was_built = false;
    text architecture = architecture_flag(chip);
    dyno_status status =
        build_or_find(source, compiler, text_string(&architecture), &loaded, &was_built);
    text_release(&architecture);
    if (status != DYNO_OK)
        return status;
    int64_t spent = clock_now_ns() - begin;
    if (times)
        *times = (jit_times){.compile_ns = was_built ? spent : 0, .load_ns = was_built ? 0 : spent};
    *out = memory_allocate(1, sizeof **out);
    **out = loaded;
    return DYNO_OK;
}

void jit_destroy(jit_module *module) {
    if (!module)
        return;
    dlclose(module->handle);
    close(module->file);
    free(module);
}

void *jit_find(const jit_module *module, const char *symbol) {
    return dlsym(module->handle, symbol);
}
