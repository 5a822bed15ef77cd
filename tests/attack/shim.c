/* shim.c - preloaded into dyno by scripts/attack, it lets calls fail that do not fail on a healthy
 * machine.
 *
 * ATTACK_LOG       the file that findings are appended to
 * ATTACK_CALL      N: the N-th call that writes, renames, syncs, makes or opens something fails;
 *                  0: none does. At the end the log has the name of every call in order
 * ATTACK_ERROR     its errno; "short": a write takes only half, which is no failure
 * ATTACK_LASTS     set: all calls from the N-th on fail, as on a disk that is full
 * ATTACK_WATCH     the directory whose files must survive failed allocations
 *
 * With DYNO_FAIL_ALLOCATION=ask every allocation fails once: the process forks before each, the
 * child is refused and has to end well, and the parent goes on. While a temporary file is open, which
 * both would share, the log says instead that the allocation wants a run of its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum { SECONDS_TO_END = 60, MOST_FILES = 64, MOST_CALLS = 1 << 16 };

static long failing_call, calls;
static int error_number;
static bool is_short, lasts, is_logged;
static pid_t first_process;
static const char *log_path, *watched;
static const char *names[MOST_CALLS];

/* ---- the log ---- */

static void log_line(const char *format, ...) {
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    int file = NEXT(open)(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || NEXT(write)(file, line, (size_t)length) != length)
        abort();
    close(file);
}

__attribute__((constructor)) static void start(void) {
    const char *call = getenv("ATTACK_CALL"), *error = getenv("ATTACK_ERROR");
    log_path = getenv("ATTACK_LOG");
    watched = getenv("ATTACK_WATCH");
    is_logged = log_path && call;
    failing_call = call ? atol(call) : 0;
    is_short = error && strcmp(error, "short") == 0;
    error_number = error ? atoi(error) : EIO;
    lasts = getenv("ATTACK_LASTS");
    first_process = getpid();
    unsetenv("LD_PRELOAD"); /* the compiler is not attacked */
}

/* ---- calls that fail ---- */

/* Whether this one does. */
static bool fails(const char *name) {
    if (!is_logged || getpid() != first_process)
        return false;
    if (calls < MOST_CALLS)
        names[calls] = name;
    calls++;
    if (is_short || failing_call == 0 || calls < failing_call || (calls > failing_call && !lasts))
        return false;
    errno = error_number;
    return true;
}

static size_t taken(size_t count) {
    return is_short && calls == failing_call && count > 1 ? count / 2 : count;
}

__attribute__((destructor)) static void finish(void) {
    if (!is_logged || getpid() != first_process)
        return;
    for (long i = 0; i < calls && i < MOST_CALLS; i++)
        log_line("call %s\n", names[i]);
}

static bool makes_a_file(int flags) { return flags & (O_WRONLY | O_RDWR | O_CREAT); }

#define OPEN(name, before, ...)                                                                    \
    {                                                                                              \
        va_list arguments;                                                                         \
        va_start(arguments, before);                                                               \
        int mode = va_arg(arguments, int);                                                         \
        va_end(arguments);                                                                         \
        return fails(makes_a_file(before) ? "open-write" : "open-read")                            \
                   ? -1                                                                            \
                   : NEXT(name)(__VA_ARGS__, mode);                                                \
    }
int open(const char *path, int flags, ...) OPEN(open, flags, path,
                                                flags) int open64(const char *path, int flags, ...)
    OPEN(open64, flags, path, flags) int openat(int at, const char *path, int flags, ...)
        OPEN(openat, flags, at, path, flags) int openat64(int at, const char *path, int flags, ...)
            OPEN(openat64, flags, at, path, flags)

#define FOPEN(name)                                                                                \
    FILE *name(const char *path, const char *mode) {                                               \
        return fails(strchr(mode, 'r') ? "open-read" : "open-write") ? NULL                        \
                                                                     : NEXT(name)(path, mode);     \
    }
                FOPEN(fopen) FOPEN(fopen64)

                    FILE *fdopen(int file, const char *mode) {
    return fails("fdopen") ? NULL : NEXT(fdopen)(file, mode);
}
int mkstemp(char *name) { return fails("mkstemp") ? -1 : NEXT(mkstemp)(name); }
int mkstemp64(char *name) { return fails("mkstemp") ? -1 : NEXT(mkstemp64)(name); }
int mkostemp(char *name, int flags) { return fails("mkstemp") ? -1 : NEXT(mkostemp)(name, flags); }
int mkostemp64(char *name, int flags) {
    return fails("mkstemp") ? -1 : NEXT(mkostemp64)(name, flags);
}
char *mkdtemp(char *name) { return fails("mkdtemp") ? NULL : NEXT(mkdtemp)(name); }
int mkdir(const char *path, mode_t mode) { return fails("mkdir") ? -1 : NEXT(mkdir)(path, mode); }
int mkdirat(int at, const char *path, mode_t mode) {
    return fails("mkdir") ? -1 : NEXT(mkdirat)(at, path, mode);
}
int memfd_create(const char *name, unsigned flags) {
    return fails("memfd_create") ? -1 : NEXT(memfd_create)(name, flags);
}

ssize_t write(int file, const void *bytes, size_t count) {
    if (file == STDERR_FILENO)
        return NEXT(write)(file, bytes, count);
    return fails("write") ? -1 : NEXT(write)(file, bytes, taken(count));
}
ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
    return fails("write") ? -1 : NEXT(pwrite)(file, bytes, taken(count), offset);
}
ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t offset) {
    return fails("write") ? -1 : NEXT(pwrite64)(file, bytes, taken(count), offset);
}
ssize_t writev(int file, const struct iovec *parts, int count) {
    return fails("write") ? -1 : NEXT(writev)(file, parts, count);
}
ssize_t copy_file_range(int from, off64_t *from_offset, int to, off64_t *to_offset, size_t count,
                        unsigned flags) {
    return fails("write")
               ? -1
               : NEXT(copy_file_range)(from, from_offset, to, to_offset, taken(count), flags);
}
size_t fwrite(const void *bytes, size_t size, size_t count, FILE *file) {
    if (file == stderr)
        return NEXT(fwrite)(bytes, size, count, file);
    return fails("fwrite") ? 0 : NEXT(fwrite)(bytes, size, count, file);
}
int fflush(FILE *file) {
    if (file == stderr)
        return NEXT(fflush)(file);
    return fails("fflush") ? EOF : NEXT(fflush)(file);
}
/* A stream that was only read loses nothing. */
int fclose(FILE *file) {
    int flags = fcntl(fileno(file), F_GETFL);
    bool is_failing = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && fails("fclose");
    int error = errno, result = NEXT(fclose)(file);
    if (is_failing)
        errno = error;
    return is_failing ? EOF : result;
}
int fsync(int file) { return fails("fsync") ? -1 : NEXT(fsync)(file); }
int fdatasync(int file) { return fails("fsync") ? -1 : NEXT(fdatasync)(file); }
int ftruncate(int file, off_t size) {
    return fails("ftruncate") ? -1 : NEXT(ftruncate)(file, size);
}
int ftruncate64(int file, off64_t size) {
    return fails("ftruncate") ? -1 : NEXT(ftruncate64)(file, size);
}
int rename(const char *from, const char *to) {
    return fails("rename") ? -1 : NEXT(rename)(from, to);
}
int renameat(int from_at, const char *from, int to_at, const char *to) {
    return fails("rename") ? -1 : NEXT(renameat)(from_at, from, to_at, to);
}
int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    return fails("rename") ? -1 : NEXT(renameat2)(from_at, from, to_at, to, flags);
}
int link(const char *from, const char *to) { return fails("rename") ? -1 : NEXT(link)(from, to); }
int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    return fails("rename") ? -1 : NEXT(linkat)(from_at, from, to_at, to, flags);
}

/* ---- files under the watched directory ---- */

typedef struct watched_file {
    char path[512];
    struct timespec changed;
    off_t size;
    ino_t inode;
} watched_file;

typedef struct listing {
    watched_file files[MOST_FILES];
    int count;
    bool has_temporary;
} listing;

static listing first; /* before the process did anything */
static listing *filled;

static int add_file(const char *path, const struct stat *status, int kind, struct FTW *walk) {
    (void)walk;
    filled->has_temporary =
        filled->has_temporary || strstr(path, ".tmp-") || strstr(path, "dyno-build-");
    if (kind != FTW_F)
        return 0;
    if (filled->count == MOST_FILES || strlen(path) >= sizeof filled->files->path)
        abort();
    watched_file *file = &filled->files[filled->count++];
    *file = (watched_file){
        .changed = status->st_mtim, .size = status->st_size, .inode = status->st_ino};
    strcpy(file->path, path);
    return 0;
}

static void list_files(listing *out) {
    *out = (listing){.count = 0};
    filled = out;
    nftw(watched, add_file, 8, FTW_PHYS);
}

static bool is_in(const listing *from, const watched_file *wanted) {
    for (int i = 0; i < from->count; i++) {
        const watched_file *file = &from->files[i];
        if (strcmp(file->path, wanted->path) == 0)
            return file->size == wanted->size && file->inode == wanted->inode &&
                   memcmp(&file->changed, &wanted->changed, sizeof file->changed) == 0;
    }
    return false;
}

static bool has_path(const listing *from, const char *path) {
    for (int i = 0; i < from->count; i++)
        if (strcmp(from->files[i].path, path) == 0)
            return true;
    return false;
}

/* A second name of a file, by which it can be brought back when a child replaces it. */
static const char *second_name(const watched_file *file) {
    static char name[600];
    snprintf(name, sizeof name, "%s.kept-%lu", log_path, (unsigned long)file->inode);
    return name;
}

static void keep_all(const listing *from) {
    for (int i = 0; i < from->count; i++)
        if (NEXT(link)(from->files[i].path, second_name(&from->files[i])) != 0 && errno != EEXIST)
            abort();
}

/* What the child made is moved aside for scripts/attack to look at, and what it replaced is brought
 * back, so that the parent finds what it would have found. A record that this run has begun may go
 * with it; what was there before may not. */
static void take_aside(unsigned long number, const listing *before) {
    static int taken_aside;
    listing after;
    list_files(&after);
    for (int i = 0; i < after.count; i++) {
        char aside[600];
        if (is_in(before, &after.files[i]))
            continue;
        snprintf(aside, sizeof aside, "%s.%d", log_path, taken_aside++);
        if (NEXT(rename)(after.files[i].path, aside) != 0)
            abort();
        log_line("made %lu %s %s\n", number, after.files[i].path, aside);
    }
    for (int i = 0; i < before->count; i++) {
        const watched_file *file = &before->files[i];
        struct stat status;
        if (is_in(&after, file))
            continue;
        if (stat(second_name(file), &status) != 0 || status.st_size != file->size ||
            memcmp(&status.st_mtim, &file->changed, sizeof file->changed) != 0)
            log_line("fail %lu: %s was changed in place\n", number, file->path);
        else if (NEXT(link)(second_name(file), file->path) != 0)
            log_line("fail %lu: %s cannot be brought back\n", number, file->path);
        else if (!has_path(&after, file->path) && has_path(&first, file->path))
            log_line("fail %lu: %s is lost\n", number, file->path);
    }
}

/* ---- allocations that fail ---- */

static void become_child(const char *error_path) {
    int errors = NEXT(open)(error_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    int nowhere = NEXT(open)("/dev/null", O_WRONLY);
    dup2(errors, STDERR_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    close(errors);
    close(nowhere);
    alarm(SECONDS_TO_END);
}

static void judge(unsigned long number, int status, const char *error_path) {
    char said[512] = "";
    int errors = NEXT(open)(error_path, O_RDONLY);
    ssize_t got = errors >= 0 ? read(errors, said, sizeof said - 1) : -1;
    said[got > 0 ? got : 0] = '\0';
    said[strcspn(said, "\n")] = '\0';
    if (errors >= 0)
        close(errors);
    if (WIFSIGNALED(status))
        log_line("fail %lu: signal %d: %s\n", number, WTERMSIG(status), said);
    else if (WEXITSTATUS(status) > 2)
        log_line("fail %lu: exit code %d: %s\n", number, WEXITSTATUS(status), said);
    else if (WEXITSTATUS(status) && strncmp(said, "dyno", 4) != 0)
        log_line("fail %lu: exit code %d without a message: '%s'\n", number, WEXITSTATUS(status),
                 said);
    else
        log_line("tried %lu %d\n", number, WEXITSTATUS(status));
}

bool dyno_refuses_allocation(unsigned long number);
bool dyno_refuses_allocation(unsigned long number) {
    static listing before;
    char error_path[600];
    if (getpid() != first_process || !log_path || !watched)
        return false;
    list_files(&before);
    if (number == 1)
        first = before;
    if (before.has_temporary) {
        log_line("later %lu\n", number);
        return false;
    }
    keep_all(&before);
    snprintf(error_path, sizeof error_path, "%s.errors", log_path);
    pid_t child = fork();
    if (child == 0) {
        become_child(error_path);
        return true;
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (child < 0)
        log_line("fail %lu: no fork\n", number);
    else
        judge(number, status, error_path);
    take_aside(number, &before);
    return false;
}
