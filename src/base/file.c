#define _GNU_SOURCE
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

dyno_status file_read_all(const char *path, int64_t limit, char **data, size_t *size) {
    *data = NULL;
    *size = 0;
    FILE *file = fopen(path, "rb");
    if (!file)
        return dyno_fail(errno == ENOENT ? DYNO_NOT_FOUND : DYNO_IO, "cannot open '%s': %s", path,
                         strerror(errno));
    struct stat status;
    if (fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode)) {
        fclose(file);
        return dyno_fail(DYNO_INVALID, "'%s' is not a regular file", path);
    }
    if (status.st_size > limit) {
        fclose(file);
        return dyno_fail(DYNO_INVALID, "'%s' is %lld bytes, the limit is %lld", path,
                         (long long)status.st_size, (long long)limit);
    }
    size_t bytes = (size_t)status.st_size;
    char *block = memory_try_allocate(bytes + 1);
    if (!block) {
        fclose(file);
        return dyno_fail(DYNO_OUT_OF_MEMORY, "reading '%s': no %zu bytes of memory", path, bytes);
    }
    size_t got = fread(block, 1, bytes, file);
    fclose(file);
    if (got != bytes) {
        free(block);
        return dyno_fail(DYNO_IO, "reading '%s': got %zu of %zu bytes", path, got, bytes);
    }
    block[bytes] = '\0';
    *data = block;
    *size = bytes;
    return DYNO_OK;
}

struct file_writer {
    FILE *file;
    char *path, *temporary;
    file_writer *next; /* of those that have a temporary file */
};

static pthread_mutex_t writers_lock = PTHREAD_MUTEX_INITIALIZER;
static file_writer *writers;

static void remember(file_writer *writer) {
    pthread_mutex_lock(&writers_lock);
    writer->next = writers;
    writers = writer;
    pthread_mutex_unlock(&writers_lock);
}

static void forget(const file_writer *writer) {
    pthread_mutex_lock(&writers_lock);
    for (file_writer **at = &writers; *at; at = &(*at)->next)
        if (*at == writer) {
            *at = writer->next;
            break;
        }
    pthread_mutex_unlock(&writers_lock);
}

void file_remove_unfinished(void) {
    pthread_mutex_lock(&writers_lock);
    for (const file_writer *writer = writers; writer; writer = writer->next)
        unlink(writer->temporary);
    writers = NULL;
    pthread_mutex_unlock(&writers_lock);
}

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
            remember(writer);
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
    if (good && writer->temporary) {
        forget(writer);
        free(writer->temporary);
        writer->temporary = NULL;
    }
    if (!good) {
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
    if (writer->temporary && writer->temporary[0]) {
        forget(writer);
        unlink(writer->temporary);
    }
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
