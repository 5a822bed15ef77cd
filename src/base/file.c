#define _GNU_SOURCE
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

/* "a pipe", for messages. */
static const char *kind_of_file(mode_t mode) {
    return S_ISDIR(mode)                    ? "a directory"
           : S_ISFIFO(mode)                 ? "a pipe"
           : S_ISSOCK(mode)                 ? "a socket"
           : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                            : "something else";
}

static dyno_status refuse_kind(const char *path, mode_t mode) {
    bool flows = S_ISFIFO(mode) || S_ISSOCK(mode);
    return dyno_fail(DYNO_INVALID, "'%s' is not a regular file: it is %s%s", path,
                     kind_of_file(mode), flows ? "; save what it gives in a file first" : "");
}

static dyno_status cannot_open(const char *path, int error) {
    return dyno_fail(error == ENOENT ? DYNO_NOT_FOUND : DYNO_IO, "cannot open '%s': %s", path,
                     strerror(error));
}

/* Looks before it opens, because opening a device can have effects, and again afterwards, because
 * the name may mean something else by then. Without O_NONBLOCK a pipe would block in open. */
dyno_status file_open_regular(const char *path, int *descriptor, int64_t *size) {
    struct stat status;
    *descriptor = -1;
    *size = 0;
    if (stat(path, &status) != 0)
        return cannot_open(path, errno);
    if (!S_ISREG(status.st_mode))
        return refuse_kind(path, status.st_mode);
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (opened < 0)
        return cannot_open(path, errno);
    if (fstat(opened, &status) != 0 || !S_ISREG(status.st_mode)) {
        close(opened);
        return refuse_kind(path, status.st_mode);
    }
    *descriptor = opened;
    *size = status.st_size;
    return DYNO_OK;
}

ssize_t file_read(int descriptor, char *to, size_t count) {
    size_t have = 0;
    while (have < count) {
        ssize_t got = read(descriptor, to + have, count - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

bool file_write(int descriptor, const char *from, size_t count) {
    while (count) {
        ssize_t put = write(descriptor, from, count);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        from += put;
        count -= (size_t)put;
    }
    return true;
}

static dyno_status read_opened(const char *path, int descriptor, size_t bytes, char **data) {
    char *block = memory_try_allocate(bytes + 1);
    if (!block)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "reading '%s': no %zu bytes of memory", path, bytes);
    ssize_t got = file_read(descriptor, block, bytes);
    if (got != (ssize_t)bytes) {
        int error = errno;
        free(block);
        if (got < 0)
            return dyno_fail(DYNO_IO, "reading '%s': %s", path, strerror(error));
        return dyno_fail(DYNO_IO, "reading '%s': got %zu of %zu bytes", path, (size_t)got, bytes);
    }
    block[bytes] = '\0';
    *data = block;
    return DYNO_OK;
}

dyno_status file_read_all(const char *path, int64_t limit, char **data, size_t *size) {
    int descriptor;
    int64_t bytes;
    *data = NULL;
    *size = 0;
    RETURN_IF_FAILED(file_open_regular(path, &descriptor, &bytes));
    dyno_status status = DYNO_OK;
    if (bytes > limit)
        status = dyno_fail(DYNO_INVALID, "'%s' is %lld bytes, the limit is %lld", path,
                           (long long)bytes, (long long)limit);
    else
        status = read_opened(path, descriptor, (size_t)bytes, data);
    close(descriptor);
    if (status == DYNO_OK)
        *size = (size_t)bytes;
    return status;
}

bool file_read_line(const char *path, char *out, size_t bytes) {
    out[0] = '\0';
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    bool is_good = fgets(out, (int)bytes, file) != NULL;
    fclose(file);
    out[strcspn(out, "\n")] = '\0';
    return is_good && out[0];
}

bool file_exists(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0;
}

/* The directory that the file is in, or would be in. */
static bool find_directory(const char *path, struct stat *out) {
    const char *slash = strrchr(path, '/');
    char *directory = memory_copy_string(slash ? path : ".");
    if (slash)
        directory[slash == path ? 1 : slash - path] = '\0';
    bool found = stat(directory, out) == 0;
    free(directory);
    return found;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_same_inode(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool file_is_same(const char *a, const char *b) {
    struct stat of_a, of_b;
    if (stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && is_same_inode(&of_a, &of_b))
        return true;
    return strcmp(base_name(a), base_name(b)) == 0 && find_directory(a, &of_a) &&
           find_directory(b, &of_b) && is_same_inode(&of_a, &of_b);
}

char *file_find_missing(const char *path) {
    char *part = memory_copy_string(path);
    for (char *end = part + (part[0] != '\0');; end++) {
        if (*end != '/' && *end != '\0')
            continue;
        char separator = *end;
        *end = '\0';
        if (!file_exists(part)) {
            bool goes_back = strstr(path + (end - part), "..") != NULL; /* to what others made */
            if (!goes_back)
                return part;
            break;
        }
        *end = separator;
        if (separator == '\0')
            break;
    }
    free(part);
    return NULL;
}

void file_remove_directories(const char *path, char *made) {
    char *part = memory_copy_string(path);
    while (made && strlen(part) >= strlen(made)) {
        rmdir(part); /* fails, rightly, when others put something in it meanwhile */
        char *slash = strrchr(part, '/');
        if (!slash || slash == part)
            break;
        *slash = '\0';
    }
    free(part);
    free(made);
}

dyno_status file_make_output_directory(const char *path) {
    if (!path[0])
        return dyno_fail(DYNO_INVALID, "the output directory's name is empty");
    char *partial = memory_copy_string(path);
    for (char *p = partial + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char separator = *p;
        *p = '\0';
        if (mkdir(partial, 0777) != 0 && errno != EEXIST) {
            dyno_status status = dyno_fail(DYNO_IO,
                                           "cannot make the output directory '%s': %s; give one "
                                           "that can be written to",
                                           partial, strerror(errno));
            free(partial);
            return status;
        }
        *p = separator;
        if (separator == '\0')
            break;
    }
    free(partial);
    size_t bytes = strlen(path) + 32;
    char *probe = memory_allocate(bytes, 1);
    snprintf(probe, bytes, "%s/.dyno-probe-XXXXXX", path);
    int descriptor = mkstemp(probe);
    dyno_status status = DYNO_OK;
    if (descriptor < 0) {
        status = dyno_fail(DYNO_IO,
                           "cannot write in the output directory '%s': %s; give one that can be "
                           "written to",
                           path, strerror(errno));
    } else {
        close(descriptor);
        unlink(probe);
    }
    free(probe);
    return status;
}
