/* optional.c - a table of libraries: the names to try, and how each tells its version.
 *
 * Version functions are declared here by hand, because the headers of an absent library are
 * absent too. Each is part of its library's stable interface. */
#define _GNU_SOURCE
#include "measure/optional.h"

#include <dlfcn.h>
#include <link.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VERSION_BYTES = 64, MOST_NAMES = 4 };

/* Writes the version through `symbol`, whose type the row below knows. */
typedef void version_reader(void *symbol, char *out);

/* dlsym gives an object pointer; POSIX says that its bytes are the function's. */
#define AS_FUNCTION(type, name, symbol)                                                            \
    type name;                                                                                     \
    memcpy(&name, &(symbol), sizeof name)

static void read_onednn(void *symbol, char *out) {
    struct onednn_version {
        int major, minor, patch;
    };
    typedef const struct onednn_version *get_version(void);
    AS_FUNCTION(get_version *, get, symbol);
    const struct onednn_version *version = get();
    snprintf(out, VERSION_BYTES, "%d.%d.%d", version->major, version->minor, version->patch);
}

/* 12040 is 12.4. */
static void read_cuda(void *symbol, char *out) {
    typedef int get_version(int *);
    AS_FUNCTION(get_version *, get, symbol);
    int version = 0;
    if (get(&version) == 0)
        snprintf(out, VERSION_BYTES, "%d.%d", version / 1000, version % 1000 / 10);
}

/* 130002 is 13.0.2. */
static void read_cublaslt(void *symbol, char *out) {
    typedef size_t get_version(void);
    AS_FUNCTION(get_version *, get, symbol);
    size_t version = get();
    snprintf(out, VERSION_BYTES, "%zu.%zu.%zu", version / 10000, version / 100 % 100,
             version % 100);
}

static void read_nvrtc(void *symbol, char *out) {
    typedef int get_version(int *, int *);
    AS_FUNCTION(get_version *, get, symbol);
    int major = 0, minor = 0;
    if (get(&major, &minor) == 0)
        snprintf(out, VERSION_BYTES, "%d.%d", major, minor);
}

static void read_cupti(void *symbol, char *out) {
    typedef int get_version(uint32_t *);
    AS_FUNCTION(get_version *, get, symbol);
    uint32_t version = 0;
    if (get(&version) == 0)
        snprintf(out, VERSION_BYTES, "API %u", version);
}

/* 22105 is 2.21.5. */
static void read_nccl(void *symbol, char *out) {
    typedef int get_version(int *);
    AS_FUNCTION(get_version *, get, symbol);
    int version = 0;
    if (get(&version) == 0)
        snprintf(out, VERSION_BYTES, "%d.%d.%d", version / 10000, version / 100 % 100,
                 version % 100);
}

/* Allowed before MPI_Init. The answer is a paragraph; its first clause is the version. */
static void read_mpi(void *symbol, char *out) {
    typedef int get_version(char *, int *);
    AS_FUNCTION(get_version *, get, symbol);
    char answer[8192] = "";
    int length = 0;
    if (get(answer, &length) == 0)
        snprintf(out, VERSION_BYTES, "%.*s", (int)strcspn(answer, ",\n"), answer);
}

/* SQLite and zlib. */
static void read_text(void *symbol, char *out) {
    typedef const char *get_version(void);
    AS_FUNCTION(get_version *, get, symbol);
    snprintf(out, VERSION_BYTES, "%s", get());
}

static const struct {
    const char *name, *without;
    const char *library[MOST_NAMES]; /* newest first */
    const char *symbol;
    version_reader *read;
    const char *folder; /* below the CUDA toolkit, for what ldconfig often does not know */
} PARTS[OPTIONAL_COUNT] = {
    [OPTIONAL_ONEDNN] = {"oneDNN",
                         "products of fp32 on the CPU are all dyno's own",
                         {"libdnnl.so.3", "libdnnl.so.2"},
                         "dnnl_version",
                         read_onednn,
                         NULL},
    [OPTIONAL_CUDA_DRIVER] = {"CUDA driver",
                              "nothing runs on a GPU",
                              {"libcuda.so.1"},
                              "cuDriverGetVersion",
                              read_cuda,
                              NULL},
    [OPTIONAL_CUBLASLT] = {"cuBLASLt",
                           "there are no matrix products on a GPU",
                           {"libcublasLt.so.13"},
                           "cublasLtGetVersion",
                           read_cublaslt,
                           "lib64"},
    [OPTIONAL_NVRTC] = {"NVRTC",
                        "there are no generated kernels on a GPU",
                        {"libnvrtc.so.13"},
                        "nvrtcVersion",
                        read_nvrtc,
                        "lib64"},
    [OPTIONAL_CUPTI] = {"CUPTI",
                        "breakdowns on a GPU are timed from outside, by events",
                        {"libcupti.so.13", "libcupti.so.12", "libcupti.so"},
                        "cuptiGetVersion",
                        read_cupti,
                        "extras/CUPTI/lib64"},
    [OPTIONAL_NCCL] = {"NCCL",
                       "ranks cannot exchange what is on GPUs",
                       {"libnccl.so.2"},
                       "ncclGetVersion",
                       read_nccl,
                       "lib64"},
    [OPTIONAL_MPI] = {"Open MPI",
                      "ranks are of one host",
                      {"libmpi.so.40"},
                      "MPI_Get_library_version",
                      read_mpi,
                      NULL},
    [OPTIONAL_SQLITE] = {"SQLite",
                         "exports of Nsight Systems cannot be read (profile --from)",
                         {"libsqlite3.so.0"},
                         "sqlite3_libversion",
                         read_text,
                         NULL},
    [OPTIONAL_ZLIB] = {"zlib",
                       "compressed traces must be unpacked first (profile --from)",
                       {"libz.so.1"},
                       "zlibVersion",
                       read_text,
                       NULL},
};

const char *optional_name(optional_part part) { return PARTS[part].name; }

const char *optional_without(optional_part part) { return PARTS[part].without; }

static void *open_library(optional_part part, const char *library) {
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    const char *home = getenv("CUDA_HOME");
    const char *roots[] = {home, "/usr/local/cuda"};
    for (int i = 0; i < 2 && !handle && PARTS[part].folder; i++) {
        if (!roots[i])
            continue;
        char path[1024];
        int length = snprintf(path, sizeof path, "%s/%s/%s", roots[i], PARTS[part].folder, library);
        if (length > 0 && (size_t)length < sizeof path)
            handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    }
    return handle;
}

optional_answer optional_find(optional_part part) {
    optional_answer answer = {0};
    void *handle = NULL;
    for (int i = 0; i < MOST_NAMES && PARTS[part].library[i] && !handle; i++)
        handle = open_library(part, PARTS[part].library[i]);
    if (!handle) {
        size_t used = 0;
        for (int i = 0; i < MOST_NAMES && PARTS[part].library[i]; i++)
            used += (size_t)snprintf(answer.detail + used, sizeof answer.detail - used, "%s%s",
                                     i ? " or " : "no ", PARTS[part].library[i]);
        return answer;
    }
    answer.is_found = true;
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map)
        snprintf(answer.detail, sizeof answer.detail, "%s", map->l_name);
    void *symbol = dlsym(handle, PARTS[part].symbol);
    if (symbol)
        PARTS[part].read(symbol, answer.version);
    return answer;
}

/* Finds `program` in $PATH, or as given when it has a slash. */
static bool find_program(const char *program, char *path, size_t bytes) {
    if (strchr(program, '/')) {
        snprintf(path, bytes, "%s", program);
        return access(path, X_OK) == 0;
    }
    const char *folders = getenv("PATH");
    for (const char *p = folders ? folders : ""; *p;) {
        size_t length = strcspn(p, ":");
        int written = snprintf(path, bytes, "%.*s/%s", (int)length, p, program);
        if (length && written > 0 && (size_t)written < bytes && access(path, X_OK) == 0)
            return true;
        p += length + (p[length] == ':');
    }
    return false;
}

/* The first line that `path --version` prints; the version is its last word, but distributions
 * put theirs anywhere, so the whole line is kept as far as it fits. */
static void read_program_version(const char *path, char *out) {
    int ends[2];
    if (pipe(ends) != 0)
        return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    char *arguments[] = {(char *)(uintptr_t)path, (char[]){"--version"}, NULL};
    pid_t child;
    int error = posix_spawn(&child, path, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error == 0) {
        FILE *answer = fdopen(ends[0], "r");
        if (answer && fgets(out, VERSION_BYTES, answer))
            out[strcspn(out, "\n")] = '\0';
        /* Drained, so that the child never dies of a closed pipe. */
        while (answer && fgetc(answer) != EOF)
            ;
        if (answer)
            fclose(answer);
        else
            close(ends[0]);
        waitpid(child, NULL, 0);
    } else {
        close(ends[0]);
    }
}

optional_answer optional_find_compiler(void) {
    optional_answer answer = {0};
    const char *chosen = getenv("CC");
    const char *names[] = {chosen && *chosen ? chosen : "cc", "gcc", "clang"};
    for (int i = 0; i < 3; i++)
        if (find_program(names[i], answer.detail, sizeof answer.detail)) {
            answer.is_found = true;
            read_program_version(answer.detail, answer.version);
            return answer;
        }
    snprintf(answer.detail, sizeof answer.detail, "no %s, gcc or clang in $PATH", names[0]);
    return answer;
}
