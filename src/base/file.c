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
static dyno_status open_checked(const char *path, int flags, int *descriptor, struct stat *status) {
    *descriptor = -1;
    bool is_there = stat(path, status) == 0;
    if (!is_there && !(errno == ENOENT && flags & O_CREAT))
        return cannot_open(path, errno);
    if (is_there && !S_ISREG(status->st_mode))
        return refuse_kind(path, status->st_mode);
    int opened = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    if (opened < 0)
        return cannot_open(path, errno);
    if (fstat(opened, status) != 0 || !S_ISREG(status->st_mode)) {
        close(opened);
        return refuse_kind(path, status->st_mode);
    }
    *descriptor = opened;
    return DYNO_OK;
}

dyno_status file_open_regular(const char *path, int *descriptor, int64_t *size) {
    struct stat status;
    *size = 0;
    RETURN_IF_FAILED(open_checked(path, O_RDONLY, descriptor, &status));
    *size = status.st_size;
    return DYNO_OK;
}

/* Fewer than `count` only where the file ends. */
static ssize_t read_whole(int descriptor, char *to, size_t count) {
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

static dyno_status read_opened(const char *path, int descriptor, size_t bytes, char **data) {
    char *block = malloc(bytes + 1);
    if (!block)
        return dyno_fail(DYNO_OUT_OF_MEMORY, "reading '%s': no %zu bytes of memory", path, bytes);
    ssize_t got = read_whole(descriptor, block, bytes);
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

dyno_status file_append(const char *path, const void *bytes, size_t count) {
    int descriptor;
    struct stat before;
    RETURN_IF_FAILED(open_checked(path, O_WRONLY | O_APPEND | O_CREAT, &descriptor, &before));
    ssize_t written = write(descriptor, bytes, count);
    int error = written < 0 ? errno : ENOSPC;
    close(descriptor);
    if (written != (ssize_t)count)
        return dyno_fail(DYNO_IO, "writing '%s': %s", path, strerror(error));
    return DYNO_OK;
}

struct file_writer {
    FILE *file;
    char *path, *temporary;
};

dyno_status file_writer_create(const char *path, file_writer **out) {
    *out = NULL;
    struct stat status;
    bool exists = stat(path, &status) == 0;
    if (exists && S_ISDIR(status.st_mode))
        return dyno_fail(DYNO_INVALID, "cannot write '%s': it is a directory", path);
    /* A device or pipe cannot be renamed over; write straight into it. */
    bool direct = exists && !S_ISREG(status.st_mode);
    file_writer *writer = memory_allocate(1, sizeof *writer);
    writer->path = memory_copy_string(path);
    if (direct) {
        writer->file = fopen(path, "wb");
    } else {
        size_t bytes = strlen(path) + 16;
        writer->temporary = memory_allocate(bytes, 1);
        snprintf(writer->temporary, bytes, "%s.tmp-XXXXXX", path);
        int descriptor = mkstemp(writer->temporary);
        if (descriptor >= 0) {
            mode_t mask = umask(0);
            umask(mask);
            fchmod(descriptor, 0666 & ~mask); /* mkstemp makes it private; the result is not */
            writer->file = fdopen(descriptor, "wb");
        } else {
            writer->temporary[0] = '\0';
        }
    }
    if (!writer->file) {
        int error = errno;
        file_writer_abandon(writer);
        return dyno_fail(DYNO_IO, "cannot write '%s': %s", path, strerror(error));
    }
    *out = writer;
    return DYNO_OK;
}

dyno_status file_writer_append(file_writer *writer, const void *bytes, size_t count) {
    if (count && fwrite(bytes, 1, count, writer->file) != count)
        return dyno_fail(DYNO_IO, "writing '%s': %s", writer->path, strerror(errno));
    return DYNO_OK;
}

dyno_status file_writer_flush(file_writer *writer) {
    if (fflush(writer->file) != 0 || (writer->temporary && fsync(fileno(writer->file)) != 0))
        return dyno_fail(DYNO_IO, "writing '%s': %s", writer->path, strerror(errno));
    return DYNO_OK;
}

/* Without this the name may be lost with the power. A directory that cannot be opened or synced (some
 * file systems refuse) does not make the file less whole. */
static void sync_directory_of(const char *path) {
    char *directory = memory_copy_string(path), *slash = strrchr(directory, '/');
    if (slash)
        slash[slash == directory] = '\0';
    int descriptor = open(slash ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(directory);
    if (descriptor < 0)
        return;
    fsync(descriptor);
    close(descriptor);
}

dyno_status file_writer_commit(file_writer *writer) {
    bool good = fflush(writer->file) == 0;
    if (good && writer->temporary)
        good = fsync(fileno(writer->file)) == 0;
    int error = errno;
    if (fclose(writer->file) != 0 && good) {
        good = false;
        error = errno;
    }
    writer->file = NULL;
    if (good && writer->temporary && rename(writer->temporary, writer->path) != 0) {
        good = false;
        error = errno;
    }
    dyno_status status = DYNO_OK;
    if (good) {
        if (writer->temporary)
            sync_directory_of(writer->path);
        free(writer->temporary);
        writer->temporary = NULL;
    } else {
        status = dyno_fail(DYNO_IO, "writing '%s': %s; nothing was written", writer->path,
                           strerror(error));
    }
    file_writer_abandon(writer);
    return status;
}

void file_writer_abandon(file_writer *writer) {
    if (!writer)
        return;
    if (writer->file)
        fclose(writer->file);
    if (writer->temporary && writer->temporary[0])
        unlink(writer->temporary);
    free(writer->temporary);
    free(writer->path);
    free(writer);
}

dyno_status file_write_all(const char *path, const void *bytes, size_t count) {
    file_writer *writer;
    RETURN_IF_FAILED(file_writer_create(path, &writer));
    dyno_status status = file_writer_append(writer, bytes, count);
    if (status != DYNO_OK) {
        file_writer_abandon(writer);
        return status;
    }
    return file_writer_commit(writer);
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
            dyno_status status = dyno_fail(DYNO_IO, "cannot make the output directory '%s': %s",
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
        status = dyno_fail(DYNO_IO, "cannot write in the output directory '%s': %s", path,
                           strerror(errno));
    } else {
        close(descriptor);
        unlink(probe);
    }
    free(probe);
    return status;
}
